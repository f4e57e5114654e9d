"""Scopes, keys and arguments that the app fails to give: its configuration is wrong here, nothing was sent, and the run stays open."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pytest
from pydantic import BaseModel, computed_field, field_serializer

from recovery import AsyncEngine, AsyncRun, Call, Engine, Environment, Run, Status, effect, errors, workflow
from recovery.storage.memory import MemoryJournal

from .world import QUICK, Killed, keyed, once


@dataclass
class Account:
    """What a scope depends on."""

    name: str | None = "live"

    def scope(self) -> str:
        if self.name is None:
            raise KeyError("SHOP_ACCOUNT")
        return self.name


@dataclass
class Desk:
    """One run of one effect in that scope, in either colour. `fail` is called in the effect, and may raise."""

    colour: str
    account: Account = field(default_factory=Account)
    sent: list[str] = field(default_factory=list)
    fail: Callable[[], None] = lambda: None
    journal: MemoryJournal = field(default_factory=MemoryJournal)

    def __post_init__(self) -> None:
        environment = Environment("shop", scope=self.account.scope)

        def send(call: Call) -> int:
            self.sent.append(call.scope)
            self.fail()
            return 7

        if self.colour == "sync":

            @effect(keyed(), environment=environment)
            def post(call: Call) -> int:
                return send(call)

            @workflow
            def order(run: Run) -> int:
                return run.perform(post(), key="k")

        else:

            @effect(keyed(), environment=environment, name="post")
            async def apost(call: Call) -> int:
                return send(call)

            @workflow(name="order")
            async def order(run: AsyncRun) -> int:
                return await run.perform(apost(), key="k")

        self.order: Any = order

    def run(self) -> Any:
        if self.colour == "sync":
            return Engine(self.journal, budget=QUICK).run("r", self.order)
        return asyncio.run(AsyncEngine(self.journal, budget=QUICK).run("r", self.order))

    def status(self) -> tuple[Status, bool]:
        row = self.journal.find("r")
        assert row is not None
        return row.status, row.owner is None


@pytest.fixture(params=["sync", "async"])
def desk(request: pytest.FixtureRequest) -> Desk:
    return Desk(request.param)


def test_a_scope_that_cannot_be_read_leaves_the_run_open(desk: Desk) -> None:
    desk.account.name = None
    for _ in range(2):
        with pytest.raises(errors.ScopeUnknown, match="'shop' is unknown: its function raised KeyError") as raised:
            desk.run()
        assert isinstance(raised.value, errors.UsageError)
        assert isinstance(raised.value.__cause__, KeyError)
    assert desk.sent == []
    assert desk.status() == (Status.RUNNING, True)
    desk.account.name = "live"
    assert desk.run() == 7
    assert desk.sent == ["live"]


def test_a_scope_that_is_gone_at_the_recovery_sends_nothing_and_says_so(desk: Desk) -> None:
    """The effect may have happened: without its scope nobody can ask, and the sentence is about the scope."""
    desk.fail = once(Killed())
    with pytest.raises(Killed):
        desk.run()
    desk.account.name = None
    with pytest.raises(errors.ScopeUnknown):
        desk.run()
    assert (desk.sent, desk.status()) == (["live"], (Status.RUNNING, True))
    desk.account.name = "live"
    assert desk.run() == 7
    assert desk.sent == ["live", "live"]


def test_a_workflow_that_swallows_an_unknown_scope_takes_no_later_step() -> None:
    desk, taken = Desk("sync"), []
    desk.account.name = None
    inner = desk.order

    @workflow
    def stubborn(run: Run) -> int:
        try:
            return inner.fn(run)  # type: ignore[no-any-return]
        except errors.ScopeUnknown:
            return run.decide("instead", lambda: taken.append(1) or 0)

    with pytest.raises(errors.ScopeUnknown):
        Engine(desk.journal).run("r", stubborn)
    assert (taken, desk.status()) == ([], (Status.RUNNING, True))


# -- arguments whose own code fails ------------------------------------------------------------------------------------


class Odd(BaseModel):
    """Its JSON form cannot be had, in two ways."""

    number: int
    how: str

    @field_serializer("number")
    def _number(self, value: int) -> int:
        if self.how == "serializer":
            raise LookupError("a secret")
        return value

    @computed_field  # type: ignore[prop-decorator]
    @property
    def twice(self) -> int:
        if self.how == "property":
            raise LookupError("a secret")
        return 2 * self.number


def test_an_effects_argument_whose_code_fails_leaves_the_run_open() -> None:
    sent: list[Odd] = []

    @effect(keyed())
    def post(call: Call, *, odd: Odd) -> None:
        sent.append(odd)

    @workflow
    def order(run: Run) -> None:
        run.perform(post(odd=Odd(number=1, how="serializer")))

    journal = MemoryJournal()
    with pytest.raises(errors.ValueNotStorable) as refused:
        Engine(journal).run("r", order)
    assert "secret" not in str(refused.value)
    row = journal.find("r")
    assert row is not None
    assert (sent, row.status, row.owner) == ([], Status.RUNNING, None)


@pytest.mark.parametrize("how", ["serializer", "property"])
def test_a_decisions_argument_whose_code_fails_is_compared_by_its_type(how: str) -> None:
    """It need not be stored, so that it need not have a JSON form either."""

    @workflow
    def order(run: Run, number: int) -> int:
        return run.decide("count", lambda odd: odd.number, Odd(number=number, how=how))

    assert Engine("memory://").run("r", order, 3) == 3
