"""One engine, used by several threads and event loops at the same time, and what is said after its end."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import Any

import pytest

from recovery import AsyncEngine, Engine, Riding, Run, workflow
from recovery.core.errors import EngineClosed, ExitCode
from recovery.ports import Journal
from tests.integration.totals import async_total, echo, total


def at_once(count: int, work: Callable[[int], list[int]]) -> list[list[int]]:
    """What `count` threads get that begin together."""
    gate = threading.Barrier(count)

    def begun(number: int) -> list[int]:
        gate.wait(timeout=60)
        return work(number)

    with ThreadPoolExecutor(count) as threads:
        return list(threads.map(begun, range(count)))


def test_threads_and_loops_share_a_database_and_each_gets_its_own_answers(store_url: str) -> None:
    engine, loops = Engine(store_url, workflows=[total]), AsyncEngine(store_url, workflows=[async_total])

    def in_thread(thread: int) -> list[int]:
        return [engine.run(f"thread-{thread}-{number}", total, number) for number in range(4)]

    def in_loop(thread: int) -> list[int]:
        async def together() -> list[int]:
            return await asyncio.gather(*(loops.run(f"loop-{thread}-{number}", async_total, number) for number in range(4)))

        return asyncio.run(together())

    wanted = [3, 6, 9, 12]
    assert at_once(6, lambda number: in_thread(number) if number % 2 else in_loop(number)) == [wanted] * 6
    assert len(engine.list()) == 24
    asyncio.run(loops.close())
    engine.close()


def test_threads_that_want_one_run_get_one_outcome_of_it(store_url: str) -> None:
    engine = Engine(store_url, workflows=[total], wait_for_owner=timedelta(seconds=60))
    assert at_once(4, lambda _: [engine.run("one", total, 1)]) == [[6]] * 4
    assert [info.run_id for info in engine.list()] == ["one"]
    engine.close()


SYNC: dict[str, Callable[[Engine], object]] = {
    "run": lambda engine: engine.run("r", total, 1),
    "recover": lambda engine: engine.recover("r"),
    "get": lambda engine: engine.get("r"),
    "list": lambda engine: engine.list(),
    "history": lambda engine: engine.history("r"),
    "verify": lambda engine: engine.verify(),
    "signal": lambda engine: engine.signal("r", "name", 1, by="ann"),
    "cancel": lambda engine: engine.cancel("r", by="ann", reason="why"),
    "doubt": lambda engine: engine.doubt(),
}
ASYNC: dict[str, Callable[[AsyncEngine], Any]] = {
    "run": lambda engine: engine.run("r", async_total, 1),
    "recover": lambda engine: engine.recover("r"),
    "get": lambda engine: engine.get("r"),
    "list": lambda engine: engine.list(),
    "history": lambda engine: engine.history("r"),
    "verify": lambda engine: engine.verify(),
    "signal": lambda engine: engine.signal("r", "name", 1, by="ann"),
    "cancel": lambda engine: engine.cancel("r", by="ann", reason="why"),
    "doubt": lambda engine: engine.doubt(),
}


@pytest.mark.parametrize("call", SYNC)
def test_a_closed_engine_does_nothing_and_says_so(journal: Journal, call: str) -> None:
    with Engine(journal, workflows=[total]) as engine:
        engine.run("r", total, 1)
    engine.close()  # again
    with pytest.raises(
        EngineClosed, match=rf"The engine of {journal.url.split('?')[0]}.*is closed, and nothing happened"
    ) as caught:
        SYNC[call](engine)
    assert caught.value.exit_code is ExitCode.USAGE
    with engine:  # as a service that is started twice in one process
        SYNC["get"](engine)


@pytest.mark.parametrize("call", ASYNC)
def test_a_closed_async_engine_does_nothing_and_says_so(sqlite_url: str, call: str) -> None:
    async def story() -> None:
        async with AsyncEngine(sqlite_url, workflows=[async_total]) as engine:
            await engine.run("r", async_total, 1)
        await engine.close()
        with pytest.raises(EngineClosed):
            await ASYNC[call](engine)
        async with engine:
            await engine.get("r")

    asyncio.run(story())


def test_a_run_that_is_at_work_when_its_engine_is_closed_goes_on_to_its_end(journal: Journal) -> None:
    begun, closed = threading.Event(), threading.Event()

    @workflow(name="slow")
    def slow(run: Run) -> int:
        first = run.perform(echo(number=1))
        begun.set()
        assert closed.wait(timeout=60)
        return first + run.perform(echo(number=2))

    engine = Engine(journal, workflows=[slow])
    with ThreadPoolExecutor(1) as threads:
        ran = threads.submit(engine.run, "r", slow)
        assert begun.wait(timeout=60)
        engine.close()
        with pytest.raises(EngineClosed):
            engine.run("r", slow)
        closed.set()
        assert ran.result(timeout=60) == 3
    engine.flush()


@pytest.mark.parametrize("steps", [1, 3])
def test_what_rides_in_a_run_at_work_when_its_engine_is_closed_is_durable_then(journal: Journal, steps: int) -> None:
    """Be it what somebody began to look after, or what came behind that."""
    begun, closed = threading.Event(), threading.Event()

    @workflow(name="slow")
    def slow(run: Run) -> int:
        came = [run.perform(echo(number=number)) for number in range(steps)]
        begun.set()
        assert closed.wait(timeout=60)
        return len(came)

    def entries() -> int:
        row = journal.find("r")
        assert row is not None
        return row.head

    engine = Engine(journal, workflows=[slow], riding=Riding(limit=timedelta(hours=1)))
    with ThreadPoolExecutor(1) as threads:
        ran = threads.submit(engine.run, "r", slow)
        assert begun.wait(timeout=60)
        before = entries()
        engine.close()
        after = entries()
        closed.set()
        assert ran.result(timeout=60) == steps
    engine.flush()
    assert (before, after) == (2 * steps, 2 * steps + 1)
