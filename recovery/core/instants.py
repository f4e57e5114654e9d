"""Instants and durations as people read and write them. Microseconds since the Unix epoch in, ISO 8601 in UTC out."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from typing import Final

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)

LATEST_US: Final = 253_402_300_799_999_999
"""The last microsecond of the year 9999: later instants have no name."""

EARLIEST_US: Final = -62_135_596_800_000_000
"""The first microsecond of the year 1."""

_PART: Final = re.compile(r"(\d{1,12}(?:\.\d{1,6})?)(ms|s|m|h|d)", re.ASCII)
_UNITS: Final = {"ms": "milliseconds", "s": "seconds", "m": "minutes", "h": "hours", "d": "days"}


def moment(us: int) -> datetime:
    """The aware datetime of an instant, exact to the microsecond."""
    return _EPOCH + timedelta(0, 0, us)  # by place: by name it takes twice as long, twice in each step


def instant_us(at: datetime) -> int:
    """The instant of an aware datetime. One that has no name in UTC, as `datetime.max` in New York, is the nearest that has."""
    return min(LATEST_US, max(EARLIEST_US, (at - _EPOCH) // timedelta(microseconds=1)))


def iso(us: int) -> str:
    """2026-01-31T12:00:00.000000Z"""
    return moment(us).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def duration_of(written: str) -> timedelta:
    """The duration in "500ms", "30s", "20m", "25h", "7d" or a sum such as "1h30m". Raises ValueError for anything else."""
    parts = _PART.findall(written)
    if not parts or _PART.sub("", written):
        raise ValueError("a duration is written like 500ms, 30s, 20m, 25h, 7d or 1h30m")
    try:
        return sum((timedelta(**{_UNITS[unit]: float(number)}) for number, unit in parts), timedelta(0))
    except OverflowError:
        raise ValueError("a duration of more than 999,999,999 days is none") from None
