"""Closing: what a coroutine that is closed still has to tell the store is told by a thread of its own.

Owns that thread, which begins with the first of it and ends with the last. Knows no run. Invariant: handing in takes no lock and waits for nobody, since whoever
closes may be the garbage collector, in the middle of any other call of the same thread, which holds what that call holds.
"""

from __future__ import annotations

import _thread
from collections.abc import Callable
from contextlib import suppress
from queue import Empty, SimpleQueue
from typing import Any, Final

from recovery.forks import watch


class Closing:
    """Carries out what was handed in, one after the other. What fails is nobody's any more: the dead process or the ended lease says the same."""

    def __init__(self) -> None:
        self.forked()
        watch(self)

    def forked(self) -> None:
        """In a child: what the parent's coroutines left is the parent's."""
        self._left: SimpleQueue[Callable[[], Any]] = SimpleQueue()  # the one queue that may be put into while it is put into
        self._working = False

    def hand_in(self, call: Callable[[], Any]) -> None:
        self._left.put(call)
        if not self._working:
            self._working = True
            try:
                _thread.start_new_thread(self._work, ())  # `threading` would take a lock
            except RuntimeError:  # no thread can be had: there are too many, or the interpreter is on its way out
                self._working = False

    def _work(self) -> None:
        while not self._left.empty():
            with suppress(Empty):  # two of us are harmless
                while True:
                    call = self._left.get_nowait()
                    with suppress(Exception):  # see the class
                        call()
            self._working = False  # and look once more, for what was handed in before this


CLOSING: Final = Closing()
