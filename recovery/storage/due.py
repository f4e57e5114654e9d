"""Due: which runs a worker takes next, in the same words on every dialect.

Owns the statements that find due runs by the index of those that nobody has, and their claim in one transaction. Knows nothing of retries, nor
of what a run is brought on by. Invariants: what is looked at grows with the pairs of queue and priority that have such runs, and with what is asked for,
never with the runs that wait or are settled; a run is claimed only where its row was seen to be nobody's behind the row's own lock.

A pair of queue and priority is a lane: within one, the index stands in the order of the next looks. Those that name none stand apart from the
others in it (SQLite puts them first and PostgreSQL last), so that they are asked for by themselves.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cache
from itertools import groupby
from typing import Any, Final, NamedTuple

import sqlalchemy as sa
from sqlalchemy import bindparam

from recovery import logs
from recovery.core.entries import Status
from recovery.core.errors import JournalCorrupt
from recovery.ports import Due, Owner, RunRow, Wanted
from recovery.storage import claiming, quotas
from recovery.storage import statements as say
from recovery.storage.rooms import Room, subject_of
from recovery.storage.rules import urgency, wants
from recovery.storage.schema import DUE_PREDICATE, OWNED_PREDICATE, RESUMED_PREDICATE, run

_log: Final = logs.logger("storage")

_due: Final = sa.text(DUE_PREDICATE)
_lane: Final = (run.c.queue == bindparam("queue"), run.c.priority == bindparam("priority"))

_FIRST_LANE: Final = sa.select(run.c.queue, run.c.priority).where(_due).order_by(run.c.queue, run.c.priority).limit(1)
_NEXT_LANE: Final = _FIRST_LANE.where(sa.tuple_(run.c.queue, run.c.priority) > sa.tuple_(bindparam("queue"), bindparam("priority")))
_NEXT_LOOK: Final = (
    sa.select(run.c.next_look_us)
    .where(_due, *_lane, run.c.next_look_us > bindparam("now_us"))
    .order_by(run.c.queue, run.c.priority, run.c.next_look_us)
    .limit(1)
)


def _of_lane(predicate: sa.TextClause) -> tuple[sa.Select[Any], sa.Select[Any]]:
    """The most urgent runs of a lane: those that name no look, and those whose look has come."""
    runs = sa.select(run).where(predicate, *_lane).limit(bindparam("limit"))
    return (
        runs.where(run.c.next_look_us.is_(None)).order_by(run.c.next_look_us, run.c.number),
        runs.where(run.c.next_look_us <= bindparam("now_us")).order_by(run.c.next_look_us, run.c.number),
    )


_DUE: Final = _of_lane(_due)
_BEGIN: Final = tuple(each.where(run.c.status == sa.literal_column(f"'{Status.QUEUED.value}'")) for each in _DUE)
_GO_ON: Final = _of_lane(sa.text(RESUMED_PREDICATE))
"""By an index without the runs that have not begun, of which any number may stand in front of these."""
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
    rooms: dict[str, Room]  # of the queues with limits that have such runs


def look(connection: sa.Connection, wanted: Wanted, *, locking: bool = False) -> Found:
    """The most urgent due runs. locking: with the locks of their rows, but for those that somebody else has locked."""
    found: list[tuple[int, RunRow]] = []
    later: list[int | None] = []
    lanes = [lane for lane in _lanes(connection) if wanted.queues is None or lane["queue"] in wanted.queues]
    rooms = _rooms(connection, wanted, {lane["queue"] for lane in lanes}, locking=locking)
    lanes.sort(key=lambda lane: -lane["priority"])
    for _, of_one_priority in groupby(lanes, key=lambda lane: lane["priority"]):  # of one, no queue stands in front of another
        if len(found) >= wanted.limit:
            break
        there: list[tuple[int, RunRow]] = []
        for lane in of_one_priority:
            lane |= {"now_us": wanted.now_us}
            there += _fitting(connection, wanted, lane, rooms.get(lane["queue"]), locking=locking)
            later.append(connection.execute(_NEXT_LOOK, lane).scalar())
        there.sort(key=lambda numbered: urgency(numbered[1]))
        for number, row in there:
            if len(found) < wanted.limit and (row.queue not in rooms or rooms[row.queue].lets_in(row)):
                found.append((number, row))
    later += [room.frees_us for room in rooms.values()]
    return Found(found, min((at_us for at_us in later if at_us is not None), default=None), rooms)


def claim(connection: sa.Connection, wanted: Wanted, owner: Owner, lease_term_us: int, *, again: bool = False) -> Due:
    """Claim the most urgent due runs, in a writing transaction of its own. again: the answer to the last one, by this owner, may have been lost; what it
    has claimed is found, and nothing more is claimed."""
    if again and (ours := list(_readable(connection.execute(_OURS, {"token": owner.token}).mappings().all()))):
        return Due(tuple(sorted((row for _, row in ours), key=urgency)), None)
    found = look(connection, wanted, locking=True)
    for queue in wanted.limits:
        if queue.name in found.rooms and found.rooms[queue.name].is_to_keep:
            quotas.keep(connection, subject_of(queue), found.rooms[queue.name].taken)
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


def _rooms(connection: sa.Connection, wanted: Wanted, queues: set[str], *, locking: bool) -> dict[str, Room]:
    """Of those queues that have limits and such runs. Their locks are taken in one order by everybody."""
    limited = sorted((queue for queue in wanted.limits if queue.limited and queue.name in queues), key=lambda queue: queue.name)
    return {queue.name: quotas.room(connection, queue, wanted.now_us, locking=locking) for queue in limited}


def _fitting(
    connection: sa.Connection, wanted: Wanted, lane: dict[str, Any], room: Room | None, *, locking: bool
) -> list[tuple[int, RunRow]]:
    """The most urgent of a lane, as many of those that begin and of those that go on as there may be room for."""
    if room is None or (room.starts is None and room.slots != 0):
        return _runs(connection, wanted, lane, _DUE, wanted.limit, locking=locking)
    found: list[tuple[int, RunRow]] = []
    if room.slots != 0 and room.starts is not None:
        found += _runs(connection, wanted, lane, _GO_ON, wanted.limit, locking=locking)
        if room.starts:
            found += _runs(connection, wanted, lane, _BEGIN, min(room.starts, wanted.limit), locking=locking)
    return found


def _runs(
    connection: sa.Connection,
    wanted: Wanted,
    lane: dict[str, Any],
    statements: Sequence[sa.Select[Any]],
    limit: int,
    *,
    locking: bool,
) -> list[tuple[int, RunRow]]:
    found: list[tuple[int, RunRow]] = []
    asked = lane | {"limit": limit}
    if wanted.workflows is not None:
        asked["workflows"] = wanted.workflows
    if wanted.passed_over:
        asked["passed_over"] = list(wanted.passed_over)
    for each in statements:
        statement = _narrowed(each, workflows="workflows" in asked, passed_over="passed_over" in asked, locking=locking)
        rows = connection.execute(statement, asked).mappings().all()
        found += [(number, row) for number, row in _readable(rows) if wants(wanted, row)]
    return found


@cache
def _narrowed(statement: sa.Select[Any], *, workflows: bool, passed_over: bool, locking: bool) -> sa.Select[Any]:
    """Built once: building it costs more than what it is asked."""
    if workflows:
        statement = statement.where(run.c.workflow.in_(bindparam("workflows", expanding=True)))
    if passed_over:
        statement = statement.where(run.c.run_id.not_in(bindparam("passed_over", expanding=True)))
    if locking:  # SQLite's transaction has the file's lock already
        statement = statement.with_for_update(key_share=True, skip_locked=True)
    return statement


def _readable(rows: Any) -> Iterator[tuple[int, RunRow]]:
    """One row that cannot be read hides no other: workers go on, and whoever asks for that run is told."""
    for row in rows:
        try:
            yield row["number"], say.to_run(row)
        except JournalCorrupt as error:
            _log.error("the row of a run cannot be read", run_id=row["run_id"], problem=str(error))
