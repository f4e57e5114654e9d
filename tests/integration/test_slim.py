"""What a run keeps in memory of a step that it has behind it, counted by what was allocated and not given back."""

from __future__ import annotations

import gc
import tracemalloc
from datetime import timedelta

from recovery import Call, Engine, Environment, Run, contracts, effect, workflow

STEPS = 400
KEYED, NOWHERE = contracts.Keyed(window=timedelta(days=1)), Environment("nowhere")

allocated: dict[int, int] = {}


def look(number: int) -> None:
    """Note what is allocated when the run is half way, and when it is at its end."""
    if number in {STEPS // 2, STEPS - 1}:
        gc.collect()
        allocated[number] = tracemalloc.get_traced_memory()[0]


@effect(KEYED, environment=NOWHERE)
def step(call: Call, *, number: int) -> str:
    look(number)
    return f"{number}"


@workflow
def many(run: Run, steps: int) -> int:
    for number in range(steps):
        run.perform(step(number=number))
    return steps


def grown(database: str) -> float:
    """Bytes a step, in the second half of a run."""
    tracemalloc.start()
    try:
        with Engine(database, workflows=[many]) as engine:
            engine.run("long", many, STEPS)
    finally:
        tracemalloc.stop()
    return (allocated[STEPS - 1] - allocated[STEPS // 2]) / (STEPS - 1 - STEPS // 2)


def test_a_first_run_keeps_little_of_a_step_that_it_has_behind_it(sqlite_url: str) -> None:
    assert grown(sqlite_url) < 2500
