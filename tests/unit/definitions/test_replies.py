"""What came out of a body, a probe or a close becomes an answer that claims no more than it says."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest

import recovery
from recovery import (
    Absent,
    Accepted,
    Answer,
    Call,
    Closed,
    Expired,
    Foreign,
    Found,
    Gone,
    Indeterminate,
    InFlight,
    Mismatch,
    NotSent,
    Refused,
    Rejection,
    ReplyWas,
    TurnedAway,
    Unreachable,
    contracts,
    effect,
)
from recovery.core.entries import Answered, AnswerKind, Observation, Source, decode, encode
from recovery.definitions.answer import DETAIL_MAX
from recovery.errors import ValueUnreadable


class OutOfStock(Rejection):
    name = "out-of-stock"
    sku: str
    available: int = 0


class Colder(OutOfStock):
    degrees: int = 0


class Twin(Rejection):
    name = "out-of-stock"
    secret: str


class Undeclared(Rejection):
    secret: str


@dataclass(frozen=True)
class Reservation:
    id: str
    weight: float = 0.0


CURRENT = contracts.Lookup(original=False)


@effect(contracts.Keyed(window=timedelta(hours=24)), rejects=(OutOfStock,))
def reserve(call: Call) -> Reservation:
    return Reservation("1")


@effect(contracts.Probeable(lookup=CURRENT, stable_fields=("id",)), rejects=(OutOfStock,))
def shown(call: Call) -> Reservation:
    return Reservation("1")


def test_a_returned_value_was_found() -> None:
    answered = reserve.returned(Reservation("7", 1.5))
    assert answered == Answered(kind=AnswerKind.FOUND, value={"id": "7", "weight": 1.5})
    assert reserve.decode_value(answered.value) == Reservation("7", 1.5)


def test_a_value_that_cannot_be_stored_happened_all_the_same() -> None:
    answered = reserve.returned(Reservation("secret", float("nan")))
    assert answered == Answered(kind=AnswerKind.UNSTORABLE, detail="Reservation at result.weight")
    wrong: Any = "secret"
    assert reserve.returned(wrong) == Answered(kind=AnswerKind.UNSTORABLE, detail="str at result")


def test_a_declared_rejection_is_refused_with_its_fields() -> None:
    error = OutOfStock(sku="FILTER-A", available=1)
    answered = reserve.raised(error)
    assert answered == Answered(kind=AnswerKind.REFUSED, error="out-of-stock", value={"sku": "FILTER-A", "available": 1})
    assert reserve.decode_rejection(answered.error, answered.value) == error


def test_a_rejection_that_is_no_longer_declared_is_unreadable() -> None:
    with pytest.raises(ValueUnreadable, match="rejection gone"):
        reserve.decode_rejection("gone", {})


@pytest.mark.parametrize(
    ("error", "detail"),
    [
        (TimeoutError("token=secret"), "TimeoutError"),
        (ValueError("secret"), "ValueError"),
        (ConnectionResetError(104, "secret"), "ConnectionResetError"),
        (asyncio.QueueFull("secret"), "asyncio.queues.QueueFull"),
        (Undeclared(secret="secret"), f"{__name__}.Undeclared is not declared in rejects="),
        (Twin(secret="secret"), f"{__name__}.Twin is not declared in rejects="),
        (Colder(sku="secret"), f"{__name__}.Colder is not declared in rejects="),
        (OutOfStock(sku="secret", available=True), f"{__name__}.OutOfStock cannot be stored at available"),
        (ExceptionGroup("secret", [OutOfStock(sku="secret")]), "ExceptionGroup"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_any_other_exception_means_that_it_might_have_happened_and_its_message_is_not_kept(error: Exception, detail: str) -> None:
    answered = reserve.raised(error)
    assert answered == Answered(kind=AnswerKind.UNREACHABLE, detail=detail)


@pytest.mark.parametrize("error", [asyncio.CancelledError(), KeyboardInterrupt(), SystemExit(1), GeneratorExit()])
def test_cancellation_is_no_answer_at_all(error: BaseException) -> None:
    assert reserve.raised(error) is None
    assert reserve.probe_raised(error) is None


ANSWERS: list[tuple[Answer[Reservation], Answered]] = [
    (Found(Reservation("7")), Answered(kind=AnswerKind.FOUND, value={"id": "7", "weight": 0.0})),
    (
        Found(Reservation("7"), fingerprint="f", receipt="r", original=False, detail="d"),
        Answered(kind=AnswerKind.FOUND, value={"id": "7", "weight": 0.0}, fingerprint="f", receipt="r", original=False, detail="d"),
    ),
    (
        Refused(OutOfStock(sku="a"), fingerprint="f", detail="d"),
        Answered(kind=AnswerKind.REFUSED, error="out-of-stock", value={"sku": "a", "available": 0}, fingerprint="f", detail="d"),
    ),
    (Accepted(), Answered(kind=AnswerKind.ACCEPTED)),
    (Absent(), Answered(kind=AnswerKind.ABSENT)),
    (Absent(raised="1.2"), Answered(kind=AnswerKind.ABSENT, raised="1.2")),
    (Absent(as_of=datetime(1970, 1, 1, 0, 0, 1, 5, tzinfo=UTC)), Answered(kind=AnswerKind.ABSENT, as_of_us=1_000_005)),
    (
        Absent(as_of=datetime(1970, 1, 1, 1, tzinfo=timezone(timedelta(hours=1))), detail="d"),
        Answered(kind=AnswerKind.ABSENT, as_of_us=0, detail="d"),
    ),
    (InFlight(), Answered(kind=AnswerKind.IN_FLIGHT)),
    (InFlight(retry_after=timedelta(seconds=2)), Answered(kind=AnswerKind.IN_FLIGHT, retry_after_us=2_000_000)),
    (InFlight(retry_after=timedelta(seconds=-2)), Answered(kind=AnswerKind.IN_FLIGHT, retry_after_us=0)),
    (TurnedAway(retry_after=timedelta(milliseconds=1)), Answered(kind=AnswerKind.TURNED_AWAY, retry_after_us=1000)),
    (Gone(), Answered(kind=AnswerKind.GONE)),
    (Foreign(), Answered(kind=AnswerKind.FOREIGN)),
    (Mismatch(), Answered(kind=AnswerKind.MISMATCH)),
    (Closed(), Answered(kind=AnswerKind.CLOSED)),
    (Expired(), Answered(kind=AnswerKind.EXPIRED)),
    (Indeterminate(detail="cached 500"), Answered(kind=AnswerKind.INDETERMINATE, detail="cached 500")),
    (Unreachable(), Answered(kind=AnswerKind.UNREACHABLE)),
    (NotSent(), Answered(kind=AnswerKind.NOT_SENT)),
]


@pytest.mark.parametrize(("answer", "answered"), ANSWERS, ids=repr)
def test_every_answer_has_one_stored_form_wherever_it_is_said(answer: Answer[Reservation], answered: Answered) -> None:
    assert reserve.probed(answer) == answered
    assert reserve.raised(ReplyWas(answer)) == answered
    assert reserve.probe_raised(ReplyWas(answer)) == answered
    observation = Observation(step="s", source=Source.PROBE, asked_at_us=1, observed_at_us=2, answer=answered)
    assert decode("observation", encode(observation) | {"step": "s"}) == observation


def test_every_answer_is_covered() -> None:
    assert {type(answer) for answer, _ in ANSWERS} == {
        part.__origin__ if hasattr(part, "__origin__") else part for part in Answer.__args__
    }  # type: ignore[attr-defined]
    assert all(hasattr(recovery, type(answer).__name__) for answer, _ in ANSWERS)


def test_a_look_up_that_shows_the_present_state_says_so() -> None:
    assert shown.probed(Found(Reservation("1"))).original is False
    assert shown.probed(Found(Reservation("1"), original=True)).original is True
    assert shown.returned(Reservation("1")).original is True


@pytest.mark.parametrize("answer", [None, Reservation("1"), True, "found", Found])
def test_a_probe_that_does_not_answer_has_said_nothing(answer: Any) -> None:
    assert reserve.probed(answer) == Answered(kind=AnswerKind.UNREACHABLE, detail=f"{type(answer).__name__} is not an answer")


def test_a_rejection_raised_by_a_probe_refuses_the_question_and_not_the_effect() -> None:
    answered = reserve.probe_raised(OutOfStock(sku="a"))
    assert answered == Answered(kind=AnswerKind.UNREACHABLE, detail=f"{__name__}.OutOfStock")


def test_an_unstorable_receipt_is_found_all_the_same() -> None:
    wrong: Any = Found(Reservation("1", 1), receipt="r", fingerprint="f")
    assert reserve.probed(wrong) == Answered(
        kind=AnswerKind.UNSTORABLE, receipt="r", fingerprint="f", detail="Reservation at result.weight"
    )


def test_details_are_bounded() -> None:
    assert len(Gone(detail="x" * 10_000).detail) == DETAIL_MAX
    assert len(Found(1, detail="x" * 10_000).detail) == DETAIL_MAX
    assert len(Absent(detail="x" * 10_000).detail) == DETAIL_MAX
    assert Gone(detail="x" * DETAIL_MAX).detail == "x" * DETAIL_MAX


def test_a_time_without_a_zone_is_no_time() -> None:
    with pytest.raises(ValueError, match="time zone"):
        Absent(as_of=datetime(2026, 1, 1))  # noqa: DTZ001
