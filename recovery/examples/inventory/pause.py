"""Holding a request at a known place, so that a demo or a test can kill somebody exactly there instead of hoping.

Owns the waiting. Knows nothing of requests. Invariant: without a place it holds nothing.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from dataclasses import dataclass, field

ANY = ""
"""No key: whichever is held."""


@dataclass
class Pause:
    """Holds the first execution of a key at a place, so that a demo can kill somebody exactly there.

    where: "in-transaction" (the effect is done, nothing is committed), "after-commit" (committed, the reply is held back), "" (nowhere).
    """

    where: str = ""
    _reached: defaultdict[str, asyncio.Event] = field(default_factory=lambda: defaultdict(asyncio.Event))
    _resumed: asyncio.Event = field(default_factory=asyncio.Event)

    async def hold(self, where: str, key: str) -> None:
        if where == self.where:
            self._reached[key].set()
            self._reached[ANY].set()
            await self._resumed.wait()

    async def until_reached(self, key: str = ANY) -> None:
        """Of requests that come at the same time the first may be any, and it may keep the others out: who wants just one held waits for ANY."""
        await self._reached[key].wait()

    def resume(self) -> None:
        self._resumed.set()
