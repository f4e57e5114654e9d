"""Scheduling: what is due of a schedule is begun, once, whoever comes to it first; and what people say about schedules.

Owns the order of its two writes. Knows no worker. Invariant: the row of a schedule is moved on to a tick, by compare-and-set, before the run of that tick is stored, and
names it: who finds the run that it names not there stores it. So a crash between the two loses no tick, and nobody who comes late begins one that was left out.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

from recovery.claims import World, find
from recovery.core.contracts import microseconds
from recovery.core.errors import OverrideRefused, RunInputDiffers
from recovery.core.instants import iso
from recovery.core.operations import Now, Use
from recovery.crashpoints import around
from recovery.definitions.schedule import Schedule
from recovery.logs import logger
from recovery.offspring import Queued
from recovery.operators.claiming import attributed
from recovery.operators.enqueueing import Enqueued, enqueue
from recovery.ports import Scheduled

TRIES_MAX: Final = 20
AT_ONCE: Final = 100
"""How many ticks of a schedule one look begins: whoever looks has other things to do."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ticked:
    """What became of a tick. run_id: of the run that stands for it; "" where none was begun, and why is said."""

    schedule: str
    tick_us: int
    run_id: str = ""
    why: str = ""


class _Due:
    """Which ticks of a schedule begin, by what it says of those that were missed. Counted once for a look, and not anew behind each of them: a year of
    minutes would be counted through a hundred times."""

    def __init__(self, schedule: Schedule) -> None:
        self.schedule = schedule
        self._ticks: list[int] = []

    def first_us(self, through_us: int, now_us: int) -> int | None:
        """The first of those behind a moment, however many of them somebody else has begun meanwhile."""
        self._ticks = [tick_us for tick_us in self._ticks if tick_us > through_us] or self._counted(through_us, now_us)
        return next(iter(self._ticks), None)

    def _counted(self, through_us: int, now_us: int) -> list[int]:
        schedule = self.schedule
        if schedule.missed == "skip":
            in_time_us = max(through_us, now_us - microseconds(schedule.grace) - 1)
            return schedule.last_ticks(in_time_us, now_us, 1)
        return schedule.last_ticks(through_us, now_us, schedule.missed_max if schedule.missed == "all" else 1)


async def known() -> list[Scheduled]:
    """The schedules that some worker has brought up, by name."""
    return await Use(lambda journal: journal.schedules())


async def bring_up(world: World, schedule: Schedule, priority: int) -> tuple[list[Ticked], int | None]:
    """Begin what is due of a schedule, and say when to look again: at its next tick; at once where much was missed, of which one look begins some. A schedule that
    nobody knew begins now: it makes up for nothing."""
    ticked: list[Ticked] = []
    due = _Due(schedule)
    for _ in range(AT_ONCE):
        now_us = await Now()
        row = await _row(schedule.name)
        if row is None:
            fresh = Scheduled(schedule.name, 1, schedule.cron, schedule.timezone, now_us, schedule.next_us(now_us))
            await _keep(fresh)
            continue
        await _store_what_it_names(world, schedule, row, priority)
        moved, came = await _moved(due, row, now_us)
        if moved == row:
            return ticked, row.next_us
        if not await _keep(moved):
            continue  # somebody else has moved it on, or said a word about it
        if came is not None:
            ticked.append(came)
    return ticked, await Now()


async def trigger(world: World, schedule: Schedule, priority: int) -> Enqueued:
    """Store a run of this moment, beside those of its ticks; whether it is paused or one is at work."""
    now_us = await Now()
    return await enqueue(world, schedule.call(now_us), schedule.run_id(now_us), Queued(queue=schedule.queue, priority=priority))


async def pause(name: str, *, by: str, reason: str) -> Scheduled:
    """Let its ticks pass. Raises OverrideRefused where it is paused already, or nobody has brought it up."""
    return await _say("A pause", name, paused=True, by=by, reason=reason)


async def resume(name: str, *, by: str, reason: str) -> Scheduled:
    """Begin its ticks again, from now on. Raises OverrideRefused where it is not paused."""
    return await _say("A resumption", name, paused=False, by=by, reason=reason)


async def _moved(due: _Due, row: Scheduled, now_us: int) -> tuple[Scheduled, Ticked | None]:
    """The row behind its next tick that is due, and what becomes of that one; the same row where none is."""
    schedule = due.schedule
    if (row.cron, row.timezone) != (schedule.cron, schedule.timezone):  # what would have been due by another cron was not missed
        of_now = replace(row, cron=schedule.cron, timezone=schedule.timezone)
        return _on(schedule, of_now, max(row.through_us, now_us - microseconds(schedule.grace))), None
    grace_us = microseconds(schedule.grace)
    if row.through_us > now_us + grace_us:  # what a clock that was ahead has begun is there under its tick's own run id
        logger(__name__).warning("a clock that was ahead had moved a schedule on", schedule=schedule.name, to=iso(row.through_us))
        return _on(schedule, row, now_us - grace_us), None
    if row.next_us is None or row.next_us > now_us:
        return row, None
    tick_us = None if row.paused else due.first_us(row.through_us, now_us)
    if tick_us is None:
        return _on(schedule, row, now_us), None
    moved = _on(schedule, row, tick_us)
    if schedule.overlap == "skip" and row.last_run:
        former = await find(row.last_run)
        if former is not None and not former.status.settled:
            return moved, Ticked(schedule=schedule.name, tick_us=tick_us, why=f"{row.last_run} has not ended")
    run_id = schedule.run_id(tick_us)
    return replace(moved, last_run=run_id, last_tick_us=tick_us), Ticked(schedule=schedule.name, tick_us=tick_us, run_id=run_id)


def _on(schedule: Schedule, row: Scheduled, through_us: int) -> Scheduled:
    return replace(row, revision=row.revision + 1, through_us=through_us, next_us=schedule.next_us(through_us))


async def _store_what_it_names(world: World, schedule: Schedule, row: Scheduled, priority: int) -> None:
    if not row.last_run or await find(row.last_run) is not None:
        return
    try:
        await enqueue(world, schedule.call(row.last_tick_us), row.last_run, Queued(queue=schedule.queue, priority=priority))
    except RunInputDiffers as error:  # another version of the app has begun the tick, with what it asks for
        logger(__name__).warning("the run of a tick is there with another input", schedule=schedule.name, problem=str(error))


async def _row(name: str) -> Scheduled | None:
    return next((row for row in await known() if row.name == name), None)


async def _keep(row: Scheduled) -> bool:
    with around("schedule"):
        return await Use(lambda journal: journal.keep_schedule(row))


async def _say(verb: str, name: str, *, paused: bool, by: str, reason: str) -> Scheduled:
    about = f"schedule {name!r}"
    attributed(verb, about, by=by, reason=reason)
    for _ in range(TRIES_MAX):
        row = await _row(name)
        if row is None:
            advice = "See what there is with `recover schedules list`; a schedule can be paused once a worker with it has begun."
            raise OverrideRefused(verb=verb, about=about, problem="the database has none of that name", advice=advice)
        if row.paused is paused:
            problem = f"{row.by} has paused it already" if paused else "it is not paused"
            raise OverrideRefused(verb=verb, about=about, problem=problem, advice="See it with `recover schedules list`.")
        said = replace(row, revision=row.revision + 1, paused=paused, by=by, reason=reason)
        if not paused:  # what passed meanwhile is not made up for
            said = replace(said, through_us=max(row.through_us, await Now()))
        if await _keep(said):
            return said
    raise OverrideRefused(verb=verb, about=about, problem="it is moved on again and again", advice="Try again.")
