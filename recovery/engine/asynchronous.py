"""AsyncEngine: for `async def` workflows; the same names as Engine."""

from __future__ import annotations

import asyncio
import builtins
from collections.abc import Callable, Coroutine
from datetime import datetime, timedelta
from operator import attrgetter
from types import TracebackType
from typing import Any, ParamSpec, Self, TypeVar

from recovery import hindsight, reconciler
from recovery.core.entries import Entry, Source, Status
from recovery.core.policy import Budget
from recovery.definitions.answer import Answer
from recovery.definitions.effect import Effect
from recovery.definitions.recovered import Recovered, RunInfo
from recovery.definitions.told import answered
from recovery.definitions.workflow import Workflow
from recovery.drivers.asking import Progress
from recovery.drivers.asynchronous import AsyncDriver
from recovery.engine import restoring, verifying
from recovery.engine.compensating import AsyncCompensating
from recovery.engine.controlling import AsyncControlling
from recovery.engine.employing import AsyncEmploying
from recovery.engine.enqueueing import AsyncEnqueueing
from recovery.engine.restoring import Declared, Orphan
from recovery.engine.scheduling import AsyncScheduling
from recovery.engine.speaking import AsyncSpeaking
from recovery.engine.verifying import Verified
from recovery.engine.versioning import AsyncVersioning
from recovery.engine.wiring import listed
from recovery.storage.listing import Damaged, log_damaged, readable
from recovery.storage.reading import read

P = ParamSpec("P")
R = TypeVar("R")


class AsyncEngine(
    AsyncControlling, AsyncVersioning, AsyncSpeaking, AsyncCompensating, AsyncEnqueueing, AsyncScheduling, AsyncEmploying
):
    """Runs and recovers `async def` workflows. `async with` and `close` flush. No commit ever runs on the event loop."""

    is_async = True

    async def run(self, run_id: str, workflow: Workflow[P, R], /, *args: P.args, **kwargs: P.kwargs) -> R:
        """As Engine.run. Cancelling the caller leaves the run open, to be recovered."""
        self.add(workflow)
        given = workflow.bind(*args, **kwargs)
        driver = AsyncDriver(self.surroundings(), run_id=run_id)
        if driver.crowded():
            await driver.make_way()
        procedure = reconciler.run(self.world(), run_id, workflow, given)
        recovered: Recovered[R] = await driver.drive(self.allowed(procedure))
        return recovered.result()

    async def recover(
        self,
        run_id: str,
        *,
        wait_for_owner: timedelta | None = None,
        budget: Budget | None = None,
        progress: Progress | None = None,
        if_head: str | None = None,
    ) -> Recovered[Any]:
        """As Engine.recover."""
        world = self.world(wait_for_owner=wait_for_owner, budget=budget)
        procedure = reconciler.recover(world, run_id, if_head)
        return await AsyncDriver(self.surroundings(progress), run_id=run_id).drive(self.allowed(procedure))

    async def observe(
        self,
        run_id: str,
        step: str,
        answer: Answer[Any],
        *,
        effect: Effect[..., Any] | None = None,
        source: Source = Source.PUSH,
    ) -> bool:
        """As Engine.observe."""
        procedure = hindsight.observe(run_id, step, answered(answer, effect), source)
        return await AsyncDriver(self.surroundings()).drive(self.allowed(procedure))

    async def declare_restored(self, *, by: str, reason: str) -> Declared:
        """As Engine.declare_restored."""
        return await AsyncDriver(self.surroundings()).drive(self.allowed(restoring.declare(by, reason)))

    async def orphans(self, *, since: datetime | None = None) -> list[Orphan]:
        """As Engine.orphans."""
        found: list[Orphan] = []
        for environment, listing in self.listings():
            rows = await asyncio.to_thread(listing, since)  # a `def` may block; an `async def` is only called there
            if isinstance(rows, Coroutine):
                rows = await rows
            procedure = restoring.unknown_keys(environment.name, environment.current_scope(), listed(environment, rows, since))
            found += await AsyncDriver(self.surroundings()).drive(self.allowed(procedure))
        return sorted(found, key=attrgetter("at"))

    async def verify(self, run_id: str | None = None, *, against_environment: bool = False) -> Verified:
        """As Engine.verify."""
        procedure = verifying.verify(run_id, self.workflows, self.budget, against_environment=against_environment)
        return await AsyncDriver(self.surroundings()).drive(self.allowed(procedure))

    async def get(self, run_id: str) -> Recovered[Any]:
        """As Engine.get."""
        return await AsyncDriver(self.surroundings()).drive(self.allowed(reconciler.look(self.world(), run_id)))

    async def list(
        self,
        *,
        status: Status | None = None,
        limit: int = 1000,
        after: str = "",
        on_damaged: Callable[[Damaged], None] = log_damaged,
    ) -> list[RunInfo]:
        """As Engine.list."""
        statuses = None if status is None else [status]
        damaged: builtins.list[Damaged] = []
        rows = await asyncio.to_thread(readable, self.opened(), damaged.append, statuses=statuses, limit=limit, after=after)
        for each in damaged:
            on_damaged(each)
        return [self.info(row) for row in rows]

    async def history(self, run_id: str) -> tuple[Entry, ...]:
        """As Engine.history."""
        return tuple((await asyncio.to_thread(read, self.opened(), run_id)).entries)

    async def close(self) -> None:
        """Flush and give up connections. What is at work goes on to its end; every later call raises EngineClosed. Safe to repeat."""
        self._closed = True
        await asyncio.to_thread(self.flush)

    async def __aenter__(self) -> Self:
        self._closed = False  # an engine of a module is entered once per life of its service
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        await self.close()
