"""Which places a test kills at: a sixth of them, another sixth for each of its cases, or all under RECOVERY_SWEEP=full (`make sweep`).

EVERY=N (`make kills`) takes each N-th, and for N = 6 others than `make test` has taken.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TypeVar
from zlib import crc32

T = TypeVar("T")

EVERY = int(os.environ.get("EVERY", "0"))


def sampled(places: Sequence[T], case: str, step: int = 6) -> list[T]:
    """One of `step` places, and at least one; the same for the same case in each run."""
    if os.environ.get("RECOVERY_SWEEP") == "full":
        return list(places)
    step = min(EVERY or step, len(places))
    return list(places[(crc32(case.encode()) + bool(EVERY)) % step :: step])
