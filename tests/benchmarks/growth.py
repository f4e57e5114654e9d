"""How the cost of a step grows: with the steps of its run, the settled runs beside it, what it returns, and the processes on the same database; and how evenly these share it.

Owns the places at which it is measured. All of them take turns within one round, as everything here does.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from tests.benchmarks.programs import playing
from tests.benchmarks.racing import OPENING, RIDING, Field, Program
from tests.benchmarks.reporting import Figure, measured
from tests.benchmarks.rounds import Contender, Series, Times
from tests.benchmarks.sharing import middle, shared

STEPS, SETTLED, PAYLOADS, WORKERS = (10, 100, 1_000, 10_000), (1, 1_000, 100_000), (10, 1_000, 10_000, 100_000), (1, 2, 4, 8)
TOTAL, EACH = 2_000, 500
"""Steps of a turn, where runs are of different length, and of each worker."""
PREFIX, SHARE = "growth: ", "share: "
ON_FILE, ON_SERVER = "processes on one file", "processes on PostgreSQL"


def contenders(field: Field, fresh: Callable[[], str]) -> list[Contender]:
    """Named by what grows, and to what. fresh: a new database on PostgreSQL."""
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
    found += [_together(field, ours, f"{ON_FILE}, {many}", many, str) for many in WORKERS]
    return found + [_together(field, ours, f"{ON_SERVER}, {many}", many, fresh) for many in WORKERS]


def _together(field: Field, program: Program, name: str, many: int, fresh: Callable[[], str], steps: int = EACH) -> Contender:
    """Processes with runs of their own on one database: the time for a step of all of them. How evenly they share it is told to the field."""

    def ready(place: Path) -> Callable[[], Times]:
        stack, url = ExitStack(), fresh()
        played = []
        for number in range(many):
            worker = Program(program.name, program.script, environment=(("BENCH_WORKER", f"{number}-"),))
            played.append(stack.enter_context(playing(worker, place.resolve(), url)))
            played[-1].turn("sequential", *OPENING)

        def run() -> Times:
            with stack, ThreadPoolExecutor(many) as pool:
                began = time.perf_counter()
                told = list(pool.map(lambda one: one.turn("watched", 1, steps), played))
                took = (time.perf_counter() - began) / (steps * many)
            came = shared([one["began"] for one in told], [one["longest_wait"] for one in told])
            field.told[name].append({"shared": came})
            return took, took, sum(one["processor"] for one in told) / (steps * many)

        return run

    return Contender(name, ready)


def figures(field: Field, taken: Mapping[str, Series]) -> list[Figure]:
    times = [
        measured(f"{PREFIX}{name}", series.returned.values(), series.processor.values(), "us") for name, series in taken.items()
    ]
    return times + [figure for name in taken if (figure := _evenness(name, field.told[name])) is not None]


def _evenness(name: str, told: list[dict[str, Any]]) -> Figure | None:
    """Of several processes, without the first round, which is thrown away."""
    found = [each["shared"] for each in told[1:] if each.get("shared") is not None]
    if not found or name.endswith(", 1"):
        return None
    whole = middle(found)
    each = [one.evenness for one in found]
    note = f"least over most of the steps of a process while all were at work; the longest step took {1000 * whole.longest_step:.1f} ms"
    turns = f", the longest wait for the turn {1000 * whole.longest_wait:.1f} ms" if whole.longest_wait else ""
    value, low, high = (round(one, 3) for one in (whole.evenness, min(each), max(each)))
    return Figure(f"{SHARE}{name}", value, "", low=low, high=high, rounds=len(each), note=note + turns)


def curves(found: list[Figure]) -> dict[str, list[tuple[int, float, float]]]:
    """By what grows: to what, microseconds for a step, and of processors."""
    said: dict[str, list[tuple[int, float, float]]] = {}
    for each in found:
        if each.name.startswith(PREFIX) and each.value is not None:
            what, _, to = each.name.removeprefix(PREFIX).partition(", ")
            said.setdefault(what, []).append((int(to.replace(",", "")), each.value, each.processor or 0))
    return {what: sorted(points) for what, points in said.items()}
