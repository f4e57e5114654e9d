"""Threads: what is begun, waited for and joined by somebody whom an interrupt may strike.

Owns the two things that the main thread of a program does with others: it waits for a `Signal`, and it begins and joins a `Thread`. Knows nothing of what they
work on. Invariants: an interrupt that strikes in any of these comes out of it as itself, wherever it strikes; it keeps nobody else out; and who was joined
has ended.

`threading` does all three with conditions, which are written in Python: an interrupt between two of their lines lets go of a lock that is not taken, and what
comes out is the RuntimeError of that. Up to Python 3.12 an interrupted `Thread.join` also takes a thread that is at work for one that has ended (bpo-45274).
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from recovery.core.host_errors import ThreadUnavailable


class Signal:
    """Set once or more often, by anybody; until then whoever waits for it stands still."""

    __slots__ = ("_lock", "is_set")

    def __init__(self) -> None:
        self.is_set = False
        self._lock = threading.Lock()  # taken until it is set: to wait for a lock is one call, with nothing of ours in its middle
        self._lock.acquire()

    def set(self) -> None:
        self.is_set = True  # first: whoever is interrupted with the lock in hand need not take it again
        with suppress(RuntimeError):  # somebody has set it before
            self._lock.release()

    def wait(self, seconds: float = -1) -> bool:
        """Whether it is set, after so long at most; below zero: however long it takes."""
        if not self.is_set and self._lock.acquire(timeout=-1 if seconds < 0 else min(seconds, threading.TIMEOUT_MAX)):
            self.set()  # once more, for the next one that waits
        return self.is_set


class Thread(threading.Thread):
    """A thread that keeps no process alive. One whose `start` was interrupted may come to its work or not, and is not to be joined before that is known."""

    def __init__(self, work: Callable[..., Any], *args: Any, name: str | None = None) -> None:
        super().__init__(target=work, args=args, name=name, daemon=True)
        self._over = Signal()
        self._process = os.getpid()

    def start(self) -> None:
        """Raises ThreadUnavailable: it has not begun, and never will."""
        self._process = os.getpid()
        begin(super().start)

    def run(self) -> None:
        try:
            super().run()
        finally:
            self._over.set()

    def join(self, timeout: float | None = None) -> None:
        if (
            self._process != os.getpid()
        ):  # of a parent's threads a forked child has none, and none of them says there that it is over
            return
        if self._over.wait(-1 if timeout is None else max(0.0, timeout)):
            super().join()  # it has nothing left to do but to end


def begin(start: Callable[[], Any]) -> None:
    """Call what begins a thread. Raises ThreadUnavailable: it has begun none."""
    outside = sys.exception()
    try:
        start()
    except RuntimeError as error:
        if (interrupt := interruption(error, outside)) is not None:
            raise interrupt from None
        raise ThreadUnavailable(problem=str(error)) from error


def interruption(error: BaseException, outside: BaseException | None) -> BaseException | None:
    """The interrupt that this error began with, if one did: cleaning up after it, a library that finds its own objects half made raises errors in its place.
    outside: what was being handled when its call was made."""
    found: BaseException | None = error
    while found is not None and found is not outside:
        if not isinstance(found, Exception):
            return found
        found = found.__context__
    return None
