"""A clock that moves only when it is told to.

Owns virtual time: the two readings of `ports.Clock` and what is due at which moment. Must not know runs or environments. Invariant: time
never goes back; what falls due on the way is called in order of its time, and reads exactly that time.
"""

from __future__ import annotations

import heapq
import threading
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from itertools import count
from typing import Final

from recovery.core.contracts import microseconds
from recovery.core.instants import instant_us

START: Final = datetime(2026, 1, 1, tzinfo=UTC)


class ManualClock:
    """Implements `ports.Clock`. Waiting on it takes no real time: `skip` moves it on. Safe for several threads.

    start: the wall time at the beginning, with time zone. The boot clock begins at zero. Both run at the same speed.
    """

    def __init__(self, start: datetime = START) -> None:
        self._start_us = instant_us(start)
        self._elapsed_us = 0
        self._lock = threading.RLock()
        self._numbers = count()
        self._due: list[tuple[int, int, Callable[[], None]]] = []

    def wall_us(self) -> int:
        with self._lock:
            return self._start_us + self._elapsed_us

    def boot_us(self) -> int:
        with self._lock:
            return self._elapsed_us

    def asks(self) -> bool:
        """It never does any I/O."""
        return False

    def skip(self, seconds: float) -> bool:
        """Move on by at least `seconds`, as a driver that waits wants it. Always True."""
        self.advance(timedelta(microseconds=max(0, -(-seconds * 1_000_000 // 1))))
        return True

    def raise_mark(self, at_us: int) -> None:
        """Never show a wall time below `at_us` from now on. The boot clock stays."""
        with self._lock:
            self._start_us += max(0, at_us - self.wall_us())

    def advance(self, duration: timedelta) -> None:
        """Move on by `duration`. Raises ValueError for a negative one."""
        if duration < timedelta(0):
            raise ValueError(f"time does not go back by {duration}")
        self.advance_to(self.wall_us() + microseconds(duration))

    def advance_to(self, wall_us: int) -> None:
        """Move on until the wall clock shows `wall_us`; nothing happens if it shows more already."""
        while (call := self._next_due(wall_us)) is not None:
            call()  # outside the lock: it may read this clock, or plan more
        with self._lock:
            self._elapsed_us = max(self._elapsed_us, wall_us - self._start_us)

    def at(self, wall_us: int, call: Callable[[], None]) -> None:
        """Call `call` once when the wall clock shows `wall_us`, or with the next move if it does already."""
        with self._lock:
            heapq.heappush(self._due, (wall_us, next(self._numbers), call))

    def _next_due(self, until_us: int) -> Callable[[], None] | None:
        """The next call that is due by `until_us`; the clock then shows its time."""
        with self._lock:
            if not self._due or self._due[0][0] > until_us:
                return None
            at_us, _, call = heapq.heappop(self._due)
            self._elapsed_us = max(self._elapsed_us, at_us - self._start_us)
            return call
