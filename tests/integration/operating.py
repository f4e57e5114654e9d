"""A shop with runs in every kind of doubt, in both colours: what the tests of operators act on."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

from recovery import AsyncEngine, AsyncRun, Closed, Engine, Found, Run, workflow
from recovery.cli.target import finished
from recovery.core.contracts import Contract
from recovery.core.entries import Entry
from recovery.core.policy import Budget
from recovery.definitions.answer import Answer
from recovery.definitions.call import Call
from recovery.definitions.effect import Effect
from recovery.ports import Journal
from recovery.storage.reading import Loaded, read
from recovery.testing.clock import ManualClock
from tests.integration.world import Killed, Shop, once

STEP = "reserve#1"
KEY = "k1"


@dataclass
class Desk:
    """An operator's desk: one engine of a colour over a journal, a shop and a clock."""

    journal: Journal
    contract: Contract
    colour: str = "sync"
    probe: bool = False
    budget: Budget = field(default_factory=lambda: Budget(max_wait=timedelta(0), backoff=timedelta(milliseconds=1)))
    shop: Shop = field(default_factory=Shop)
    clock: ManualClock = field(default_factory=ManualClock)

    def __post_init__(self) -> None:
        self.reserve: Effect[..., int] = self.shop.effect(self.contract, probe=self.probe)
        if self.contract.close:
            shop = self.shop

            @self.reserve.close
            def close(call: Call, *, units: int) -> Answer[int]:
                there = shop.receipts.get(call.key)
                return Found(there) if isinstance(there, int) else Closed()

        self.engine = self.another()

    def another(self, **more: Any) -> Engine | AsyncEngine:
        """One more engine like this one, as another process would make it."""
        reserve = self.reserve

        @workflow(name="order")
        def order(run: Run, units: int) -> str:
            return f"got {run.perform(reserve(units=units), key=f'{KEY}-{run.run_id}' if run.run_id != 'r' else KEY)}"

        @workflow(name="order")
        async def order_async(run: AsyncRun, units: int) -> str:
            return f"got {await run.perform(reserve(units=units), key=f'{KEY}-{run.run_id}' if run.run_id != 'r' else KEY)}"

        settings = {"budget": self.budget, "clock": self.clock} | more
        if self.colour == "async":
            self.order: Any = order_async
            return AsyncEngine(self.journal, workflows=[order_async], **settings)
        self.order = order
        return Engine(self.journal, workflows=[order], **settings)

    def without_app(self) -> Engine:
        return Engine(self.journal, clock=self.clock)

    def do(self, verb: str, *arguments: Any, **named: Any) -> Any:
        return finished(getattr(self.engine, verb)(*arguments, **named))

    def lose_reply(self, run_id: str = "r", units: int = 2) -> None:
        """The effect happened, and its worker died before it heard."""
        self._die(run_id, units, once(Killed()))

    def _die(self, run_id: str, units: int, fail: Callable[[], None]) -> None:
        self.shop.fail = fail
        with contextlib.suppress(Killed):
            self.do("run", run_id, self.order, units)
        self.shop.fail = lambda: None

    def in_doubt(self, run_id: str = "r", units: int = 2) -> None:
        self.lose_reply(run_id, units)
        assert self.do("recover", run_id).status.value == "in_doubt"

    def loaded(self, run_id: str = "r") -> Loaded:
        return read(self.journal, run_id)

    def entries(self, run_id: str = "r") -> list[Entry]:
        return self.loaded(run_id).entries

    def advance(self, **duration: float) -> None:
        self.clock.advance(timedelta(**duration))
