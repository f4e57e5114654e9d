"""Footprints: what a simulated process was given, and what it did since somebody last looked.

Owns the words in which an explorer tells two processes apart. Must not know what any of it means. Invariant: whatever a process learns from
outside itself is fed here; two processes that made the same call and were fed the same are in the same place with the same memory.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import lru_cache
from hashlib import blake2b
from typing import Any

from recovery.ports import RunRow


@dataclass(slots=True)
class Footprint:
    """Of one process.

    touched: it used the journal or the environment. outside: it used the environment. wrote: a write of it reached the journal. sent: a request left. timed: it read a clock.
    """

    touched: bool = False
    outside: bool = False
    wrote: bool = False
    sent: bool = False
    timed: bool = False
    _given: Any = field(
        default_factory=lambda: blake2b(digest_size=16), repr=False
    )  # a running digest: most of what is fed, nobody asks behind

    @property
    def fed(self) -> bytes:
        """A digest of everything that its ports gave it since it started, in order."""
        fed: bytes = self._given.digest()
        return fed

    def feed(self, given: object) -> None:
        """It was given this. Its `repr` says all that matters of it, and nothing of where it lies."""
        told = repr(given).encode()
        self._given.update(b"%d:" % len(told))  # ("ab", "c") is not ("a", "bc")
        self._given.update(told)

    def lift(self) -> None:
        """Look no further back than now: what was fed stays, what was done is forgotten."""
        self.touched = self.outside = self.wrote = self.sent = self.timed = False


@lru_cache(maxsize=1024)
def row_text(row: RunRow) -> str:
    """A run's row, for whoever tells states apart. Kept: it is the largest thing that a process is given, and is given again and again."""
    return repr(row)
