"""Interleaved rounds: contenders take turns, in an order that is drawn for each round, so that what else the machine does falls on all of them.

Owns the clock and the ratios. Must not know what is measured. Invariant: the first round is thrown away; a ratio compares two contenders within each round
and is the median over the rounds; nothing that a turn leaves behind (garbage, files to be deleted, what the file system has still to write) falls on the next one.

Where turns are small, what they wrote is therefore deleted when all have been taken: ext4 without a journal passes over every inode that was deleted within the last minute when it makes
a file, so that some peers' thousand files would be paid for by whoever comes next.
"""

from __future__ import annotations

import gc
import random
import shutil
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tests.benchmarks import raw

Times = tuple[float, float, float]
"""As the three of a `Series`."""


@dataclass(frozen=True)
class Contender:
    """`ready` is given a fresh directory and makes what is timed: a function that returns what it wrote, None if it wrote nothing, or, where another process did it,
    the times that this one took.

    durable: whether it is when it returns, so that nothing is left to sync. every: it takes part in each so manieth round: those that no target depends on, and that take seconds, leave the time to the others.
    """

    name: str
    ready: Callable[[Path], Callable[[], Path | Times | None]]
    every: int = 1
    durable: bool = False


@dataclass
class Series:
    """Seconds of one contender by round: until it returned, until all that it wrote was synced, and of processors in all its threads.

    The last says most where other things run on the machine: they hardly change it.
    """

    returned: dict[int, float] = field(default_factory=dict)
    durable: dict[int, float] = field(default_factory=dict)
    processor: dict[int, float] = field(default_factory=dict)

    def add(self, turn: int, times: Times) -> None:
        self.returned[turn], self.durable[turn], self.processor[turn] = times


@dataclass
class Taken:
    """repeated: what contenders take when they do the same again and again. first: the first of a turn, right after all the others did theirs."""

    repeated: dict[str, Series]
    first: dict[str, Series]


def interleaved(contenders: Sequence[Contender], place: Path, *, rounds: int, seconds: float, repeats: int = 1) -> Taken:
    """By name. Ends after so many rounds, or after three if the time is up.

    repeats: how often a contender does it in one turn; its time in that round is the median of all but the first. What takes a hundred milliseconds
    needs none: it is hardly changed by what others have left in the processor's caches.
    """
    taken = Taken({each.name: Series() for each in contenders}, {each.name: Series() for each in contenders})
    order = random.Random(17)  # not a secret
    left: list[Path] = []
    began = time.perf_counter()
    for turn in range(rounds + 1):
        if turn > 3 and time.perf_counter() - began > seconds:
            break
        for each in order.sample(contenders, len(contenders)):
            if turn % each.every:
                continue
            left.append(place / f"turn-{len(left)}")
            first, *again = _timed(each, left[-1], repeats)
            if repeats == 1:  # or there would be gigabytes
                _remove(left[-1])
            if turn:
                taken.first[each.name].add(turn, first)
                taken.repeated[each.name].add(turn, _medians(again or [first]))
    for where in left:
        _remove(where)
    return Taken(*({name: series for name, series in found.items() if series.returned} for found in (taken.repeated, taken.first)))


def _medians(times: Sequence[Times]) -> Times:
    returned, durable, processor = (statistics.median(each) for each in zip(*times, strict=True))
    return returned, durable, processor


def _timed(contender: Contender, directory: Path, repeats: int) -> list[Times]:
    directory.mkdir()
    places = [directory / str(number) for number in range(repeats)]
    for place in places:
        place.mkdir()
    runs = [contender.ready(place) for place in places]
    gc.collect()
    times = [_once(run, contender.durable) for run in runs]
    runs.clear()
    return times


def _remove(directory: Path) -> None:
    if directory.exists():
        shutil.rmtree(directory)
        raw.sync(directory.parent)


def _once(run: Callable[[], Path | Times | None], durable: bool) -> Times:
    spent = time.process_time()
    began = time.perf_counter()
    written = run()
    returned = time.perf_counter() - began
    spent = time.process_time() - spent
    if isinstance(written, tuple):
        return written
    return returned, returned + (raw.sync_all(written) if written is not None and not durable else 0), spent


def ratio(of: Mapping[int, float], to: Mapping[int, float]) -> float:
    """The median over the rounds in which both took part."""
    return statistics.median(of[turn] / to[turn] for turn in of.keys() & to.keys())
