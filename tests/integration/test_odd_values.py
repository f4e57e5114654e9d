"""Texts, names, durations and values that user code and environments get wrong: each is an answer or a sentence, never a bug of ours,
and a run can always be ended by better code."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

import pytest
from pydantic import GetCoreSchemaHandler
from pydantic_core import CoreSchema, core_schema

from recovery import (
    Absent,
    Answer,
    Call,
    Engine,
    Environment,
    Found,
    InFlight,
    ReplyWas,
    Run,
    TurnedAway,
    Unreachable,
    contracts,
    effect,
    errors,
    workflow,
)
from recovery.codec import Codec
from recovery.core.entries import Decision, Status
from recovery.core.instants import moment
from recovery.core.policy import Budget, Lease
from recovery.ports import Journal
from recovery.testing.clock import ManualClock
from tests.integration.world import DAY, QUICK, Killed

ODD = "lone \ud800 surrogate, \x00, \x1b[31m"
ESCAPED = "lone \\ud800 surrogate, \x00, \x1b[31m"


class Odd(Exception):
    def __str__(self) -> str:
        return ODD


class Wordless(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no words")


class Incomparable:
    """A value like an array: its `==` has no truth."""

    def __eq__(self, other: object) -> Any:
        return self

    __hash__ = None  # type: ignore[assignment]

    def __bool__(self) -> bool:
        raise ValueError("ambiguous")

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        written = core_schema.plain_serializer_function_ser_schema(lambda _value: "x")
        return core_schema.no_info_plain_validator_function(lambda _text: cls(), serialization=written)


def test_a_failure_with_an_odd_message_is_kept(journal: Journal) -> None:
    @workflow
    def fails(run: Run) -> None:
        raise Odd

    with Engine(journal) as engine:
        for _ in range(2):
            with pytest.raises(errors.RunFailed) as failed:
                engine.run("r", fails)
            assert failed.value.message == ESCAPED


@pytest.mark.parametrize(("error", "message"), [(Odd, ESCAPED), (Wordless, "")])
def test_a_decision_that_fails_oddly_is_recorded_as_its_own_failure(journal: Journal, error: type[Exception], message: str) -> None:
    def choose() -> int:
        raise error

    @workflow
    def decides(run: Run) -> str:
        try:
            run.decide("d", choose)
        except errors.DecisionFailed as failed:
            return str(failed.error)
        return "no error"

    with Engine(journal) as engine:
        assert engine.run("r", decides).endswith(error.__name__)
        [decision] = [entry for entry in engine.history("r") if isinstance(entry, Decision)]
        assert decision.value == message


def _asked(journal: Journal, answer: Callable[[], Any]) -> Status:
    """Where a run stands after a worker died behind its effect and the probe gave that answer."""

    @effect(contracts.Probeable())
    def act(call: Call) -> int:
        raise Killed

    @act.probe
    def find(call: Call) -> Answer[int]:
        return answer()  # type: ignore[no-any-return]

    @workflow
    def acts(run: Run) -> int:
        return run.perform(act())

    with Engine(journal, budget=QUICK) as engine:
        with pytest.raises(Killed):
            engine.run("r", acts)
        return engine.recover("r").status


@pytest.mark.parametrize(
    ("answer", "status"),
    [
        (lambda: Unreachable(detail=ODD), Status.WAITING),
        (lambda: Found(1, detail=ODD), Status.COMPLETED),
        (lambda: Found(1, receipt=ODD), Status.WAITING),
        (lambda: Found(1, receipt=5), Status.WAITING),
        (lambda: Found(1, receipt=object()), Status.WAITING),
        (lambda: Found(1, fingerprint=object()), Status.WAITING),
        (lambda: Found(1, fingerprint=ODD), Status.WAITING),
        (lambda: Found(1, original="yes"), Status.WAITING),
        (lambda: Absent(raised=ODD), Status.WAITING),
        (lambda: Absent(raised=5), Status.WAITING),
        (lambda: Absent(raised="9" * 5000 + ".1"), Status.WAITING),
        (lambda: InFlight(retry_after=timedelta.max), Status.WAITING),
        (lambda: InFlight(retry_after=timedelta.min), Status.WAITING),
        (lambda: TurnedAway(retry_after=timedelta.max), Status.WAITING),
    ],
)
def test_an_odd_answer_proves_nothing_and_breaks_nothing(journal: Journal, answer: Callable[[], Any], status: Status) -> None:
    assert _asked(journal, answer) is status


def test_an_odd_reply_is_an_answer_too(journal: Journal) -> None:
    @effect(contracts.Keyed(window=DAY))
    def act(call: Call) -> int:
        raise ReplyWas(InFlight(retry_after=timedelta.max, detail=ODD))

    @workflow
    def acts(run: Run) -> int:
        return run.perform(act())

    with Engine(journal, budget=QUICK) as engine, pytest.raises(errors.Unresolved):
        engine.run("r", acts)


@pytest.mark.parametrize("answer", [InFlight, TurnedAway])
def test_an_environment_silences_a_run_for_a_day_at_most(answer: Any) -> None:
    clock = ManualClock()

    @effect(contracts.Keyed(window=7 * DAY))
    def act(call: Call) -> int:
        raise ReplyWas(answer(retry_after=timedelta(days=400)))

    @workflow
    def acts(run: Run) -> int:
        return run.perform(act())

    with Engine("memory://", budget=QUICK, clock=clock) as engine:
        with pytest.raises(errors.Unresolved):
            engine.run("r", acts)
        assert engine.get("r").next_look == moment(clock.wall_us()) + DAY


@pytest.mark.parametrize("scope", ["a\x00b", "a\ud800", "x" * 1001, "a\nb", 5, None, b"x"])
def test_a_scope_that_cannot_be_kept_is_refused_and_the_run_stays_open(journal: Journal, scope: Any) -> None:
    if not callable(scope):
        with pytest.raises(errors.InvalidName, match="scope of environment 'e'"):
            Environment("e", scope=scope)
    scopes = [scope, "fine"]

    @effect(contracts.Keyed(window=DAY), environment=Environment("e", scope=lambda: scopes.pop(0)))
    def act(call: Call) -> int:
        return 1

    @workflow
    def acts(run: Run) -> int:
        return run.perform(act())

    with Engine(journal) as engine:
        with pytest.raises(errors.InvalidName, match="scope of environment 'e'"):
            engine.run("r", acts)
        assert engine.run("r", acts) == 1


@pytest.mark.parametrize("name", [5, None, b"x"])
def test_a_name_that_is_no_text_is_refused_and_is_not_the_runs_own_failure(journal: Journal, name: Any) -> None:
    @effect(contracts.Keyed(window=DAY))
    def act(call: Call) -> int:
        return 1

    right: list[bool] = []

    @workflow
    def acts(run: Run) -> int:
        run.decide("d" if right else name, lambda: 1)
        return run.perform(act(), key="k" if right or name is None else name)

    with Engine(journal) as engine:
        with pytest.raises(errors.InvalidName):
            engine.run("r", acts)
        with pytest.raises(errors.InvalidName):
            engine.run(name, acts)
        right.append(True)
        assert engine.run("r", acts) == 1


@pytest.mark.parametrize("version", ["a\ud800", "", None, 5, "x" * 201])
def test_a_version_is_a_text(version: Any) -> None:
    def acts(run: Run) -> int:
        return 1

    if version == "":
        workflow(version=version)(acts)
        return
    with pytest.raises(errors.DefinitionError, match="version"):
        workflow(version=version)(acts)


def test_durations_without_end_are_times_all_the_same(journal: Journal) -> None:
    for_ever = timedelta.max

    with pytest.raises(errors.DefinitionError, match=r"State contracts\.FOR_EVER"):
        contracts.Keyed(window=for_ever)

    @effect(contracts.Keyed(window=contracts.FOR_EVER), timeout=for_ever)
    def act(call: Call) -> datetime:
        return call.send_until

    @workflow
    def acts(run: Run) -> bool:
        return run.perform(act()).year > 2500

    budget = Budget(max_wait=for_ever, backoff=for_ever, backoff_max=for_ever)
    with Engine(journal, lease=Lease(term=for_ever), budget=budget, wait_for_owner=for_ever) as engine:
        assert engine.run("r", acts)


def test_waiting_out_an_endless_settle_window_is_a_time_and_no_overflow(journal: Journal) -> None:
    @effect(contracts.Probeable(settle_window=timedelta.max))
    def act(call: Call) -> int:
        raise ConnectionError

    @act.probe
    def find(call: Call) -> Answer[int]:
        return Absent()

    @workflow
    def acts(run: Run) -> int:
        return run.perform(act())

    with Engine(journal, budget=QUICK) as engine:
        with pytest.raises((errors.Unresolved, errors.EffectInDoubt)):
            engine.run("r", acts)
        assert engine.recover("r").status in {Status.WAITING, Status.IN_DOUBT}


def test_a_value_that_cannot_be_compared_is_not_storable() -> None:
    with pytest.raises(errors.ValueNotStorable, match="cannot be compared with its copy"):
        Codec(Incomparable).encode(Incomparable())


def test_an_effect_whose_value_cannot_be_compared_was_applied_and_is_not_sent_again(journal: Journal) -> None:
    sent: list[str] = []

    @effect(contracts.Keyed(window=DAY))
    def act(call: Call) -> Incomparable:
        sent.append(call.key)
        return Incomparable()

    @workflow
    def acts(run: Run) -> int:
        run.perform(act())
        return 1

    with Engine(journal, budget=QUICK) as engine:
        with pytest.raises(errors.EffectInDoubt, match="applied-value-unknown"):
            engine.run("r", acts)
        engine.recover("r")
    assert len(sent) == 1


def test_a_result_that_cannot_be_compared_leaves_the_run_open(journal: Journal) -> None:
    @workflow
    def ends(run: Run) -> Incomparable:
        return Incomparable()

    with Engine(journal) as engine:
        with pytest.raises(errors.ValueNotStorable):
            engine.run("r", ends)
        assert engine.get("r").status is Status.RUNNING
