"""The promises of design and semantics, as a user of Engine meets them, on every store."""

from __future__ import annotations

import contextlib
import logging
import sqlite3
import threading
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import pytest

from recovery import Answer, Applied, Call, Engine, Environment, Rejected, Run, contracts, effect, errors, workflow
from recovery.clocks import SystemClock
from recovery.core.entries import Attempt, Intent, Settled, Status, Verdict
from recovery.core.ids import Epoch
from recovery.core.policy import Budget, Lease
from recovery.ports import Evidence, Journal
from recovery.testing import ManualClock

from .world import DAY, QUICK, Killed, OutOfStock, Shop, keyed, kinds, once


def test_i2_a_settled_run_returns_its_original_outcome_without_acting(journal: Journal) -> None:
    shop = Shop()
    reserve = shop.effect(keyed())

    @workflow
    def order(run: Run, units: int) -> int:
        return run.perform(reserve(units=units), key="k1")

    with Engine(journal, workflows=[order]) as engine:
        assert engine.run("r", order, 2) == 1
        before = engine.history("r")
        assert engine.run("r", order, 2) == 1
        assert engine.recover("r").result() == 1
        assert engine.get("r").result() == 1
        assert engine.history("r") == before
    assert (shop.stock, shop.sent["k1"]) == (8, 1)


def test_one_effect_is_two_rows_on_the_happy_path(journal: Journal) -> None:
    reserve = Shop().effect(keyed())

    @workflow
    def order(run: Run) -> int:
        return run.perform(reserve(units=2))

    with Engine(journal, workflows=[order]) as engine:
        engine.run("r", order)
        history = engine.history("r")
    assert kinds(history) == ["opened", "intent", "settled", "settled"]
    intent, settled = history[1], history[2]
    assert isinstance(intent, Intent)
    assert intent.attempt is not None
    assert isinstance(settled, Settled)
    assert settled.observation is not None
    assert (settled.row, settled.reason) == ("receipt-original", "original-receipt")
    assert "A1" in settled.assumptions  # I3


def test_i1_a_lost_reply_is_recovered_by_the_same_key_and_not_by_a_second_effect(journal: Journal) -> None:
    shop = Shop(fail=once(Killed()))
    reserve = shop.effect(keyed())

    @workflow
    def order(run: Run) -> int:
        return run.perform(reserve(units=2), key="reservation-1")

    with Engine(journal, workflows=[order]) as engine:
        with pytest.raises(Killed):
            engine.run("r", order)
        assert engine.get("r").status is Status.RUNNING
        with pytest.raises(errors.RunUnsettled):
            engine.get("r").result()
        recovered = engine.recover("r")
    assert recovered.result() == 1
    assert [verdict.action for verdict in recovered.verdicts] == ["resend", "adopt"]
    assert (shop.stock, shop.executions["reservation-1"], shop.sent["reservation-1"]) == (8, 1, 2)


def test_a_derived_key_is_the_same_on_every_attempt(journal: Journal) -> None:
    shop = Shop(fail=once(Killed()))
    reserve = shop.effect(keyed())

    @workflow
    def order(run: Run) -> int:
        return run.perform(reserve(units=2))

    with Engine(journal, workflows=[order]) as engine:
        with pytest.raises(Killed):
            engine.run("r", order)
        engine.recover("r")
    assert list(shop.sent.values()) == [2]
    assert shop.stock == 8


def test_an_unknown_reply_is_waited_out_and_sent_again_while_the_run_lives(
    journal: Journal, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, logger="recovery")
    shop = Shop(fail=once(ConnectionResetError()))
    reserve = shop.effect(keyed())

    @workflow
    def order(run: Run) -> int:
        return run.perform(reserve(units=2), key="k")

    with Engine(journal, workflows=[order]) as engine:
        assert engine.run("r", order) == 1
        assert kinds(engine.history("r")) == ["opened", "intent", "observation", "verdict", "attempt", "settled", "settled"]
    assert (shop.stock, shop.executions["k"], shop.sent["k"]) == (8, 1, 2)
    [waiting] = [record for record in caplog.records if record.name == "recovery.waiting"]  # once, however many naps it took
    assert "seconds=" in waiting.getMessage()


def test_s15_a_down_environment_leaves_the_run_unresolved_until_it_is_back(journal: Journal) -> None:
    shop = Shop(fail=once(Killed()))
    reserve = shop.effect(keyed())

    @workflow
    def order(run: Run) -> int:
        return run.perform(reserve(units=2), key="k")

    with Engine(journal, workflows=[order], budget=QUICK, clock=ManualClock()) as engine:  # twenty silences back off for seconds
        with pytest.raises(Killed):
            engine.run("r", order)
        shop.down = True
        for _ in range(20):
            recovered = engine.recover("r")
            assert (recovered.status, recovered.exit_code) == (Status.WAITING, errors.ExitCode.UNRESOLVED)
            assert recovered.next_look is not None
        shop.down = False
        with pytest.raises(errors.Unresolved, match="Nothing is lost"):
            recovered.result()
        assert engine.recover("r", budget=Budget()).result() == 1
    assert (shop.stock, shop.executions["k"]) == (8, 1)


def test_i7_looking_again_without_news_appends_and_sends_nothing(journal: Journal) -> None:
    shop = Shop(fail=once(Killed()))
    reserve = shop.effect(contracts.Opaque())

    @workflow
    def order(run: Run) -> int:
        return run.perform(reserve(units=2), key="k")

    with Engine(journal, workflows=[order]) as engine:
        with pytest.raises(Killed):
            engine.run("r", order)
        assert engine.recover("r").status is Status.IN_DOUBT
        before, sent = engine.history("r"), shop.sent["k"]
        again = engine.recover("r")
        assert (again.status, again.exit_code) == (Status.IN_DOUBT, errors.ExitCode.IN_DOUBT)
        assert engine.history("r") == before
        assert shop.sent["k"] == sent == 1
        with pytest.raises(errors.EffectInDoubt, match="may have happened"):
            engine.run("r", order)


def test_an_opaque_effect_that_fails_in_an_unknown_way_parks_at_once(journal: Journal) -> None:
    shop = Shop(fail=once(TimeoutError()))
    reserve = shop.effect(contracts.Opaque())

    @workflow
    def order(run: Run) -> int:
        return run.perform(reserve(units=2), key="k")

    with Engine(journal, workflows=[order]) as engine, pytest.raises(errors.EffectInDoubt, match="opaque"):
        engine.run("r", order)
    assert shop.sent["k"] == 1


def test_a_probeable_effect_is_asked_first_and_found(journal: Journal) -> None:
    shop = Shop(fail=once(Killed()))
    reserve = shop.effect(contracts.Probeable(settle_window=timedelta(minutes=1)), probe=True)

    @workflow
    def order(run: Run) -> int:
        return run.perform(reserve(units=2), key="k")

    with Engine(journal, workflows=[order]) as engine:
        with pytest.raises(Killed):
            engine.run("r", order)
        recovered = engine.recover("r")
    assert recovered.result() == 1
    assert [verdict.action for verdict in recovered.verdicts] == ["ask", "adopt"]
    assert shop.sent["k"] == 1


def test_an_absence_inside_the_settle_window_sends_nothing(journal: Journal) -> None:
    shop = Shop()
    reserve = shop.effect(contracts.Probeable(settle_window=timedelta(minutes=1)), probe=True)
    shop.down = True  # what is sent now never arrives, and the worker dies on it

    @effect(reserve.contract, name="reserve", environment=reserve.environment, timeout=timedelta(seconds=1))
    def lost(call: Call, *, units: int) -> int:
        raise Killed

    @lost.probe
    def find(call: Call, *, units: int) -> Answer[int]:
        return shop.find(call)

    @workflow
    def order(run: Run) -> int:
        return run.perform(lost(units=2), key="k")

    with Engine(journal, workflows=[order], budget=QUICK) as engine:
        with pytest.raises(Killed):
            engine.run("r", order)
        recovered = engine.recover("r")
        assert (recovered.status, recovered.exit_code) == (Status.WAITING, errors.ExitCode.UNRESOLVED)
        assert recovered.next_look is not None
        before = engine.history("r")
        engine.recover("r")
        assert engine.history("r") == before  # I7: the named time has not come
    assert shop.sent["k"] == 0


def test_a_rejection_is_raised_as_its_decoded_copy_on_the_first_run_and_ever_after(journal: Journal) -> None:
    shop = Shop(stock=1)
    reserve = shop.effect(keyed())
    caught: list[OutOfStock] = []

    @workflow
    def order(run: Run) -> str:
        try:
            run.perform(reserve(units=2), key="k")
        except OutOfStock as error:
            caught.append(error)
            return f"only {error.available}"
        return "enough"

    with Engine(journal, workflows=[order]) as engine:
        assert engine.run("r", order) == "only 1"
        shop.stock = 10
        assert engine.run("r", order) == "only 1"
    assert caught == [OutOfStock(sku="FILTER-A", available=1)]
    assert caught[0] is not shop.receipts["k"]
    assert shop.executions["k"] == 1


def test_attempt_returns_a_rejection_as_a_value(journal: Journal) -> None:
    reserve = Shop(stock=3).effect(keyed())

    @workflow
    def order(run: Run) -> list[int]:
        first = run.attempt(reserve(units=2))
        second = run.attempt(reserve(units=2))
        assert isinstance(first, Applied)
        assert isinstance(second, Rejected)
        assert isinstance(second.error, OutOfStock)
        return [first.value, second.error.available]

    with Engine(journal, workflows=[order]) as engine:
        assert engine.run("r", order) == [1, 1]


def test_an_uncaught_rejection_settles_the_run_as_failed(journal: Journal) -> None:
    reserve = Shop(stock=1).effect(keyed())

    @workflow
    def order(run: Run) -> int:
        return run.perform(reserve(units=2))

    with Engine(journal, workflows=[order]) as engine:
        for _ in range(2):
            with pytest.raises(errors.RunFailed, match="OutOfStock"):
                engine.run("r", order)
        assert engine.recover("r").exit_code is errors.ExitCode.FAILED


def test_a_workflows_own_exception_is_final(journal: Journal) -> None:
    calls: list[int] = []

    @workflow
    def order(run: Run) -> int:
        calls.append(1)
        raise ZeroDivisionError("by hand")

    with Engine(journal, workflows=[order]) as engine:
        for _ in range(2):
            with pytest.raises(errors.RunFailed, match="ZeroDivisionError: by hand"):
                engine.run("r", order)
    assert calls == [1]


@pytest.mark.parametrize("leaves", [KeyboardInterrupt, SystemExit])
def test_interruption_leaves_the_run_open_and_free(journal: Journal, leaves: type[BaseException]) -> None:
    left = [leaves()]

    @workflow
    def order(run: Run) -> int:
        if left:
            raise left.pop()
        return 7

    with Engine(journal, workflows=[order]) as engine:
        with pytest.raises(leaves):
            engine.run("r", order)
        [info] = engine.list()
        assert (info.status, info.owner, info.orphaned) == (Status.RUNNING, None, True)
        assert engine.run("r", order) == 7


def test_a_decision_is_made_once_even_if_the_run_is_not(journal: Journal) -> None:
    shop, asked = Shop(fail=once(Killed())), []
    reserve = shop.effect(keyed())

    def choose(question: str) -> int:
        asked.append(question)
        return len(asked) + 1

    @workflow
    def order(run: Run) -> int:
        units = run.decide("plan", choose, "how many?")
        run.perform(reserve(units=units), key="k")
        return units

    with Engine(journal, workflows=[order]) as engine:
        with pytest.raises(Killed):
            engine.run("r", order)
        assert engine.recover("r").result() == 2
    assert asked == ["how many?"]


def test_a_decisions_failure_that_the_workflow_goes_on_with_is_recorded_and_raised_again(journal: Journal) -> None:
    asked: list[int] = []
    shop = Shop(fail=once(Killed()))
    reserve = shop.effect(keyed())

    def choose() -> int:
        asked.append(1)
        raise RuntimeError("no idea")

    @workflow
    def order(run: Run) -> str:
        try:
            return str(run.decide("plan", choose))
        except errors.DecisionFailed as error:
            run.perform(reserve(units=2), key="k")
            return f"{error.error}: {error.message}"

    with Engine(journal, workflows=[order]) as engine:
        with pytest.raises(Killed):
            engine.run("r", order)
        assert kinds(engine.history("r")) == ["opened", "decision", "intent"]
        assert engine.recover("r").result() == "RuntimeError: no idea"
    assert asked == [1]
    assert shop.executions["k"] == 1


def test_a_run_that_ends_with_a_failed_decision_stays_open_to_decide_again(journal: Journal) -> None:
    """A model that was down for a moment is no outcome of the run."""
    answers: list[int | Exception] = [ConnectionError("429"), 2]
    shop = Shop()
    reserve = shop.effect(keyed())

    def choose() -> int:
        answer = answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    @workflow
    def order(run: Run) -> int:
        return run.perform(reserve(units=run.decide("plan", choose)), key="k")

    with Engine(journal, workflows=[order]) as engine:
        with pytest.raises(errors.DecisionFailed, match=r"ConnectionError: 429\. Nothing was decided"):
            engine.run("r", order)
        [info] = engine.list()
        assert (info.status, info.orphaned) == (Status.RUNNING, True)
        assert kinds(engine.history("r")) == ["opened"]
        assert engine.recover("r").result() == 1
    assert shop.stock == 8


def test_a_failed_decision_that_was_caught_is_part_of_the_ending(journal: Journal) -> None:
    def choose() -> int:
        raise RuntimeError("no idea")

    @workflow
    def order(run: Run) -> str:
        try:
            run.decide("plan", choose)
        except errors.DecisionFailed:
            return "by hand"
        return "decided"

    with Engine(journal, workflows=[order]) as engine:
        assert engine.run("r", order) == "by hand"
        assert kinds(engine.history("r")) == ["opened", "decision", "settled"]
        assert engine.recover("r").result() == "by hand"


def test_an_effect_that_is_bound_and_never_performed_is_said(journal: Journal) -> None:
    shop = Shop()
    reserve = shop.effect(keyed())

    @workflow
    def order(run: Run) -> int:
        reserve(units=2)
        return run.perform(reserve(units=1), key="k")

    with Engine(journal, workflows=[order]) as engine, pytest.warns(RuntimeWarning, match="'reserve' was bound .* never performed"):
        assert engine.run("r", order) == 1
    assert shop.stock == 9


def test_an_effect_is_bound_before_it_is_performed(journal: Journal) -> None:
    reserve = Shop().effect(keyed())

    @workflow
    def order(run: Run) -> int:
        return run.perform(reserve)  # type: ignore[arg-type]

    with Engine(journal, workflows=[order]) as engine:
        with pytest.raises(errors.DefinitionError, match=r"run.perform\(reserve\(\.\.\.\)\)"):
            engine.run("r", order)
        assert engine.get("r").status is Status.RUNNING


def test_what_get_raises_has_the_exit_code_of_the_status(journal: Journal) -> None:
    shop = Shop(fail=once(TimeoutError()))
    reserve = shop.effect(contracts.Opaque())

    @workflow
    def order(run: Run) -> int:
        return run.perform(reserve(units=2), key="k")

    with Engine(journal, workflows=[order]) as engine:
        with pytest.raises(errors.EffectInDoubt):
            engine.run("r", order)
        assert engine.get("r").exit_code is errors.ExitCode.IN_DOUBT
        with pytest.raises(errors.RunInDoubt):
            engine.get("r").result()


@pytest.mark.parametrize("wrong", [
    lambda: Budget(attempts=-1), lambda: Budget(probes=-1), lambda: Budget(max_wait=timedelta(-1)), lambda: Budget(backoff=timedelta(0)),
    lambda: Lease(renew_every=timedelta(0)), lambda: Lease(term=timedelta(seconds=1), renew_every=timedelta(seconds=1)),
])  # fmt: skip
def test_a_policy_that_cannot_work_is_refused(wrong: Callable[[], object]) -> None:
    with pytest.raises(errors.DefinitionError):
        wrong()


def test_i9_doubt_cannot_be_swallowed(journal: Journal) -> None:
    shop = Shop(fail=once(TimeoutError()))
    first, second = shop.effect(contracts.Opaque()), Shop()
    then = second.effect(keyed())

    @workflow
    def order(run: Run) -> str:
        with contextlib.suppress(BaseException):
            run.perform(first(units=2), key="k")
        try:
            run.perform(then(units=1), key="after")
        except BaseException:  # user code that swallows everything is what is tested
            pass
        finally:
            run.decide("more", lambda: 1)
        return "all is well"

    with Engine(journal, workflows=[order]) as engine:
        with pytest.raises(errors.EffectInDoubt):
            engine.run("r", order)
        assert engine.get("r").status is Status.IN_DOUBT
        assert "decision" not in kinds(engine.history("r"))
    assert second.sent["after"] == 0


def test_i9_a_swallowed_interruption_lets_no_later_step_start(journal: Journal) -> None:
    shop, second = Shop(fail=once(KeyboardInterrupt())), Shop()
    reserve, then = shop.effect(keyed()), second.effect(keyed())

    @workflow
    def order(run: Run) -> int:
        try:
            return run.perform(reserve(units=2), key="k")
        except KeyboardInterrupt:
            return run.perform(then(units=1), key="after")

    with Engine(journal, workflows=[order]) as engine:
        with pytest.raises(errors.EffectInterrupted, match="KeyboardInterrupt"):
            engine.run("r", order)
        assert engine.recover("r").result() == 1
    assert (shop.executions["k"], second.sent["after"]) == (1, 0)


def test_another_input_or_workflow_under_one_run_id_is_refused_before_anything_happens(journal: Journal) -> None:
    shop = Shop()
    reserve = shop.effect(keyed())

    @workflow
    def order(run: Run, units: int) -> int:
        return run.perform(reserve(units=units))

    @workflow
    def other(run: Run, units: int) -> int:
        return run.perform(reserve(units=units))

    with Engine(journal, workflows=[order, other]) as engine:
        engine.run("r", order, 2)
        before = engine.history("r")
        with pytest.raises(errors.RunInputDiffers, match="another input"):
            engine.run("r", order, 3)
        with pytest.raises(errors.RunInputDiffers, match="another workflow"):
            engine.run("r", other, 2)
        assert engine.history("r") == before
    assert shop.stock == 8


def test_i5_one_business_key_has_one_owner_over_all_runs(journal: Journal) -> None:
    shop = Shop()
    reserve = shop.effect(keyed())

    @workflow
    def order(run: Run) -> int:
        return run.perform(reserve(units=2), key="shared")

    with Engine(journal, workflows=[order]) as engine:
        assert engine.run("first", order) == 1
        with pytest.raises(errors.RunFailed, match="'first', step reserve#1"):
            engine.run("second", order)
        assert "intent" not in kinds(engine.history("second"))
    assert shop.sent["shared"] == 1


def test_a_live_run_is_refused_and_its_owner_named(journal: Journal) -> None:
    inside, go_on = threading.Event(), threading.Event()

    @workflow
    def order(run: Run) -> int:
        inside.set()
        assert go_on.wait(30)
        return 7

    with Engine(journal, workflows=[order]) as engine:
        outcome: list[int] = []
        worker = threading.Thread(target=lambda: outcome.append(engine.run("r", order)))
        worker.start()
        assert inside.wait(30)
        try:
            with pytest.raises(errors.LeaseUnavailable, match="owned by process"):
                engine.recover("r")
        finally:
            go_on.set()
            worker.join()
        assert outcome == [7]


def test_a_live_run_can_be_waited_for(journal: Journal) -> None:
    inside, waited, go_on = threading.Event(), threading.Event(), threading.Event()

    @workflow
    def order(run: Run) -> int:
        inside.set()
        assert go_on.wait(30)
        return 7

    def progress(*_: object) -> None:
        waited.set()
        go_on.set()

    with Engine(journal, workflows=[order]) as engine:
        worker = threading.Thread(target=engine.run, args=("r", order))
        worker.start()
        assert inside.wait(30)
        recovered = engine.recover("r", wait_for_owner=timedelta(seconds=30), progress=progress)
        worker.join()
    assert waited.is_set()
    assert recovered.result() == 7


def test_unknown_and_invalid_run_ids(journal: Journal) -> None:
    with Engine(journal) as engine:
        for ask in (engine.recover, engine.get, engine.history):
            with pytest.raises(errors.RunNotFound, match="no run 'nobody'"):
                ask("nobody")
        with pytest.raises(errors.InvalidName):
            engine.recover("no spaces")


def test_an_engine_without_the_workflow_changes_nothing(journal: Journal) -> None:
    left = [Killed()]

    @workflow
    def order(run: Run) -> int:
        if left:
            raise left.pop()
        return 7

    engine = Engine(journal, workflows=[order])
    with pytest.raises(Killed):
        engine.run("r", order)
    with Engine(journal) as bare, pytest.raises(errors.WorkflowUnknown, match="'order'"):
        bare.recover("r")
    assert engine.run("r", order) == 7
    with Engine(journal) as bare:
        assert bare.recover("r").value == 7  # settled: plain JSON is enough
    engine.close()


def test_a_result_that_cannot_be_stored_leaves_the_run_open_for_better_code(journal: Journal) -> None:
    shop = Shop()
    reserve = shop.effect(keyed())
    results: list[object] = [float("nan"), 1.5]

    @workflow
    def order(run: Run) -> float:
        run.perform(reserve(units=2), key="k")
        return results.pop(0)  # type: ignore[return-value]

    with Engine(journal, workflows=[order]) as engine:
        with pytest.raises(errors.ValueNotStorable):
            engine.run("r", order)
        assert engine.get("r").status is Status.RUNNING
        assert engine.run("r", order) == 1.5
    assert shop.sent["k"] == 1


def test_w15_an_outcome_that_cannot_be_stored_parks_as_applied(journal: Journal) -> None:
    sent: list[str] = []

    @effect(keyed())
    def measure(call: Call) -> float:
        sent.append(call.key)
        return float("inf")

    @workflow
    def order(run: Run) -> float:
        return run.perform(measure())

    with Engine(journal, workflows=[order]) as engine:
        with pytest.raises(errors.EffectInDoubt, match="value-unknown"):
            engine.run("r", order)
        assert engine.recover("r").status is Status.IN_DOUBT
    assert len(sent) == 1


# -- divergence --------------------------------------------------------------------------------------------------------


def interrupted(journal: Journal, shop: Shop, units: int = 2) -> None:
    """A run `r` of a workflow `order` that was killed in the middle of its effect."""
    reserve = shop.effect(keyed())
    shop.fail = once(Killed())

    @workflow(name="order")
    def order(run: Run) -> int:
        run.decide("plan", lambda: units)
        return run.perform(reserve(units=units), key="k")

    with Engine(journal, workflows=[order]) as engine, pytest.raises(Killed):
        engine.run("r", order)


def diverging(name: str, shop: Shop) -> object:
    reserve = shop.effect(keyed())

    @effect(keyed(), name="release")
    def release(call: Call, *, units: int) -> int:
        raise AssertionError

    def other_arguments(run: Run) -> int:
        run.decide("plan", lambda: 2)
        return run.perform(reserve(units=3), key="k")

    def other_key(run: Run) -> int:
        run.decide("plan", lambda: 2)
        return run.perform(reserve(units=2), key="other")

    def other_effect(run: Run) -> int:
        run.decide("plan", lambda: 2)
        return run.perform(release(units=2), key="k", name="reserve")

    def other_order(run: Run) -> int:
        return run.perform(reserve(units=2), key="k")

    def other_kind(run: Run) -> int:
        run.perform(reserve(units=2), key="k", name="plan")
        return 0

    def ends_early(run: Run) -> int:
        return run.decide("plan", lambda: 2)

    bodies = [other_arguments, other_key, other_effect, other_order, other_kind, ends_early]
    return workflow(name="order")({body.__name__: body for body in bodies}[name])


@pytest.mark.parametrize("name", ["other_arguments", "other_key", "other_effect", "other_order", "other_kind", "ends_early"])
def test_s07_a_workflow_that_no_longer_fits_stops_before_sending(journal: Journal, name: str) -> None:
    shop = Shop()
    interrupted(journal, shop)
    changed = diverging(name, shop)
    with Engine(journal, workflows=[changed]) as engine:  # type: ignore[list-item]
        recovered = engine.recover("r")
        assert (recovered.status, recovered.exit_code) == (Status.DIVERGED, errors.ExitCode.DIVERGED)
        assert isinstance(recovered.error, errors.Diverged)
        assert shop.sent["k"] == 1
        last = engine.history("r")[-1]
        assert isinstance(last, Verdict)
        assert last.action == "diverge"
        before = engine.history("r")
        assert engine.recover("r").status is Status.DIVERGED
        assert engine.history("r") == before


def test_a_diverged_run_continues_with_the_code_that_fits(journal: Journal) -> None:
    shop = Shop()
    interrupted(journal, shop)
    with Engine(journal, workflows=[diverging("other_arguments", shop)]) as engine:  # type: ignore[list-item]
        assert engine.recover("r").status is Status.DIVERGED
    reserve = shop.effect(keyed())

    @workflow(name="order")
    def order(run: Run) -> int:
        run.decide("plan", lambda: 2)
        return run.perform(reserve(units=2), key="k")

    with Engine(journal, workflows=[order]) as engine:
        assert engine.recover("r").result() == 1
    assert (shop.stock, shop.executions["k"]) == (8, 1)


def test_two_effects_of_one_name_have_two_identities(journal: Journal) -> None:
    shop = Shop()
    reserve = shop.effect(keyed())

    @workflow
    def order(run: Run) -> list[int]:
        return [run.perform(reserve(units=1)), run.perform(reserve(units=1))]

    with Engine(journal, workflows=[order]) as engine:
        assert engine.run("r", order) == [1, 2]
        steps = [entry.step for entry in engine.history("r") if isinstance(entry, Intent)]
    assert steps == ["reserve#1", "reserve#2"]
    assert len(shop.sent) == 2


def test_a_window_that_is_over_is_not_sent_into(journal: Journal) -> None:
    shop = Shop(fail=once(Killed()))
    short = contracts.Keyed(window=timedelta(seconds=2), settle_window=timedelta(seconds=1), clock_error=timedelta(seconds=1))
    reserve = shop.effect(short)

    @workflow
    def order(run: Run) -> int:
        return run.perform(reserve(units=2), key="k")

    with Engine(journal, workflows=[order]) as engine:
        with pytest.raises(Killed):
            engine.run("r", order)
        recovered = engine.recover("r")
    assert recovered.status is Status.IN_DOUBT
    assert shop.sent["k"] == 1
    assert timedelta(seconds=2) < DAY


def test_after_a_restore_a_keyed_step_is_asked_before_it_is_sent_and_parks_without_a_match(tmp_path: Path) -> None:
    """The intent's first send is not known to be the first: the lost time may have sent it."""
    url = f"sqlite:///{tmp_path / 'recovery.db'}"
    shop = Shop(fail=once(Killed()))
    reserve = shop.effect(keyed(lookup=contracts.Lookup()), probe=True)

    @workflow
    def order(run: Run) -> int:
        return run.perform(reserve(units=2), key="k")

    with Engine(url, workflows=[order]) as engine:
        with pytest.raises(Killed):
            engine.run("r", order)
        shop.receipts.clear()  # the environment forgot, too
        with sqlite3.connect(tmp_path / "recovery.db") as connection:
            connection.execute("UPDATE meta SET incarnation = incarnation + 1")
        connection.close()
        recovered = engine.recover("r")
        assert recovered.status is Status.IN_DOUBT
        assert [verdict.action for verdict in recovered.verdicts] == ["ask", "park"]
        assert engine.list()[0].epoch == "1.1"
    assert shop.sent["k"] == 1


def test_a_usage_error_in_a_workflow_leaves_the_run_open_for_better_code(journal: Journal) -> None:
    """Nothing happened, so there is no outcome to settle; the corrected workflow ends the same run."""
    shop = Shop()
    reserve = shop.effect(keyed())
    measure: list[float] = [float("nan"), 2.0]

    @effect(keyed(lookup=contracts.Lookup()), name="weigh")
    def weigh(call: Call, *, kilograms: float) -> float:
        return kilograms

    @effect(keyed(), name="weigh")
    def weigh_completely(call: Call, *, kilograms: float) -> float:
        return kilograms

    bodies = [weigh, weigh, weigh_completely]

    @workflow
    def order(run: Run) -> float:
        body = bodies[0]
        run.perform(reserve(units=2), key="k")
        return run.perform(body(kilograms=measure[0]), key="w")

    with Engine(journal, workflows=[order]) as engine:
        with pytest.raises(errors.ValueNotStorable, match="kilograms"):
            engine.run("r", order)
        measure.pop(0)
        with pytest.raises(errors.DefinitionError, match="has no probe"):
            engine.run("r", order)
        assert engine.get("r").status is Status.RUNNING
        del bodies[:2]
        assert engine.run("r", order) == 2.0
    assert shop.sent["k"] == 1


def test_a_value_that_the_new_code_cannot_read_leaves_the_run_open_for_the_code_that_can(journal: Journal) -> None:
    """Settling it as failed would end a run whose only fault is that it was recovered with other code."""
    leave = once(Killed())

    def plan() -> int:
        return 3

    def plan_otherwise() -> list[str]:
        return []

    @workflow(name="order")
    def before(run: Run, units: int) -> int:
        chosen = run.decide("plan", plan)
        leave()
        return chosen

    @workflow(name="order")
    def after(run: Run, units: int) -> str:
        with contextlib.suppress(Exception):
            return str(run.decide("plan", plan_otherwise))
        return "went on without its plan"

    @workflow(name="order")
    def other_input(run: Run, units: list[int]) -> int:
        return 0

    with Engine(journal, workflows=[before]) as engine, pytest.raises(Killed):
        engine.run("r", before, 1)
    for wrong in (after, other_input):
        with Engine(journal, workflows=[wrong]) as engine:
            with pytest.raises(errors.ValueUnreadable):
                engine.recover("r")
            assert engine.get("r").status is Status.RUNNING
    with Engine(journal, workflows=[before]) as engine:
        assert engine.recover("r").result() == 3


def test_a_step_that_left_no_record_is_followed_by_none(journal: Journal) -> None:
    """The next step's record would stand where a replay meets this one: the run would diverge from its own code."""
    shop = Shop()
    reserve = shop.effect(keyed())

    @workflow
    def first(run: Run) -> int:
        return run.perform(reserve(units=1), key="taken")

    @workflow
    def second(run: Run, goes_on: bool) -> int:
        try:
            run.perform(reserve(units=1), key="taken")
        except errors.KeyReused:
            if goes_on:
                return run.perform(reserve(units=1), key="another", name="instead")
        return 0

    with Engine(journal, workflows=[first, second]) as engine:
        engine.run("first", first)
        with pytest.raises(errors.KeyReused):
            engine.run("goes-on", second, goes_on=True)
        assert shop.sent["another"] == 0
        assert engine.get("goes-on").status is Status.RUNNING
        assert engine.run("ends", second, goes_on=False) == 0


def test_a_step_inside_a_deciding_function_is_refused_and_not_recorded(journal: Journal) -> None:
    reserve = Shop().effect(keyed())
    nested = [True]

    @workflow
    def order(run: Run) -> int:
        return run.decide("plan", (lambda: run.perform(reserve(units=1))) if nested[0] else (lambda: 2))

    with Engine(journal, workflows=[order]) as engine:
        with pytest.raises(errors.ConcurrentStep):
            engine.run("r", order)
        assert kinds(engine.history("r")) == ["opened"]
        nested[0] = False
        assert engine.run("r", order) == 2


def test_late_evidence_of_a_newer_version_is_refused_with_a_sentence(journal: Journal) -> None:
    @workflow
    def order(run: Run) -> int:
        return 1

    with Engine(journal, workflows=[order]) as engine:
        engine.run("r", order)
        journal.add_evidence(Evidence("r", "reserve#1", Epoch(0, 1), 1, "novelty", "{}"))
        with pytest.raises(errors.IncompatibleVersion, match="late evidence"):
            engine.recover("r")


def test_i9_a_scope_that_cannot_be_told_leaves_an_unsettled_effect_as_it_is(journal: Journal) -> None:
    """The run neither ends over it, which no later reader could fold, nor goes on behind it."""
    shop, second = Shop(fail=once(Killed())), Shop()
    reserve, then = shop.effect(contracts.Opaque()), second.effect(keyed())
    unknown = [False]

    def scope() -> str:
        if unknown[0]:
            raise ConnectionError
        return "account-1"

    @effect(contracts.Opaque(), environment=Environment("shop", scope=scope), name="reserve")
    def scoped(call: Call, *, units: int) -> int:
        return reserve.fn(call, units=units)  # type: ignore[no-any-return]

    @workflow
    def order(run: Run) -> int:
        with contextlib.suppress(errors.ScopeUnknown):
            return run.perform(scoped(units=1))
        return run.perform(then(units=1), key="after")

    with Engine(journal, workflows=[order]) as engine:
        with pytest.raises(Killed):
            engine.run("r", order)
        unknown[0] = True
        with pytest.raises(errors.ScopeUnknown, match="ConnectionError"):
            engine.recover("r")
        unknown[0] = False
        assert engine.recover("r").status is Status.IN_DOUBT
    assert second.sent["after"] == 0


def test_a_clock_that_was_set_back_does_not_open_a_window_again(journal: Journal) -> None:
    shop = Shop(fail=once(Killed()))
    reserve = shop.effect(keyed())
    hour_us = 3_600_000_000

    @workflow
    def order(run: Run) -> int:
        return run.perform(reserve(units=2), key="k")

    ahead = SystemClock(wall=lambda: 100 * hour_us, boot=lambda: 0)
    with Engine(journal, workflows=[order], clock=ahead) as engine, pytest.raises(Killed):
        engine.run("r", order)
    behind = SystemClock(wall=lambda: 40 * hour_us, boot=lambda: 0)
    with Engine(journal, workflows=[order], clock=behind) as engine:
        assert engine.recover("r").result() == 1
        attempts = [entry.sent_at_us for entry in engine.history("r") if isinstance(entry, Attempt)]
    assert attempts == [100 * hour_us]


def test_a_changed_version_may_send_other_bytes_and_so_sends_nothing_again(journal: Journal) -> None:
    """A5: where the environment does not compare requests under one key, only the code that sent the first bytes sends them again."""
    shop = Shop(fail=once(Killed()))
    reserve = shop.effect(keyed(mismatch_checked=False))

    def order(run: Run) -> int:
        return run.perform(reserve(units=2), key="k")

    first, second = (workflow(name="order", version=version)(order) for version in ("1", "2"))
    with Engine(journal, workflows=[first]) as engine, pytest.raises(Killed):
        engine.run("r", first)
    with Engine(journal, workflows=[second]) as engine:
        assert engine.recover("r").status is Status.IN_DOUBT
    assert shop.sent["k"] == 1
    with Engine(journal, workflows=[first]) as engine:
        assert engine.recover("r").result() == 1
    assert shop.executions["k"] == 1


@pytest.mark.parametrize(
    "damage", ["UPDATE contract SET body = replace(body, '\"fail_open\":true', '\"fail_open\":false')", "DELETE FROM run_contract"]
)
def test_a_contract_that_was_changed_or_lost_is_corruption(tmp_path: Path, damage: str) -> None:
    """It decides whether a key may be sent again, and stands outside the chain: only its digest vouches for it."""
    url = f"sqlite:///{tmp_path / 'recovery.db'}"
    shop = Shop(fail=once(Killed()))
    careful, trusting = shop.effect(keyed(fail_open=True)), shop.effect(keyed())
    chosen = [careful]

    @workflow
    def order(run: Run) -> int:
        return run.perform(chosen[0](units=2), key="k")

    with Engine(url, workflows=[order]) as engine:
        with pytest.raises(Killed):
            engine.run("r", order)
        with contextlib.closing(sqlite3.connect(tmp_path / "recovery.db")) as connection:
            assert connection.execute(damage).rowcount == 1
            connection.commit()
        chosen[0] = trusting
        with pytest.raises(errors.JournalCorrupt, match="entry 2: contract"):
            engine.recover("r")
    assert shop.sent["k"] == 1
