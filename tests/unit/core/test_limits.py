"""Rates and queues: what is refused, and that no stretch of time ever holds more than a rate allows."""

from __future__ import annotations

from datetime import timedelta
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from recovery import Engine, Queue, Rate
from recovery.core.errors import DefinitionError, InvalidName
from recovery.core.limits import GROUPS, Taken, by_name, counting, frees_us, left, put_off, took

SECOND = timedelta(seconds=1)


def stretched(count: int, per_us: int) -> Rate:
    return Rate(count, timedelta(microseconds=per_us))


def taking(rate: Rate, times: list[int]) -> list[int]:
    """The times at which something was taken, of those at which it was asked for."""
    taken: Taken = ()
    got = []
    for now_us in times:
        taken = counting(taken, rate, now_us)
        if left(taken, rate):
            taken = took(taken, rate, now_us)
            got.append(now_us)
    return got


def test_all_may_come_at_once_and_then_none_until_the_first_is_a_period_ago() -> None:
    rate = stretched(3, 100)
    assert taking(rate, [0, 0, 10, 11, 99, 100, 100, 109, 110]) == [0, 0, 10, 100, 100, 110]


@given(
    st.integers(1, 200), st.integers(1, 1_000), st.lists(st.integers(0, 300), max_size=300).map(lambda gaps: [sum(gaps[: at + 1]) for at in range(len(gaps))])
)  # fmt: skip
def test_no_stretch_of_the_period_holds_more_than_the_count(count: int, per_us: int, times: list[int]) -> None:
    got = taking(stretched(count, per_us), times)
    for first, later in zip(got, got[count:], strict=False):
        assert later - first >= per_us


@given(st.integers(1, 400), st.integers(GROUPS, 10_000), st.lists(st.integers(0, 50), min_size=1, max_size=300))
def test_what_was_taken_is_few_pairs_and_comes_back_when_it_is_said_to(count: int, per_us: int, gaps: list[int]) -> None:
    rate, taken, now_us = stretched(count, per_us), (), 0
    for gap in gaps:
        now_us += gap
        taken = counting(taken, rate, now_us)
        if not left(taken, rate):
            at_us = frees_us(taken, rate)
            # Late by no more than a group is wide; and a microsecond earlier there is none.
            assert now_us < at_us <= now_us + per_us + per_us // GROUPS + 1
            assert not left(counting(taken, rate, at_us - 1), rate)
            now_us = at_us
            taken = counting(taken, rate, now_us)
            assert left(taken, rate)
        taken = took(taken, rate, now_us)
        assert len(taken) <= min(count, GROUPS) + 2
    assert [at_us for at_us, _ in taken] == sorted({at_us for at_us, _ in taken})


def test_several_taken_at_once_count_as_that_many() -> None:
    rate = stretched(5, 100)
    taken = took((), rate, 10, 3)
    assert left(taken, rate) == 2
    taken = took(taken, rate, 20, 2)
    assert (left(taken, rate), frees_us(taken, rate)) == (0, 110)
    assert left(counting(taken, rate, 110), rate) == 3


def test_who_is_put_off_comes_behind_the_last_as_fast_as_the_rate_allows() -> None:
    rate = stretched(4, 100)
    taken = took((), rate, 10, 4)
    assert put_off(taken, rate, 0, 20) == 110  # nobody waits
    assert put_off(taken, rate, 110, 20) == 135
    assert put_off(taken, rate, 135, 20) == 160
    assert put_off(taken, rate, 20, 20) == 110  # the last one's time has come
    assert put_off(taken, rate, 20 + GROUPS * 100, 20) == 110  # a crowd, or a clock that was wrong: from the front again


def test_who_allows_fewer_waits_until_as_many_are_gone() -> None:
    taken = took(took(took((), stretched(9, 100), 1), stretched(9, 100), 2), stretched(9, 100), 3)
    assert left(taken, stretched(2, 100)) == 0
    assert frees_us(taken, stretched(2, 100)) == 102  # two must go before one may come


def test_a_clock_that_was_far_ahead_holds_things_up_for_two_periods_at_most() -> None:
    rate = stretched(1, 100)
    ahead = took((), rate, 10**12)
    assert counting(ahead, rate, 50) == ((50, 1),)
    assert frees_us(counting(ahead, rate, 50), rate) == 150
    near = took((), rate, 120)
    assert counting(near, rate, 50) == near


def test_a_taker_whose_clock_is_behind_takes_at_the_time_of_the_last() -> None:
    rate = stretched(2, 100)
    assert took(took((), rate, 50), rate, 40) == ((50, 2),)


@pytest.mark.parametrize("wrong", [0, -1, True, 1.5, "3", 10**10])
def test_a_count_that_is_none_is_refused(wrong: Any) -> None:
    with pytest.raises(DefinitionError, match="Allow a whole number"):
        Rate(wrong, SECOND)


@pytest.mark.parametrize("wrong", [timedelta(0), -SECOND, 60])
def test_a_period_that_is_none_is_refused(wrong: Any) -> None:
    with pytest.raises(DefinitionError):
        Rate(1, wrong)


def test_one_queue_is_no_list_of_them() -> None:
    with pytest.raises(DefinitionError, match="Pass a list"):
        by_name(cast("Any", Queue("mail", concurrency=1)))


@pytest.mark.parametrize("wrong", [{"concurrency": 0}, {"concurrency": True}, {"rate": 5}, {"priority": 101}, {"priority": "high"}])
def test_limits_that_cannot_be_kept_are_refused(wrong: Any) -> None:
    with pytest.raises(DefinitionError):
        Queue("mail", **wrong)


def test_a_queue_has_a_name_that_runs_can_be_enqueued_under() -> None:
    assert not Queue("").limited
    with pytest.raises(InvalidName):
        Queue("two words")


def test_an_engine_takes_the_limits_of_one_queue_once() -> None:
    with pytest.raises(DefinitionError, match="two queues 'mail'"):
        Engine("memory://", queues=[Queue("mail", 2), Queue("mail", 3)])
    with pytest.raises(DefinitionError, match="holds a str"):
        Engine("memory://", queues=["mail"])  # type: ignore[list-item]
