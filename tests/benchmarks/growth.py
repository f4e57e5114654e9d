"""How the cost of a step grows: with the steps of its run, the settled runs beside it, what it returns, and the processes on the same database.

Owns the places at which it is measured. All of them take turns within one round, as everything here does.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path

from tests.benchmarks.programs import playing
from tests.benchmarks.racing import OPENING, RIDING, Field, Program
from tests.benchmarks.reporting import Figure, measured
from tests.benchmarks.rounds import Contender, Series, Times

STEPS, SETTLED, PAYLOADS, WORKERS = (10, 100, 1_000, 10_000), (1, 1_000, 100_000), (10, 1_000, 10_000, 100_000), (1, 2, 4)
TOTAL, EACH = 2_000, 500
"""Steps of a turn, where runs are of different length, and of each worker."""
PREFIX = "growth: "


def contenders(field: Field) -> list[Contender]:
    """Named by what grows, and to what."""
    ours = field.ours()[0]
    found = [
        field.contender(ours, "sequential", (max(1, TOTAL // steps), steps), named=f"steps of a run, {steps:,}") for steps in STEPS
    ]
    found += [
        field.contender(ours, "sequential", (1, EACH), named=f"settled runs beside it, {runs:,}", among=runs) for runs in SETTLED
    ]
    found += [
        field.contender(
            Program(RIDING, ours.script, environment=(("BENCH_BYTES", str(size)),)),
            "sequential",
            (1, EACH),
            named=f"bytes of an outcome, {size:,}",
        )
        for size in PAYLOADS
    ]
    return found + [Contender(f"processes on one file, {many}", _together(ours, many)) for many in WORKERS]


def _together(program: Program, many: int) -> Callable[[Path], Callable[[], Times]]:
    """Workers with runs of their own on one database: the time for a step of all of them."""

    def ready(place: Path) -> Callable[[], Times]:
        stack = ExitStack()
        played = []
        for number in range(many):
            worker = Program(program.name, program.script, environment=(("BENCH_WORKER", f"{number}-"),))
            played.append(stack.enter_context(playing(worker, place.resolve())))
            played[-1].turn("sequential", *OPENING)

        def run() -> Times:
            with stack, ThreadPoolExecutor(many) as pool:
                began = time.perf_counter()
                told = list(pool.map(lambda one: one.turn("sequential", 1, EACH), played))
                took = (time.perf_counter() - began) / (EACH * many)
            return took, took, sum(one["processor"] for one in told) / (EACH * many)

        return run

    return ready


def figures(taken: Mapping[str, Series]) -> list[Figure]:
    return [
        measured(f"{PREFIX}{name}", series.returned.values(), series.processor.values(), "us") for name, series in taken.items()
    ]


def curves(found: list[Figure]) -> dict[str, list[tuple[int, float, float]]]:
    """By what grows: to what, microseconds for a step, and of processors."""
    said: dict[str, list[tuple[int, float, float]]] = {}
    for each in found:
        if each.name.startswith(PREFIX) and each.value is not None:
            what, _, to = each.name.removeprefix(PREFIX).partition(", ")
            said.setdefault(what, []).append((int(to.replace(",", "")), each.value, each.processor or 0))
    return {what: sorted(points) for what, points in said.items()}
