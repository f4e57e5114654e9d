"""Listing: runs by id, behind rows that cannot be read.

Owns how a list of runs goes on where a row of a run is no row any more. Knows nothing of entries. Invariant: one row that cannot be read
hides no other, and is named in its place.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from recovery import logs
from recovery.core.entries import Status
from recovery.core.errors import JournalCorrupt
from recovery.ports import Reading, RunRow

_log: Final = logs.logger("storage")


@dataclass(frozen=True, slots=True, kw_only=True)
class Damaged:
    """A run whose own row cannot be read, so that neither its status nor its workflow is known. problem: what of it, and what to do."""

    run_id: str
    problem: str


def listed(
    journal: Reading, *, limit: int, after: str = "", statuses: Sequence[Status] | None = None, reason: str | None = None
) -> list[RunRow | Damaged]:
    """Up to `limit` runs behind `after`, by id. Fewer: there are no more. Raises JournalCorrupt where what is damaged has no name to go on
    from."""
    found: list[RunRow | Damaged] = []
    until = ""  # the damaged row that a page met: up to there they come one by one
    while len(found) < limit:
        many = 1 if after < until else limit - len(found)
        try:
            page: Sequence[RunRow | Damaged] = journal.runs(statuses=statuses, reason=reason, limit=many, after=after)
        except JournalCorrupt as error:
            until = _named(error, after)
            if many > 1:
                continue
            page = [Damaged(run_id=until, problem=str(error))]
        found += page
        if len(page) < many:
            break
        after = page[-1].run_id
    return found


def log_damaged(run: Damaged) -> None:
    """What is done about a damaged row unless somebody asks for it."""
    _log.error("the row of a run cannot be read", run_id=run.run_id, problem=run.problem)


def readable(
    journal: Reading,
    on_damaged: Callable[[Damaged], None],
    *,
    limit: int,
    after: str = "",
    statuses: Sequence[Status] | None = None,
) -> list[RunRow]:
    """Up to `limit` runs behind `after` whose rows can be read, by id; `on_damaged` is told of those passed over. Fewer: there are no more."""
    found: list[RunRow] = []
    while len(found) < limit:
        asked = limit - len(found)
        page = listed(journal, limit=asked, after=after, statuses=statuses)
        for row in page:
            if isinstance(row, Damaged):
                on_damaged(row)
            else:
                found.append(row)
        if len(page) < asked:
            break
        after = page[-1].run_id
    return found


def _named(error: JournalCorrupt, after: str) -> str:
    """Which run it is about. Raises the error itself where that is none behind `after`: then nothing is there to go on from."""
    run_id = error.fields["run_id"]
    if not isinstance(run_id, str) or run_id <= after:
        raise error
    return run_id
