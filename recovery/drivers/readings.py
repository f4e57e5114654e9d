"""Readings: what one procedure has read of the clocks lately.

Owns which boot time a wall time was read with: a deadline that is stamped on one clock holds on the other. Knows no operation. Invariant: the boot clock is
read first, so that a deadline measured from it is never too late; each procedure has its own, so that however many branches there are, none pushes out the
reading that another one's attempt is stamped with.
"""

from __future__ import annotations

from typing import Final

from recovery.ports import Clock

READINGS_KEPT: Final = 8
"""Between the reading that an attempt is stamped with and its first byte lies one more at the most: of an answer that was looked at in between."""


class Readings(dict[int, int]):
    """The last few, by wall time."""

    def read(self, clock: Clock) -> int:
        """The wall clock, which asks nobody."""
        boot_us = clock.boot_us()
        wall_us = clock.wall_us()
        self[wall_us] = boot_us
        if len(self) > READINGS_KEPT:
            del self[next(iter(self))]
        return wall_us

    def keep(self, wall_us: int, boot_us: int) -> None:
        """A reading that was made elsewhere. boot_us: from before it."""
        self[wall_us] = boot_us
        if len(self) > READINGS_KEPT:
            del self[next(iter(self))]
