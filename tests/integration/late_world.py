"""A world for late evidence: an environment that breaks its promise, and workers that stand still inside an effect.

What really happened is counted in `taken`; the code under test never reads it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

from recovery import (
    AsyncEngine,
    AsyncRun,
    Call,
    Engine,
    Environment,
    Found,
    Recovered,
    ReplyWas,
    Run,
    Workflow,
    contracts,
    effect,
    workflow,
)
from recovery.core.contracts import Contract
from recovery.definitions.effect import Effect
from recovery.ports import Journal, Owner

DAY = timedelta(hours=24)


class Superseding(Engine):
    """Believes every owner dead: a worker that stands still is superseded at once."""

    def proven_dead(self, owner: Owner) -> bool:
        return True


class SupersedingAsync(AsyncEngine):
    def proven_dead(self, owner: Owner) -> bool:
        return True


@dataclass
class Depot:
    """Takes units from stock and gives each taking a receipt. `forgets`: it promises to deduplicate by key and does not.

    inside: called inside the first request, after its work was done: whatever happens while that worker stands still.
    """

    forgets: bool = False
    taken: list[str] = field(default_factory=list)
    receipts: dict[str, str] = field(default_factory=dict)
    inside: Callable[[], Any] | None = None
    undone: list[str] = field(default_factory=list)

    def take(self, call: Call) -> str:
        if self.forgets or call.key not in self.receipts:
            self.taken.append(call.key)
            self.receipts[call.key] = f"R{len(self.taken)}"
        receipt = self.receipts[call.key]
        inside, self.inside = self.inside, None
        if inside is not None:
            inside()
        raise ReplyWas(Found(receipt, receipt=receipt))

    def effect(self, contract: Contract, *, is_async: bool = False, undo: bool = True, **more: Any) -> Effect[..., str]:
        """`take(units=...)`, with the compensation `put_back`."""
        environment = Environment("depot", scope="hall-1")
        define = effect(contract, environment=environment, name="take", timeout=timedelta(seconds=30), **more)

        def take(call: Call, *, units: int) -> str:
            return self.take(call)

        async def take_async(call: Call, *, units: int) -> str:
            return await asyncio.to_thread(self.take, call)

        made: Effect[..., str] = define(take_async) if is_async else define(take)
        if undo:
            compensated = made.compensation(contracts.Keyed(window=DAY), name="put_back")

            def put_back(call: Call, outcome: str, *, units: int) -> None:
                self.undone.append(outcome)

            async def put_back_async(call: Call, outcome: str, *, units: int) -> None:
                self.undone.append(outcome)

            compensated(put_back_async if is_async else put_back)
        return made


@dataclass
class Workplace:
    """Engines of one colour over one journal, called alike."""

    journal: Journal
    is_async: bool

    def order(self, take: Effect[..., str], *, then: Callable[[], None] = lambda: None) -> Workflow[..., str]:
        """Takes two units under the key `k`, then does `then`."""
        if self.is_async:

            @workflow(name="order")
            async def order_async(run: AsyncRun) -> str:
                receipt = await run.perform(take(units=2), key="k")
                then()
                return receipt

            return order_async

        @workflow(name="order")
        def order(run: Run) -> str:
            receipt = run.perform(take(units=2), key="k")
            then()
            return receipt

        return order

    def run(self, made: Workflow[..., str], **more: Any) -> str:
        if self.is_async:
            return asyncio.run(SupersedingAsync(self.journal, workflows=[made], **more).run("r", made))
        return Superseding(self.journal, workflows=[made], **more).run("r", made)

    def recover(self, *workflows: Workflow[..., str], **more: Any) -> Recovered[Any]:
        if self.is_async:
            return asyncio.run(SupersedingAsync(self.journal, workflows=workflows, **more).recover("r"))
        return Superseding(self.journal, workflows=workflows, **more).recover("r")

    def history(self) -> tuple[Any, ...]:
        return Engine(self.journal).history("r")
