"""A small outside world for engine tests: an environment that counts what it did, and can lose replies.

The counter is what the tests judge by; the code under test never reads it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

from recovery import Absent, Answer, Call, Environment, Found, NotSent, Rejection, ReplyWas, Workflow, contracts, effect
from recovery.core.contracts import Contract
from recovery.core.entries import Entry, kind_of
from recovery.core.policy import Budget
from recovery.definitions.effect import Effect

DAY = timedelta(hours=24)
TIMEOUT = timedelta(seconds=30)
"""Of one attempt: far beyond what a busy machine needs to get a request out."""

QUICK = Budget(max_wait=timedelta(0), backoff=timedelta(milliseconds=1))
"""A call that waits for nothing."""


class OutOfStock(Rejection):
    sku: str
    available: int


class Killed(BaseException):
    """The worker is gone: nothing of ours may treat this as an answer."""


@dataclass
class Shop:
    """An inventory with receipts by key. `fail` is called after the work was done and before the reply, and may raise."""

    stock: int = 10
    receipts: dict[str, int | OutOfStock] = field(default_factory=dict)
    executions: Counter[str] = field(default_factory=Counter)
    sent: Counter[str] = field(default_factory=Counter)
    fail: Callable[[], None] = lambda: None
    down: bool = False

    def reserve(self, call: Call, units: int, *, deduplicates: bool) -> int:
        if self.down:
            raise ReplyWas(NotSent())
        self.sent[call.key] += 1
        if not deduplicates or call.key not in self.receipts:
            self.executions[call.key] += 1
            if units > self.stock:
                self.receipts[call.key] = OutOfStock(sku="FILTER-A", available=self.stock)
            else:
                self.stock -= units
                self.receipts[call.key] = len(self.receipts) + 1
        self.fail()
        receipt = self.receipts[call.key]
        if isinstance(receipt, OutOfStock):
            raise receipt
        return receipt

    def find(self, call: Call) -> Answer[int]:
        receipt = self.receipts.get(call.key)
        if isinstance(receipt, int):
            return Found(receipt, fingerprint=call.fingerprint)
        return Absent()

    def effect(self, contract: Contract, *, probe: bool = False) -> Effect[..., int]:
        """`reserve(units=...)` under a contract."""

        @effect(contract, environment=Environment("shop"), rejects=(OutOfStock,), name="reserve", timeout=TIMEOUT)
        def reserve(call: Call, *, units: int) -> int:
            return self.reserve(call, units, deduplicates=contract.keyed)

        if probe:

            @reserve.probe
            def find(call: Call, *, units: int) -> Answer[int]:
                return self.find(call)

        return reserve

    def async_effect(self, contract: Contract) -> Effect[..., int]:
        @effect(contract, environment=Environment("shop"), rejects=(OutOfStock,), name="reserve", timeout=TIMEOUT)
        async def reserve(call: Call, *, units: int) -> int:
            return self.reserve(call, units, deduplicates=contract.keyed)

        return reserve


def once(error: BaseException) -> Callable[[], None]:
    """Raise `error` the first time only."""
    left = [error]

    def fail() -> None:
        if left:
            raise left.pop()

    return fail


def kinds(entries: tuple[Entry, ...]) -> list[str]:
    return [kind_of(entry) for entry in entries]


def keyed(**more: Any) -> Contract:
    return contracts.Keyed(window=DAY, settle_window=timedelta(minutes=1), clock_error=timedelta(seconds=1), **more)


AnyWorkflow = Workflow[..., Any]
