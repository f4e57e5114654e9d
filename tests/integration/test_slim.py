"""What a run keeps of the steps that it has behind it, counted by what was allocated and not given back; and that what it does not keep is there when it is
needed."""

from __future__ import annotations

import asyncio
import gc
import tracemalloc
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

import pytest

from recovery import (
    AsyncEngine,
    AsyncRun,
    Call,
    Compensated,
    Engine,
    Environment,
    Riding,
    Run,
    Secret,
    Status,
    contracts,
    effect,
    errors,
    workflow,
)
from recovery.core.entries import Intent
from recovery.core.forgetting import AT_HAND
from recovery.encryption import Keyring

STEPS = 120
KEYED, NOWHERE = contracts.Keyed(window=timedelta(days=1)), Environment("nowhere")

allocated: list[int] = []


def look(number: int) -> None:
    """Note what is allocated when the run is half way, and when it is at its end."""
    if number in {STEPS // 2, STEPS - 1}:
        gc.collect()
        allocated.append(tracemalloc.get_traced_memory()[0])


@effect(KEYED, environment=NOWHERE)
def step(call: Call, *, number: int) -> str:
    look(number)
    return f"{number}"


@workflow
def many(run: Run, steps: int) -> int:
    for number in range(steps):
        run.perform(step(number=number))
        run.decide("choose", lambda: 1.0)
        run.publish("at", {"number": number})
    return steps


@workflow(name="many")
async def many_async(run: AsyncRun, steps: int) -> int:
    for number in range(steps):
        await run.perform(step(number=number))
        await run.decide("choose", lambda: 1.0)
        run.publish("at", {"number": number})
    return steps


def run_sync(database: str) -> None:
    with Engine(database, workflows=[many]) as engine:
        engine.run("warm", many, 20)  # what statements are compiled to, once
        tracemalloc.start()
        engine.run("long", many, STEPS)


def run_async(database: str) -> None:
    async def both() -> None:
        async with AsyncEngine(database, workflows=[many_async]) as engine:
            await engine.run("warm", many_async, 20)
            tracemalloc.start()
            await engine.run("long", many_async, STEPS)

    asyncio.run(both())


@pytest.mark.parametrize("run", [run_sync, run_async])
def test_a_first_run_keeps_next_to_nothing_of_what_it_has_behind_it(sqlite_url: str, run: Any) -> None:
    allocated.clear()
    try:
        run(sqlite_url)
    finally:
        tracemalloc.stop()
    half, whole = allocated
    kept = (whole - half) / (STEPS - 1 - STEPS // 2)
    assert kept < 1000, "an effect, a decision and a publication: it was more than five thousand bytes"


def test_a_run_that_is_taken_up_again_keeps_no_more(sqlite_url: str) -> None:
    """Once it has replayed what is recorded: neither the rows that it was loaded from, nor what they say."""
    interrupts = iter([True, False, True])

    @effect(KEYED, environment=NOWHERE)
    def last(call: Call) -> None:
        if next(interrupts, False):
            raise KeyboardInterrupt
        look(STEPS - 1)

    @workflow
    def resumed(run: Run) -> None:
        for number in range(STEPS):
            run.perform(step(number=-number))
            run.decide("choose", lambda: 1.0)
        run.perform(last())

    allocated.clear()
    with Engine(sqlite_url, workflows=[many, resumed]) as engine:
        with pytest.raises(KeyboardInterrupt):
            engine.run("warm", resumed)
        engine.run("warm", resumed)
        allocated.clear()
        with pytest.raises(KeyboardInterrupt):
            engine.run("long", resumed)
        tracemalloc.start()
        try:
            engine.run("long", resumed)
        finally:
            tracemalloc.stop()
    assert allocated[0] / STEPS < 1500, "an effect and a decision, and what a load takes once"


@dataclass
class Shelf:
    """What is taken and given back, in order. `seen`: what each compensation was told."""

    done: list[str] = field(default_factory=list)
    seen: list[tuple[Any, ...]] = field(default_factory=list)


SHELF = Shelf()


@effect(KEYED, environment=NOWHERE)
def take(call: Call, *, part: str, note: Secret[str], much: str) -> dict[str, int]:
    SHELF.done.append(f"take {part}")
    return {part: len(much)}


@take.compensation(KEYED)
def give(call: Call, outcome: dict[str, int], *, part: str, note: Secret[str], much: str) -> None:
    SHELF.done.append(f"give {part}")
    SHELF.seen.append((outcome, note, len(much)))


def taken(run: Run, number: int) -> None:
    run.perform(
        take(part=f"{number}", note=f"hush-{number}", much="x" * (100_000 if number == 1 else 10)), key=f"{run.run_id}-{number}"
    )


@workflow
def undone(run: Run) -> Compensated:
    for number in range(4):
        taken(run, number)
    return run.compensate()


@workflow
def undone_twice(run: Run) -> tuple[Compensated, Compensated]:
    taken(run, 0)
    taken(run, 1)
    first = run.compensate()
    taken(run, 2)
    with run.saga("inner"):
        taken(run, 3)
    return first, run.compensate()


@workflow
def undone_behind_a_saga(run: Run) -> None:
    try:
        with run.saga("outer"):
            taken(run, 0)
            with run.saga("inner"):
                taken(run, 1)
            run.decide("draw", lambda: 1.0)
            taken(run, 2)
            raise ValueError
    except ValueError:
        taken(run, 3)


ALL = [undone, undone_twice, undone_behind_a_saga]


@pytest.fixture(name="shelf")
def _shelf() -> Shelf:
    SHELF.done.clear()
    SHELF.seen.clear()
    return SHELF


@pytest.fixture(name="engine", params=["in the clear", "encrypted", "strict"])
def _engine(request: pytest.FixtureRequest, sqlite_url: str) -> Iterator[Engine]:
    encryption = Keyring({"k1": b"1" * 32}, current="k1") if request.param == "encrypted" else None
    with Engine(sqlite_url, workflows=ALL, encryption=encryption, riding=None if request.param == "strict" else Riding()) as engine:
        yield engine


def test_what_was_forgotten_is_undone_with_all_that_it_was(shelf: Shelf, engine: Engine) -> None:
    came = engine.run("r", undone)
    assert came.undone == ("take#4", "take#3", "take#2", "take#1")
    assert shelf.done == [*(f"take {n}" for n in range(4)), *(f"give {n}" for n in (3, 2, 1, 0))]
    assert shelf.seen == [({f"{n}": 100_000 if n == 1 else 10}, f"hush-{n}", 100_000 if n == 1 else 10) for n in (3, 2, 1, 0)]
    undoings = [entry for entry in engine.history("r") if isinstance(entry, Intent) and entry.undoes]
    assert [entry.key for entry in undoings] == [f"r-{n}/comp/1" for n in (3, 2, 1, 0)]
    assert engine.recover("r").value == came


def test_what_was_undone_and_forgotten_is_not_undone_again(shelf: Shelf, engine: Engine) -> None:
    first, second = engine.run("r", undone_twice)
    assert (first.undone, second.undone) == (("take#2", "take#1"), ("take#4", "take#3"))
    assert shelf.done == ["take 0", "take 1", "give 1", "give 0", "take 2", "take 3", "give 3", "give 2"]


def test_a_saga_keeps_what_it_may_undo(shelf: Shelf, engine: Engine) -> None:
    read: list[str] = []
    stream = engine.journal.stream
    engine.journal.stream = lambda run_id, take: (read.append(run_id), stream(run_id, take))[1]  # type: ignore[method-assign]  # looks on, and changes nothing
    engine.run("r", undone_behind_a_saga)
    assert shelf.done == ["take 0", "take 1", "take 2", "give 2", "give 1", "give 0", "take 3"]
    assert read == []


@effect(contracts.Read(), environment=NOWHERE)
def nothing(call: Call) -> int:
    return 0


@workflow
def undone_in_a_long_saga(run: Run, *, interrupted: bool) -> None:
    try:
        with run.saga("long"):
            taken(run, 0)
            for _ in range(AT_HAND + 2):
                run.perform(nothing())
            raise KeyboardInterrupt if interrupted else ValueError
    except KeyboardInterrupt:
        taken(run, 1)


ALL.append(undone_in_a_long_saga)


def test_a_long_saga_keeps_some_of_its_steps_and_reads_back_the_others(shelf: Shelf, engine: Engine) -> None:
    with pytest.raises(errors.RunFailed):
        engine.run("r", undone_in_a_long_saga, interrupted=False)
    assert shelf.done == ["take 0", "give 0"]
    with pytest.raises(errors.StepInterrupted):
        engine.run("s", undone_in_a_long_saga, interrupted=True)
    assert shelf.done == ["take 0", "give 0", "take 0"], "something was applied, though it is not at hand: nothing may follow on it"


@workflow
def tells(run: Run, *, fails: bool) -> None:
    taken(run, 0)
    run.decide("pass", lambda: "an own decision")
    taken(run, 1)
    if fails:
        raise ValueError("it ends with hush-0 and hush-1")
    run.decide("tell", told)


def told() -> str:
    raise ValueError("it was told hush-0")


@pytest.mark.parametrize("fails", [True, False])
def test_what_was_secret_in_what_was_forgotten_is_shown_by_no_message(shelf: Shelf, sqlite_url: str, fails: bool) -> None:
    with Engine(sqlite_url, workflows=[tells]) as engine:
        with pytest.raises(Exception, match="<secret>") as raised:
            engine.run("r", tells, fails=fails)
        assert "hush" not in str(raised.value)
        assert engine.list()[0].status in {Status.FAILED, Status.RUNNING}
    assert shelf.done == ["take 0", "take 1"]
