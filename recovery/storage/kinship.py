"""Kinship: which run started which, as it is stored.

Owns the tree of a run's children, and the parents of a list of runs. Claims and changes nothing. Invariant: a child stands below the parent in whose
journal its start is, whatever became of the child's own run.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

from recovery import texts
from recovery.core.entries import Status
from recovery.core.errors import JournalCorrupt, RunForgotten
from recovery.core.history import History
from recovery.core.resting import RestsFor
from recovery.ports import Journal, Reading
from recovery.storage.reading import read

MEMBERS_MAX: Final = 1000
"""Children whose own children are looked for; each costs a reading of its journal."""

_AT_ONCE: Final = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class Member:
    """A child in its family. status: None where its run was not stored; adopted: its parent has taken over what it came to. children: empty, too,
    where its journal cannot be read or was forgotten."""

    run_id: str
    step: str
    workflow: str
    status: Status | None
    reason: str
    rests_for: RestsFor
    detached: bool
    adopted: bool
    children: tuple[Member, ...] = ()


def parents_of(journal: Reading, run_ids: Sequence[str]) -> dict[str, str]:
    """The parent of each of these runs that has one, as its first entry says: not verified, and none where that cannot be read."""
    return dict(_named(journal, run_ids))


def _named(journal: Reading, run_ids: Sequence[str]) -> Iterator[tuple[str, str]]:
    for start in range(0, len(run_ids), _AT_ONCE):
        with suppress(JournalCorrupt):
            for run_id, row in journal.first_rows(run_ids[start : start + _AT_ONCE]).items():
                with suppress(ValueError, AttributeError):
                    if parent := texts.loads(row.body).get("parent"):
                        yield run_id, parent


def members(journal: Journal, history: History) -> list[Member]:
    """The children of a run, and theirs, in the order in which they were started."""
    return _members(journal, history, [MEMBERS_MAX])


def _members(journal: Journal, history: History, left: list[int]) -> list[Member]:
    found: list[Member] = []
    for run_id, start in history.children.items():
        row = journal.find(run_id)
        inside: list[Member] = []
        if row is not None and left[0] > 0:
            left[0] -= 1
            with suppress(JournalCorrupt, RunForgotten):  # the child itself is told by its row; `verify` tells of the rest
                inside = _members(journal, read(journal, run_id, values=False).history, left)
        found.append(
            Member(
                run_id=run_id,
                step=start.step,
                workflow=start.value["workflow"],
                status=None if row is None else row.status,
                reason="" if row is None else row.reason,
                rests_for=RestsFor.NOTHING if row is None else row.rests_for,
                detached=start.value["detached"],
                adopted=run_id in history.adopted,
                children=tuple(inside),
            )
        )
    return found
