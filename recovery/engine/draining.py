"""Draining: bring on every run that can go on by itself, once.

Owns which open runs a call without a run id takes up, and what is said of the others. Knows neither colours nor how a run is brought on. Invariants:
settled runs are never looked at; a run that somebody else has, and that is not proven dead, is left to them; what one run comes to stops no other; what is said
does not depend on which run ended first.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Container, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Final, NamedTuple, TypeAlias

from recovery.core.entries import Status
from recovery.core.errors import AppNotFound, ExitCode, RecoveryError, StoreUnavailable, WorkflowUnknown
from recovery.core.resting import waits_for_somebody
from recovery.engine.wiring import Wiring
from recovery.ports import RunRow, Wanted
from recovery.storage.listing import Damaged, readable
from recovery.storage.rules import GOES_ON, is_due

PAGE: Final = 500
ROUNDS_MAX: Final = 20
"""How often runs are taken up that earlier ones have made due: a call ends, whatever others go on to enqueue. More than runs may stand above one another."""

OPEN: Final = tuple(status for status in Status if not status.settled)

_AT_REST: Final = {
    Status.IN_DOUBT: ExitCode.IN_DOUBT, Status.HELD: ExitCode.IN_DOUBT, Status.DIVERGED: ExitCode.DIVERGED,
    Status.WAITING: ExitCode.UNRESOLVED, Status.QUEUED: ExitCode.UNRESOLVED, Status.RUNNING: ExitCode.OWNED,
}  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Brought:
    """One run that was taken up. status: where it stands, as far as this call knows; problem: why it did not get further, "" if it settled well."""

    run_id: str
    workflow: str
    status: Status
    code: ExitCode
    problem: str = ""


@dataclass(slots=True)
class Drained:
    """What one call came to. left: the runs that were not taken up, by what they wait for; damaged: those whose own row cannot be read."""

    brought: list[Brought] = field(default_factory=list)
    left: Counter[ExitCode] = field(default_factory=Counter)
    damaged: list[Damaged] = field(default_factory=list)

    @property
    def exit_code(self) -> ExitCode:
        """The one code for all open runs."""
        return ExitCode.worst([*(one.code for one in self.brought), *self.left, *(ExitCode.CORRUPT for _ in self.damaged)])


class Stands(NamedTuple):
    """Where a run stands behind its turn. for_child: it waits for a child, which may have been at work beside it."""

    status: Status
    code: ExitCode
    problem: str = ""
    for_child: bool = False


Bring: TypeAlias = Callable[[Iterator[RunRow]], Iterator[tuple[RunRow, Callable[[], Stands]]]]
"""Takes up runs, and tells of each, in any order, as its turn ends."""


def drain(engine: Wiring, bring: Bring) -> Drained:
    """Take up each open run that can go on; then those that this has made due. What is said of them is in the order in which they were taken up: by id.
    Raises what concerns all runs: StoreUnavailable, AppNotFound."""
    came = Drained()
    tried: dict[str, Brought | None] = {}
    again: set[str] = set()  # parents, whose children were at work beside them
    for _, rows in zip(range(ROUNDS_MAX), _rounds(engine, tried, again), strict=False):
        for row, stands in bring(_noted(rows, tried)):
            tried[row.run_id], for_child = _one(row, stands)
            (again.add if for_child else again.discard)(row.run_id)
    came.brought = [each for each in tried.values() if each is not None]
    for row in _open(engine, came.damaged.append):
        if row.run_id not in tried:
            came.left[waits_for(row)] += 1
    return came


def _noted(rows: Iterable[RunRow], tried: dict[str, Brought | None]) -> Iterator[RunRow]:
    for row in rows:
        tried.setdefault(row.run_id, None)
        yield row


def _rounds(engine: Wiring, tried: Collection[str], again: Container[str]) -> Iterator[Iterable[RunRow]]:
    """First all that can go on; then those that are due and were not tried yet: a settled child has woken its parent, which stands in front of it by its id,
    or was told that the child is at work."""
    yield (row for row in _open(engine, lambda _: None) if can_go_on(engine, row))
    while woken := _woken(engine, tried, again):
        yield woken


def _woken(engine: Wiring, tried: Collection[str], again: Container[str]) -> tuple[RunRow, ...]:
    due = engine.journal.due(Wanted(now_us=engine.clock.wall_us(), limit=len(tried) + PAGE)).runs
    return tuple(row for row in due if row.run_id not in tried or row.run_id in again)


def can_go_on(engine: Wiring, row: RunRow) -> bool:
    """Whether the run is due, or was being worked on by a process that is proven dead."""
    if row.owner is None:
        return is_due(row) and (row.next_look_us or 0) <= engine.clock.wall_us()
    return row.status in GOES_ON and engine.proven_dead(row.owner)


def waits_for(row: RunRow) -> ExitCode:
    """What stands against bringing the run on now, as an exit code."""
    if row.owner is not None and row.status in GOES_ON:
        return ExitCode.OWNED
    return ExitCode.WAITING if waits_for_somebody(row.status, row.rests_for) else _AT_REST[row.status]


def _open(engine: Wiring, on_damaged: Callable[[Damaged], None]) -> Iterator[RunRow]:
    after = ""
    while page := readable(engine.journal, on_damaged, statuses=OPEN, limit=PAGE, after=after):
        yield from page
        after = page[-1].run_id


def _one(row: RunRow, stands: Callable[[], Stands]) -> tuple[Brought, bool]:
    try:
        now = stands()
    except (StoreUnavailable, AppNotFound):
        raise
    except WorkflowUnknown as error:
        now = Stands(row.status, ExitCode.USAGE, str(error))
    except RecoveryError as error:  # of this run: the others are brought on all the same
        now = Stands(row.status, error.exit_code, str(error))
    brought = Brought(run_id=row.run_id, workflow=row.workflow, status=now.status, code=now.code, problem=now.problem)
    return brought, now.for_child
