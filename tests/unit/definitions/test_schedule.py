"""Schedules: their ticks around the changes of the clocks, their run ids, and what is refused."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from recovery import Run, workflow
from recovery.core.errors import DefinitionError, InvalidName, ValueNotStorable
from recovery.core.instants import instant_us, moment
from recovery.definitions.schedule import Schedule


@workflow
def report(run: Run, day: str) -> str:
    return day


def made(cron: str = "0 3 * * *", timezone: str = "Europe/Berlin", **more: Any) -> Schedule:
    return Schedule(**{"name": "nightly", "starts": report("x"), "cron": cron, "timezone": timezone} | more)


def ticks(schedule: Schedule, since: str, until: str) -> list[str]:
    """All ticks behind a moment and up to another, in UTC."""
    after_us, until_us = (instant_us(datetime.fromisoformat(text).replace(tzinfo=UTC)) for text in (since, until))
    found = []
    while (at_us := schedule.next_us(after_us)) is not None and at_us <= until_us:
        found.append(moment(at_us).strftime("%m-%dT%H:%M"))
        after_us = at_us
    return found


def test_a_tick_is_at_the_local_time_of_its_zone() -> None:
    assert ticks(made(), "2026-01-09T00:00", "2026-01-11T23:00") == ["01-09T02:00", "01-10T02:00", "01-11T02:00"]
    assert ticks(made(), "2026-07-09T00:00", "2026-07-10T23:00") == ["07-09T01:00", "07-10T01:00"]


def test_a_time_that_a_day_leaves_out_is_one_tick_at_the_end_of_the_gap() -> None:
    """In Berlin 02:00 to 03:00 is left out on 29 March 2026; 03:00 is 01:00 UTC."""
    assert ticks(made("30 2 * * *"), "2026-03-27T12:00", "2026-03-30T12:00") == ["03-28T01:30", "03-29T01:00", "03-30T00:30"]
    assert ticks(made("15,45 2 * * *"), "2026-03-29T00:00", "2026-03-29T12:00") == ["03-29T01:00"]


def test_a_time_that_a_day_has_twice_is_one_tick_the_first_time() -> None:
    """02:00 to 03:00 comes twice on 25 October 2026: first from 00:00 UTC on, then from 01:00."""
    assert ticks(made("30 2 * * *"), "2026-10-24T12:00", "2026-10-26T12:00") == ["10-25T00:30", "10-26T01:30"]
    assert ticks(made("15,45 2 * * *"), "2026-10-25T00:00", "2026-10-25T12:00") == ["10-25T00:15", "10-25T00:45"]


@pytest.mark.parametrize("minute", range(0, 60, 7))
def test_whoever_counts_from_within_the_hour_that_comes_twice_counts_no_tick_again(minute: int) -> None:
    for hour in (0, 1):
        since = f"2026-10-25T{hour:02}:{minute:02}"
        expected = [tick for tick in ("10-25T00:15", "10-25T00:45") if tick > since[5:]]
        assert ticks(made("15,45 2 * * *"), since, "2026-10-25T20:00") == expected


def test_what_goes_by_each_hour_or_minute_goes_by_the_time_that_passes() -> None:
    assert ticks(made("30 * * * *"), "2026-10-24T23:00", "2026-10-25T02:45") == [
        "10-24T23:30",
        "10-25T00:30",
        "10-25T01:30",
        "10-25T02:30",
    ]
    assert ticks(made("30 * * * *"), "2026-03-29T00:00", "2026-03-29T02:00") == ["03-29T00:30", "03-29T01:30"]


@given(
    st.sampled_from(["*/7 * * * *", "30 2 * * *", "0 0 1 * *", "15 1-3 * * SUN", "59 23 31 12 *", "0 12 * * MON-FRI"]),
    st.sampled_from(["UTC", "Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "Pacific/Apia"]),
    st.integers(1_293_840_000, 1_893_456_000),  # 2011 to 2030
    st.timedeltas(timedelta(0), timedelta(days=40)),
    st.integers(1, 5),
)
def test_the_last_ticks_are_the_end_of_all_and_ticks_rise(cron: str, zone: str, since: int, span: timedelta, most: int) -> None:
    schedule = made(cron, zone)
    after_us = since * 1_000_000
    now_us = after_us + int(span / timedelta(microseconds=1)) // (200 if cron.startswith("*") else 1)
    every, at_us = [], after_us
    while (tick_us := schedule.next_us(at_us)) is not None and tick_us <= now_us:
        assert tick_us > at_us
        every.append(tick_us)
        at_us = tick_us
    assert schedule.last_ticks(after_us, now_us, most) == every[-most:]


def test_years_of_minutes_are_not_counted_through() -> None:
    """Of a year with half a million ticks the last three are found among those of an hour."""
    schedule = made("* * * * *", "UTC")
    now_us = instant_us(datetime(2026, 6, 1, 12, 0, 30, tzinfo=UTC))
    asked: list[int] = []
    real = Schedule.next_us

    class Counting(Schedule):
        def next_us(self, after_us: int) -> int | None:
            asked.append(after_us)
            return real(self, after_us)

    counting = Counting(name="a", starts=report("x"), cron="* * * * *")
    year_us = 365 * 86_400 * 1_000_000
    assert counting.last_ticks(now_us - year_us, now_us, 3) == schedule.last_ticks(now_us - 240_000_000, now_us, 3)
    assert len(asked) < 100


def test_the_run_of_a_tick_is_named_by_the_moment_in_utc() -> None:
    tick_us = made().next_us(instant_us(datetime(2026, 11, 30, tzinfo=UTC)))
    assert tick_us is not None
    assert made().run_id(tick_us) == "nightly:2026-11-30T02:00:00Z"
    assert made().run_id(tick_us + 5) == "nightly:2026-11-30T02:00:00.000005Z"


def test_a_function_is_given_the_tick() -> None:
    schedule = made(starts=lambda tick: report(tick.date().isoformat()))
    assert schedule.call(instant_us(datetime(2026, 5, 6, 7, tzinfo=UTC))).stored == {"day": "2026-05-06"}
    with pytest.raises(DefinitionError, match="its function gave int"):
        made(starts=lambda _: 7).call(0)


def test_what_its_function_raises_is_said_without_its_text_and_what_we_raise_as_it_is() -> None:
    with pytest.raises(DefinitionError, match="its function raised ZeroDivisionError") as raised:
        made(starts=lambda _: 1 // 0).call(0)
    assert "division" not in str(raised.value)
    assert isinstance(raised.value.__cause__, ZeroDivisionError)
    with pytest.raises(ValueNotStorable):
        made(starts=lambda _: report(cast("Any", 7))).call(0)


def test_a_cron_without_any_tick_has_none() -> None:
    assert made("* * */20 * 1L", "UTC").next_us(instant_us(datetime(2026, 1, 1, tzinfo=UTC))) is None


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"cron": "every day"}, "five fields"),
        ({"cron": "0 0 3 * * *"}, "has 6 fields"),
        ({"cron": "61 * * * *"}, "Bad minute"),
        ({"cron": "0 0 31 2 *"}, "Bad day-of-month"),
        ({"cron": None}, "five fields"),
        ({"cron": ""}, "five fields"),
        ({"timezone": "Berlin"}, "no time zone 'Berlin'"),
        ({"timezone": "../etc/passwd"}, "no time zone"),
        ({"timezone": None}, "no time zone"),
        ({"missed": "some"}, "skip, last, all"),
        ({"overlap": "queue"}, "allow, skip"),
        ({"missed_max": 0}, "Make up for 1 to"),
        ({"grace": 60}, "not a timedelta"),
        ({"grace": timedelta(seconds=-1)}, "negative"),
        ({"priority": 101}, "not within"),
        ({"starts": 5}, "not a call of a workflow"),
    ],
)
def test_what_cannot_be_is_refused_where_it_is_stated(wrong: dict[str, Any], said: str) -> None:
    with pytest.raises(DefinitionError, match=said):
        made(**wrong)


@pytest.mark.parametrize("name", ["", "two words", "x" * 65])
def test_its_name_can_be_a_part_of_a_run_id(name: str) -> None:
    with pytest.raises(InvalidName, match="schedule name"):
        made(name=name)
