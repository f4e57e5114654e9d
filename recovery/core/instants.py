"""Instants as people read them. Microseconds since the Unix epoch in, ISO 8601 in UTC out."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Final

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)

LATEST_US: Final = 253_402_300_799_999_999
"""The last microsecond of the year 9999: later instants have no name."""


def moment(us: int) -> datetime:
    """The aware datetime of an instant, exact to the microsecond."""
    return _EPOCH + timedelta(microseconds=us)


def instant_us(at: datetime) -> int:
    """The instant of an aware datetime."""
    return (at - _EPOCH) // timedelta(microseconds=1)


def iso(us: int) -> str:
    """2026-01-31T12:00:00.000000Z"""
    return moment(us).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
