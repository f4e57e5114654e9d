"""Retry: a call that met a transient fault is made again, as it stands, a bounded number of times.

Owns how often and how long. Knows nothing of statements. Invariant: only calls that are safe to repeat pass through here: a retried
append is the same compare-and-set under the same token, so a commit whose acknowledgement was lost is recognised and not doubled.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Final, TypeVar

from sqlalchemy.exc import SQLAlchemyError
from tenacity import Retrying, retry_if_exception, stop_after_attempt, stop_after_delay, wait_random_exponential

from recovery.storage.faults import transient, translated
from recovery.storage.interruption import broken_off

T = TypeVar("T")

ATTEMPTS_MAX: Final = 7  # the first one included
DELAY_SECONDS_MAX: Final = 15.0
"""No attempt starts later than this after the first one; the drivers' own timeouts bound each attempt."""

_retrying: Final = Retrying(
    retry=retry_if_exception(lambda error: isinstance(error, Exception) and transient(error)),
    stop=stop_after_attempt(ATTEMPTS_MAX - 1) | stop_after_delay(DELAY_SECONDS_MAX),
    wait=wait_random_exponential(multiplier=0.05, max=2),
    reraise=True,
)


def persistently(call: Callable[[], T], url: str, clear: Callable[[], None], *, writing: bool) -> T:
    """Make the call until it succeeds or the bounds are reached; then raise what the last error means (`faults.translated`). clear: gives up what a call holds
    that an interruption has broken off (`broken_off`)."""
    outside = sys.exception()
    try:
        try:
            return call()  # nearly always: no retry machinery on the happy path
        except SQLAlchemyError as error:
            return _again(call, error, url, writing=writing)
    except BaseException as error:  # raised again
        broken_off(error, outside, clear)
        raise


def _again(call: Callable[[], T], error: SQLAlchemyError, url: str, *, writing: bool) -> T:
    if not transient(error):
        raise translated(error, url, writing=writing) from error
    try:
        return _retrying.copy()(call)
    except SQLAlchemyError as last:
        raise translated(last, url, writing=writing) from last
