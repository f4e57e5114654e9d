"""Riding: who looks after what rides in a `def` workflow while it does something else. An event loop calls back by itself.

Owns one thread for all runs of an engine, which starts with the first outcome that rides. Knows nothing of journals. Invariant: everybody is called
back after the same while, in the order in which they asked.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable
from datetime import timedelta
from typing import Final

from recovery import forks
from recovery.threads import Thread

IDLE_SECONDS_MAX: Final = 1.0
"""How long the thread is kept while nothing rides."""


class Watchman:
    """Calls back after a while. seconds: half of how long something may ride, so that what is seen twice has not ridden for longer."""

    def __init__(self, limit: timedelta) -> None:
        self.seconds = limit.total_seconds() / 2
        self._begin()
        forks.watch(self)

    def _begin(self) -> None:
        self._asked: deque[tuple[float, Callable[[bool], None]]] = deque()
        self._lock = threading.Lock()
        # It is entered by its lock, which an interrupt leaves taken or not; to enter a condition takes lines of its own, between which one can strike.
        self._come = threading.Condition(self._lock)
        self._thread: Thread | None = None

    def forked(self) -> None:
        self._begin()  # what rides in the parent is the parent's

    def call_later(self, back: Callable[[bool], None]) -> None:
        """Call `back` in another thread, with whether that is before its time. Returns at once."""
        with self._lock:
            self._asked.append((time.monotonic() + self.seconds, back))
            if self._thread is None:
                self._thread = Thread(self._watch, name="recovery-riding")
                try:
                    self._thread.start()
                except BaseException:  # an interrupt, or there are too many: it may never begin, and ends if it does; raised again
                    self._thread = None
                    raise
            elif len(self._asked) == 1:
                self._come.notify()

    def close(self) -> None:
        """Call everybody back now, before their time and in this thread, and let the other one end. A later `call_later` starts another."""
        with self._lock:
            thread, self._thread = self._thread, None
            asked, self._asked = self._asked, deque()
            self._come.notify()
        if thread is not None and thread is not threading.current_thread():
            thread.join()
        for _, back in asked:
            back(True)

    def _watch(self) -> None:
        me = threading.current_thread()
        while True:
            with self._lock:
                if not self._asked and self._thread is me:
                    self._come.wait(IDLE_SECONDS_MAX)
                if self._thread is not me:
                    return
                if not self._asked:
                    self._thread = None  # an engine that nobody closes keeps no thread
                    return
                due, back = self._asked[0]
                left = due - time.monotonic()
                if left > 0:
                    self._come.wait(left)
                    continue
                self._asked.popleft()
            back(False)
