"""Measuring: how many bytes per second a directory makes durable.

Owns the measurement and its policy. Knows nothing of plans. Invariant: it writes no more than it was allowed to, into a directory of its own
that is gone afterwards whatever happens short of a kill; a rate counts only bytes that were synced, directory included.
"""

from __future__ import annotations

import os
import shutil
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Final

from recovery.checkpoint.planning import units
from recovery.checkpoint.refusals import MeasurementRefused
from recovery.syncing import sync

BLOCK: Final = 4 * 2**20
ROUNDS: Final = 5
SIZE: Final = 512 * 10**6
LIMIT_S: Final = 20.0
STREAMS_MAX: Final = 64
PREFIX: Final = ".recovery-measure-"

Tell = Callable[[int, int], None]
"""Told (bytes written so far, bytes in all) while it goes on."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Measurement:
    """Rates in bytes per second, one a round, in their order. `size`: bytes of a round. `of_memory`: that as a share of the machine's memory.

    `policy`: what was done, in a sentence.
    """

    directory: str
    streams: int
    size: int
    rates: tuple[float, ...]
    of_memory: float
    policy: str

    @property
    def bandwidth(self) -> float:
        """The median of the rounds: what a plan uses."""
        return median(self.rates)


def measure(
    directory: Path, *, streams: int = 1, size: int = SIZE, limit_s: float = LIMIT_S, tell: Tell = lambda _done, _all: None
) -> Measurement:
    """Write and sync up to `size` bytes in about `limit_s` seconds, in equal streams at once, and say how fast that was.

    A first, short round finds how much fits into the time and is not counted, because a first write is often slow for reasons of its own.
    Raises MeasurementRefused where the directory cannot be written to or has not twice the space of a round.
    """
    if not 1 <= streams <= STREAMS_MAX:
        raise _refused(directory, f"{streams} streams are out of range", f"Use 1 to {STREAMS_MAX}.")
    if size < (least := BLOCK * streams * (ROUNDS + 1)):
        advice = f"Allow at least {units.shown_size(least)}."
        raise _refused(directory, f"{units.shown_size(size)} are too few for {ROUNDS} rounds in {streams} streams", advice)
    if not directory.is_dir():
        raise _refused(directory, "it is no directory", "Name the directory that checkpoints go to.")
    try:
        _space(directory, size)
        with tempfile.TemporaryDirectory(prefix=PREFIX, dir=directory) as inside:
            return _measured(Path(inside), directory, streams, size, limit_s, tell)
    except OSError as error:
        raise _refused(directory, error.strerror or str(error), "Free its space or name another directory.") from error


def _measured(inside: Path, directory: Path, streams: int, size: int, limit_s: float, tell: Tell) -> Measurement:
    each = BLOCK  # bytes of one stream in one round
    first = _round(inside, streams, each)
    fits = first * limit_s / ROUNDS  # what a round may write
    each = max(1, int(min((size - BLOCK * streams) / ROUNDS, fits) / streams) // BLOCK) * BLOCK
    rates: list[float] = []
    tell(0, ROUNDS * each * streams)
    began = time.monotonic()
    for number in range(1, ROUNDS + 1):
        rates.append(_round(inside, streams, each))
        tell(number * each * streams, ROUNDS * each * streams)
        if (passed := time.monotonic() - began) + passed / number > limit_s:
            break
    total = each * streams
    return Measurement(
        directory=str(directory),
        streams=streams,
        size=total,
        rates=tuple(rates),
        of_memory=total / (os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")),
        policy=f"{len(rates)} rounds of {units.shown_size(total)} in {streams} stream{'s' * (streams > 1)}, random bytes, new files "
        f"written in blocks of {units.shown_size(BLOCK)} through the page cache, each file and its directory synced, then removed",
    )


def _round(inside: Path, streams: int, each: int) -> float:
    """Bytes per second of one round, all streams begun together and all durable at its end."""
    blocks = [os.urandom(BLOCK) for _ in range(streams)]  # not zeros, and not alike: a path may compress or share them
    paths = [inside / f"stream-{number:02d}" for number in range(streams)]
    with ThreadPoolExecutor(streams) as pool:
        began = time.perf_counter()
        list(pool.map(_write, paths, blocks, [each] * streams))
        _sync_directory(inside)
        took = time.perf_counter() - began
    for path in paths:
        path.unlink()
    return each * streams / max(took, 1e-9)


def _write(path: Path, block: bytes, count: int) -> None:
    file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        left = memoryview(block)
        for start in range(0, count, BLOCK):
            left = memoryview(block)[: count - start]
            while left:
                left = left[os.write(file, left) :]
        sync(file)
    finally:
        os.close(file)


def _sync_directory(path: Path) -> None:
    file = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        sync(file)
    finally:
        os.close(file)


def _space(directory: Path, size: int) -> None:
    """One round is on the disk at a time; twice that must be free, so that a measurement never fills a disk that others use."""
    needed, free = 2 * size // ROUNDS, shutil.disk_usage(directory).free
    if free < needed:
        raise _refused(
            directory,
            f"{units.shown_size(free)} are free, and {units.shown_size(needed)} must be",
            f"Free some, or measure with at most {units.shown_size(free * ROUNDS // 2)}.",
        )


def _refused(directory: Path, problem: str, advice: str) -> MeasurementRefused:
    return MeasurementRefused(directory=str(directory), problem=problem, advice=advice)
