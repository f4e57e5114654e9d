"""`python -m tests.benchmarks.checkpoint`: what a save and a load cost beside the peers and the bare disk, written to build/bench/checkpoint.json.

Owns which figures there are. Everything is a comparison within one run: the contenders take turns, since a machine that does other things too has no
time of its own to state; on a very busy one only the time of processors means much. Durable means: returned, and every file and directory that was written synced afterwards, unless the contender has synced all of them itself: the
store has, as `make power` shows, and the floor of small commits (finding and opening them is not counted). Small commits are done several times in a turn, as a run does that saves often; what the first of a turn takes,
with the processor's caches full of other things, stands beside it.

Read-back policy: the store's own, "sample", in every commit unless its name says otherwise. The floor and the peers read nothing back.
Loads find the files in the operating system's cache, all of them.
"""

from __future__ import annotations

import argparse
import importlib.util
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from tests.benchmarks import memory
from tests.benchmarks.reporting import Figure, bounded, compared, in_words, load_average, measured, put_on_page, read, show, write

if TYPE_CHECKING:
    from recovery.checkpoint import Learning

MB = 1_000_000


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.checkpoint", description=__doc__.splitlines()[0])
    parser.add_argument("--to", type=Path, default=Path("build/bench/checkpoint.json"))
    parser.add_argument("--place", type=Path, default=None, help="a directory on the disk to measure; 1 GB; default: build/bench")
    parser.add_argument("--rounds", type=int, default=9, help="of the large commits; others follow from it")
    parser.add_argument("--seconds", type=float, default=100, help="about how long it may take in all")
    parser.add_argument("--only", default="", help="of: memory, large, small, load")
    parser.add_argument("--page", type=Path, default=None, help="a page whose table of figures is rewritten")
    parser.add_argument(
        "--figures", type=Path, default=None, help="measure nothing: take the figures of an earlier run, for --page"
    )
    given = parser.parse_args()
    if given.figures is not None:
        put_on_page(given.page, "bench-checkpoint", in_words(read(given.figures)))
        return
    place = given.place or given.to.parent
    place.mkdir(parents=True, exist_ok=True)
    figures = [load_average("load average at the beginning")]
    with tempfile.TemporaryDirectory(prefix="checkpoint-", dir=place) as scratch:
        for name, part in PARTS.items():
            if given.only in {"", name}:
                figures += part(Path(scratch), given.rounds, given.seconds * SHARES[name])
    figures.append(load_average("load average at the end"))
    write(given.to, figures)
    show(figures, "Checkpoints: medians of interleaved rounds")
    print(f"Written to {given.to}.")
    if given.page is not None:
        put_on_page(given.page, "bench-checkpoint", in_words(figures))
        print(f"The table on {given.page} is that of this run.")


def of_memory(scratch: Path, rounds: int, seconds: float) -> list[Figure]:
    figures = []
    for way, states in {"in the foreground": 1, "in the background": 2}.items():
        if way == "in the background" and importlib.util.find_spec("recovery.checkpoint.background") is None:
            figures.append(Figure(f"peak memory of a save {way}", None, "MB", note="there is none yet"))
            continue
        found = memory.peak(way, scratch / way)
        state, most = found["state"] / MB, round(found["state"] * states / MB + 64)
        note = f"the state of {state:.0f} MB included"
        figures.append(bounded(f"peak memory of a save {way}", round(found["peak"] / MB, 1), "MB", most, note=note))
    return figures


def of_large(scratch: Path, rounds: int, seconds: float) -> list[Figure]:
    from tests.benchmarks.states import large

    return _commits("256 MB", large(), scratch, rounds, seconds, _judged_large, streams=2)


def of_small(scratch: Path, rounds: int, seconds: float) -> list[Figure]:
    from tests.benchmarks.states import small

    return _commits("96 kB", small(), scratch, rounds * 4, seconds, _judged_small, streams=1, repeats=REPEATS)


def of_loads(scratch: Path, rounds: int, seconds: float) -> list[Figure]:
    from tests.benchmarks import contenders
    from tests.benchmarks.rounds import interleaved, ratio
    from tests.benchmarks.states import large

    taken = interleaved(contenders.loads(scratch / "loads", large()), scratch, rounds=rounds, seconds=seconds).repeated
    figures = {
        name: measured(f"load 256 MB: {name}", series.returned.values(), series.processor.values())
        for name, series in taken.items()
    }
    ours, bare = taken[contenders.OURS].returned, taken[contenders.BARE].returned
    judged = compared("load 256 MB, verified", figures[contenders.OURS], ratio(ours, bare), 2, contenders.BARE)
    return [*figures.values(), judged]


def _commits(
    size: str,
    state: Learning,
    scratch: Path,
    rounds: int,
    seconds: float,
    judged: Callable[[Mapping[str, Figure], Callable[[str], float]], list[Figure]],
    *,
    streams: int,
    repeats: int = 1,
) -> list[Figure]:
    from tests.benchmarks import contenders
    from tests.benchmarks.rounds import interleaved, ratio

    there, absent = contenders.commits(state, streams)
    both = interleaved(there, scratch, rounds=rounds, seconds=seconds, repeats=repeats)
    taken = both.repeated
    figures = {
        name: measured(f"commit {size}: {name}", series.durable.values(), series.processor.values())
        for name, series in taken.items()
    }
    first = [
        measured(f"commit {size}, the first of a turn: {name}", series.durable.values(), series.processor.values())
        for name, series in (both.first.items() if repeats > 1 else ())
    ]
    missing = [Figure(f"commit {size}: {name}", None, "ms", note=f"not installed here: {why}") for name, why in absent.items()]
    ours = taken[contenders.OURS].durable
    return [
        *figures.values(),
        *first,
        *missing,
        *judged(figures, lambda name: ratio(ours, taken[name].durable) if name in taken else 0),
    ]


def _judged_large(figures: Mapping[str, Figure], to: Callable[[str], float]) -> list[Figure]:
    from tests.benchmarks.contenders import BARE, DCP, OURS

    found = [compared("commit 256 MB over the floor", figures[OURS], to(BARE), 1.25, BARE)]
    return found + [compared("commit 256 MB over DCP", figures[OURS], to(name), 0.7, name) for name in DCP if name in figures]


def _judged_small(figures: Mapping[str, Figure], to: Callable[[str], float]) -> list[Figure]:
    from tests.benchmarks.contenders import DCP, OURS, STEPS

    floor = Figure("commit 96 kB over its floor", figures[OURS].value, "ms", round(to(STEPS), 3), note=f"to {STEPS}")
    found = [bounded("commit 96 kB", figures[OURS].value or 0, "ms", 2), floor]
    return found + [compared("commit 96 kB over DCP", figures[OURS], to(name), 0.25, name) for name in DCP if name in figures]


PARTS = {"memory": of_memory, "large": of_large, "small": of_small, "load": of_loads}
"""Memory first, while this process is small."""

SHARES = {"memory": 0.0, "large": 0.5, "small": 0.35, "load": 0.15}
"""Of the time."""

REPEATS = 6
"""Small commits of one contender in one turn."""

if __name__ == "__main__":
    main()
