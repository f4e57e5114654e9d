"""Judging: the promises in a state, with what only the journal says looked up where the same journal was judged before.

Owns what is remembered from state to state. Must not know what a promise means. Invariant: what is remembered under a journal's rows and
evidence is a function of them: reading them, and judging their verdicts again.
"""

from __future__ import annotations

from typing import Any

from recovery.core.errors import RecoveryError
from recovery.ports import Journal
from recovery.storage.reading import Whole, read
from recovery.testing.pieces import in_one_piece
from recovery.testing.promises import broken
from recovery.testing.stage import Stage


class Judge:
    """Judges the states of one subject."""

    def __init__(self) -> None:
        self._last: tuple[Stage | None, int, list[Any]] = (None, 0, [])  # what was judged last: events and journal of which stage
        self._loaded: dict[Any, Whole] = {}
        self._proven: set[Any] = set()

    def problems(self, stage: Stage) -> list[str]:
        """Every violation, with the name of its promise. A journal that cannot be read is one."""
        keys = [_rows_of(stage.journal, row.run_id) for row in stage.journal.runs()]
        events = len(stage.ledger.events) + len(stage.again)
        last, self._last = self._last, (stage, events, keys)
        if last[0] is stage and last[1:] == (events, keys):
            return []  # a step that nobody noticed

        try:
            world = stage.world(lambda _journal, run_id: self.read(run_id), self._proven)
        except RecoveryError as error:
            return [f"unreadable: the journal cannot be read, {type(error).__name__}: {error}"]
        return broken(world, frozenset(stage.scenario.exempt))

    def read(self, run_id: str) -> Whole:
        """A run, as it stands in the state that was judged last. Raises what reading it raises."""
        stage, _, keys = self._last
        assert stage is not None, "a state was judged"
        key = next(key for key in keys if key[0].run_id == run_id)
        if key not in self._loaded:
            self._loaded[key] = read(stage.journal, run_id)
        return self._loaded[key]


def _rows_of(journal: Journal, run_id: str) -> Any:
    there = in_one_piece(journal, run_id)
    assert there is not None, "a run that is listed is there"
    row, rows, contracts = there
    return (
        row,
        tuple(each.digest for each in rows),
        tuple(sorted(contracts)),
        tuple(journal.evidence(run_id)),
        journal.incarnation(),
    )
