"""The machine, driven by hand: which operations it asks for, in which order, and what it does with what it is told."""

from __future__ import annotations

from collections.abc import Coroutine
from datetime import timedelta
from typing import Any

import pytest

from recovery.core import contracts
from recovery.core.effect_errors import EffectInDoubt, KeyReused, Unresolved
from recovery.core.entries import (
    Answered,
    AnswerKind,
    Attempt,
    Decision,
    Intent,
    Observation,
    Opened,
    OutcomeKind,
    Settled,
    Source,
    Status,
    Verdict,
)
from recovery.core.errors import ConcurrentStep, FencedOut, StoreUnavailable, TimerPending
from recovery.core.history import fold
from recovery.core.ids import Epoch
from recovery.core.machine import Machine, Unwind
from recovery.core.operations import Append, Ask, Cancel, Close, Decide, Decided, Now, Op, Send, Sleep, bracket_of
from recovery.core.policy import Budget
from recovery.core.request import Request

KEYED = contracts.Keyed(window=timedelta(hours=24))
OPAQUE = contracts.Opaque()
PROBEABLE = contracts.Probeable()
APPLIED = Answered(kind=AnswerKind.FOUND, value="R1")
OPENED = Opened(workflow="w", version="1", input={}, input_digest="d", at_us=0)


def machine(*entries: Any, deadline_us: int | None = 0, **more: Any) -> Machine:
    return Machine(history=fold("run", [OPENED, *entries]), epoch=Epoch(0, 1), budget=Budget(), deadline_us=deadline_us, **more)


def request(contract: contracts.Contract = KEYED, **more: Any) -> Request:
    fields: dict[str, Any] = {
        "effect": "reserve", "environment": "shop", "scope": "", "key": "k1", "fingerprint": "f1", "arguments": {"units": 2},
        "contract": contract, "timeout_us": 1_000_000, "can_probe": False, "can_close": False, "subject": "the call",
    }  # fmt: skip
    return Request(**(fields | more))


class Hand:
    """Feeds a procedure: answers Now from a counter, everything else from the script; keeps what was asked."""

    def __init__(self, *script: Any, now_us: int = 1_000) -> None:
        self.script = list(script)
        self.now_us = now_us
        self.asked: list[Op[Any]] = []

    def drive(self, procedure: Coroutine[Op[Any], Any, Any]) -> Any:
        feed, given = procedure.send, None
        while True:
            try:
                operation = feed(given)
            except StopIteration as stop:
                return stop.value
            feed, given = procedure.send, None
            if isinstance(operation, Now):
                given = self.now_us
                continue
            self.asked.append(operation)
            if isinstance(operation, Sleep):
                self.now_us = operation.until_us
            elif not isinstance(operation, Append) or (self.script and isinstance(self.script[0], Exception)):
                given = self.script.pop(0)
                if isinstance(given, BaseException):
                    feed = procedure.throw

    @property
    def names(self) -> list[str]:
        return [bracket_of(op) if isinstance(op, Append) else type(op).__name__ for op in self.asked]


def test_i4_the_intent_and_its_attempt_are_durable_before_the_send_is_asked_for() -> None:
    hand = Hand(APPLIED)
    settled = hand.drive(machine().perform("reserve#1", request()))
    assert hand.names == ["append.intent", "Send", "append.settled"]
    first = hand.asked[0]
    assert isinstance(first, Append)
    assert isinstance(first.entries[0], Intent)
    assert first.entries[0].attempt == hand.asked[1].attempt  # type: ignore[attr-defined]
    assert (settled.outcome, settled.value) == (OutcomeKind.APPLIED, "R1")


def test_i4_a_resend_is_durable_before_it_is_asked_for_with_the_observation_that_led_to_it() -> None:
    unknown = Answered(kind=AnswerKind.UNREACHABLE)
    hand = Hand(unknown, APPLIED)
    hand.drive(machine(deadline_us=None).perform("reserve#1", request()))
    assert hand.names == ["append.intent", "Send", "append.verdict", "Sleep", "append.attempt", "Send", "append.settled"]
    waited = hand.asked[2]
    assert isinstance(waited, Append)
    assert [type(entry) for entry in waited.entries] == [Observation, Verdict]
    assert waited.status is Status.WAITING


def test_an_attempt_without_an_answer_is_sent_again_at_once_under_the_same_key() -> None:
    hand = Hand(APPLIED, now_us=2_000)
    hand.drive(machine(crashed()).perform("reserve#1", request()))
    assert hand.names == ["append.attempt", "Send", "append.settled"]
    resend = hand.asked[1]
    assert isinstance(resend, Send)
    assert (resend.intent.key, resend.attempt.number, resend.attempt.purpose) == ("k1", 2, "resend")


def test_a_probeable_attempt_without_an_answer_is_asked_and_nothing_is_written_before_that() -> None:
    hand = Hand(APPLIED, now_us=2_000)
    hand.drive(machine(crashed(PROBEABLE)).perform("reserve#1", request(PROBEABLE, can_probe=True)))
    assert hand.names == ["Ask", "append.settled"]


def test_an_absence_that_is_not_final_is_left_to_a_later_look_and_said_once() -> None:
    absent = Answered(kind=AnswerKind.ABSENT)
    run = machine(crashed(PROBEABLE), deadline_us=2_000)
    hand = Hand(absent, now_us=2_000)
    with pytest.raises(Unwind) as unwound:
        hand.drive(run.perform("reserve#1", request(PROBEABLE, can_probe=True)))
    assert isinstance(unwound.value.error, Unresolved)
    assert hand.names == ["Ask", "append.verdict"]
    again = machine(*[crashed(PROBEABLE), *hand.asked[1].entries], deadline_us=2_000)  # type: ignore[attr-defined]
    later = Hand(now_us=3_000)
    with pytest.raises(Unwind):
        later.drive(again.perform("reserve#1", request(PROBEABLE, can_probe=True)))
    assert later.names == []  # I7


def test_an_opaque_attempt_without_an_answer_parks_and_poisons_the_run() -> None:
    run, hand = machine(crashed(OPAQUE)), Hand(now_us=2_000)
    with pytest.raises(Unwind) as unwound:
        hand.drive(run.perform("reserve#1", request(OPAQUE)))
    assert isinstance(unwound.value.error, EffectInDoubt)
    assert hand.names == ["append.verdict"]
    assert hand.asked[0].status is Status.IN_DOUBT  # type: ignore[attr-defined]
    with pytest.raises(Unwind):
        run.begin("anything")


def test_a_close_is_an_attempt_of_its_own() -> None:
    contract = contracts.Keyed(window=timedelta(hours=24), close=True, fail_open=False, lookup=contracts.Lookup())
    run = machine(crashed(contract), deadline_us=None)
    closed = Answered(kind=AnswerKind.CLOSED)
    late = 24 * 3_600_000_000 - 600_000_000  # past not_after, and a tombstone still proves
    hand = Hand(Answered(kind=AnswerKind.ABSENT), closed, now_us=late)
    settled = hand.drive(run.perform("reserve#1", request(contract, can_probe=True, can_close=True)))
    assert settled.outcome is OutcomeKind.NOT_EXECUTED
    close = next(op for op in hand.asked if isinstance(op, Close))
    assert close.attempt.purpose == "close"
    assert hand.names.index("append.attempt") < hand.names.index("Close")
    assert "Send" not in hand.names


def test_a_cancel_is_an_attempt_of_its_own() -> None:
    """It changes what is outside, unlike the probe in whose place it stands."""
    contract = contracts.Keyed(window=timedelta(hours=24), cancel_by_key=True, valid_for=timedelta(minutes=10))
    run = machine(crashed(contract), deadline_us=None)
    hand = Hand(Answered(kind=AnswerKind.GONE), now_us=3_600_000_000)
    settled = hand.drive(run.perform("reserve#1", request(contract, can_cancel=True)))
    assert (settled.outcome, settled.row) == (OutcomeKind.APPLIED_WITHOUT_VALUE, "gone")
    cancel = next(op for op in hand.asked if isinstance(op, Cancel))
    assert cancel.attempt.purpose == "cancel"
    assert hand.names.index("append.attempt") < hand.names.index("Cancel")
    assert settled.observation is not None
    assert (settled.observation.source, settled.observation.attempt) == (Source.CANCEL, cancel.attempt.number)
    assert not {"Send", "Ask"} & set(hand.names)


def test_a_recorded_outcome_is_returned_without_any_operation_but_the_clock() -> None:
    done = Settled(step="reserve#1", outcome=OutcomeKind.APPLIED, value="R1", at_us=3, observation=reply(APPLIED))
    hand = Hand()
    assert hand.drive(machine(crashed(), done).perform("reserve#1", request())) == done
    assert hand.names == []


def test_a_decision_is_durable_before_it_is_returned_and_replayed_without_asking() -> None:
    hand = Hand(Decided({"units": 2}))
    decision = hand.drive(machine().decide("plan#1", "f", "chooser"))
    assert hand.names == ["Decide", "append.decision"]
    replay = Hand()
    assert replay.drive(machine(decision).decide("plan#1", "f", "chooser")) == decision
    assert replay.names == []


@pytest.mark.parametrize(("recorded", "given"), [("", "f"), ("f", "")])
def test_a_decision_whose_arguments_have_no_form_is_checked_by_its_place_alone(recorded: str, given: str) -> None:
    decision = Decision(step="plan#1", fingerprint=recorded, value=1, at_us=1)
    assert Hand().drive(machine(decision).decide("plan#1", given, "chooser")) == decision


def test_a_decision_from_other_arguments_diverges() -> None:
    decision = Decision(step="plan#1", fingerprint="f", value=1, at_us=1)
    with pytest.raises(Unwind, match="no longer fits"):
        Hand().drive(machine(decision).decide("plan#1", "g", "chooser"))


@pytest.mark.parametrize("error", [
    FencedOut(run_id="run", owner="b", epoch="0.2", ours="0.1"),
    StoreUnavailable(url="sqlite://", problem="gone", fate="Whether it is stored is unknown"),
])  # fmt: skip
def test_a_refused_or_unknown_append_stops_the_run_before_anything_is_sent(error: Exception) -> None:
    run, hand = machine(), Hand(error)
    with pytest.raises(Unwind) as unwound:
        hand.drive(run.perform("reserve#1", request()))
    assert unwound.value.error is error
    assert hand.names == ["append.intent"]
    with pytest.raises(Unwind):
        run.begin("another")


def test_a_lost_key_is_the_workflows_to_hear_and_nothing_is_sent() -> None:
    lost = KeyReused(key="k1", environment="shop", scope="", owner_run="other", owner_step="reserve#1")
    run, hand = machine(), Hand(lost)
    with pytest.raises(KeyReused):
        hand.drive(run.perform("reserve#1", request()))
    assert hand.names == ["append.intent"]
    assert run.begin("another") == "another#1"


def test_steps_are_numbered_by_name_and_one_at_a_time() -> None:
    run = machine()
    assert run.begin("reserve") == "reserve#1"
    with pytest.raises(ConcurrentStep, match="reserve#1 was still under way"):
        run.begin("release")
    run.finish("reserve#1")
    assert [run.begin("release"), run.finish("release#1"), run.begin("reserve")] == ["release#1", None, "reserve#2"]


def test_recorded_steps_must_be_a_prefix_of_the_replayed_ones() -> None:
    decision = Decision(step="plan#1", fingerprint="f", value=1, at_us=1)
    with pytest.raises(Unwind, match="recorded step plan#1, attempted step other#1"):
        machine(decision).begin("other")
    with pytest.raises(Unwind, match="recorded step plan#1, attempted the end of the workflow"):
        machine(decision).check_complete()


def crashed(contract: contracts.Contract = KEYED) -> Intent:
    """An intent whose first attempt was durable when its worker died."""
    attempt = Attempt(step="reserve#1", number=1, purpose="send", sent_at_us=1, send_until_us=1_000_001, epoch="0.1")
    return Intent(
        step="reserve#1", effect="reserve", environment="shop", scope="", key="k1", fingerprint="f1", arguments={"units": 2},
        contract=contract.digest, timeout_us=1_000_000, at_us=1, attempt=attempt,
    )  # fmt: skip


def reply(answer: Answered) -> Observation:
    from recovery.core.entries import Source

    return Observation(step="reserve#1", source=Source.REPLY, asked_at_us=1, observed_at_us=2, answer=answer, attempt=1)


def test_the_operations_that_a_send_needs_are_exactly_these() -> None:
    """A new operation between the durable attempt and its send would be a new place to die in."""
    hand = Hand(APPLIED)
    hand.drive(machine().perform("reserve#1", request()))
    assert [type(op) for op in hand.asked] == [Append, Send, Append]
    assert not any(isinstance(op, Ask | Decide) for op in hand.asked)


# -- timers ------------------------------------------------------------------------------------------------------------


def test_a_timer_is_durable_before_the_wait_begins_and_its_end_with_what_builds_on_it() -> None:
    hand, run = Hand(APPLIED), machine(deadline_us=None)
    hand.drive(run.sleep(run.begin("sleep"), None, 5_000))
    assert hand.names == ["append.decision", "Sleep"]
    timer, slept = hand.asked
    assert isinstance(timer, Append)
    assert (timer.status, timer.next_look_us) == (Status.WAITING, 6_000)
    assert isinstance(slept, Sleep)
    assert slept.until_us == 6_000
    run.finish("sleep#1")
    hand.drive(run.perform(run.begin("reserve"), request()))
    built = hand.asked[2]
    assert isinstance(built, Append)
    assert [entry.step for entry in built.entries] == ["sleep#1/fired#1", "reserve#1"]  # type: ignore[union-attr]
    assert built.status is Status.RUNNING


def test_a_recorded_timer_waits_for_what_is_left_and_a_recorded_end_for_nothing() -> None:
    timer = Decision(step="sleep#1", fingerprint="", value=6_000, form="timer", at_us=1_000)
    left, run = Hand(now_us=5_500), machine(timer, deadline_us=None)
    left.drive(run.sleep(run.begin("sleep"), None, 5_000))
    assert left.names == ["Sleep"]
    fired = Decision(step="sleep#1/fired#1", fingerprint="", value=None, form="fired", at_us=6_000)
    set_back, run = Hand(now_us=2_000), machine(timer, fired, deadline_us=None)
    set_back.drive(run.sleep(run.begin("sleep"), None, 5_000))
    assert set_back.names == []


def test_a_timer_beyond_the_calls_patience_leaves_the_run_to_a_later_look() -> None:
    hand, run = Hand(), machine(deadline_us=2_000)
    with pytest.raises(Unwind) as unwound:
        hand.drive(run.sleep(run.begin("sleep"), 9_000, 0))
    assert isinstance(unwound.value.error, TimerPending)
    assert (hand.names, run.rests.next_look_us) == (["append.decision"], 9_000)
    with pytest.raises(Unwind):
        run.begin("anything")
    timer = hand.asked[0].entries[0]  # type: ignore[attr-defined]
    again, later = Hand(now_us=3_000), machine(timer, deadline_us=3_000)
    with pytest.raises(Unwind):
        again.drive(later.sleep(later.begin("sleep"), 9_000, 0))
    assert (again.names, later.rests.next_look_us) == ([], 9_000)  # I7


def test_a_moment_that_has_passed_is_no_wait() -> None:
    hand, run = Hand(now_us=5_000), machine(deadline_us=0)
    hand.drive(run.sleep(run.begin("sleep"), 5_000, 0))
    [timer] = hand.asked
    assert isinstance(timer, Append)
    assert timer.status is Status.RUNNING
