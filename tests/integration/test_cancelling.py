"""A cancel by key: the question about what nobody wants any more, in both colours. Only a recovery puts it: no plan and no probe does."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

import pytest

from recovery import Absent, Answer, AsyncEngine, AsyncRun, Call, Engine, Gone, Run, contracts, effect, errors, workflow
from recovery.cli.target import finished
from recovery.core.entries import OutcomeKind, Source, Status
from recovery.core.policy import Budget
from recovery.ports import Journal
from recovery.storage import open_journal
from recovery.storage.reading import read
from recovery.testing.clock import ManualClock

STEP = "pay#1"
BRIEF = contracts.Keyed(window=timedelta(hours=24), cancel_by_key=True, valid_for=timedelta(minutes=10))


@dataclass
class Bank:
    """Loses the reply to every payment. open: those that stand; cancels: what was asked of it."""

    is_async: bool
    clock: ManualClock = field(default_factory=ManualClock)
    journal: Journal = field(default_factory=lambda: open_journal("memory://"))
    open: set[str] = field(default_factory=set)
    cancels: list[Call] = field(default_factory=list)

    def pay(self, call: Call) -> int:
        self.open.add(call.key)
        raise ConnectionError("the connection was lost")

    def cancel(self, call: Call) -> Answer[int]:
        """The attempt is durable by now."""
        assert read(self.journal, "r").history.effects[0].attempts[-1].purpose == "cancel"
        self.cancels.append(call)
        if call.key not in self.open:
            return Absent()
        self.open.remove(call.key)
        return Gone()

    def engine(self) -> Any:
        budget = Budget(max_wait=timedelta(0))
        if self.is_async:

            @effect(BRIEF, name="pay")
            async def pay_async(call: Call, *, amount: int) -> int:
                return self.pay(call)

            @pay_async.cancel
            async def cancel_async(call: Call, *, amount: int) -> Answer[int]:
                return self.cancel(call)

            @workflow(name="order")
            async def order_async(run: AsyncRun) -> int:
                return await run.perform(pay_async(amount=2))

            return AsyncEngine(self.journal, workflows=[order_async], clock=self.clock, budget=budget)

        @effect(BRIEF)
        def pay(call: Call, *, amount: int) -> int:
            return self.pay(call)

        @pay.cancel
        def cancel(call: Call, *, amount: int) -> Answer[int]:
            return self.cancel(call)

        @workflow
        def order(run: Run) -> int:
            return run.perform(pay(amount=2))

        return Engine(self.journal, workflows=[order], clock=self.clock, budget=budget)


@pytest.fixture(name="bank", params=["sync", "async"])
def _bank(request: pytest.FixtureRequest) -> Iterator[Bank]:
    bank = Bank(request.param == "async")
    yield bank
    bank.journal.close()


def lapsed(bank: Bank) -> Any:
    """Paid, the reply lost, and the hour of its approval is over."""
    engine = bank.engine()
    with pytest.raises(errors.Unresolved):
        finished(engine.run("r", next(iter(engine.workflows.values()))))
    bank.clock.advance(timedelta(hours=1))
    return engine


def test_what_a_cancel_undid_is_applied_without_a_value(bank: Bank) -> None:
    engine = lapsed(bank)
    assert finished(engine.recover("r")).status is Status.FAILED  # OutcomeUnavailable: it happened, and pay gives no None
    [step] = read(bank.journal, "r").history.effects
    assert step.settled is not None
    assert (step.settled.outcome, step.settled.row) == (OutcomeKind.APPLIED_WITHOUT_VALUE, "gone")
    assert [attempt.purpose for attempt in step.attempts] == ["send", "cancel"]
    assert step.observations[-1].observation.source is Source.CANCEL
    assert bank.open == set()
    assert [call.attempt for call in bank.cancels] == [2]


def test_neither_a_plan_nor_an_explanation_nor_a_probe_cancels(bank: Bank) -> None:
    engine = lapsed(bank)
    [planned] = finished(engine.plan("r")).steps
    assert (planned.action, planned.row, planned.asked) == ("ask", "ask", ())
    told = finished(engine.explain("r", STEP))
    assert {"a cancel by key answers gone", "a cancel by key answers absent"} <= {change.what for change in told.changes}
    with pytest.raises(errors.OverrideRefused, match="pay has no probe"):
        finished(engine.probe("r", STEP))
    assert bank.cancels == []
    assert len(bank.open) == 1
