"""The manual clock."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from recovery.ports import Clock
from recovery.testing import ManualClock

START = datetime(2026, 1, 1, tzinfo=UTC)
START_US = 1_767_225_600_000_000


def test_it_begins_where_it_is_told() -> None:
    clock: Clock = ManualClock(START)
    assert (clock.wall_us(), clock.boot_us(), clock.asks()) == (START_US, 0, False)


def test_skipping_moves_both_readings() -> None:
    clock = ManualClock(START)
    assert clock.skip(1.5) is True
    assert (clock.wall_us(), clock.boot_us()) == (START_US + 1_500_000, 1_500_000)


def test_a_skip_never_falls_short() -> None:
    """A driver that asks to be woken after a fraction of a microsecond would otherwise ask for ever."""
    clock = ManualClock(START)
    clock.skip(0.000_000_1)
    assert clock.boot_us() == 1


def test_time_does_not_go_back() -> None:
    clock = ManualClock(START)
    with pytest.raises(ValueError, match="does not go back"):
        clock.advance(timedelta(seconds=-1))
    clock.advance(timedelta(seconds=5))
    clock.advance_to(START_US)
    assert clock.boot_us() == 5_000_000


def test_a_mark_lifts_the_wall_and_leaves_the_boot_clock() -> None:
    clock = ManualClock(START)
    clock.raise_mark(START_US + 7)
    clock.raise_mark(START_US + 3)
    assert (clock.wall_us(), clock.boot_us()) == (START_US + 7, 0)


def test_what_is_due_reads_its_own_time_and_may_plan_more() -> None:
    clock, seen = ManualClock(START), []

    def first() -> None:
        seen.append(clock.boot_us())
        clock.at(START_US + 25, lambda: seen.append(clock.boot_us()))

    clock.at(START_US + 10, first)
    clock.at(START_US + 31, lambda: seen.append(clock.boot_us()))
    clock.advance(timedelta(microseconds=30))
    assert seen == [10, 25]
    assert clock.boot_us() == 30


def test_what_is_overdue_comes_with_the_next_move() -> None:
    clock, seen = ManualClock(START), []
    clock.at(START_US - 5, lambda: seen.append(clock.boot_us()))
    clock.advance(timedelta(0))
    assert seen == [0]


@given(st.lists(st.integers(0, 1000), max_size=20), st.lists(st.integers(0, 300), max_size=10))
def test_everything_due_is_called_once_and_in_order(due: list[int], moves: list[int]) -> None:
    clock, seen = ManualClock(START), []
    for at in due:
        clock.at(START_US + at, lambda at=at: seen.append((at, clock.boot_us())))
    for move in moves:
        clock.advance(timedelta(microseconds=move))
    assert seen == [(at, at) for at in sorted(due) if moves and at <= sum(moves)]
