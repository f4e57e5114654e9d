"""AsyncEngine: the same machine under the event loop. What is peculiar to it: cancellation, concurrency, forgotten awaits."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import operator
import threading
import time
from collections.abc import Coroutine
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import Any

import pytest

from recovery import Applied, AsyncEngine, AsyncRun, Call, Engine, Rejected, Run, contracts, effect, errors, workflow
from recovery.core.entries import AnswerKind, Observation, Status
from recovery.drivers.posting import PORTION_SECONDS, WOKEN_MAX
from recovery.ports import Journal

from .world import Killed, OutOfStock, Shop, keyed, kinds, once


def test_a_lost_reply_is_recovered_and_the_original_outcome_returned(journal: Journal) -> None:
    shop = Shop(fail=once(Killed()))
    reserve = shop.async_effect(keyed())

    async def choose(question: str) -> int:
        return 2

    @workflow
    async def order(run: AsyncRun, sku: str) -> int:
        units = await run.decide("plan", choose, "how many?")
        return await run.perform(reserve(units=units), key="reservation-1")

    async def story() -> None:
        async with AsyncEngine(journal, workflows=[order]) as engine:
            with pytest.raises(Killed):
                await engine.run("r", order, "FILTER-A")
            recovered = await engine.recover("r")
            assert recovered.result() == 1
            assert [verdict.action for verdict in recovered.verdicts] == ["resend", "adopt"]
            assert await engine.run("r", order, "FILTER-A") == 1
            assert (await engine.get("r")).result() == 1
            assert [info.status for info in await engine.list()] == [Status.COMPLETED]
            assert kinds(await engine.history("r"))[:3] == ["opened", "decision", "intent"]

    asyncio.run(story())
    assert (shop.stock, shop.executions["reservation-1"], shop.sent["reservation-1"]) == (8, 1, 2)


def test_a_sync_effect_runs_beside_the_loop(journal: Journal) -> None:
    threads: list[int] = []

    @effect(keyed())
    def where(call: Call) -> int:
        threads.append(threading.get_ident())
        return 1

    @workflow
    async def order(run: AsyncRun) -> int:
        return await run.perform(where())

    async def story() -> None:
        async with AsyncEngine(journal, workflows=[order]) as engine:
            assert await engine.run("r", order) == 1

    asyncio.run(story())
    assert threads[0] != threading.get_ident()


def test_cancellation_means_unknown_and_leaves_the_run_open(journal: Journal) -> None:
    shop = Shop()
    entered: list[asyncio.Event] = []
    hang = [True]

    @effect(keyed(), rejects=(OutOfStock,), name="reserve")
    async def reserve(call: Call, *, units: int) -> int:
        result = shop.reserve(call, units, deduplicates=True)
        if hang:
            hang.clear()
            entered[0].set()
            await asyncio.Event().wait()
        return result

    @workflow
    async def order(run: AsyncRun) -> int:
        return await run.perform(reserve(units=2), key="k")

    async def story() -> None:
        entered.append(asyncio.Event())
        async with AsyncEngine(journal, workflows=[order]) as engine:
            task = asyncio.create_task(engine.run("r", order))
            await entered[0].wait()
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            [info] = await engine.list()
            assert (info.status, info.owner) == (Status.RUNNING, None)
            assert (await engine.recover("r")).result() == 1

    asyncio.run(story())
    assert (shop.stock, shop.executions["k"], shop.sent["k"]) == (8, 1, 2)


def test_cancelling_during_a_commit_leaves_a_whole_history(journal: Journal) -> None:
    """The cancelled caller's commit goes through; what it made durable is there for the recovery."""
    shop = Shop()
    reserve = shop.async_effect(keyed())
    loop_has_cancelled, appending = threading.Event(), threading.Event()
    real = journal.append

    def slow(batch: Any) -> Any:
        if batch[0].keys and not appending.is_set():
            appending.set()
            assert loop_has_cancelled.wait(30)
        return real(batch)

    journal.append = slow  # type: ignore[method-assign]

    @workflow
    async def order(run: AsyncRun) -> int:
        return await run.perform(reserve(units=2), key="k")

    async def story() -> None:
        async with AsyncEngine(journal, workflows=[order]) as engine:
            task = asyncio.create_task(engine.run("r", order))
            await asyncio.to_thread(appending.wait, 30)
            task.cancel()
            loop_has_cancelled.set()
            with pytest.raises(asyncio.CancelledError):
                await task
            assert kinds(await engine.history("r")) == ["opened", "intent"]
            assert shop.sent["k"] == 0
            assert (await engine.recover("r")).result() == 1

    asyncio.run(story())
    assert shop.executions["k"] == 1


def test_an_async_effect_that_takes_too_long_is_unknown_and_sent_again(journal: Journal) -> None:
    shop = Shop()
    hang = [True]

    @effect(keyed(), name="reserve", timeout=timedelta(seconds=1))
    async def reserve(call: Call, *, units: int) -> int:
        result = shop.reserve(call, units, deduplicates=True)
        if hang:
            hang.clear()
            await asyncio.Event().wait()
        return result

    @workflow
    async def order(run: AsyncRun) -> int:
        return await run.perform(reserve(units=2), key="k")

    async def story() -> None:
        async with AsyncEngine(journal, workflows=[order]) as engine:
            assert await engine.run("r", order) == 1

    asyncio.run(story())
    assert (shop.executions["k"], shop.sent["k"]) == (1, 2)


def test_a_forgotten_await_is_named_by_the_next_step(journal: Journal) -> None:
    shop = Shop()
    reserve = shop.async_effect(keyed())
    forgotten: list[Coroutine[Any, Any, int]] = []

    @workflow
    async def order(run: AsyncRun) -> int:
        forgotten.append(run.perform(reserve(units=1)))
        return await run.perform(reserve(units=1))

    async def story() -> None:
        async with AsyncEngine(journal, workflows=[order]) as engine:
            with pytest.raises(errors.ConcurrentStep, match="reserve#1 was still under way"):
                await engine.run("r", order)

    asyncio.run(story())
    forgotten[0].close()
    assert shop.stock == 10


def test_i9_doubt_survives_gather_and_task_groups(journal: Journal) -> None:
    shop, second = Shop(fail=once(TimeoutError())), Shop()
    opaque, then = shop.async_effect(contracts.Opaque()), second.async_effect(keyed())

    @workflow
    async def order(run: AsyncRun) -> str:
        await asyncio.gather(run.perform(opaque(units=2), key="k"), return_exceptions=True)
        await asyncio.gather(run.perform(then(units=1), key="after"), return_exceptions=True)
        return "all is well"

    async def story() -> None:
        async with AsyncEngine(journal, workflows=[order]) as engine:
            with pytest.raises(errors.EffectInDoubt):
                await engine.run("r", order)
            assert (await engine.get("r")).status is Status.IN_DOUBT

    asyncio.run(story())
    assert second.sent["after"] == 0


def test_i9_a_task_group_reports_the_doubt_itself(journal: Journal) -> None:
    shop = Shop(fail=once(TimeoutError()))
    opaque = shop.async_effect(contracts.Opaque())

    @workflow
    async def order(run: AsyncRun) -> str:
        async with asyncio.TaskGroup() as group:
            group.create_task(run.perform(opaque(units=2), key="k"))
        return "all is well"

    async def story() -> None:
        async with AsyncEngine(journal, workflows=[order]) as engine:
            with pytest.raises(errors.EffectInDoubt):
                await engine.run("r", order)

    asyncio.run(story())


@pytest.mark.parametrize("goes_on", [True, False])
def test_i9_a_timeout_around_an_effect_lets_no_later_step_start(journal: Journal, goes_on: bool) -> None:
    shop, second = Shop(), Shop()
    then = second.async_effect(keyed())
    hang = [True]
    limits: list[asyncio.Timeout] = []

    @effect(keyed(), name="reserve")
    async def reserve(call: Call, *, units: int) -> int:
        result = shop.reserve(call, units, deduplicates=True)
        if hang:
            hang.clear()
            limits[0].reschedule(asyncio.get_running_loop().time())  # the time is over now that the work is done
            await asyncio.Event().wait()
        return result

    @workflow
    async def order(run: AsyncRun) -> int:
        try:
            async with asyncio.timeout(None) as limit:
                limits.append(limit)
                return await run.perform(reserve(units=2), key="k")
        except TimeoutError:
            return await run.perform(then(units=1), key="after") if goes_on else 0

    async def story() -> None:
        async with AsyncEngine(journal, workflows=[order]) as engine:
            with pytest.raises(errors.EffectInterrupted, match="CancelledError"):
                await engine.run("r", order)
            assert second.sent["after"] == 0
            [info] = await engine.list()
            assert (info.status, info.owner) == (Status.RUNNING, None)
            assert (await engine.recover("r")).result() == 1

    asyncio.run(story())
    assert (shop.executions["k"], second.sent["after"]) == (1, 0)


def test_many_runs_at_once(journal: Journal) -> None:
    shop = Shop(stock=1000)
    reserve = shop.async_effect(keyed())

    @workflow
    async def order(run: AsyncRun, number: int) -> list[int]:
        return [await run.perform(reserve(units=1)) for _ in range(3)]

    async def story() -> None:
        async with AsyncEngine(journal, workflows=[order]) as engine:
            results = await asyncio.gather(*(engine.run(f"r{n}", order, n) for n in range(40)))
            assert sorted(functools.reduce(operator.iadd, results, [])) == list(range(1, 121))
            assert {info.status for info in await engine.list()} == {Status.COMPLETED}

    asyncio.run(story())
    assert shop.stock == 1000 - 120
    assert set(shop.executions.values()) == {1}


def test_attempt_gives_values(journal: Journal) -> None:
    reserve = Shop(stock=3).async_effect(keyed())

    @workflow
    async def order(run: AsyncRun) -> list[int]:
        first, second = await run.attempt(reserve(units=2)), await run.attempt(reserve(units=2))
        assert isinstance(first, Applied)
        assert isinstance(second, Rejected)
        return [first.value]

    async def story() -> None:
        async with AsyncEngine(journal, workflows=[order]) as engine:
            assert await engine.run("r", order) == [1]

    asyncio.run(story())


def test_colours_are_told_apart_before_anything_happens(journal: Journal) -> None:
    shop = Shop()
    reserve = shop.async_effect(keyed())

    @workflow
    async def asynchronous(run: AsyncRun) -> int:
        return 1

    @workflow
    def sync(run: Run) -> int:
        return 1

    @workflow
    def awaits(run: Run) -> int:
        return run.perform(reserve(units=1))

    with pytest.raises(errors.DefinitionError, match="Use AsyncEngine"):
        Engine(journal, workflows=[asynchronous])
    with pytest.raises(errors.DefinitionError, match="Use AsyncEngine"):
        AsyncEngine(journal, workflows=[sync])
    engine = Engine(journal)
    with pytest.raises(errors.DefinitionError):
        engine.add(asynchronous)
    assert engine.workflows == {}
    with Engine(journal, workflows=[awaits]) as engine, pytest.raises(errors.DefinitionError, match="async def"):
        engine.run("r", awaits)
    assert shop.stock == 10


def test_a_run_does_not_end_while_a_step_is_under_way(journal: Journal) -> None:
    """gather lets the others go on when one raises. An outcome over an open effect could not be read back by anybody."""
    shop = Shop()
    sent, replied = asyncio.Event(), asyncio.Event()
    fails = [True]

    @effect(keyed(), name="reserve")
    async def reserve(call: Call, *, units: int) -> int:
        result = shop.reserve(call, units, deduplicates=True)
        sent.set()
        if fails:
            await replied.wait()
        return result

    async def sibling() -> None:
        await sent.wait()
        if fails:
            raise ValueError("an error beside the effect")

    @workflow
    async def order(run: AsyncRun) -> int:
        booked, _ = await asyncio.gather(run.perform(reserve(units=2), key="k"), sibling())
        return booked

    async def story() -> None:
        async with AsyncEngine(journal, workflows=[order]) as engine:
            with pytest.raises(errors.EffectInterrupted, match="the workflow ended first") as interrupted:
                await engine.run("r", order)
            assert isinstance(interrupted.value.__cause__, ValueError)
            assert "settled" not in kinds(await engine.history("r"))
            fails.clear()
            replied.set()
            assert (await engine.recover("r")).result() == 1

    asyncio.run(story())
    assert shop.executions["k"] == 1


def test_a_last_step_that_nobody_awaited_keeps_the_run_from_ending(journal: Journal) -> None:
    reserve = Shop().async_effect(keyed())
    forgotten: list[Coroutine[Any, Any, int]] = []

    @workflow
    async def order(run: AsyncRun) -> int:
        forgotten.append(run.perform(reserve(units=1)))
        return 0

    async def story() -> None:
        async with AsyncEngine(journal, workflows=[order]) as engine:
            with pytest.raises(errors.StepNotAwaited, match="ended while reserve#1 was still under way"):
                await engine.run("r", order)
            assert kinds(await engine.history("r")) == ["opened"]

    asyncio.run(story())
    forgotten[0].close()


def test_a_timeout_around_a_decision_or_a_commit_lets_no_later_step_start(journal: Journal) -> None:
    shop = Shop()
    reserve = shop.async_effect(keyed())
    hang = [True]

    async def think() -> int:
        if hang:
            hang.clear()
            await asyncio.Event().wait()
        return 2

    @workflow
    async def order(run: AsyncRun) -> int:
        units = 1
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(0.05 if hang else None):
                units = await run.decide("plan", think)
        return await run.perform(reserve(units=units), key="k")

    async def story() -> None:
        async with AsyncEngine(journal, workflows=[order]) as engine:
            with pytest.raises(errors.StepInterrupted, match="plan#1"):
                await engine.run("r", order)
            assert shop.sent["k"] == 0
            assert (await engine.recover("r")).result() == 1

    asyncio.run(story())
    assert shop.stock == 8


def test_a_timeout_that_meets_a_commit_is_an_interruption_and_no_bug_of_ours(journal: Journal) -> None:
    reserve = Shop().async_effect(keyed())
    appending, timed_out = threading.Event(), threading.Event()
    real = journal.append

    def slow(batch: Any) -> Any:
        if batch[0].keys and not appending.is_set():
            appending.set()
            assert timed_out.wait(30)
        return real(batch)

    journal.append = slow  # type: ignore[method-assign]

    @workflow
    async def order(run: AsyncRun) -> int:
        booking = asyncio.ensure_future(run.perform(reserve(units=2), key="k"))
        if not appending.is_set():
            await asyncio.to_thread(appending.wait, 30)
            booking.cancel()
            timed_out.set()
            await asyncio.wait([booking])
            return 0
        return await booking

    async def story() -> None:
        async with AsyncEngine(journal, workflows=[order]) as engine:
            with pytest.raises(errors.StepInterrupted, match="reserve#1"):
                await engine.run("r", order)
            assert (await engine.recover("r")).result() == 1

    asyncio.run(story())


def test_a_loop_that_ends_waits_for_a_commit_before_the_run_is_given_up(journal: Journal) -> None:
    """asyncio.run cancels every task that is left; the answer that is being committed must not be overtaken by the release."""
    order_of_events: list[str] = []
    left: list[asyncio.Task[int]] = []
    appending, ending = threading.Event(), threading.Event()
    append, release = journal.append, journal.release

    def slow(batch: Any) -> Any:
        if batch[0].rows[0].kind == "settled" and not appending.is_set():
            appending.set()
            assert ending.wait(30)
        result = append(batch)
        order_of_events.append(f"append {batch[0].rows[0].kind}")
        return result

    def last(*args: Any) -> bool:
        order_of_events.append("release")
        return release(*args)

    journal.append, journal.release = slow, last  # type: ignore[method-assign]
    pay = Shop().async_effect(contracts.Opaque())

    @workflow
    async def order(run: AsyncRun) -> int:
        return await run.perform(pay(units=1), key="k")

    async def story() -> None:
        engine = AsyncEngine(journal, workflows=[order])
        left.append(asyncio.create_task(engine.run("r", order)))
        await asyncio.to_thread(appending.wait, 30)
        asyncio.get_running_loop().call_later(0.05, ending.set)  # by then the tasks are cancelled

    asyncio.run(story())
    assert order_of_events[-2:] == ["append settled", "release"]
    assert asyncio.run(AsyncEngine(journal, workflows=[order]).recover("r")).result() == 1


def test_an_effect_that_waited_for_a_thread_until_its_deadline_is_not_sent(journal: Journal) -> None:
    left: list[float] = []

    @effect(keyed(), timeout=timedelta(milliseconds=100))
    def pay(call: Call) -> int:
        left.append(call.remaining_seconds())
        return 1

    @workflow
    async def order(run: AsyncRun) -> int:
        return await run.perform(pay())

    async def story() -> None:
        loop = asyncio.get_running_loop()
        loop.set_default_executor(ThreadPoolExecutor(1))
        append, busy = journal.append, [True]

        def then_busy(batch: Any) -> Any:
            result = append(batch)
            if batch[0].keys and busy.pop():
                occupied = threading.Event()
                loop.call_soon_threadsafe(lambda: loop.run_in_executor(None, occupied.wait, 0.3))
            return result

        journal.append = then_busy  # type: ignore[method-assign]
        async with AsyncEngine(journal, workflows=[order]) as engine:
            assert await engine.run("r", order) == 1
            answers = [entry.answer.kind for entry in await engine.history("r") if isinstance(entry, Observation)]
            assert set(answers) == {AnswerKind.NOT_SENT}  # on a busy machine another attempt may come too late by itself

    asyncio.run(story())
    assert len(left) == 1
    assert left[0] > 0


def test_cancelling_a_claim_leaves_the_run_free(journal: Journal) -> None:
    """Else a living process would own a run that nobody works on, and its lease would have to be waited for."""
    leaves = [Killed()]
    claiming, cancelled = threading.Event(), threading.Event()
    claim = journal.claim

    @workflow
    async def order(run: AsyncRun) -> int:
        if leaves:
            raise leaves.pop()
        return 1

    def slow(*args: Any, **kwargs: Any) -> Any:
        claiming.set()
        assert cancelled.wait(30)
        return claim(*args, **kwargs)

    async def story() -> None:
        async with AsyncEngine(journal, workflows=[order]) as engine:
            with pytest.raises(Killed):
                await engine.run("r", order)
            journal.claim = slow  # type: ignore[method-assign]
            task = asyncio.create_task(engine.recover("r"))
            await asyncio.to_thread(claiming.wait, 30)
            task.cancel()
            cancelled.set()
            with pytest.raises(asyncio.CancelledError):
                await task
            assert (await engine.recover("r")).result() == 1

    asyncio.run(story())


@pytest.mark.parametrize("steps", ["calls", "readings"])
def test_a_replay_leaves_its_loop_to_others_now_and_then(steps: str) -> None:
    """It asks nobody for anything, and would keep the loop to its end."""
    turn = 0
    seen: list[int] = []
    ends = False

    @effect(keyed())
    async def numbered(call: Call, *, number: int) -> int:
        return number

    @workflow
    async def long(run: AsyncRun, rounds: int) -> int:
        for number in range(rounds):
            if steps == "calls":
                await run.perform(numbered(number=number))
                await run.decide("choose", lambda: 1)
            else:
                await run.now()
                await run.random()
            if ends:
                seen.append(turn)
                until = time.monotonic() + 2 * PORTION_SECONDS
                while time.monotonic() < until:
                    pass
        if not ends:
            raise Killed
        return rounds

    async def story() -> None:
        nonlocal turn, ends

        async def turns() -> None:
            nonlocal turn
            while True:
                turn += 1
                await asyncio.sleep(0)

        async with AsyncEngine("memory://", workflows=[long]) as engine:
            with pytest.raises(Killed):
                await engine.run("r", long, 30)
            ends = True
            counting = asyncio.ensure_future(turns())
            assert (await engine.recover("r")).result() == 30
            counting.cancel()

    asyncio.run(story())
    assert len(set(seen)) >= 60 // (WOKEN_MAX + 1)
