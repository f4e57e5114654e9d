"""One question to a user's function: its deadline on both clocks, to the microsecond, and what the body is told about itself."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Any

import pytest

from recovery import Absent, Answer, Call, Found, NotSent, ReplyWas, contracts, effect
from recovery.core.entries import Attempt, Intent
from recovery.core.instants import moment
from recovery.core.operations import Ask, Close, Send, Sleep
from recovery.drivers.asking import Question, Surroundings
from recovery.storage.committing import Committer
from recovery.storage.memory import MemoryJournal
from recovery.testing.clock import ManualClock

TIMEOUT_US = 30_000_000
SENT_US = 1_000_000_000_000
UNTIL_US = SENT_US + TIMEOUT_US
BOOTED_US = 7_000_000


@effect(contracts.CoTransactional(close=True))
def reserve(call: Call, units: int) -> int:
    return units


@reserve.probe
def look(call: Call, units: int) -> Answer[int]:
    return Absent()


@reserve.close
def give_up(call: Call, units: int) -> Answer[int]:
    return Found(units)


@effect(contracts.CoTransactional())
async def reserve_async(call: Call, units: int) -> int:
    return units


def booted(us: int = BOOTED_US) -> ManualClock:
    clock = ManualClock()
    clock.advance(timedelta(microseconds=us))
    return clock


def on(clock: ManualClock) -> Surroundings:
    journal = MemoryJournal()
    return Surroundings(journal, clock, Committer(journal))


def asking(kind: type[Send | Ask | Close], of: Any = reserve) -> Send | Ask | Close:
    bound = of(units=2)
    intent = Intent(
        step="reserve#1", effect="reserve", environment="inventory", scope="here", key="k", fingerprint=bound.fingerprint,
        arguments=dict(bound.stored), contract="c", timeout_us=TIMEOUT_US, at_us=SENT_US,
    )  # fmt: skip
    attempt = Attempt(step="reserve#1", number=3, purpose="resend", sent_at_us=SENT_US, send_until_us=UNTIL_US, epoch="0.2")
    if kind is Ask:
        return Ask(bound, intent, "0.9")
    return Send(bound, intent, attempt, SENT_US - 5) if kind is Send else Close(bound, intent, attempt)


def question(kind: type[Send | Ask | Close], now_us: int, clock: ManualClock | None = None, **more: Any) -> Question:
    return on(clock or booted()).question(asking(kind), "r", now_us, **more)


ATTEMPTS = pytest.mark.parametrize("kind", [Send, Close])


# -- the deadline ------------------------------------------------------------------------------------------------------


@ATTEMPTS
@pytest.mark.parametrize(("now_us", "late"), [(SENT_US, False), (UNTIL_US - 1, False), (UNTIL_US, True), (UNTIL_US + 1, True)])
def test_an_attempt_is_too_late_from_its_deadline_on_by_the_wall_clock(kind: type[Send | Close], now_us: int, late: bool) -> None:
    assert question(kind, now_us).too_late is late


@ATTEMPTS
@pytest.mark.parametrize(("passed_us", "late"), [(0, False), (TIMEOUT_US - 1, False), (TIMEOUT_US, True), (TIMEOUT_US + 1, True)])
def test_and_by_the_boot_clock_since_it_was_stamped(kind: type[Send | Close], passed_us: int, late: bool) -> None:
    """The wall clock stands still, or was set back."""
    clock = booted(BOOTED_US + passed_us)
    assert question(kind, SENT_US, clock, stamped_us=BOOTED_US).too_late is late


@pytest.mark.parametrize("now_us", [SENT_US, UNTIL_US, UNTIL_US + 1])
def test_a_look_up_is_never_too_late(now_us: int) -> None:
    assert question(Ask, now_us).too_late is False


@pytest.mark.parametrize(
    ("wall_us", "boot_us", "left_us"),
    [(0, 0, TIMEOUT_US), (10, 4, TIMEOUT_US - 10), (4, 10, TIMEOUT_US - 10), (TIMEOUT_US + 9, 0, 0), (0, TIMEOUT_US + 9, 0)],
    ids=[
        "neither has moved",
        "the wall clock is ahead",
        "the boot clock is ahead",
        "over by the wall clock",
        "over by the boot clock",
    ],
)
def test_the_time_left_is_that_of_the_worse_clock(wall_us: int, boot_us: int, left_us: int) -> None:
    told = question(Send, SENT_US + wall_us, booted(BOOTED_US + boot_us), stamped_us=BOOTED_US).call
    assert told.remaining_seconds() == left_us / 1_000_000


def test_the_time_left_runs_down_on_the_boot_clock_and_ends_at_zero() -> None:
    clock = booted()
    told = question(Send, SENT_US, clock).call
    clock.advance(timedelta(microseconds=TIMEOUT_US - 250_000))
    assert told.remaining_seconds() == 0.25
    clock.advance(timedelta(seconds=1))
    assert told.remaining_seconds() == 0
    assert told.remaining() == 0


@ATTEMPTS
@pytest.mark.parametrize("left_us", [1, 0], ids=["a microsecond left", "over"])
def test_a_body_that_starts_at_its_deadline_sends_nothing(kind: type[Send | Close], left_us: int) -> None:
    """A thread was waited for until the deadline had come."""
    clock = booted()
    asked = question(kind, SENT_US, clock)
    clock.advance(timedelta(microseconds=TIMEOUT_US - left_us))
    if left_us:
        asked.ask()
        return
    with pytest.raises(ReplyWas) as caught:
        asked.ask()
    assert isinstance(caught.value.answer, NotSent)


def test_a_look_up_that_starts_late_is_asked_all_the_same() -> None:
    clock = booted()
    asked = question(Ask, SENT_US, clock)
    clock.advance(timedelta(days=1))
    assert asked.ask() == Absent()


# -- what the body is told ---------------------------------------------------------------------------------------------


def test_an_attempt_is_told_its_own_deadline_number_and_epoch() -> None:
    told = question(Send, SENT_US + 9).call
    assert (told.attempt, told.epoch) == (3, "0.2")
    assert (told.send_until, told.first_sent) == (moment(UNTIL_US), moment(SENT_US - 5))


def test_a_close_has_no_first_sending_to_carry() -> None:
    told = question(Close, SENT_US + 9).call
    assert (told.attempt, told.epoch, told.first_sent, told.send_until) == (3, "0.2", None, moment(UNTIL_US))


def test_a_look_up_is_told_the_askers_epoch_and_a_deadline_from_now() -> None:
    told = question(Ask, SENT_US + 9).call
    assert (told.attempt, told.epoch, told.first_sent, told.send_until) == (0, "0.9", None, moment(UNTIL_US + 9))


# -- whose caller waits no more ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(("kind", "kept"), [(Send, 1), (Close, 1), (Ask, 0)])
def test_a_reply_to_an_attempt_whose_caller_was_cancelled_is_kept(kind: type[Send | Ask | Close], kept: int) -> None:
    place = on(booted())
    asked = place.question(asking(kind), "r", SENT_US)
    asked.watch.abandoned = True
    asked.ask()
    assert len(place.journal.evidence("r")) == kept


def test_nothing_is_kept_for_a_caller_that_still_waits() -> None:
    place = on(booted())
    place.question(asking(Send), "r", SENT_US).ask()
    assert place.journal.evidence("r") == []


def test_an_awaited_body_is_cancelled_itself_and_keeps_nothing() -> None:
    place = on(booted())
    asked = place.question(asking(Send, reserve_async), "r", SENT_US)
    asked.watch.abandoned = True
    assert asked.is_async
    assert asyncio.run(asked.ask()) == 2
    assert place.journal.evidence("r") == []


# -- waiting -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("left_us", "seconds"), [(1, 0.000001), (2_500_000, 2.5), (0, 0.0), (-3, 0.0)])
def test_a_wait_lasts_until_its_named_time_and_never_below_nothing(left_us: int, seconds: float) -> None:
    told: list[tuple[Sleep, float]] = []
    journal = MemoryJournal()
    place = Surroundings(journal, booted(), Committer(journal), lambda sleep, left: told.append((sleep, left)))
    nap = Sleep(SENT_US + left_us, "quiet")
    assert place.left(nap, SENT_US) == seconds
    assert told == ([(nap, seconds)] if seconds else [])


def test_nobody_needs_to_watch() -> None:
    assert on(booted()).left(Sleep(SENT_US + 1_000_000, "quiet"), SENT_US) == 1
