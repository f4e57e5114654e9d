"""The calendar: one row for each schedule.

Owns that row and the promises about it. Knows no run: whoever moves a row on begins one. Invariant: of all who move a row on from
one revision, one does.
"""

# pyright: reportReturnType=false
# The body of a protocol's method is its docstring; mypy checks those who implement it.
from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True)
class Scheduled:
    """The one row of a schedule: its ticks up to `through_us` are dealt with; `last_run` stands for the last that began a run."""

    name: str
    revision: int  # 1, and one more with each change
    cron: str
    timezone: str
    through_us: int
    next_us: int | None  # the next tick, as whoever has moved it on last has counted
    last_run: str = ""
    last_tick_us: int = 0
    paused: bool = False
    by: str = ""  # who has paused or resumed it, and why
    reason: str = ""


class Scheduling(Protocol):
    """Schedules by name."""

    def schedules(self) -> list[Scheduled]:
        """All schedules by name, read committed."""

    def keep_schedule(self, row: Scheduled) -> bool:
        """Compare-and-set on the revision before this one; the first one is stored where there is none. Durable on return. False:
        somebody else has changed it, or a call whose answer was lost has."""
