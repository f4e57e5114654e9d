"""Enqueueing, as a method of both engines.

Owns the signature; what is done is in `recovery.operators`. Invariant: both colours have the same method with the same arguments.
"""

from __future__ import annotations

from collections.abc import Coroutine
from datetime import datetime
from typing import Any

from recovery.core.errors import DefinitionError
from recovery.core.operations import Op
from recovery.definitions.child import BoundWorkflow
from recovery.drivers.session import Nap
from recovery.engine.operating import AsyncOperating, SyncOperating
from recovery.engine.wiring import Wiring
from recovery.offspring import Queued
from recovery.operators import enqueueing
from recovery.operators.enqueueing import Enqueued


class Enqueueing(Wiring):
    """What both colours do with the arguments."""

    def _enqueue(
        self,
        bound: BoundWorkflow[Any],
        run_id: str | None,
        key: str | None,
        queue: str,
        priority: int | None,
        not_before: datetime | None,
    ) -> tuple[str, Coroutine[Op[Any], Any, Enqueued]]:
        if not isinstance(bound, BoundWorkflow):
            problem = f"it was given {type(bound).__name__}, not a call of a workflow"
            raise DefinitionError(what="call", name="enqueue", problem=problem, advice="Pass one, such as order('screw').")
        self.add(bound.workflow)
        name = enqueueing.named(bound, run_id, key)
        at_us = None if not_before is None else Nap.until(not_before, "enqueue").until_us
        queued = Queued(queue=queue, priority=self.priority_in(queue, priority), not_before_us=at_us)
        return name, enqueueing.enqueue(self.world(), bound, name, queued)


class SyncEnqueueing(Enqueueing, SyncOperating):
    """What Engine has."""

    def enqueue(
        self,
        bound: BoundWorkflow[Any],
        /,
        *,
        run_id: str | None = None,
        key: str | None = None,
        queue: str = "",
        priority: int | None = None,
        not_before: datetime | None = None,
    ) -> Enqueued:
        """Store a run for a worker: `engine.enqueue(order("screw"), run_id="o1")`. Durable on return; nothing of it has begun.

        run_id, key: one of them; the same one with the same input is the same run, which is enqueued once, however often it is asked for and
        whether or not it has ended. A key is yours, such as an order's number, and stands for one run of each workflow.
        priority: a higher one goes first, within -100 and 100; None: its queue's, or 0. not_before: it is not due before then; with a time zone.

        Raises RunInputDiffers where the run is there with another input or workflow, InvalidName, DefinitionError, StoreUnavailable.
        """
        return self._operate(*self._enqueue(bound, run_id, key, queue, priority, not_before))


class AsyncEnqueueing(Enqueueing, AsyncOperating):
    """What AsyncEngine has: as Engine, to be awaited."""

    async def enqueue(
        self,
        bound: BoundWorkflow[Any],
        /,
        *,
        run_id: str | None = None,
        key: str | None = None,
        queue: str = "",
        priority: int | None = None,
        not_before: datetime | None = None,
    ) -> Enqueued:
        """As Engine.enqueue."""
        return await self._operate(*self._enqueue(bound, run_id, key, queue, priority, not_before))
