"""Serving: which of the queues that a worker is to serve nobody knows.

Owns what knowing a queue means. Must not refuse one: whoever enqueues a run into it makes it, and may do so later. Invariant: what is read are runs that can go on.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from difflib import SequenceMatcher
from typing import Final

from recovery.engine.wiring import Wiring

KNOWN_MAX: Final = 10
"""Names that are told; there may be a queue for each customer."""


def unknown(engine: Wiring, queues: Sequence[str]) -> Iterator[tuple[str, list[str]]]:
    """Those for which the engine states neither limits nor a schedule, and in which no run stands; each with names that are known, the most alike first."""
    stated = {"", *engine.queues, *(made.queue for made in engine.scheduled.values())}
    asked = [name for name in dict.fromkeys(queues) if name not in stated]
    if not asked:
        return
    known = stated | {each.queue for each in engine.journal.standing(engine.clock.wall_us())}
    for name in asked:
        if name not in known:
            yield name, sorted(known, key=lambda other: (-SequenceMatcher(None, name, other).ratio(), other))[:KNOWN_MAX]
