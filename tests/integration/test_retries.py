"""Retries, as a user of Engine and AsyncEngine meets them: counted and drawn once, kept over restarts, and never beyond what the contract allows."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from tenacity import stop_after_attempt, wait_fixed, wait_incrementing

from recovery import (
    AsyncEngine,
    AsyncRun,
    Call,
    Engine,
    Environment,
    NotSent,
    Rejected,
    Rejection,
    ReplyWas,
    Retry,
    Run,
    TurnedAway,
    contracts,
    effect,
    errors,
    workflow,
)
from recovery.core.contracts import Contract
from recovery.core.entries import Attempt, Decision, Intent, Observation, Settled, Status
from recovery.core.policy import Budget
from recovery.ports import Journal
from recovery.testing import ManualClock

from .world import QUICK, TIMEOUT, Killed, keyed

pytestmark = pytest.mark.parametrize("journal", ["memory", "postgresql"], indirect=True)
"""What differs between stores is theirs: SQLite's part is in test_retries_killed, and in the scenarios."""

SECOND = timedelta(seconds=1)
MINUTE = timedelta(minutes=1)
PATIENT = Budget(max_wait=None)


class Busy(Rejection):
    queue: int


class SoldOut(Rejection):
    item: str


class Flaky(Exception):
    pass


class Broken(Exception):
    pass


class Service:
    """Does what its script says at each attempt: raises it, or returns it."""

    def __init__(self, *script: Any) -> None:
        self.script = list(script)
        self.keys: list[str] = []
        self.at: list[float] = []
        self.clock = ManualClock()

    def act(self, call: Call) -> str:
        self.keys.append(call.key)
        self.at.append(self.clock.wall_us() / 1_000_000)
        came = self.script.pop(0) if len(self.script) > 1 else self.script[0]
        if isinstance(came, BaseException):
            raise came
        return str(came)

    def effect(self, contract: Contract | None = None, **more: Any) -> Any:
        @effect(contract or keyed(), environment=Environment("shop"), rejects=(Busy, SoldOut), timeout=TIMEOUT, name="post", **more)
        def post(call: Call) -> str:
            return self.act(call)

        return post

    def async_effect(self, **more: Any) -> Any:
        @effect(keyed(), environment=Environment("shop"), rejects=(Busy, SoldOut), timeout=TIMEOUT, name="post", **more)
        async def post(call: Call) -> str:
            return self.act(call)

        return post

    @property
    def gaps(self) -> list[float]:
        return [round(after - before, 3) for before, after in zip(self.at, self.at[1:], strict=False)]


def away() -> ReplyWas:
    return ReplyWas(TurnedAway())


def performing(post: Any, **more: Any) -> Any:
    @workflow
    def order(run: Run) -> str:
        try:
            return str(run.perform(post(), **more))
        except errors.RetriesExhausted as exhausted:
            return f"exhausted after {exhausted.tries}"

    return order


def of(kind: type[Any], engine: Engine, run_id: str = "r") -> list[Any]:
    return [entry for entry in engine.history(run_id) if isinstance(entry, kind)]


# -- under one key -----------------------------------------------------------------------------------------------------


def test_what_did_nothing_is_tried_again_under_the_same_key_after_the_policys_wait(journal: Journal) -> None:
    service = Service(away(), ReplyWas(NotSent()), away(), "done")
    order = performing(service.effect(retry=Retry(attempts=5, wait=wait_incrementing(start=1, increment=2))))
    with Engine(journal, workflows=[order], clock=service.clock, budget=PATIENT) as engine:
        assert engine.run("r", order) == "done"
        assert [entry.pause_us for entry in of(Observation, engine)] == [1_000_000, 3_000_000, 5_000_000]
    assert service.gaps == [1, 3, 5]
    assert len(set(service.keys)) == 1


def test_the_policy_of_a_call_stands_in_the_place_of_its_effects(journal: Journal) -> None:
    service = Service(away())
    order = performing(service.effect(retry=Retry(attempts=5)), retry=Retry(attempts=2, wait=wait_fixed(1)))
    with Engine(journal, workflows=[order], clock=service.clock, budget=PATIENT) as engine:
        assert engine.run("r", order) == "exhausted after 2"


@pytest.mark.parametrize(
    "policy",
    [
        Retry(attempts=3, wait=wait_fixed(1)),
        Retry(within=timedelta(seconds=2.5), wait=wait_fixed(1)),
        Retry(stop=stop_after_attempt(3), wait=wait_fixed(1)),
        Retry(attempts=9, wait=wait_fixed(1), on={Flaky: Retry(attempts=1)}, stop=lambda state: state.attempt_number >= 3),
    ],
)
@pytest.mark.parametrize("answer", [TurnedAway(), NotSent()])
def test_an_exhausted_retry_of_what_did_nothing_is_a_typed_error_and_not_in_doubt(
    journal: Journal, policy: Retry, answer: TurnedAway | NotSent
) -> None:
    service = Service(ReplyWas(answer))
    order = performing(service.effect(retry=policy))
    with Engine(journal, workflows=[order], clock=service.clock, budget=PATIENT) as engine:
        assert engine.run("r", order) == "exhausted after 3"
        assert engine.run("r", order) == "exhausted after 3"
        assert of(Settled, engine)[0].row == "never-sent"
    assert len(service.keys) == 3


def test_an_exhausted_retry_of_an_unknown_outcome_is_in_doubt_and_not_failed(journal: Journal) -> None:
    service = Service(TimeoutError())
    order = performing(service.effect(retry=Retry(attempts=3, wait=wait_fixed(1))))
    with Engine(journal, workflows=[order], clock=service.clock, budget=PATIENT) as engine:
        with pytest.raises(errors.EffectInDoubt) as doubt:
            engine.run("r", order)
        assert doubt.value.reason == "budget-spent"
        assert engine.get("r").status is Status.IN_DOUBT
    assert (len(service.keys), len(set(service.keys))) == (3, 1)


def test_a_policy_never_bypasses_the_table(journal: Journal) -> None:
    service = Service(TimeoutError())
    order = performing(service.effect(contracts.Opaque(), retry=Retry(attempts=9)))
    with Engine(journal, workflows=[order], clock=service.clock, budget=PATIENT) as engine, pytest.raises(errors.EffectInDoubt):
        engine.run("r", order)
    assert len(service.keys) == 1


def test_what_the_environment_asks_for_is_waited_for_where_that_is_longer(journal: Journal) -> None:
    service = Service(ReplyWas(TurnedAway(retry_after=MINUTE)), away(), "done")
    order = performing(service.effect(retry=Retry(wait=wait_fixed(2))))
    with Engine(journal, workflows=[order], clock=service.clock, budget=PATIENT) as engine:
        assert engine.run("r", order) == "done"
    assert service.gaps == [60, 2]


def test_classes_of_errors_are_counted_and_waited_for_apart(journal: Journal) -> None:
    service = Service(Flaky(), TimeoutError(), Flaky(), TimeoutError(), "done")
    policy = Retry(attempts=9, wait=wait_incrementing(10, 10), on={Flaky: Retry(wait=wait_incrementing(1, 1)), Broken: None})
    order = performing(service.effect(retry=policy))
    with Engine(journal, workflows=[order], clock=service.clock, budget=PATIENT) as engine:
        assert engine.run("r", order) == "done"
    assert service.gaps == [1, 10, 2, 20]


def test_an_error_that_is_never_tried_again_ends_it_at_once(journal: Journal) -> None:
    class Worse(Broken):
        pass

    service = Service(Worse())
    order = performing(service.effect(retry=Retry(attempts=9, on={Broken: None})))
    with Engine(journal, workflows=[order], clock=service.clock, budget=PATIENT) as engine, pytest.raises(errors.EffectInDoubt):
        engine.run("r", order)
    assert len(service.keys) == 1


# -- over restarts -----------------------------------------------------------------------------------------------------


def test_a_restart_neither_begins_at_zero_nor_tries_too_early(journal: Journal) -> None:
    service = Service(away())
    order = performing(service.effect(retry=Retry(attempts=4, wait=wait_fixed(60))))
    for tries in (1, 2, 3):
        with Engine(journal, workflows=[order], clock=service.clock, budget=QUICK) as engine:
            for _ in range(2):  # the second look comes too early
                with pytest.raises(errors.Unresolved):
                    engine.run("r", order)
                assert len(service.keys) == tries
            service.clock.advance(MINUTE)
    with Engine(journal, workflows=[order], clock=service.clock, budget=QUICK) as engine:
        assert engine.run("r", order) == "exhausted after 4"
    assert service.gaps == [60, 60, 60]


def test_the_drawn_wait_stays_what_it_was_drawn_as(journal: Journal) -> None:
    service = Service(away(), "done")
    order = performing(service.effect(retry=Retry(attempts=4)))
    with Engine(journal, workflows=[order], clock=service.clock, budget=QUICK) as engine:
        due = set()
        for _ in range(3):
            with pytest.raises(errors.Unresolved) as waits:
                engine.run("r", order)
            due.add(waits.value.next_look)
    assert len(due) == 1


def test_a_worker_that_dies_at_every_attempt_does_not_make_more_of_them_than_the_policy_allows(journal: Journal) -> None:
    service = Service(Killed())
    order = performing(service.effect(retry=Retry(attempts=3, wait=wait_fixed(1))))
    for _ in range(3):
        with Engine(journal, workflows=[order], clock=service.clock, budget=PATIENT) as engine, pytest.raises(Killed):
            engine.run("r", order)
        service.clock.advance(2 * TIMEOUT)
    with Engine(journal, workflows=[order], clock=service.clock, budget=PATIENT) as engine, pytest.raises(errors.EffectInDoubt):
        engine.run("r", order)
    assert len(service.keys) == 3


# -- rejections --------------------------------------------------------------------------------------------------------


def test_a_rejection_is_final_unless_its_class_is_named(journal: Journal) -> None:
    service = Service(SoldOut(item="lamp"), "done")

    @workflow
    def order(run: Run) -> str:
        came = run.attempt(service.effect(retry=Retry(attempts=9, on={Exception: Retry(), Busy: Retry()}))())
        return str(came.error) if isinstance(came, Rejected) else came.value

    with Engine(journal, workflows=[order], clock=service.clock, budget=PATIENT) as engine:
        assert "SoldOut" in engine.run("r", order)
    assert len(service.keys) == 1


def busy_thrice() -> Service:
    return Service(Busy(queue=3), Busy(queue=2), "done")


@pytest.mark.parametrize("key", [None, "order-17"])
def test_a_rejection_that_is_wanted_again_is_a_new_effect_under_a_new_key(journal: Journal, key: str | None) -> None:
    service = busy_thrice()
    order = performing(service.effect(retry=Retry(on={Busy: Retry(attempts=3, wait=wait_fixed(60))})), key=key)
    with Engine(journal, workflows=[order], clock=service.clock, budget=PATIENT) as engine:
        assert engine.run("r", order) == "done"
        assert engine.run("r", order) == "done"
        assert [entry.step for entry in of(Intent, engine)] == ["post#1", "post#1/again#1", "post#1/again#2"]
        assert [entry.error for entry in of(Decision, engine) if entry.error] == [Busy.__module__ + ".Busy"] * 2
    assert service.gaps == [60, 60]
    assert len(set(service.keys)) == 3
    if key is not None:
        assert service.keys == ["order-17", "order-17~2", "order-17~3"]


@pytest.mark.parametrize(("gap", "sent"), [(4, 3), (6, 2)])
def test_what_is_wanted_again_goes_by_the_approval_of_the_call_and_uses_up_no_other_one(
    journal: Journal, gap: int, sent: int
) -> None:
    service = busy_thrice()
    post = service.effect(retry=Retry(on={Busy: Retry(wait=wait_fixed(gap * 60))}))

    @workflow
    def order(run: Run) -> str:
        for valid_for in (10 * MINUTE, timedelta(days=1)):
            run.wait_for("approval", schema=bool, about=post(), valid_for=valid_for)
        try:
            return run.perform(post())
        except errors.NotExecuted:
            return "too late"

    with Engine(journal, workflows=[order], clock=service.clock, budget=PATIENT) as engine:
        for _ in range(2):
            with pytest.raises(errors.AnswerPending):
                engine.run("r", order)
            [*_, open_] = engine.waits("r")
            engine.signal("r", "approval", True, by="ann", about=open_.about)
        assert engine.run("r", order) == ("done" if sent == 3 else "too late")
        assert len({entry.valid_until_us for entry in of(Intent, engine)}) == 1
    assert len(service.keys) == sent


def test_the_last_rejection_is_the_outcome_where_its_policy_has_had_enough(journal: Journal) -> None:
    service = Service(Busy(queue=3), Busy(queue=2), Busy(queue=1))
    post = service.effect(retry=Retry(on={Busy: Retry(attempts=2, wait=wait_fixed(1))}))

    @workflow
    def order(run: Run) -> int:
        came = run.attempt(post())
        assert isinstance(came, Rejected)
        assert isinstance(came.error, Busy)
        run.sleep(SECOND)
        return came.error.queue

    with Engine(journal, workflows=[order], clock=service.clock, budget=QUICK) as engine:
        for _ in range(2):
            with pytest.raises(errors.TimerPending):
                engine.run("r", order)
            service.clock.advance(SECOND)
        assert engine.run("r", order) == 2


def test_a_worker_that_dies_between_rejections_goes_on_with_the_next_and_repeats_none(journal: Journal) -> None:
    service = busy_thrice()
    order = performing(service.effect(retry=Retry(on={Busy: Retry(wait=wait_fixed(60))})))
    with Engine(journal, workflows=[order], clock=service.clock, budget=QUICK) as engine:
        for _ in range(2):
            with pytest.raises(errors.TimerPending):
                engine.run("r", order)
            service.clock.advance(MINUTE)
        assert engine.run("r", order) == "done"
    assert service.gaps == [60, 60]


def test_a_step_that_the_workflow_went_on_from_is_not_wanted_again_by_a_policy_that_came_later(journal: Journal) -> None:
    service = Service(Busy(queue=3))
    policies: list[Retry | None] = [None, Retry(on={Busy: Retry(attempts=9)})]

    @workflow
    def order(run: Run) -> str:
        came = run.attempt(service.effect(retry=policies[0])())
        run.sleep(MINUTE)
        return type(came).__name__

    with Engine(journal, workflows=[order], clock=service.clock, budget=QUICK) as engine:
        with pytest.raises(errors.TimerPending):
            engine.run("r", order)
        policies.pop(0)
        service.clock.advance(MINUTE)
        assert engine.run("r", order) == "Rejected"
    assert len(service.keys) == 1


# -- decisions ---------------------------------------------------------------------------------------------------------


def asking(*script: Any) -> tuple[Callable[[str], str], list[str]]:
    asked: list[str] = []

    def ask(prompt: str) -> str:
        asked.append(prompt)
        came = script[min(len(asked), len(script)) - 1]
        if isinstance(came, BaseException):
            raise came
        return str(came)

    return ask, asked


def test_a_decision_is_made_again_until_it_can_be_made_and_waits_over_restarts(journal: Journal) -> None:
    ask, asked = asking(Flaky("one"), Flaky("two"), "plan")
    clock = ManualClock()

    @workflow
    def order(run: Run) -> str:
        return run.decide("plan", Retry(attempts=5, wait=wait_fixed(60))(ask), "how?")

    with Engine(journal, workflows=[order], clock=clock, budget=QUICK) as engine:
        for tries in (1, 2):
            for _ in range(2):
                with pytest.raises(errors.TimerPending):
                    engine.run("r", order)
                assert len(asked) == tries
            clock.advance(MINUTE)
        assert engine.run("r", order) == "plan"
        assert engine.run("r", order) == "plan"
        assert [entry.step for entry in of(Decision, engine) if entry.form == ""] == ["plan#1"]
    assert asked == ["how?"] * 3


def test_the_last_failure_of_a_decision_is_recorded_and_stays(journal: Journal) -> None:
    ask, asked = asking(Flaky("one"), Flaky("two"), Flaky("three"))

    @workflow
    def order(run: Run) -> str:
        try:
            return run.decide("plan", Retry(attempts=2, wait=wait_fixed(1))(ask), "how?")
        except errors.DecisionFailed as failed:
            return str(failed.message)

    with Engine(journal, workflows=[order], clock=ManualClock(), budget=PATIENT) as engine:
        assert engine.run("r", order) == "two"
        assert engine.run("r", order) == "two"
    assert len(asked) == 2


def test_an_uncaught_last_failure_fails_the_run(journal: Journal) -> None:
    ask, asked = asking(Broken("no"))

    @workflow
    def order(run: Run) -> str:
        return run.decide("plan", Retry(attempts=5, on={Broken: None})(ask), "how?")

    with Engine(journal, workflows=[order], clock=ManualClock(), budget=PATIENT) as engine:
        for _ in range(2):
            with pytest.raises(errors.RunFailed):
                engine.run("r", order)
    assert len(asked) == 1


def test_a_deadline_bounds_the_pauses_inside_its_scope(journal: Journal) -> None:
    ask, asked = asking(Flaky())

    @workflow
    def order(run: Run) -> str:
        try:
            with run.deadline(timedelta(seconds=150)):
                return run.decide("plan", Retry(attempts=50, wait=wait_fixed(60))(ask), "how?")
        except errors.DeadlinePassed:
            return "late"

    with Engine(journal, workflows=[order], clock=ManualClock(), budget=PATIENT) as engine:
        assert engine.run("r", order) == "late"
    assert len(asked) == 3


# -- the other colour, and branches ------------------------------------------------------------------------------------


def test_an_async_workflow_retries_in_the_same_way(journal: Journal) -> None:
    service = Service(away(), Busy(queue=1), "done")
    asked: list[int] = []

    @Retry(attempts=3, wait=wait_fixed(1))
    async def choose() -> str:
        asked.append(1)
        if len(asked) < 3:
            raise Flaky
        return "plan"

    post = service.async_effect(retry=Retry(wait=wait_fixed(5), on={Busy: Retry(attempts=2, wait=wait_fixed(60))}))

    @workflow
    async def order(run: AsyncRun) -> list[str]:
        return [await run.decide("plan", choose), str(await run.perform(post(), key="k"))]

    async def play() -> list[str]:
        async with AsyncEngine(journal, workflows=[order], clock=service.clock, budget=PATIENT) as engine:
            assert await engine.run("r", order) == ["plan", "done"]
            return await engine.run("r", order)

    assert asyncio.run(play()) == ["plan", "done"]
    assert (service.gaps, service.keys, len(asked)) == ([5, 60], ["k", "k", "k~2"], 3)


def test_branches_that_retry_return_in_the_recorded_order(journal: Journal) -> None:
    slow, fast = Service(Busy(queue=1), "slow"), Service(away(), "fast")
    slow.clock = fast.clock = clock = ManualClock()
    slow_post = slow.effect(retry=Retry(on={Busy: Retry(wait=wait_fixed(60))}))
    fast_post = fast.effect(retry=Retry(wait=wait_fixed(1)))
    orders: list[list[str]] = []

    @workflow
    def order(run: Run) -> list[str]:
        came: list[str] = []
        orders.append(came)

        def one(branch: Run, post: Any) -> str:
            came.append(str(branch.perform(post())))
            return came[-1]

        told = run.gather(lambda b: one(b, slow_post), lambda b: one(b, fast_post))
        run.sleep(timedelta(hours=1))
        return [*told]

    with Engine(journal, workflows=[order], clock=clock, budget=Budget(max_wait=timedelta(minutes=10))) as engine:
        for _ in range(2):
            with pytest.raises(errors.TimerPending):
                engine.run("r", order)
        clock.advance(timedelta(hours=1))
        assert engine.run("r", order) == ["slow", "fast"]
    assert orders[1:] == [orders[0]] * 2


def test_no_entry_has_a_retrys_fields_where_nobody_asked_for_one(journal: Journal) -> None:
    service = Service(TimeoutError(), "done")
    order = performing(service.effect())
    with Engine(journal, workflows=[order], clock=service.clock, budget=PATIENT) as engine:
        assert engine.run("r", order) == "done"
        [intent], [_, *_] = of(Intent, engine), of(Attempt, engine)
        assert (intent.attempts_max, intent.attempts_until_us) == (None, None)
        assert {(entry.pause_us, entry.gives_up, entry.answer.cause) for entry in of(Observation, engine)} == {(None, False, "")}
