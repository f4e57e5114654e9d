"""A run that has ended well is gone with its last reference: nothing of it waits for a garbage collection, which would stop its event loop for milliseconds."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Iterator
from datetime import timedelta
from threading import Event

import pytest

from recovery import AsyncEngine, AsyncRun, Call, Engine, Rejection, Run, contracts, effect, workflow
from recovery.core.machine import Machine


class Refused(Rejection):
    why: str


@effect(contracts.Keyed(window=timedelta(hours=24)), rejects=(Refused,))
def keyed(call: Call, *, number: int) -> int:
    if number == 3:
        raise Refused(why="three")
    return number


@effect(contracts.Keyed(window=timedelta(hours=24)), rejects=(Refused,), name="keyed")
async def keyed_async(call: Call, *, number: int) -> int:
    await asyncio.sleep(0)
    if number == 3:
        raise Refused(why="three")
    return number


@workflow
def all_kinds(run: Run) -> list[int]:
    run.decide("choose", lambda: 1)
    run.attempt(keyed(number=3))
    run.now()
    told = list(run.gather(*(lambda run, n=n: run.perform(keyed(number=n)) for n in range(2))))
    with run.deadline(timedelta(minutes=1), name="soon"):
        told.append(run.perform(keyed(number=4)))
    return told


@workflow(name="all_kinds")
async def all_kinds_async(run: AsyncRun) -> list[int]:
    await run.decide("choose", lambda: 1)
    await run.attempt(keyed_async(number=3))
    await run.now()
    told = list(await run.gather(*(lambda run, n=n: run.perform(keyed_async(number=n)) for n in range(2))))
    async with run.deadline(timedelta(minutes=1), name="soon"):
        told.append(await run.perform(keyed_async(number=4)))
    return told


came = Event()


@workflow
def interrupted(run: Run) -> list[int]:
    told = [run.perform(keyed(number=number)) for number in range(3)]
    if not came.is_set():
        raise KeyboardInterrupt
    return told


@pytest.fixture
def uncollected() -> Iterator[None]:
    gc.collect()
    gc.disable()
    yield
    gc.enable()


def machines(before: frozenset[int] = frozenset()) -> list[Machine]:
    """Those that there are now, beside these."""
    return [each for each in gc.get_objects() if type(each) is Machine and id(each) not in before]


@pytest.mark.usefixtures("uncollected")
def test_nothing_of_a_settled_run_waits_for_a_collection() -> None:
    before = frozenset(map(id, kept := machines()))
    with Engine("memory://", workflows=[all_kinds]) as engine:
        assert engine.run("a", all_kinds) == [0, 1, 4]
        assert machines(before) == []
    assert frozenset(map(id, kept)) == before


@pytest.mark.usefixtures("uncollected")
def test_nothing_of_a_settled_run_on_an_event_loop_waits_for_a_collection() -> None:
    async def settled() -> list[Machine]:
        async with AsyncEngine("memory://", workflows=[all_kinds_async]) as engine:
            assert await engine.run("a", all_kinds_async) == [0, 1, 4]
            return machines(before)

    before = frozenset(map(id, kept := machines()))
    assert asyncio.run(settled()) == []
    assert frozenset(map(id, kept)) == before


@pytest.mark.usefixtures("uncollected")
def test_nothing_of_a_replayed_run_waits_for_a_collection() -> None:
    before = frozenset(map(id, kept := machines()))
    with Engine("memory://", workflows=[interrupted]) as engine:
        with pytest.raises(KeyboardInterrupt):
            engine.run("a", interrupted)
        came.set()
        assert engine.recover("a").value == [0, 1, 2]
        assert machines(before) == []
    assert frozenset(map(id, kept)) == before
