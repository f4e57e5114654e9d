"""The calendar of a worker: when its schedules are looked at, and that one which fails stops no other.

Owns the times of the next looks. Knows no cron. Invariant: between two ticks nothing is asked of the database.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from recovery.core.errors import RecoveryError, StoreUnavailable
from recovery.drivers.sync import SyncDriver, finish
from recovery.engine.wiring import Wiring
from recovery.logs import logger
from recovery.operators import scheduling
from recovery.operators.scheduling import Ticked

AGAIN_US: Final = 60_000_000
"""When a schedule is looked at again that could not be brought up: its function raises, say."""


@dataclass(frozen=True, slots=True)
class Refused:
    """A schedule that could not be brought up."""

    schedule: str
    problem: str


class Calendar:
    """The schedules of one engine. The first look is at once: it makes up for what was missed."""

    def __init__(self, engine: Wiring) -> None:
        self._engine = engine
        self._due_us: dict[str, int | None] = {}

    def due_in_us(self) -> int | None:
        """Until the next look; None: there is none."""
        due = [self._due_us.get(name, 0) for name in self._engine.scheduled]
        now_us = self._engine.clock.wall_us() if due else 0
        return min((max(0, at_us - now_us) for at_us in due if at_us is not None), default=None)

    def look(self) -> Iterator[Ticked | Refused]:
        """Begin what is due. Raises StoreUnavailable."""
        if self.due_in_us() != 0:
            return
        for name, made in list(self._engine.scheduled.items()):
            due_us = self._due_us.get(name, 0)
            if due_us is None or due_us > self._engine.clock.wall_us():
                continue
            priority = self._engine.priority_in(made.queue, made.priority)
            procedure = scheduling.bring_up(self._engine.world(), made, priority)
            try:
                ticked, self._due_us[name] = finish(SyncDriver(self._engine.surroundings()).drive(procedure))
            except StoreUnavailable:
                raise
            except Exception as error:  # noqa: BLE001  # of this schedule: its function may raise anything, and the others go on
                problem = str(error) if isinstance(error, RecoveryError) else type(error).__name__
                logger(__name__).error("a schedule could not be brought up", schedule=name, problem=problem)
                self._due_us[name] = self._engine.clock.wall_us() + AGAIN_US
                yield Refused(name, problem)
            else:
                yield from ticked
