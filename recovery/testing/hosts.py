"""Hosts: clocks of several machines over one virtual time, each with its own error, steps and suspends.

Owns what a host's two readings show. Must not know runs or environments. Invariant: it is the real `SystemClock`, mark included, over
readings that are set by hand; true time moves only as the manual clock does.
"""

from __future__ import annotations

from datetime import timedelta

from recovery.clocks import SystemClock
from recovery.core.contracts import microseconds
from recovery.testing.clock import ManualClock


class HostClock(SystemClock):
    """The clock of one process on one host. error: how far its wall clock is ahead of true time."""

    def __init__(self, time: ManualClock, *, error: timedelta = timedelta(0)) -> None:
        self._time = time
        self._ahead_us = error // timedelta(microseconds=1)
        self._stood_us = 0
        super().__init__(wall=self.raw_wall_us, boot=self.raw_boot_us)

    def raw_wall_us(self) -> int:
        """What the host's wall clock shows, mark apart."""
        return self._time.wall_us() + self._ahead_us

    def raw_boot_us(self) -> int:
        return self._time.boot_us() - self._stood_us

    def step(self, by: timedelta) -> None:
        """The wall clock is set, forward or back. The boot clock does not notice."""
        self._ahead_us += by // timedelta(microseconds=1)

    def suspend(self, duration: timedelta, *, wall_stands: bool = False, boot_stands: bool = False) -> None:
        """Time passes and the process does nothing. One of the two clocks may stand still meanwhile."""
        self._time.advance(duration)
        self._ahead_us -= microseconds(duration) if wall_stands else 0
        self._stood_us += microseconds(duration) if boot_stands else 0

    def skip(self, seconds: float) -> bool:
        return self._time.skip(seconds)
