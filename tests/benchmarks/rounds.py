"""Interleaved rounds: contenders take turns, in an order that is drawn for each round, so that what else the machine does falls on all of them.

Owns the clock and the ratios. Must not know what is measured. Invariant: the first round is thrown away; a ratio compares two contenders within each round
and is the median over the rounds.
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


@dataclass(frozen=True)
class Contender:
    """`ready` is given a fresh directory and makes what is timed: a function that returns what it wrote, or None if it wrote nothing.

    every: it takes part in each so manieth round: those that no target depends on, and that take seconds, leave the time to the others.
    """

    name: str
    ready: Callable[[Path], Callable[[], Path | None]]
    every: int = 1


@dataclass
class Series:
    """Seconds of one contender by round: until it returned, until all that it wrote was synced, and of processors in all its threads.

    The last says most where other things run on the machine: they hardly change it.
    """

    returned: dict[int, float] = field(default_factory=dict)
    durable: dict[int, float] = field(default_factory=dict)
    processor: dict[int, float] = field(default_factory=dict)


def interleaved(contenders: Sequence[Contender], place: Path, *, rounds: int, seconds: float) -> dict[str, Series]:
    """By name. Ends after so many rounds, or after three if the time is up."""
    taken = {each.name: Series() for each in contenders}
    order = random.Random(17)  # not a secret
    began = time.perf_counter()
    for turn in range(rounds + 1):
        if turn > 3 and time.perf_counter() - began > seconds:
            break
        for each in order.sample(contenders, len(contenders)):
            if turn % each.every:
                continue
            returned, durable, processor = _timed(each, place / "turn")
            if turn:
                taken[each.name].returned[turn] = returned
                taken[each.name].durable[turn] = durable
                taken[each.name].processor[turn] = processor
    return {name: series for name, series in taken.items() if series.returned}


def _timed(contender: Contender, directory: Path) -> tuple[float, float, float]:
    directory.mkdir()
    run = contender.ready(directory)
    gc.collect()
    spent = time.process_time()
    began = time.perf_counter()
    written = run()
    returned = time.perf_counter()
    if written is not None:
        raw.sync_all(written)
    durable = time.perf_counter()
    spent = time.process_time() - spent
    shutil.rmtree(directory)
    return returned - began, durable - began, spent


def ratio(of: Mapping[int, float], to: Mapping[int, float]) -> float:
    """The median over the rounds in which both took part."""
    return statistics.median(of[turn] / to[turn] for turn in of.keys() & to.keys())
