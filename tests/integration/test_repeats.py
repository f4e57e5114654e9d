"""A fork and a restart repeat nothing that may have happened, unless somebody orders it: on every store, counted outside of the engine."""

from __future__ import annotations

from collections import Counter
from datetime import timedelta
from typing import Any

import pytest

from recovery import (
    Call,
    Engine,
    Environment,
    Forbid,
    Found,
    NewKey,
    Rejection,
    Retry,
    Reuse,
    Run,
    contracts,
    effect,
    errors,
    workflow,
)
from recovery.core.entries import OutcomeKind, Status
from recovery.ports import Journal
from recovery.storage import open_journal
from recovery.storage.reading import read
from recovery.testing import ManualClock

from .world import QUICK, Shop, keyed


@pytest.fixture(name="memory")
def _memory() -> Journal:
    """For what does not depend on the store."""
    return open_journal("memory://")


WHO: dict[str, Any] = {"by": "ann", "reason": "another plan"}


class Busy(Rejection):
    queue: int


class Desk:
    """Grants what is asked for, once the queue is empty, and waits for a word then."""

    def __init__(self, journal: Journal) -> None:
        self.queue = 1
        self.granted: Counter[str] = Counter()

        @effect(keyed(), environment=Environment("desk"), rejects=(Busy,), retry=Retry(on={Busy: Retry(attempts=4)}))
        def ask(call: Call, *, what: str) -> str:
            if self.queue:
                self.queue -= 1
                raise Busy(queue=self.queue + 1)
            self.granted[what] += 1
            return f"{what} {self.granted[what]}"

        @workflow
        def order(run: Run) -> str:
            granted = run.perform(ask(what="a grant"))
            run.wait_for("go", schema=bool)
            return granted

        self.ask, self.order = ask, order
        self.engine = Engine(journal, workflows=[order], clock=ManualClock())

    def waits(self, run_id: str) -> None:
        with pytest.raises(errors.AnswerPending):
            self.engine.run(run_id, self.order)

    def ends(self, run_id: str) -> Any:
        if self.engine.recover(run_id).status is Status.WAITING:
            self.engine.signal(run_id, "go", True, by="ann")
        return self.engine.recover(run_id)


def test_what_was_refused_first_and_granted_then_is_not_asked_for_once_more(journal: Journal) -> None:
    """The step has two sendings, of which the second happened: the first one's refusal does not say that nothing did."""
    desk = Desk(journal)
    with desk.engine:
        desk.waits("r")
        made = desk.engine.fork("r", "f", at="ask#1", **WHO)
        assert [(term.step, term.policy, term.said) for term in made.terms] == [
            ("ask#1", "reuse", False),
            ("ask#1/again#1", "forbid", False),
        ]
        assert desk.ends("f").error.error == "recovery.errors.EffectForbidden"
        with pytest.raises(errors.OverrideRefused, match=r"ask#1/again#1 may have happened"):
            desk.engine.restart("r", "ask#1", **WHO)
        desk.engine.restart("r", "ask#1", policies={"ask#1/again#1": Reuse()}, **WHO)
        assert desk.ends("r").value == "a grant 1"
        assert desk.granted == {"a grant": 1}
        desk.engine.fork("r", "g", at="ask#1@2", policies={"ask#1/again#1": NewKey("another one is wanted")}, **WHO)
        assert desk.ends("g").value == "a grant 2"
    assert desk.granted == {"a grant": 2}


def test_what_was_only_ever_refused_is_asked_for_anew(memory: Journal) -> None:
    desk = Desk(memory)
    desk.queue = 4
    with desk.engine:
        with pytest.raises(errors.RunFailed):
            desk.engine.run("r", desk.order)
        desk.engine.fork("r", "f", at="ask#1", **WHO)
        assert desk.ends("f").value == "a grant 1"
    assert desk.granted == {"a grant": 1}


class House:
    """Reserves as many as is planned just now, then waits."""

    def __init__(self, journal: Journal) -> None:
        self.plan = 1
        self.shop = Shop(stock=100)
        self.reserve = reserve = self.shop.effect(keyed())

        @workflow
        def order(run: Run) -> int:
            units = run.decide("plan", lambda: self.plan)
            number = run.perform(reserve(units=units))
            run.wait_for("go", schema=bool)
            return number

        self.order: Any = order
        self.engine = Engine(journal, workflows=[order], clock=ManualClock(), budget=QUICK)

    def until(self, status: Status) -> None:
        assert self.engine.recover("r").status is status

    def taken(self) -> int:
        return 100 - self.shop.stock


@pytest.mark.parametrize("said", [Forbid(), Reuse()], ids=["forbid", "reuse"])
def test_another_effect_at_the_same_step_takes_back_nothing_of_what_was_ordered(journal: Journal, said: Forbid | Reuse) -> None:
    """One unit, then two, then one again: of the first one somebody said what is to become of it, two generations ago."""
    house = House(journal)
    with house.engine as engine:
        with pytest.raises(errors.AnswerPending):
            engine.run("r", house.order)
        engine.restart("r", "plan#1", policies={"reserve#1": said}, **WHO)
        house.plan = 2
        house.until(Status.WAITING)
        made = engine.restart("r", "plan#1@2", policies={"reserve#1": Forbid()}, **WHO)
        assert [(term.of_step, term.policy) for term in made.terms] == [
            ("reserve#1", "forbid" if said == Forbid() else "reuse"),
            ("reserve#1@2", "forbid"),
        ]
        house.plan = 1
        house.until(Status.FAILED if said == Forbid() else Status.WAITING)
    assert house.taken() == 3


def test_the_contract_of_what_is_reused_is_known_whatever_the_code_says_now(memory: Journal) -> None:
    """It is undone by the contract that it was done under, which no step of this generation was written with."""
    shop, given = Shop(stock=10), list[int]()

    def trip(window: int) -> Any:
        reserve = shop.effect(contracts.Keyed(window=timedelta(hours=window)))

        @reserve.compensation(keyed())
        def give_back(call: Call, outcome: int, *, units: int) -> None:
            given.append(units)

        @workflow(name="trip")
        def trip(run: Run) -> None:
            with run.saga("booking"):
                run.perform(reserve(units=3))
                if run.wait_for("go", schema=bool):
                    raise ValueError("no way on")

        return trip

    with Engine(memory, workflows=[before := trip(24)], clock=ManualClock()) as engine:
        with pytest.raises(errors.AnswerPending):
            engine.run("r", before)
        engine.restart("r", "reserve#1", policies={"reserve#1": Reuse()}, **WHO)
        assert len(read(memory, "r").contracts) == 1
    with Engine(memory, workflows=[trip(48)], clock=ManualClock()) as engine:
        assert engine.recover("r").status is Status.WAITING
        engine.signal("r", "go", True, by="ann")
        came: Any = engine.recover("r").error
        assert came.error == "ValueError"
    assert given == [3]


def test_a_persons_word_that_it_did_not_happen_is_no_proof(memory: Journal) -> None:
    house = House(memory)
    with house.engine as engine:
        with pytest.raises(errors.AnswerPending):
            engine.run("r", house.order)
        engine.restart("r", "plan#1", policies={"reserve#1": Forbid()}, **WHO)
        house.plan = 2
        house.shop.down = True
        house.until(Status.WAITING)
        word = {"by": "ann", "reason": "seen", "evidence": "the log"}
        engine.resolve("r", "reserve#1@2", OutcomeKind.NOT_EXECUTED, **word)
        with pytest.raises(errors.OverrideRefused, match="reserve#1 may have happened"):
            engine.restart("r", "plan#1@2", **WHO)


def test_a_receipt_that_came_late_speaks_against_what_was_proven(memory: Journal) -> None:
    """It was refused; then somebody finds its receipt. To be done anew needs a word from then on."""
    desk = Desk(memory)
    desk.queue = 4
    with desk.engine as engine:
        with pytest.raises(errors.RunFailed):
            engine.run("r", desk.order)
        assert engine.observe("r", "ask#1/again#3", Found("a grant 0"), effect=desk.ask)
        made = engine.fork("r", "f", at="ask#1", **WHO)
        assert made.terms[-1].policy == "forbid"
        assert desk.ends("f").error.error == "recovery.errors.EffectForbidden"
    assert not desk.granted


def test_what_a_fork_does_anew_it_undoes_whatever_became_of_the_first(memory: Journal) -> None:
    """An undoing is of one receipt. That the parent has undone its own says nothing of the fork's."""
    shop = Shop(stock=10)

    @effect(keyed(), environment=Environment("shop"))
    def take(call: Call, *, units: int) -> str:
        shop.stock -= units
        return "taken"

    @take.compensation(keyed())
    def put_back(call: Call, outcome: str, *, units: int) -> None:
        shop.stock += units

    @workflow
    def trip(run: Run) -> None:
        with run.saga("booking"):
            run.perform(take(units=3))
            raise ValueError("no way on")

    with Engine(memory, workflows=[trip], clock=ManualClock(), budget=QUICK) as engine:
        with pytest.raises(errors.RunFailed):
            engine.run("r", trip)
        assert shop.stock == 10
        engine.fork("r", "f", at="take#1", policies={"take#1": NewKey("another try")}, **WHO)
        came: Any = engine.recover("f").error
        assert came.error == "ValueError"
    assert shop.stock == 10
