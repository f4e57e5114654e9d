"""What time it is: the one port that is no journal.

Owns the promises of a clock, whether of this process, of a database, or moved by hand. Knows no journal.
"""

# pyright: reportReturnType=false
# The body of a protocol's method is its docstring; mypy checks those who implement it.
from __future__ import annotations

from typing import Protocol


class Clock(Protocol):
    """Two readings. Neither is ever read by the core: drivers feed what they read."""

    def wall_us(self) -> int:
        """Microseconds since the Unix epoch: what windows and recorded times are measured in. Never goes back in one process."""

    def boot_us(self) -> int:
        """Microseconds on a clock that goes on in suspend and never steps (CLOCK_BOOTTIME): what durations are measured in."""

    def asks(self) -> bool:
        """Whether the next `wall_us` does I/O (asks a database); the async driver then reads it outside its event loop."""

    def raise_mark(self, at_us: int) -> None:
        """Never read a wall time below `at_us` from now on: the highest time of a journal that was just loaded."""

    def skip(self, seconds: float) -> bool:
        """A virtual clock moves on by itself and returns True; a real one returns False, and the driver waits."""
