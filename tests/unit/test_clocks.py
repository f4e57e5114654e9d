"""The mark: wall time never goes back, steps forward are seen, and time lost by a step back still passes."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

import pytest
from freezegun import freeze_time
from hypothesis import given
from hypothesis import strategies as st

from recovery import clocks
from recovery.clocks import RETRY_EVERY_US, ROUND_TRIP_US, SAMPLE_EVERY_US, DatabaseClock, SystemClock
from recovery.core.errors import StoreUnavailable

HOUR_US = 3_600_000_000


@dataclass
class Hand:
    """A reading that is set by hand."""

    us: int

    def __call__(self) -> int:
        return self.us


def clock(wall_us: int = 1_000_000, boot_us: int = 50) -> tuple[SystemClock, Hand, Hand]:
    wall, boot = Hand(wall_us), Hand(boot_us)
    return SystemClock(wall=wall, boot=boot), wall, boot


def test_wall_time_is_the_hosts_in_microseconds() -> None:
    before = time.time_ns() // 1000
    assert before <= SystemClock().wall_us() <= time.time_ns() // 1000 + 1000


def test_a_step_forward_is_seen_at_once() -> None:
    it, wall, _ = clock()
    it.wall_us()
    wall.us += HOUR_US
    assert it.wall_us() == 1_000_000 + HOUR_US


def test_a_step_back_is_not_seen_and_time_goes_on_by_the_boot_clock() -> None:
    """An hour stepped back must not stretch a key window by an hour."""
    it, wall, boot = clock()
    assert it.wall_us() == 1_000_000
    wall.us -= HOUR_US
    assert it.wall_us() == 1_000_000
    boot.us += 7
    assert it.wall_us() == 1_000_007


def test_a_mark_that_was_never_lifted_stands_at_zero_and_one_that_was_moves_on() -> None:
    mark = clocks.Mark()
    assert mark.value_us(50) == 0
    mark.lift(0, 50)
    assert mark.value_us(57) == 7


def test_this_hosts_clocks_are_read_without_asking_anybody() -> None:
    it, _, _ = clock()
    assert not it.asks()


def test_a_raised_mark_is_a_floor_that_moves_on() -> None:
    """A journal's highest time, written by a host whose clock ran ahead."""
    it, wall, boot = clock()
    it.raise_mark(5_000_000)
    assert it.wall_us() == 5_000_000
    boot.us += 10
    wall.us += 10
    assert it.wall_us() == 5_000_010


def test_a_lower_mark_changes_nothing() -> None:
    it, _, _ = clock()
    it.raise_mark(5_000_000)
    it.raise_mark(4_000_000)
    assert it.wall_us() == 5_000_000


def test_once_the_hosts_clock_has_caught_up_it_leads_again() -> None:
    it, wall, boot = clock()
    it.raise_mark(5_000_000)
    wall.us, boot.us = 5_000_200, 150
    assert it.wall_us() == 5_000_200


@given(st.lists(st.tuples(st.integers(-HOUR_US, HOUR_US), st.integers(0, HOUR_US), st.integers(0, 10 * HOUR_US)), max_size=30))
def test_no_sequence_of_steps_makes_it_go_back_or_stand_still_in_boot_time(moves: list[tuple[int, int, int]]) -> None:
    it, wall, boot = clock(wall_us=100 * HOUR_US)
    last = it.wall_us()
    for step_us, passed_us, mark_us in moves:
        wall.us += step_us
        boot.us += passed_us
        it.raise_mark(mark_us)
        now = it.wall_us()
        assert now >= last + passed_us
        assert now >= wall.us
        assert now >= mark_us
        last = now


def at(moment: str) -> int:
    return int(datetime.fromisoformat(moment).replace(tzinfo=UTC).timestamp()) * 1_000_000


def test_freezegun_reaches_it() -> None:
    with freeze_time("2030-01-02 03:04:05"):
        assert SystemClock().wall_us() == at("2030-01-02 03:04:05")


def test_a_frozen_clock_moved_forward_reaches_the_end_of_a_window() -> None:
    with freeze_time("2030-01-01") as frozen:
        it = SystemClock()
        start = it.wall_us()
        frozen.tick(timedelta(hours=24))
        assert it.wall_us() == start + 24 * HOUR_US


def test_a_frozen_clock_moved_back_does_not_reopen_a_window() -> None:
    with freeze_time("2030-01-02") as frozen:
        it = SystemClock()
        start = it.wall_us()
        frozen.move_to("2030-01-01")
        assert start <= it.wall_us() < start + HOUR_US


def test_a_frozen_clock_does_not_stop_the_boot_clock() -> None:
    """Durations and leases are measured on the boot clock; a frozen one would never end."""
    it = SystemClock()
    with freeze_time("2030-01-01"):
        first = it.boot_us()
        while it.boot_us() == first:
            pass
        assert it.boot_us() > first


@pytest.mark.parametrize("clock_id", [clocks._BOOT_CLOCK, None], ids=["this platform's", "a platform without one"])
def test_boot_time_is_in_microseconds(monkeypatch: pytest.MonkeyPatch, clock_id: int | None) -> None:
    monkeypatch.setattr(clocks, "_BOOT_CLOCK", clock_id)

    def reading_ns() -> int:
        return time.monotonic_ns() if clock_id is None else time.clock_gettime_ns(clock_id)

    before_ns = reading_ns()
    read_us = clocks.read_boot_us()
    assert before_ns // 1000 <= read_us <= reading_ns() // 1000


@dataclass
class Database:
    """A database whose clock and reachability are set by hand; asking may take boot time."""

    boot: Hand
    us: int = 1_000_000
    trips_us: list[int] = field(default_factory=list)
    down: bool = False
    asked: int = 0

    def now_us(self) -> int:
        if self.down:
            raise StoreUnavailable(url="db", problem="down", fate="Nothing was written")
        self.asked += 1
        self.boot.us += self.trips_us.pop(0) if self.trips_us else 0
        return self.us


def database_clock(**fields: object) -> tuple[DatabaseClock, Database, Hand]:
    boot = Hand(500)
    database = Database(boot, **fields)  # type: ignore[arg-type]
    return DatabaseClock(database, boot=boot), database, boot


def test_the_database_is_asked_at_first_use_and_then_carried_on() -> None:
    it, database, boot = database_clock()
    assert database.asked == 0
    assert it.wall_us() == 1_000_000
    boot.us += 250
    assert it.wall_us() == 1_000_250
    assert database.asked == 1


@pytest.mark.parametrize(("passed_us", "asked"), [(SAMPLE_EVERY_US - 1, 1), (SAMPLE_EVERY_US, 2)])
def test_it_is_asked_again_every_minute(passed_us: int, asked: int) -> None:
    it, database, boot = database_clock()
    it.wall_us()
    boot.us += passed_us
    it.wall_us()
    assert database.asked == asked


def test_a_database_whose_clock_jumped_ahead_is_followed() -> None:
    it, database, boot = database_clock()
    it.wall_us()
    boot.us += SAMPLE_EVERY_US
    database.us += SAMPLE_EVERY_US + HOUR_US
    assert it.wall_us() == database.us


def test_a_database_whose_clock_went_back_is_not() -> None:
    """A failover to a host with a slow clock."""
    it, database, boot = database_clock()
    it.wall_us()
    boot.us += SAMPLE_EVERY_US
    database.us -= HOUR_US
    assert it.wall_us() == 1_000_000 + SAMPLE_EVERY_US


def test_a_slow_answer_is_taken_at_the_middle_of_the_fastest_of_three() -> None:
    it, database, _ = database_clock(trips_us=[9_000_000, 600_000, 4_000_000])
    assert it.wall_us() == 1_000_000 + 300_000 + 4_000_000
    assert database.asked == 3


@pytest.mark.parametrize(
    ("trips_us", "asked"),
    [([ROUND_TRIP_US], 1), ([ROUND_TRIP_US + 1, 4], 2), ([ROUND_TRIP_US + 1] * 4, 3)],
    ids=["quick enough", "slow once", "slow every time"],
)
def test_it_is_asked_again_as_long_as_no_answer_was_quick(trips_us: list[int], asked: int) -> None:
    it, database, _ = database_clock(trips_us=trips_us)
    it.wall_us()
    assert database.asked == asked


def test_an_unreachable_database_is_an_error_at_first_use() -> None:
    it, _, _ = database_clock(down=True)
    with pytest.raises(StoreUnavailable):
        it.wall_us()


def test_an_unreachable_database_later_is_carried_on_and_asked_again() -> None:
    it, database, boot = database_clock()
    it.wall_us()
    database.down = True
    boot.us += SAMPLE_EVERY_US
    assert it.wall_us() == 1_000_000 + SAMPLE_EVERY_US
    database.down, database.us = False, 1_000_000 + 2 * HOUR_US
    boot.us += RETRY_EVERY_US - 1
    assert it.wall_us() == 1_000_000 + SAMPLE_EVERY_US + RETRY_EVERY_US - 1
    boot.us += 1
    assert it.wall_us() == database.us


def test_a_raised_mark_lifts_the_databases_clock_too() -> None:
    it, _, boot = database_clock()
    it.raise_mark(7_000_000)
    assert it.wall_us() == 7_000_000
    boot.us += 3
    assert it.wall_us() == 7_000_003


def test_a_real_clock_is_not_skipped() -> None:
    """Only a virtual clock moves on by itself; here the driver must wait, and time must not have moved."""
    it, _, _ = clock()
    assert not it.skip(3600)
    assert it.wall_us() == 1_000_000
    of_database, _, _ = database_clock()
    assert not of_database.skip(3600)
    assert of_database.wall_us() == 1_000_000
