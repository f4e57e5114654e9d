"""Fork, and restart from a step: on every store, in both colours. The shop counts outside of the engine what was done."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pytest

from recovery import AsyncEngine, AsyncRun, Call, Engine, Forbid, Found, NewKey, Reuse, Run, contracts, errors, workflow
from recovery.cli.target import finished
from recovery.core.contracts import Contract
from recovery.core.entries import Decision, Entry, Intent, OutcomeKind, Status
from recovery.core.history import EffectStep
from recovery.ports import Journal
from recovery.storage.reading import Loaded, read
from recovery.testing.clock import ManualClock
from tests.integration.world import QUICK, Killed, OutOfStock, Shop, keyed, once

WHO = {"by": "ann", "reason": "another plan"}


@pytest.fixture
def colour(request: pytest.FixtureRequest) -> str:
    """One colour for each store: both are met, at half the price."""
    journal = request.getfixturevalue("journal")
    return "sync" if journal.url.startswith("sqlite") else "async"


@dataclass
class House:
    """One engine of a colour: reserve one, plan, reserve two, plan again, reserve as planned."""

    journal: Journal
    colour: str = "sync"
    contract: Contract = field(default_factory=keyed)
    shop: Shop = field(default_factory=lambda: Shop(stock=100))
    plan: int = 3
    keys: bool = False

    def __post_init__(self) -> None:
        self.reserve = reserve = self.shop.effect(self.contract)
        house = self

        def choose() -> int:
            return house.plan

        @workflow(name="order")
        def order(run: Run) -> list[int]:
            first = run.perform(reserve(units=1), key="k1" if house.keys else None)
            run.decide("plan", choose)
            second = run.perform(reserve(units=2), key="k2" if house.keys else None)
            units = run.decide("plan", choose)
            return [first, second, run.perform(reserve(units=units), key="k3" if house.keys else None)]

        @workflow(name="order")
        async def order_async(run: AsyncRun) -> list[int]:
            first = await run.perform(reserve(units=1), key="k1" if house.keys else None)
            await run.decide("plan", choose)
            second = await run.perform(reserve(units=2), key="k2" if house.keys else None)
            units = await run.decide("plan", choose)
            return [first, second, await run.perform(reserve(units=units), key="k3" if house.keys else None)]

        self.order: Any = order_async if self.colour == "async" else order
        kind = AsyncEngine if self.colour == "async" else Engine
        self.engine: Any = kind(self.journal, workflows=[self.order], budget=QUICK, clock=ManualClock())

    def do(self, verb: str, *arguments: Any, **named: Any) -> Any:
        return finished(getattr(self.engine, verb)(*arguments, **named))

    def fork(self, at: str, new: str = "f", **more: Any) -> Any:
        return self.do("fork", "r", new, at=at, **WHO, **more)

    def loaded(self, run_id: str = "f") -> Loaded:
        return read(self.journal, run_id)

    def of(self, kind: type[Entry], run_id: str = "f") -> list[Any]:  # type: ignore[type-arg]  # any kind of entry
        return [entry for entry in self.loaded(run_id).entries if isinstance(entry, kind)]

    def done(self) -> int:
        return sum(self.shop.executions.values())


# -- fork --------------------------------------------------------------------------------------------------------------


def test_a_fork_reuses_what_lies_before_it_and_does_what_its_own_plan_says(journal: Journal, colour: str) -> None:
    house = House(journal, colour)
    assert house.do("run", "r", house.order) == [1, 2, 3]
    before = house.loaded("r")
    made = house.fork("plan#2")
    assert made.prefix == ("reserve#1", "plan#1", "reserve#2")
    assert house.do("get", "f").status is Status.QUEUED
    house.plan = 5
    assert house.do("recover", "f").value == [1, 2, 4]
    assert house.done() == 4
    assert [intent.step for intent in house.of(Intent)] == ["reserve#3"], "it has no intent of its parent's"
    after = house.loaded("r")
    assert (after.rows, after.run.head_digest) == (before.rows, before.run.head_digest), "the parent is only read"
    opened = house.loaded().opened
    assert (opened.forked_from, opened.forked_at, opened.forked_head) == ("r", "plan#2", before.run.head_digest)
    assert house.do("recover", "f").value == [1, 2, 4]
    assert house.do("verify").broken == []


def test_the_default_never_repeats_an_effect_behind_the_fork(journal: Journal, colour: str) -> None:
    house = House(journal, colour)
    house.do("run", "r", house.order)
    house.fork("reserve#2")
    came = house.do("recover", "f")
    assert (came.status, came.error.error) == (Status.FAILED, "recovery.errors.EffectForbidden")
    assert house.done() == 3
    assert house.do("recover", "f").error.error == "recovery.errors.EffectForbidden"


def test_each_effect_is_reused_done_anew_or_forbidden_as_somebody_says(journal: Journal, colour: str) -> None:
    house = House(journal, colour)
    house.do("run", "r", house.order)
    house.fork("reserve#2", policies={"reserve#2": Reuse(), "reserve#3": NewKey("the first parcel was lost")})
    assert house.do("recover", "f").value == [1, 2, 4]
    house.fork("", "g", policies={"reserve#1": NewKey("a second one is wanted")})
    assert house.do("recover", "g").value == [5, 2, 3]
    assert house.fork("", "h", policies={"reserve#2": Forbid()}).at == "reserve#2", "what lies behind it rests on it"
    assert house.do("recover", "h").status is Status.FAILED
    assert house.done() == 5
    assert {entry.form for entry in house.of(Decision, "g")} == {"", "anew", "inherited"}


@pytest.mark.parametrize("in_second_generation", [False, True])
def test_the_outcome_of_what_was_undone_is_not_inherited(journal: Journal, *, in_second_generation: bool) -> None:
    """It does not stand any more: a fork or a new generation that built on it would complete over nothing."""
    shop, refused = Shop(stock=3), [True]
    reserve = shop.effect(keyed())
    given_back: list[int] = []

    @reserve.compensation(keyed(), rejects=(OutOfStock,))
    def give_back(call: Call, outcome: int, *, units: int) -> None:
        if units == 1 and refused[0]:
            raise OutOfStock(sku="shelf", available=0)
        given_back.append(units)

    @workflow
    def trip(run: Run) -> list[int]:
        with run.saga("booking"):
            taken = [run.perform(reserve(units=units)) for units in (1, 2)]
            run.decide("plan", lambda: 3)
            return [*taken, run.perform(reserve(units=3))]

    with Engine(journal, workflows=[trip], budget=QUICK, clock=ManualClock()) as engine:
        with pytest.raises(errors.CompensationStuck):
            engine.run("r", trip)
        assert given_back == [2]
        for at in ("plan#1", "reserve#3"):
            with pytest.raises(errors.OverrideRefused, match="undone by booking#1"):
                engine.restart("r", at, **WHO)
        with pytest.raises(errors.OverrideRefused, match="give_back#1 undoes reserve#2, and what is undone later"):
            engine.restart("r", "reserve#1", policies={"booking#1/give_back#1": Forbid()}, **WHO)
        with pytest.raises(errors.OverrideRefused, match="reserve#2 is undone by booking#1/give_back#1"):
            engine.restart("r", "reserve#1", policies={"reserve#2": Reuse()}, **WHO)
        engine.resolve("r", "booking#1/by-hand#1", OutcomeKind.NOT_EXECUTED, by="ann", reason="it stays", evidence="a look")
        if in_second_generation:
            engine.restart("r", "reserve#2", policies={"reserve#2": Forbid()}, **WHO)
            with pytest.raises(errors.OverrideRefused, match="reserve#2 is undone by booking#1/give_back#1"):
                engine.restart("r", "reserve#1", policies={"reserve#1": Reuse(), "reserve#2": Reuse()}, **WHO)
            return
        assert engine.recover("r").status is Status.FAILED
        shop.stock = 10
        with pytest.raises(errors.OverrideRefused, match="reserve#2 is undone by booking#1/give_back#1"):
            engine.fork("r", "f", at="plan#1", **WHO)
        assert engine.fork("r", "f", at="reserve#2", policies={"reserve#2": NewKey("it was given back")}, **WHO).prefix == (
            "reserve#1",
        )
        assert engine.recover("f").value == [1, 4, 5], "what a person left as it is stands, and is reused"
        told_so = {"reserve#2": NewKey("it was given back"), "reserve#3": NewKey("there are more")}
        engine.fork("r", "g", at="plan#1", policies=told_so, **WHO)
        assert engine.recover("g").value == [1, 6, 7]
    assert given_back == [2]


@pytest.mark.parametrize("generations", [2, 3])
def test_what_an_earlier_generation_did_and_the_run_reuses_is_undone_with_the_rest(journal: Journal, generations: int) -> None:
    """It is the same run's: nobody else would. A fork's is its parent's."""
    shop, contract = Shop(stock=3), keyed()
    reserve = shop.effect(contract)
    undone: dict[str, tuple[int, int]] = {}

    @reserve.compensation(keyed())
    def give_back(call: Call, outcome: int, *, units: int) -> None:
        if undone.setdefault(call.key, (units, outcome)) and len(undone) == 1:
            raise Killed

    @workflow
    def trip(run: Run) -> list[int]:
        with run.saga("booking"):
            run.decide("plan", lambda: 3)
            taken = [run.perform(reserve(units=units), key=f"{run.run_id}-{units}") for units in (1, 2)]
            run.wait_for("go", schema=bool)
            return [*taken, run.perform(reserve(units=3))]

    def waits(run_id: str) -> None:
        assert engine.recover(run_id).status is Status.WAITING

    with Engine(journal, workflows=[trip], budget=QUICK, clock=ManualClock()) as engine:
        with pytest.raises(errors.AnswerPending):
            engine.run("r", trip)
        step = "plan#1"
        for generation in range(2, generations + 1):
            policies = {name: Reuse() for name in ("reserve#1", "reserve#2")}
            engine.restart("r", step, policies=policies, **WHO)
            waits("r")
            step = f"plan#1@{generation}"
        engine.fork("r", "f", at=f"go#1@{generations}", **WHO)
        for run_id in ("f", "r"):
            waits(run_id)
            engine.signal(run_id, "go", True, by="ann")
            if run_id == "r":
                assert not undone, "what a fork reuses stays its parent's"
                with pytest.raises(Killed):
                    engine.recover(run_id)
                undone["killed"] = (0, 0)
            assert engine.recover(run_id).status is Status.FAILED
        assert list(undone.values()) == [(2, 2), (0, 0), (1, 1)]
        steps = [entry.undoes for entry in engine.history("r") if isinstance(entry, Intent) and entry.undoes]
        assert steps == [f"reserve#2@{generations}", f"reserve#1@{generations}"]
        assert engine.recover("r").status is Status.FAILED
        with pytest.raises(errors.OverrideRefused, match="is undone by booking#1"):
            engine.fork("r", "g", at=f"go#1@{generations}", **WHO)
        assert engine.verify().broken == []
    assert len(undone) == 3


def test_a_key_of_the_workflow_s_own_is_not_used_for_a_second_effect(journal: Journal, colour: str) -> None:
    house = House(journal, colour, keys=True)
    house.do("run", "r", house.order)
    house.fork("plan#2", policies={"reserve#3": NewKey("a second one is wanted")})
    assert house.do("recover", "f").value == [1, 2, 4]
    [intent] = house.of(Intent)
    assert intent.key not in {"k1", "k2", "k3"}
    house.plan = 7  # another effect, under the key that its parent's third one has
    house.fork("plan#2", "g")
    with pytest.raises(errors.RunFailed, match="KeyReused"):
        house.do("recover", "g").result()
    assert house.done() == 4


def test_a_fork_of_what_is_not_settled_is_refused_and_its_doubt_stays_its_own(journal: Journal, colour: str) -> None:
    house = House(journal, colour, contracts.Opaque())
    house.shop.fail = once(Killed())
    with pytest.raises(Killed):
        house.do("run", "r", house.order)
    with pytest.raises(errors.OverrideRefused, match="reserve#1 lies before it and is not settled"):
        house.fork("")
    with pytest.raises(errors.OverrideRefused, match="no outcome to reuse"):
        house.fork("reserve#1", policies={"reserve#1": Reuse()})
    house.fork("reserve#1", policies={"reserve#1": NewKey("the first one was seen not to have arrived")})
    house.fork("reserve#1", "g")
    assert house.do("recover", "f").status is Status.COMPLETED
    assert house.do("recover", "g").status is Status.FAILED, "it may have happened, so that it is not repeated"
    assert house.do("recover", "r").status is Status.IN_DOUBT
    assert house.shop.sent.total() == 4


def test_what_a_fork_inherits_it_can_fork_on(journal: Journal, colour: str) -> None:
    house = House(journal, colour)
    house.do("run", "r", house.order)
    house.fork("plan#2")
    house.do("fork", "f", "g", at="reserve#2", **WHO)
    house.do("fork", "f", "h", at="reserve#2", policies={"reserve#2": Reuse(), "reserve#3": Reuse()}, **WHO)
    assert house.do("recover", "g").status is Status.FAILED
    assert house.do("recover", "h").value == [1, 2, 3]
    assert house.done() == 3


def test_a_fork_again_is_the_same_fork_and_another_one_is_refused(journal: Journal, colour: str) -> None:
    house = House(journal, colour)
    house.do("run", "r", house.order)
    house.fork("plan#2")
    before = house.loaded()
    house.fork("plan#2")
    assert house.loaded().rows == before.rows
    for at, new, more in (("plan#1", "f", {}), ("plan#2", "f", {"policies": {"reserve#3": Reuse()}}), ("plan#2", "r", {})):
        with pytest.raises(errors.OverrideRefused, match="taken by another run"):
            house.fork(at, new, **more)
    with pytest.raises(errors.StepNotFound, match="plan#2"):
        house.fork("nowhere#1", "g")
    with pytest.raises(errors.OverrideRefused, match="nowhere#1 is no effect"):
        house.fork("", "g", policies={"nowhere#1": Reuse()})
    with pytest.raises(errors.OverrideRefused, match="needs a reason"):
        house.fork("", "g", policies={"reserve#1": NewKey(" ")})
    with pytest.raises(errors.InvalidName):
        house.fork("", "no good")
    with pytest.raises(errors.RunNotFound):
        house.do("fork", "nowhere", "g", **WHO)
    with pytest.raises(errors.OverrideRefused, match="it needs reason"):
        house.do("fork", "r", "g", by="ann", reason="")
    for words in ({"version": "\ud800"}, {"policies": {"reserve#1": NewKey("\0")}}):
        with pytest.raises(errors.OverrideRefused, match="cannot be stored"):
            house.fork("", "g", **words)


def test_a_plan_of_a_fork_says_what_becomes_of_each_effect_and_stores_nothing(journal: Journal, colour: str) -> None:
    house = House(journal, colour)
    house.do("run", "r", house.order)
    made = house.fork("plan#2", plan=True)
    assert [(term.step, term.policy, term.inside, term.said) for term in made.terms] == [
        ("reserve#1", "reuse", True, False),
        ("reserve#2", "reuse", True, False),
        ("reserve#3", "forbid", False, False),
    ]
    with pytest.raises(errors.RunNotFound):
        house.do("get", "f")
    assert (made.of_run_status, made.both_go_on) == (Status.COMPLETED, False)


def test_a_fork_says_whether_its_parent_may_go_on_too(journal: Journal, colour: str) -> None:
    house = _stuck(journal, colour)
    planned, made = house.fork("plan#2", plan=True), house.fork("plan#2")
    assert planned == made
    assert (made.of_run_status, made.both_go_on) == (Status.IN_DOUBT, True)
    house.do("cancel", "r", **WHO)
    again = house.fork("plan#2")
    assert (again.of_run_status, again.both_go_on) == (house.do("get", "r").status, False), "it begins nothing more"


# -- restart -----------------------------------------------------------------------------------------------------------


def _stuck(journal: Journal, colour: str, contract: Contract | None = None) -> House:
    """A run whose third effect lost its reply and is in doubt."""
    house = House(journal, colour, contracts.Opaque() if contract is None else contract)
    replies = iter([lambda: None, lambda: None, once(Killed())])
    house.shop.fail = lambda: next(replies, lambda: None)()
    with pytest.raises(Killed):
        house.do("run", "r", house.order)
    assert house.do("recover", "r").status is Status.IN_DOUBT
    return house


def test_a_restart_has_new_keys_from_its_step_on_and_keeps_what_lies_before(journal: Journal, colour: str) -> None:
    house = _stuck(journal, colour)
    house.plan = 4
    made = house.do("restart", "r", "plan#2", policies={"reserve#3": NewKey("seen not to have arrived")}, **WHO)
    assert (made.generation, made.superseded) == (2, ("plan#2", "reserve#3"))
    assert house.do("recover", "r").value == [1, 2, 4]
    loaded = house.loaded("r")
    assert list(loaded.history.steps) == ["reserve#1", "plan#1", "reserve#2", "plan#2@2", "reserve#3@2"]
    keys = [entry.key for entry in house.of(Intent, "r")]
    assert len(set(keys)) == 4
    assert house.do("recover", "r").value == [1, 2, 4], "a replay finds the same steps"
    assert house.do("verify", "r").broken == []


def test_a_restart_needs_a_word_about_each_effect_that_may_have_happened(journal: Journal, colour: str) -> None:
    house = _stuck(journal, colour)
    before = house.loaded("r").rows
    with pytest.raises(errors.OverrideRefused, match="reserve#2, reserve#3 may have happened"):
        house.do("restart", "r", "reserve#2", **WHO)
    with pytest.raises(errors.OverrideRefused, match="no outcome to reuse"):
        house.do("restart", "r", "reserve#2", policies={"reserve#2": Reuse(), "reserve#3": Reuse()}, **WHO)
    assert house.loaded("r").rows == before
    house.do("restart", "r", "reserve#2", policies={"reserve#2": Reuse(), "reserve#3": Forbid()}, **WHO)
    came = house.do("recover", "r")
    assert (came.status, came.error.error) == (Status.FAILED, "recovery.errors.EffectForbidden")
    assert house.done() == 3


def test_a_restarted_run_can_be_restarted_again(journal: Journal, colour: str) -> None:
    house = _stuck(journal, colour)
    house.do("restart", "r", "plan#2", policies={"reserve#3": NewKey("once more")}, **WHO)
    house.shop.fail = once(Killed())
    with pytest.raises(Killed):
        house.do("recover", "r")
    assert house.do("recover", "r").status is Status.IN_DOUBT
    house.do("restart", "r", "plan#2@2", policies={"reserve#3@2": NewKey("and once more")}, **WHO)
    assert house.do("recover", "r").value == [1, 2, 5]
    assert list(house.loaded("r").history.steps)[-2:] == ["plan#2@3", "reserve#3@3"]


def test_a_restart_is_refused_where_an_outcome_is_final_or_nobody_wants_it(journal: Journal, colour: str) -> None:
    house = House(journal, colour)
    house.do("run", "r", house.order)
    with pytest.raises(errors.OverrideRefused, match="recover fork"):
        house.do("restart", "r", "plan#2", **WHO)
    other = _stuck_as(journal, colour, "s")
    with pytest.raises(errors.StepNotFound):
        other.do("restart", "s", "nowhere#1", **WHO)
    other.do("cancel", "s", **WHO)
    with pytest.raises(errors.OverrideRefused, match="cancelled"):
        other.do("restart", "s", "reserve#1", policies={"reserve#1": NewKey("x")}, **WHO)


def _stuck_as(journal: Journal, colour: str, run_id: str) -> House:
    house = House(journal, colour, contracts.Opaque())
    house.shop.fail = once(Killed())
    with pytest.raises(Killed):
        house.do("run", run_id, house.order)
    return house


def test_a_diverged_run_goes_on_from_the_step_where_its_code_changed(journal: Journal, colour: str) -> None:
    house = _stuck(journal, colour)
    house.do("resolve", "r", "reserve#3", OutcomeKind.NOT_EXECUTED, evidence="log", by="ann", reason="seen")
    reserve = house.reserve

    @workflow(name="order")
    def changed(run: Run) -> list[int]:
        first = run.perform(reserve(units=1))
        run.decide("plan", lambda: 1)
        return [first, run.perform(reserve(units=9), name="all-of-it")]

    engine = Engine(journal, workflows=[changed], budget=QUICK, clock=ManualClock())
    assert engine.recover("r").status is Status.DIVERGED
    with pytest.raises(errors.OverrideRefused, match="reserve#3 may have happened"):  # a person's word is no proof
        engine.restart("r", "reserve#2", policies={"reserve#2": Forbid()}, **WHO)
    engine.restart("r", "reserve#2", policies={"reserve#2": Forbid(), "reserve#3": Forbid()}, **WHO)
    assert engine.recover("r").value == [1, 4]


def test_what_lies_before_a_restart_stays_as_it_is(journal: Journal) -> None:
    house = _stuck(journal, "sync")
    with pytest.raises(errors.OverrideRefused, match="reserve#1 lies before it, and stays as it is"):
        house.do("restart", "r", "plan#2", policies={"reserve#1": Forbid(), "reserve#3": Forbid()}, **WHO)


def test_what_comes_late_for_a_superseded_effect_is_kept_and_judged_by_nobody(journal: Journal) -> None:
    house = _stuck(journal, "sync")
    house.do("restart", "r", "plan#2", policies={"reserve#3": NewKey("seen not to have arrived")}, **WHO)
    assert house.do("observe", "r", "reserve#3", Found(3), effect=house.reserve)
    assert house.do("recover", "r").value == [1, 2, 4]
    loaded = house.loaded("r")
    superseded = loaded.history.superseded["reserve#3"]
    assert isinstance(superseded, EffectStep)
    assert [noted.answer.value for noted in superseded.observations if noted.seq is None] == [3]
    assert house.do("get", "r").contradictions == ()
