"""Clocks: the two readings of `ports.Clock`, from this host or from the database.

Owns the mark: wall time never reads below the highest time seen or journaled, and the mark moves on with the boot clock, so
that a clock stepped back (or frozen) cannot stretch a key window. Must not know runs or windows. Invariant: within one clock
`wall_us` never goes back, and a step forward is seen at once.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Final, Protocol

from recovery.core.errors import StoreUnavailable
from recovery.forks import watch

Reading = Callable[[], int]

_BOOT_CLOCK: Final[int | None] = getattr(time, "CLOCK_BOOTTIME", getattr(time, "CLOCK_MONOTONIC", None))
"""Linux stops CLOCK_MONOTONIC in suspend, so it has CLOCK_BOOTTIME; macOS lets CLOCK_MONOTONIC go on."""

SAMPLE_EVERY_US: Final = 60_000_000
"""How long the boot clock may carry a sample of the database's clock: at 50 ppm of drift, 3 ms."""

RETRY_EVERY_US: Final = 5_000_000
"""How soon an unreachable database is asked again, while the boot clock carries on."""

ROUND_TRIP_US: Final = 500_000
"""A sample that took longer is uncertain by as much, and is asked for again (twice at most)."""


def read_wall_us() -> int:
    """This host's wall time, in microseconds since the Unix epoch. May step."""
    return time.time_ns() // 1000


def read_boot_us() -> int:
    """Microseconds on a clock that never steps and, where the platform has one, goes on in suspend."""
    if _BOOT_CLOCK is None:
        return time.monotonic_ns() // 1000
    return time.clock_gettime_ns(_BOOT_CLOCK) // 1000


class Mark:
    """The highest time known, moved on by the boot clock. Not locked: its clock does that."""

    def __init__(self) -> None:
        self._at_us = 0
        self._boot_us: int | None = None  # None: nothing seen yet

    def value_us(self, boot_us: int) -> int:
        """What the mark has grown to; 0 before the first lift."""
        return 0 if self._boot_us is None else self._at_us + max(0, boot_us - self._boot_us)

    def lift(self, at_us: int, boot_us: int) -> int:
        """Raise the mark to `at_us` if that is higher, and return the mark."""
        if (since_us := self._boot_us) is not None:
            known_us = self._at_us + (
                boot_us - since_us if boot_us > since_us else 0
            )  # `value_us`: asked for four times in each step
            if at_us <= known_us:
                return known_us
        self._at_us, self._boot_us = at_us, boot_us
        return at_us


class SystemClock:
    """This host's clocks. Safe for several threads."""

    def __init__(self, *, wall: Reading = read_wall_us, boot: Reading = read_boot_us) -> None:
        self._wall = wall
        self._boot = boot
        self._mark = Mark()
        self.forked()
        watch(self)

    def forked(self) -> None:
        self._lock = threading.Lock()

    def wall_us(self) -> int:
        """Wall time, or the mark where that is higher."""
        with self._lock:
            return self._mark.lift(self._wall(), self._boot())

    def boot_us(self) -> int:
        return self._boot()

    def asks(self) -> bool:
        """This host's clocks need no I/O."""
        return False

    def skip(self, seconds: float) -> bool:  # noqa: ARG002
        """A real clock cannot be moved on: the caller waits."""
        return False

    def raise_mark(self, at_us: int) -> None:
        """Never read below `at_us` from now on: the highest time of a journal that was just loaded."""
        with self._lock:
            self._mark.lift(at_us, self._boot())


class DatabaseTime(Protocol):
    """The part of `ports.Journal` that a clock needs."""

    def now_us(self) -> int: ...


class DatabaseClock:
    """The database's clock, sampled at first use and every minute, and carried on by the boot clock in between.

    Several workers on several hosts then measure windows by one clock. Safe for several threads. The first reading raises
    StoreUnavailable if the database cannot be asked; later ones carry on and ask again.
    """

    def __init__(self, journal: DatabaseTime, *, boot: Reading = read_boot_us) -> None:
        self._journal = journal
        self._boot = boot
        self._mark = Mark()
        self._next_sample_us: int | None = None
        self.forked()
        watch(self)

    def forked(self) -> None:
        self._lock = threading.Lock()  # under which the database is asked: in a busy parent it is taken much of the time

    def wall_us(self) -> int:
        """The database's time. Asks the database once a minute; else no I/O."""
        with self._lock:
            if self.asks():
                self._sample()
            return self._mark.value_us(self._boot())

    def boot_us(self) -> int:
        return self._boot()

    def asks(self) -> bool:
        """Whether the minute is over, so that the next `wall_us` asks the database."""
        return self._next_sample_us is None or self._boot() >= self._next_sample_us

    def skip(self, seconds: float) -> bool:  # noqa: ARG002
        """A real clock cannot be moved on: the caller waits."""
        return False

    def raise_mark(self, at_us: int) -> None:
        """Never read below `at_us` from now on."""
        with self._lock:
            self._mark.lift(at_us, self._boot())

    def _sample(self) -> None:
        try:
            at_us, boot_us = self._best_of_three()
        except StoreUnavailable:
            if self._next_sample_us is None:
                raise
            self._next_sample_us = self._boot() + RETRY_EVERY_US
            return
        self._mark.lift(at_us, boot_us)
        self._next_sample_us = self._boot() + SAMPLE_EVERY_US

    def _best_of_three(self) -> tuple[int, int]:
        """A sample and the boot time it belongs to: the middle of its round trip."""
        samples: list[tuple[int, int, int]] = []
        while len(samples) < 3 and (not samples or min(samples)[0] > ROUND_TRIP_US):
            before_us = self._boot()
            at_us = self._journal.now_us()
            trip_us = self._boot() - before_us
            samples.append((trip_us, at_us, before_us + trip_us // 2))
        return min(samples)[1:]
