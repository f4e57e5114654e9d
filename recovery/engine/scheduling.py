"""Scheduling, as methods of both engines.

Owns the signatures; what is done is in `recovery.operators`. Invariant: both colours have the same methods with the same arguments, and a schedule is defined
without any I/O: workers begin what is due of it.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from recovery.core.errors import DefinitionError, ValueNotStorable
from recovery.core.instants import moment
from recovery.definitions.child import BoundWorkflow
from recovery.definitions.schedule import GRACE_DEFAULT, Missed, Overlap, Schedule, Starts
from recovery.definitions.workflow import Workflow
from recovery.engine.operating import AsyncOperating, SyncOperating
from recovery.engine.wiring import Wiring
from recovery.operators import scheduling
from recovery.operators.enqueueing import Enqueued
from recovery.ports import Scheduled


class Scheduling(Wiring):
    """What both colours do with the arguments."""

    def schedule(
        self,
        name: str,
        starts: Starts,
        /,
        *,
        cron: str,
        timezone: str = "UTC",
        missed: Missed = "last",
        missed_max: int = 100,
        grace: timedelta = GRACE_DEFAULT,
        overlap: Overlap = "allow",
        queue: str = "",
        priority: int | None = None,
    ) -> None:
        """Have workers with this engine begin a run at each tick: `engine.schedule("nightly", report(), cron="0 3 * * *")`. No I/O.

        starts: a call of a workflow, or a function of the tick (a datetime in UTC) that returns one, such as a workflow with that one parameter. cron: five fields, in the time zone.
        missed: what becomes of ticks that no worker was there for, more than `grace` ago: "skip" none of them begins, "last" only the last tick, "all" the last
        `missed_max`, one run each. overlap: "skip" passes over a tick while the run of an earlier one has not ended. queue, priority: where its runs stand.

        The run of a tick is named by the schedule and the moment in UTC, such as `nightly:2026-11-30T03:00:00Z`, so that it is begun once, however many workers there are.
        Raises DefinitionError, InvalidName.
        """
        made = Schedule(
            name=name,
            starts=starts,
            cron=cron,
            timezone=timezone,
            missed=missed,
            missed_max=missed_max,
            grace=grace,
            overlap=overlap,
            queue=queue,
            priority=priority,
        )
        if name in self.scheduled:
            raise DefinitionError(
                what="schedule", name=name, problem="there is one of that name already", advice="Give it another name."
            )
        if isinstance(starts, Workflow):
            _check_takes_a_tick(name, starts)
        if isinstance(starts, BoundWorkflow | Workflow):
            self.add(starts if isinstance(starts, Workflow) else starts.workflow)
        self.scheduled[name] = made

    def _defined(self, name: str) -> Schedule:
        if name not in self.scheduled:
            there = ", ".join(sorted(self.scheduled)) or "none"
            problem = f"the app has none of that name (it has: {there})"
            raise DefinitionError(what="schedule", name=name, problem=problem, advice="Name one of them.")
        return self.scheduled[name]


def _check_takes_a_tick(name: str, workflow: Workflow[..., Any]) -> None:
    """Where it is scheduled, and not at three in the morning."""
    try:
        workflow(moment(0)).taken()
    except (TypeError, ValueNotStorable) as error:
        problem = f"workflow {workflow.name!r} does not take a tick, which is one datetime"
        advice = "Pass a call of it, or a function of the tick that returns one."
        raise DefinitionError(what="schedule", name=name, problem=problem, advice=advice) from error


class SyncScheduling(Scheduling, SyncOperating):
    """What Engine has."""

    def schedules(self) -> list[Scheduled]:
        """The schedules that some worker has brought up, by name, with their next ticks and last runs. Changes nothing."""
        return self._operate("", scheduling.known())

    def pause_schedule(self, name: str, *, by: str, reason: str) -> Scheduled:
        """Let the ticks of a schedule pass until it is resumed. Raises OverrideRefused."""
        return self._operate("", scheduling.pause(name, by=by, reason=reason))

    def resume_schedule(self, name: str, *, by: str, reason: str) -> Scheduled:
        """Begin its ticks again, those from now on. Raises OverrideRefused."""
        return self._operate("", scheduling.resume(name, by=by, reason=reason))

    def trigger_schedule(self, name: str) -> Enqueued:
        """Store a run of this moment, for a worker, beside those of its ticks. Raises DefinitionError, where the function of its tick raises, too."""
        made = self._defined(name)
        return self._operate("", scheduling.trigger(self.world(), made, self.priority_in(made.queue, made.priority)))


class AsyncScheduling(Scheduling, AsyncOperating):
    """What AsyncEngine has: as Engine, to be awaited."""

    async def schedules(self) -> list[Scheduled]:
        """As Engine.schedules."""
        return await self._operate("", scheduling.known())

    async def pause_schedule(self, name: str, *, by: str, reason: str) -> Scheduled:
        """As Engine.pause_schedule."""
        return await self._operate("", scheduling.pause(name, by=by, reason=reason))

    async def resume_schedule(self, name: str, *, by: str, reason: str) -> Scheduled:
        """As Engine.resume_schedule."""
        return await self._operate("", scheduling.resume(name, by=by, reason=reason))

    async def trigger_schedule(self, name: str) -> Enqueued:
        """As Engine.trigger_schedule."""
        made = self._defined(name)
        return await self._operate("", scheduling.trigger(self.world(), made, self.priority_in(made.queue, made.priority)))
