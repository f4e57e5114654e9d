"""Takings: what was taken lately of each rate, in memory.

Owns the arithmetic of `quotas` over dicts. Knows neither runs nor locks: its journal has one. Invariant: it says what the table `quota` would.
"""

from __future__ import annotations

from recovery.core.limits import Rate, Taken, counting, left, put_off, took


class Takings:
    """Of all subjects."""

    def __init__(self) -> None:
        self.taken: dict[str, Taken] = {}
        self._promised_us: dict[str, int] = {}

    def take(self, subject: str, rate: Rate, now_us: int) -> int | None:
        """`ports.Journal.take`."""
        taken = self.taken[subject] = counting(self.taken.get(subject, ()), rate, now_us)
        if left(taken, rate):
            self.taken[subject] = took(taken, rate, now_us)
            return None
        self._promised_us[subject] = put_off(taken, rate, self._promised_us.get(subject, 0), now_us)
        return self._promised_us[subject]
