"""Due: which runs a worker takes next, in the same words on every dialect.

Owns the statements that find due runs by the index of those that nobody has, and their claim in one transaction. Knows nothing of retries, nor
of what a run is brought on by. Invariants: what is looked at grows with the pairs of queue and priority that have such runs, and with what is asked for,
never with the runs that wait or are settled; a run is claimed only where its row was seen to be nobody's behind the row's own lock.

A pair of queue and priority is a lane: within one, the index stands in the order of the next looks. Those that name none stand apart from the
others in it (SQLite puts them first and PostgreSQL last), so that they are asked for by themselves.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final, NamedTuple

import sqlalchemy as sa
from sqlalchemy import bindparam

from recovery import logs
from recovery.core.errors import JournalCorrupt
from recovery.ports import Due, Owner, RunRow, Wanted
from recovery.storage import claiming
from recovery.storage import statements as say
from recovery.storage.rules import urgency, wants
from recovery.storage.schema import DUE_PREDICATE, OWNED_PREDICATE, run

_log: Final = logs.logger("storage")

_due: Final = sa.text(DUE_PREDICATE)
_lane: Final = (_due, run.c.queue == bindparam("queue"), run.c.priority == bindparam("priority"))

_FIRST_LANE: Final = sa.select(run.c.queue, run.c.priority).where(_due).order_by(run.c.queue, run.c.priority).limit(1)
_NEXT_LANE: Final = _FIRST_LANE.where(sa.tuple_(run.c.queue, run.c.priority) > sa.tuple_(bindparam("queue"), bindparam("priority")))
_NEXT_LOOK: Final = (
    sa.select(run.c.next_look_us)
    .where(*_lane, run.c.next_look_us > bindparam("now_us"))
    .order_by(run.c.queue, run.c.priority, run.c.next_look_us)
    .limit(1)
)
_AT_ONCE: Final = sa.select(run).where(*_lane, run.c.next_look_us.is_(None)).order_by(run.c.number).limit(bindparam("limit"))
_PASSED: Final = (
    sa.select(run)
    .where(*_lane, run.c.next_look_us <= bindparam("now_us"))
    .order_by(run.c.next_look_us, run.c.number)
    .limit(bindparam("limit"))
)
_OWNED: Final = (
    sa.select(run)
    .where(
        sa.text(OWNED_PREDICATE), sa.tuple_(run.c.queue, run.c.run_id) > sa.tuple_(bindparam("after_queue"), bindparam("after_run"))
    )
    .order_by(run.c.queue, run.c.run_id)
    .limit(bindparam("limit"))
)

_OURS: Final = sa.select(run).where(sa.text(OWNED_PREDICATE), run.c.owner_token == bindparam("token"))


class Found(NamedTuple):
    """Due runs with the numbers of their rows, and when the next of the others will be due."""

    runs: list[tuple[int, RunRow]]
    next_due_us: int | None


def look(connection: sa.Connection, wanted: Wanted, *, locking: bool = False) -> Found:
    """The most urgent due runs. locking: with the locks of their rows, but for those that somebody else has locked."""
    found: list[tuple[int, RunRow]] = []
    next_due_us: int | None = None
    lanes = [lane for lane in _lanes(connection) if wanted.queues is None or lane["queue"] in wanted.queues]
    below: int | None = None
    for lane in sorted(lanes, key=lambda lane: -lane["priority"]):
        if lane["priority"] != below and len(found) >= wanted.limit:
            break  # a lower priority; of one, no queue stands in front of another
        below = lane["priority"]
        lane |= {"now_us": wanted.now_us}
        found += _runs(connection, wanted, lane, locking=locking)
        looks_us = connection.execute(_NEXT_LOOK, lane).scalar()
        if looks_us is not None and (next_due_us is None or looks_us < next_due_us):
            next_due_us = looks_us
    found.sort(key=lambda numbered: urgency(numbered[1]))
    return Found(found[: wanted.limit], next_due_us)


def claim(connection: sa.Connection, wanted: Wanted, owner: Owner, lease_term_us: int, *, again: bool = False) -> Due:
    """Claim the most urgent due runs, in a writing transaction of its own. again: the answer to the last one, by this owner, may have been lost; what it
    has claimed is found, and nothing more is claimed."""
    if again and (ours := list(_readable(connection.execute(_OURS, {"token": owner.token}).mappings().all()))):
        return Due(tuple(sorted((row for _, row in ours), key=urgency)), None)
    found = look(connection, wanted, locking=True)
    if not found.runs:
        return Due((), found.next_due_us)
    values = claiming.claim_by(owner, lease_term_us, wanted.now_us) | {"numbers": [number for number, _ in found.runs]}
    rows = connection.execute(claiming.CLAIM_LOCKED, values).mappings().all()
    return Due(tuple(sorted(map(say.to_run, rows), key=urgency)), found.next_due_us)


def owned(connection: sa.Connection, after: tuple[str, str], limit: int) -> list[RunRow]:
    """A page of the runs that somebody has."""
    place = {"after_queue": after[0], "after_run": after[1], "limit": limit}
    return [row for _, row in _readable(connection.execute(_OWNED, place).mappings().all())]


def _lanes(connection: sa.Connection) -> Iterator[dict[str, Any]]:
    """Each pair of queue and priority that has runs which nobody has: one step through the index for each, over whatever lies between."""
    lane = connection.execute(_FIRST_LANE).mappings().first()
    while lane is not None:
        yield dict(lane)
        lane = connection.execute(_NEXT_LANE, dict(lane)).mappings().first()


def _runs(connection: sa.Connection, wanted: Wanted, lane: dict[str, Any], *, locking: bool) -> list[tuple[int, RunRow]]:
    found: list[tuple[int, RunRow]] = []
    for statement in (_AT_ONCE, _PASSED):
        if wanted.workflows is not None:
            statement = statement.where(run.c.workflow.in_(wanted.workflows))
        if wanted.passed_over:
            statement = statement.where(run.c.run_id.not_in(wanted.passed_over))
        if locking:  # SQLite's transaction has the file's lock already
            statement = statement.with_for_update(key_share=True, skip_locked=True)
        rows = connection.execute(statement, lane | {"limit": wanted.limit}).mappings().all()
        found += [(number, row) for number, row in _readable(rows) if wants(wanted, row)]
    return found


def _readable(rows: Any) -> Iterator[tuple[int, RunRow]]:
    """One row that cannot be read hides no other: workers go on, and whoever asks for that run is told."""
    for row in rows:
        try:
            yield row["number"], say.to_run(row)
        except JournalCorrupt as error:
            _log.error("the row of a run cannot be read", run_id=row["run_id"], problem=str(error))
