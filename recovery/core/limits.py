"""Limits: how much may be at work, and how often something may begin.

Owns what a rate and a queue's limits are, and the arithmetic of what was taken of a rate. Pure: times are passed in, as whole microseconds. Invariant: of a
rate at most `count` are taken in any stretch of time that is `per` long, wherever it begins: what was taken counts for as long as `per`, never for less.

What was taken is kept as pairs of a time and a number, oldest first. Where a rate allows more than `GROUPS` in its period, those that were taken within one
`GROUPS`th of it are one pair, as if all of them had been taken at the end of it: what is kept stays small, and is given back late rather than early.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import timedelta
from typing import Final, TypeAlias

from recovery.core.contracts import microseconds
from recovery.core.durations import stated
from recovery.core.errors import DefinitionError
from recovery.core.ids import check_step_name
from recovery.core.wording import of_type

GROUPS: Final = 64
COUNT_MAX: Final = 1_000_000_000
PRIORITY_MAX: Final = 100

Taken: TypeAlias = tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True)
class Rate:
    """At most `count` in any stretch of time that is `per` long. All of them may come at once; then nothing does until the first is `per` ago."""

    count: int
    per: timedelta

    def __post_init__(self) -> None:
        if not _whole(self.count) or not 1 <= self.count <= COUNT_MAX:
            raise _refused("rate", "count", f"it is {self.count!r}", f"Allow a whole number from 1 to {COUNT_MAX}.")
        if stated(self.per, "rate", "per") <= timedelta(0):
            raise _refused("rate", "per", "it is not longer than zero", "Say in how long a time, such as timedelta(minutes=1).")


@dataclass(frozen=True, slots=True)
class Queue:
    """A queue's limits, over all workers of a database.

    concurrency: how many of its runs workers have at a time; None: as many as they have room for.
    rate: how many of its runs begin in a time. A run that goes on after a wait, or after the death of its worker, begins no second time.
    priority: that of its runs, where `enqueue` states none.

    Raises DefinitionError, InvalidName.
    """

    name: str
    concurrency: int | None = None
    rate: Rate | None = None
    priority: int = 0

    def __post_init__(self) -> None:
        if self.name:  # the queue of runs without one has limits, too
            check_step_name(self.name)
        if self.concurrency is not None and (not _whole(self.concurrency) or self.concurrency < 1):
            raise _refused("queue", self.name, f"its concurrency is {self.concurrency!r}", "Allow one or more, or leave it out.")
        if self.rate is not None and not isinstance(self.rate, Rate):
            problem = f"its rate is {of_type(self.rate)}"
            raise _refused("queue", self.name, problem, "Pass Rate(100, per=timedelta(minutes=1)).")
        if not _whole(self.priority) or abs(self.priority) > PRIORITY_MAX:
            problem = f"its priority {self.priority!r} is not within {-PRIORITY_MAX} and {PRIORITY_MAX}"
            raise _refused("queue", self.name, problem, "A look costs one step for each priority in use.")

    @property
    def limited(self) -> bool:
        """Whether a claim has to look at anything but its priority."""
        return self.concurrency is not None or self.rate is not None


def by_name(queues: Iterable[Queue]) -> dict[str, Queue]:
    """The queues of one engine. Raises DefinitionError for what is none, and for two of one name."""
    found: dict[str, Queue] = {}
    if isinstance(queues, Queue):
        raise _refused("engine", "queues", "it is one queue", "Pass a list of them, such as [Queue(...)].")
    for queue in queues:
        if not isinstance(queue, Queue):
            raise _refused("engine", "queues", f"it holds {of_type(queue)}", 'Pass Queue("mail", concurrency=4) and the like.')
        if found.setdefault(queue.name, queue) is not queue:
            raise _refused("engine", "queues", f"it holds two queues {queue.name!r}", "State the limits of one queue once.")
    return found


def counting(taken: Taken, rate: Rate, now_us: int) -> Taken:
    """What still counts. A time far ahead, of a clock that was wrong, counts from now on: it holds things up for two periods at most."""
    per_us = microseconds(rate.per)
    return tuple((now_us if at_us > now_us + per_us else at_us, count) for at_us, count in taken if at_us + per_us > now_us)


def is_ahead(taken: Taken, rate: Rate, now_us: int) -> bool:
    """Whether `counting` changes a time that is far ahead. Whoever sees that keeps what it gave, or it would count from now on each time anew."""
    return any(at_us > now_us + microseconds(rate.per) for at_us, _ in taken)


def left(taken: Taken, rate: Rate) -> int:
    """How many may be taken now, of what `counting` gave."""
    return max(0, rate.count - sum(count for _, count in taken))


def frees_us(taken: Taken, rate: Rate) -> int:
    """When one more may be taken, where none is left of what `counting` gave."""
    over = sum(count for _, count in taken) - rate.count
    for at_us, count in taken:
        over -= count
        if over < 0:
            return at_us + microseconds(rate.per)
    raise AssertionError("some of the rate are left")


def put_off(taken: Taken, rate: Rate, promised_us: int, now_us: int) -> int:
    """When whoever is put off now is to ask again, of whom the last one was told `promised_us`: one after the other, as fast as the rate lets them. Where
    very many wait, or a clock was wrong, the first place is given anew."""
    per_us = microseconds(rate.per)
    next_us = promised_us + -(-per_us // rate.count)
    frees = frees_us(taken, rate)
    return frees if not now_us < promised_us <= next_us <= now_us + GROUPS * per_us else max(frees, next_us)


def took(taken: Taken, rate: Rate, now_us: int, count: int = 1) -> Taken:
    """With `count` more, taken now; where somebody's clock is ahead of ours, at the time of the last that was taken."""
    step_us = 1 if rate.count <= GROUPS else max(1, microseconds(rate.per) // GROUPS)
    at_us = -(-max(now_us, taken[-1][0] if taken else now_us) // step_us) * step_us
    if taken and taken[-1][0] == at_us:
        return *taken[:-1], (at_us, taken[-1][1] + count)
    return *taken, (at_us, count)


def _whole(number: object) -> bool:
    return isinstance(number, int) and not isinstance(number, bool)


def _refused(what: str, name: str, problem: str, advice: str) -> DefinitionError:
    return DefinitionError(what=what, name=name, problem=problem, advice=advice)
