"""Which places a test kills at: a third of them, another third for each of its cases, or all under RECOVERY_SWEEP=full (`make sweep`)."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TypeVar
from zlib import crc32

T = TypeVar("T")


def sampled(places: Sequence[T], case: str) -> list[T]:
    """The same for the same case in each run."""
    if os.environ.get("RECOVERY_SWEEP") == "full":
        return list(places)
    return list(places[crc32(case.encode()) % 3 :: 3])
