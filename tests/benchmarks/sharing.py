"""Sharing: how evenly processes that take steps at the same time get on.

Owns what is counted, and between when. Pure; must not know how it was measured. Invariant: only what lies in the time in which all of them were at work counts.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise


@dataclass(frozen=True)
class Shared:
    """evenness: the steps of the process that did least over those of the one that did most. longest_step: seconds; longest_wait: of these, at most, for the turn at
    the file, 0 where there are no turns."""

    evenness: float
    longest_step: float
    longest_wait: float


def shared(began: Sequence[Sequence[float]], waits: Sequence[float]) -> Shared | None:
    """began: of each process, when each of its steps began. None: they were never all at work."""
    if not all(began):
        return None
    first, last = max(times[0] for times in began), min(times[-1] for times in began)
    inside = [[at for at in times if first <= at <= last] for times in began]
    if first >= last or not all(len(times) > 1 for times in inside):
        return None
    counts = [len(times) for times in inside]
    longest = max(behind - before for times in inside for before, behind in pairwise(times))
    return Shared(min(counts) / max(counts), longest, max(waits))


def middle(found: Sequence[Shared]) -> Shared:
    """The median of the evenness, and the longest of all."""
    evenness = statistics.median(each.evenness for each in found)
    return Shared(evenness, max(each.longest_step for each in found), max(each.longest_wait for each in found))
