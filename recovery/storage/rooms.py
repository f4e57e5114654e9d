"""Rooms: what a queue with limits still takes in, as one claim fills it.

Owns in which order limits are asked, in the same words for every store. Knows no database. Invariant: runs are let in by their urgency, and none that a limit keeps
out stands in the way of another queue's, nor of one that has begun already where only beginnings are limited.
"""

from __future__ import annotations

from recovery.core.entries import Status
from recovery.core.limits import Queue, Taken, counting, frees_us, is_ahead, left, took
from recovery.ports import RunRow


def subject_of(queue: Queue) -> str:
    """What its beginnings are counted under. Those of environments begin in another way."""
    return f"queue:{queue.name}"


class Room:
    """What one queue takes in now. at_work: how many of its runs somebody has; taken: what was taken of its rate."""

    def __init__(self, queue: Queue, at_work: int, taken: Taken, now_us: int) -> None:
        self._now_us = now_us
        self._rate = queue.rate
        self.slots = None if queue.concurrency is None else max(0, queue.concurrency - at_work)
        self._taken: Taken = () if queue.rate is None else counting(taken, queue.rate, now_us)
        self.starts = None if queue.rate is None else left(self._taken, queue.rate)
        self.begun = 0
        self._was_ahead = queue.rate is not None and is_ahead(taken, queue.rate, now_us)

    def lets_in(self, row: RunRow) -> bool:
        """Whether there is room for the run; it is taken up then."""
        begins = row.status is Status.QUEUED and self.starts is not None
        if self.slots == 0 or (begins and self.starts == 0):
            return False
        if self.slots is not None:
            self.slots -= 1
        if begins and self.starts is not None:
            self.starts -= 1
            self.begun += 1
        return True

    @property
    def is_to_keep(self) -> bool:
        """Whether `taken` says something new."""
        return self.begun > 0 or self._was_ahead

    @property
    def taken(self) -> Taken:
        """With what has begun by this claim."""
        return took(self._taken, self._rate, self._now_us, self.begun) if self.begun and self._rate is not None else self._taken

    @property
    def frees_us(self) -> int | None:
        """When its rate lets the next one begin; None where it does so now, and where only an end makes room."""
        return frees_us(self.taken, self._rate) if self.starts == 0 and self._rate is not None else None
