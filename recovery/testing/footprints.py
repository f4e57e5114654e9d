"""Footprints: what a simulated process was given, and what it did since somebody last looked.

Owns the words in which an explorer tells two processes apart. Must not know what any of it means. Invariant: whatever a process learns from
outside itself is fed here; two processes that made the same call and were fed the same are in the same place with the same memory.
"""

from __future__ import annotations

from dataclasses import dataclass
from hashlib import blake2b


@dataclass(slots=True)
class Footprint:
    """Of one process.

    fed: a digest of everything that its ports gave it since it started, in order.
    touched: it used the journal or the environment. outside: it used the environment. wrote: a write of it reached the journal. sent: a request left. timed: it read a clock.
    """

    fed: bytes = b""
    touched: bool = False
    outside: bool = False
    wrote: bool = False
    sent: bool = False
    timed: bool = False

    def feed(self, given: object) -> None:
        """It was given this. Its `repr` says all that matters of it, and nothing of where it lies."""
        self.fed = blake2b(repr(given).encode(), key=self.fed, digest_size=16).digest()

    def lift(self) -> None:
        """Look no further back than now: what was fed stays, what was done is forgotten."""
        self.touched = self.outside = self.wrote = self.sent = self.timed = False
