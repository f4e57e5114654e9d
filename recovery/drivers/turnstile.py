"""A turnstile: one at a time on an event loop, in the order in which they came.

Owns who is inside and who waits. An `asyncio.Lock` that costs next to nothing where nobody waits, which is nearly always: a step passes two of them.
Invariant: whoever leaves lets the next one in that has not been cancelled; one that is cancelled in the moment it is let in, lets in the next; and a
cancellation is all that is raised.
"""

from __future__ import annotations

import asyncio
from collections import deque
from contextlib import suppress


class Turnstile:
    """For one event loop. `taken`: somebody is inside."""

    __slots__ = ("_waiting", "taken")

    def __init__(self) -> None:
        self.taken = False
        self._waiting: deque[asyncio.Future[None]] | None = None  # once somebody has: runs have several of these

    def entered(self) -> bool:
        """Enter if nobody is inside."""
        if self.taken:
            return False
        self.taken = True
        return True

    async def enter(self) -> None:
        if self.entered():
            return
        come: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        if self._waiting is None:
            self._waiting = deque()
        waiting = self._waiting
        waiting.append(come)
        try:
            await come
        except BaseException:  # cancelled; raised again
            if come.done() and not come.cancelled():
                self.leave()
            else:
                with suppress(ValueError):  # whoever left meanwhile has passed it over
                    waiting.remove(come)
            raise

    def leave(self) -> None:
        while self._waiting:
            come = self._waiting.popleft()
            if not come.done():
                come.set_result(None)
                return
        self.taken = False
