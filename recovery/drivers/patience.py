"""Patience: how long runs that are at work wait for a store that does not answer.

Owns when the store is asked again, and who waits for it. Knows no store and no colour. Invariants: what is asked again is the same operation as it stood, an append
under its own token, so that one whose answer was lost is recognised; who is to end waits no longer.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Final

from recovery.core.contracts import microseconds
from recovery.core.operations import Commit, Deliver, Find, HoldContract, Now, Op, Poll, Use

REPEATABLE: Final = Now | Use | Find | Commit | Deliver | HoldContract | Poll
"""Operations that ask the store and nothing else. Whatever is written by them may be repeated as it stands (`ports.Journal`)."""

PAUSE_SECONDS_MAX: Final = 2.0


class Patience:
    """For all runs of a worker. longest: None waits for as long as it takes."""

    def __init__(self, longest: timedelta | None) -> None:
        self._longest_us = None if longest is None else microseconds(longest)
        self._lock = threading.Lock()
        self._waiting = 0

    @property
    def waiting(self) -> int:
        """How many runs wait for the store at this moment."""
        return self._waiting

    def lasts(self, waited_us: int) -> bool:
        """Whether to go on waiting after so long."""
        return self._longest_us is None or waited_us < self._longest_us

    def pause_seconds(self, times: int) -> float:
        """Before asking for the n-th time again: longer and longer, and drawn, so that not all runs of all workers come back in the same moment."""
        from tenacity import (
            RetryCallState,
            Retrying,
            wait_random_exponential,
        )  # here: every program that runs a workflow imports drivers

        state = RetryCallState(Retrying(), None, (), {})
        state.attempt_number = times
        return wait_random_exponential(multiplier=0.1, max=PAUSE_SECONDS_MAX)(state)

    @contextmanager
    def counted(self) -> Iterator[None]:
        """One more that waits, until the end of the block."""
        with self._lock:
            self._waiting += 1
        try:
            yield
        finally:
            with self._lock:
                self._waiting -= 1


def repeatable(operation: Op[object]) -> bool:
    return isinstance(operation, REPEATABLE)
