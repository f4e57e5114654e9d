"""Setbacks: runs that could not be brought on, and when they are tried again here.

Owns how long each is passed over. Invariant: it remembers at most so many, and none for longer than its pause; what it forgets is tried again sooner, which
costs a look and nothing else.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Final

PAUSE_US: Final = 1_000_000
PAUSE_US_MAX: Final = 300_000_000
REMEMBERED_MAX: Final = 1_000


class Setbacks:
    """By run id: until when on the boot clock, and how often in a row."""

    def __init__(self) -> None:
        self._of: dict[str, tuple[int, int]] = {}

    def add(self, run_id: str, boot_us: int) -> timedelta:
        """Pass a run over from now on, for twice as long as the last time. Returns for how long."""
        _, times = self._of.pop(run_id, (0, 0))
        pause_us = min(PAUSE_US << min(times, 20), PAUSE_US_MAX)
        self._of[run_id] = (boot_us + pause_us, times + 1)
        if len(self._of) > REMEMBERED_MAX:
            del self._of[next(iter(self._of))]
        return timedelta(microseconds=pause_us)

    def forget(self, run_id: str) -> None:
        """It went well."""
        self._of.pop(run_id, None)

    def passed_over(self, boot_us: int) -> frozenset[str]:
        """Those whose pause is not over."""
        return frozenset(run_id for run_id, (until_us, _) in self._of.items() if until_us > boot_us)

    def due_in_us(self, boot_us: int) -> int | None:
        """Until the first pause that is not over ends; None: there is none."""
        return min((until_us - boot_us for until_us, _ in self._of.values() if until_us > boot_us), default=None)
