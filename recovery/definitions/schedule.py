"""Schedules: when runs begin by themselves, and which.

Owns what a schedule is, its ticks, and the run id of each. Knows neither databases nor what time it is. Invariant: a tick is a moment in UTC and has one run id,
whoever counts it; ticks rise, and one that falls into an hour that the zone leaves out or has twice is one moment.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, tzinfo
from typing import Any, Final, Literal, TypeAlias, get_args
from zoneinfo import ZoneInfo

from recovery.core.contracts import microseconds
from recovery.core.durations import stated
from recovery.core.errors import DefinitionError, RecoveryError
from recovery.core.ids import check_step_name
from recovery.core.instants import moment
from recovery.core.limits import PRIORITY_MAX
from recovery.definitions.child import BoundWorkflow

Missed: TypeAlias = Literal["skip", "last", "all"]
Overlap: TypeAlias = Literal["allow", "skip"]
Starts: TypeAlias = BoundWorkflow[Any] | Callable[[datetime], BoundWorkflow[Any]]

MISSED_MAX: Final = 1000
GRACE_DEFAULT: Final = timedelta(minutes=1)
_FIELDS: Final = 5
_WINDOWS: Final = (timedelta(hours=1), timedelta(days=2), timedelta(days=70), timedelta(days=3000))
"""How far back ticks are looked for, a wider one where a narrower holds too few: years of minutes are never counted through."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Schedule:
    """What `engine.schedule` was given. Raises DefinitionError, InvalidName."""

    name: str
    starts: Starts
    cron: str
    timezone: str = "UTC"
    missed: Missed = "last"
    missed_max: int = 100
    grace: timedelta = GRACE_DEFAULT
    overlap: Overlap = "allow"
    queue: str = ""
    priority: int | None = None

    def __post_init__(self) -> None:
        check_step_name(self.name, "schedule name")
        if self.queue:
            check_step_name(self.queue, "queue name")
        if not isinstance(self.starts, BoundWorkflow) and not callable(self.starts):
            problem = f"it was given {type(self.starts).__name__}, not a call of a workflow"
            raise self._refused(problem, "Pass one, such as report(day=1), or a function of the tick that returns one.")
        if isinstance(self.starts, BoundWorkflow):
            self.starts.taken()
        for field, said, known in (("missed", self.missed, Missed), ("overlap", self.overlap, Overlap)):
            if said not in get_args(known):
                raise self._refused(f"its {field} is {said!r}", f"Say one of {', '.join(get_args(known))}.")
        if not isinstance(self.missed_max, int) or not 1 <= self.missed_max <= MISSED_MAX:
            raise self._refused(f"its missed_max is {self.missed_max!r}", f"Make up for 1 to {MISSED_MAX} ticks.")
        if stated(self.grace, "schedule", self.name, "its grace") < timedelta(0):
            raise self._refused("its grace is negative", "Say how late a tick may begin and not be missed.")
        if self.priority is not None and abs(self.priority) > PRIORITY_MAX:
            problem = f"its priority {self.priority} is not within {-PRIORITY_MAX} and {PRIORITY_MAX}"
            raise self._refused(problem, "A look costs one step for each priority in use.")
        self._zone()
        self._check_cron()

    def run_id(self, tick_us: int) -> str:
        """The one run of a tick: the schedule's name and the moment in UTC."""
        at = moment(tick_us)
        return f"{self.name}:{at.strftime('%Y-%m-%dT%H:%M:%S')}{f'.{at.microsecond:06}' if at.microsecond else ''}Z"

    def call(self, tick_us: int) -> BoundWorkflow[Any]:
        """The call that a tick starts. Raises DefinitionError where its function raises or gives none, and what this library raises in it."""
        try:
            bound = self.starts if isinstance(self.starts, BoundWorkflow) else self.starts(moment(tick_us))
        except RecoveryError:
            raise
        except Exception as error:  # whatever code of the user's raises; its text may hold what is not for logs
            advice = f"Correct it; `recover schedules trigger {self.name} --debug` prints its traceback."
            raise self._refused(f"its function raised {type(error).__name__}", advice) from error
        if not isinstance(bound, BoundWorkflow):
            raise self._refused(f"its function gave {type(bound).__name__}", "Return a call of a workflow, such as report(day=1).")
        return bound

    def next_us(self, after_us: int) -> int | None:
        """The first tick behind a moment; None: there is none for fifty years."""
        from cronsim import CronSim

        for at in CronSim(self.cron, moment(after_us).astimezone(self._zone())):
            # Told of in local time, an hour that comes twice is told of again, and what falls into one that is left out is told of at its end, each time.
            tick_us = microseconds(at.astimezone(UTC) - datetime(1970, 1, 1, tzinfo=UTC))
            if tick_us > after_us:
                return tick_us
        return None

    def last_ticks(self, after_us: int, now_us: int, most: int) -> list[int]:
        """The last so many ticks behind a moment and up to now, in their order."""
        for window in (*map(microseconds, _WINDOWS), now_us - after_us):
            from_us = max(after_us, now_us - window)
            ticks: list[int] = []
            at_us = self.next_us(from_us)
            while at_us is not None and at_us <= now_us:
                ticks.append(at_us)
                at_us = self.next_us(at_us)
            if from_us == after_us or len(ticks) >= most:
                return ticks[-most:]
        return []

    def _zone(self) -> tzinfo:
        try:
            return UTC if self.timezone == "UTC" else ZoneInfo(self.timezone)
        except (ValueError, TypeError, OSError, KeyError) as error:  # ZoneInfoNotFoundError is a KeyError
            advice = "Name one such as Europe/Berlin; where the system brings none, install the package tzdata."
            raise self._refused(f"there is no time zone {self.timezone!r} here", advice) from error

    def _check_cron(self) -> None:
        from cronsim import CronSim, CronSimError

        advice = 'Write five fields: minute, hour, day of the month, month, day of the week, such as "0 3 * * *".'
        try:
            fields = len(self.cron.split())
            CronSim(self.cron, datetime(2000, 1, 1, tzinfo=UTC))
        except (CronSimError, AssertionError, AttributeError, ValueError, TypeError) as error:
            raise self._refused(f"its cron {self.cron!r} is none ({error})", advice) from error
        if fields != _FIELDS:
            raise self._refused(f"its cron {self.cron!r} has {fields} fields", advice)

    def _refused(self, problem: str, advice: str) -> DefinitionError:
        return DefinitionError(what="schedule", name=self.name, problem=problem, advice=advice)
