"""Compensating by order, as methods of both engines, and the workflow that carries such an order out.

Owns their signatures and that workflow's body in both colours; what may be ordered is in `recovery.operators`. Invariant: the workflow performs what
was ordered, under a key of its own, and nothing else.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

from recovery.definitions.async_run import AsyncRun
from recovery.definitions.run import Run
from recovery.definitions.workflow import Workflow
from recovery.engine.operating import AsyncOperating, SyncOperating, whoever
from recovery.operators import compensating
from recovery.operators.compensating import WORKFLOW, Offered, Order, Undone


class SyncCompensating(SyncOperating):
    """Each raises RunNotFound, JournalCorrupt and StoreUnavailable beside what it says."""

    def undoable(self, run_id: str, step: str) -> tuple[Offered, ...]:
        """What `compensate` would undo. Raises StepNotFound, OverrideRefused."""
        return self._operate(run_id, compensating.offered(self.world(), run_id, step, by="", reason=""))

    def compensate(self, run_id: str, step: str, *, by: str = "", reason: str) -> tuple[Undone, ...]:
        """Undo effects that speak against a step's outcome, a duplicate for one: each by its compensation, in a run of its own. Repeated, it goes on
        with what was ordered first. Raises StepNotFound, OverrideRefused."""
        return self._operate(run_id, compensating.compensate(self.world(), run_id, step, by=whoever(by), reason=reason))

    def built_in(self) -> dict[str, Callable[[], Workflow[..., Any]]]:
        def undo(run: Run, order: Order) -> None:
            bound = self._operate(run.run_id, compensating.rebound(self.world(), order))
            if order.not_before is not None:
                run.sleep_until(order.not_before)
            run.perform(bound)

        return {WORKFLOW: cache(lambda: Workflow(undo, name=WORKFLOW, version="1", frame=None))}


class AsyncCompensating(AsyncOperating):
    """As SyncCompensating, to be awaited."""

    async def undoable(self, run_id: str, step: str) -> tuple[Offered, ...]:
        """As Engine.undoable."""
        return await self._operate(run_id, compensating.offered(self.world(), run_id, step, by="", reason=""))

    async def compensate(self, run_id: str, step: str, *, by: str = "", reason: str) -> tuple[Undone, ...]:
        """As Engine.compensate."""
        return await self._operate(run_id, compensating.compensate(self.world(), run_id, step, by=whoever(by), reason=reason))

    def built_in(self) -> dict[str, Callable[[], Workflow[..., Any]]]:
        async def undo(run: AsyncRun, order: Order) -> None:
            bound = await self._operate(run.run_id, compensating.rebound(self.world(), order))
            if order.not_before is not None:
                await run.sleep_until(order.not_before)
            await run.perform(bound)

        return {WORKFLOW: cache(lambda: Workflow(undo, name=WORKFLOW, version="1", frame=None))}
