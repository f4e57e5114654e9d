"""Branches, as a user of Engine and AsyncEngine meets them: what goes on at the same time, what stops what, and what replays how."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from recovery import AsyncEngine, AsyncRun, Call, Engine, Environment, Run, contracts, effect, errors, workflow
from recovery.core.entries import OutcomeKind, Status
from recovery.core.policy import Budget
from recovery.ports import Journal
from recovery.testing import ManualClock

from .world import QUICK, Killed, OutOfStock, Shop, keyed, kinds, once

OPAQUE = contracts.Opaque()
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def ends_in_doubt(call: Callable[[], Any]) -> errors.EffectInDoubt:
    with pytest.raises(errors.EffectInDoubt) as raised:
        call()
    return raised.value


# -- together ----------------------------------------------------------------------------------------------------------


def test_branches_go_on_at_the_same_time_and_give_their_values_in_order(journal: Journal) -> None:
    meeting = threading.Barrier(3)

    @workflow
    def order(run: Run) -> list[int]:
        def meet(branch: Run, number: int) -> int:
            return branch.decide("meet", lambda: (meeting.wait(60), number)[1])

        return list(run.gather(lambda b: meet(b, 1), lambda b: meet(b, 2), lambda b: meet(b, 3)))

    with Engine(journal, workflows=[order]) as engine:
        assert engine.run("r", order) == [1, 2, 3]
        assert engine.run("r", order) == [1, 2, 3]
        assert kinds(engine.history("r")) == ["opened", *["decision"] * 4, "settled"]


def test_branches_of_a_loop_go_on_at_the_same_time(journal: Journal) -> None:
    @workflow
    async def order(run: AsyncRun) -> list[int]:
        met: list[int] = []
        all_there = asyncio.Event()

        async def meet(number: int) -> int:
            met.append(number)
            if len(met) == 3:
                all_there.set()
            await all_there.wait()
            return number

        def body(number: int) -> Callable[[AsyncRun], Coroutine[Any, Any, int]]:
            return lambda branch: branch.decide("meet", meet, number)

        return list(await run.gather(body(1), body(2), body(3)))

    async def story() -> None:
        async with AsyncEngine(journal, workflows=[order]) as engine:
            assert await engine.run("r", order) == [1, 2, 3]
            assert await engine.run("r", order) == [1, 2, 3]

    asyncio.run(story())


def test_a_map_keeps_to_its_limit_over_thousands_of_items() -> None:
    shop = Shop(stock=10_000)
    reserve = shop.async_effect(keyed())
    busy, most = 0, 0

    async def one(branch: AsyncRun, item: int) -> int:
        nonlocal busy, most
        busy += 1
        most = max(most, busy)
        try:
            return item + 0 * await branch.perform(reserve(units=1))
        finally:
            busy -= 1

    @workflow
    async def order(run: AsyncRun) -> int:
        return sum(await run.map(one, range(2_000), limit=7))

    async def story() -> None:
        async with AsyncEngine("memory://", workflows=[order]) as engine:
            assert await engine.run("r", order) == sum(range(2_000))

    asyncio.run(story())
    assert (most, shop.stock) == (7, 8_000)


def test_gathers_nest_and_a_map_of_nothing_is_nothing(journal: Journal) -> None:
    reserve = Shop(stock=100).effect(keyed())

    @workflow
    def order(run: Run) -> list[Any]:
        def many(branch: Run, items: int) -> list[str]:
            return branch.map(lambda b, i: f"{i}:{b.perform(reserve(units=1)) > 0}", range(items), limit=2)

        return [*run.gather(lambda b: many(b, 2), lambda b: many(b, 0)), run.map(many, [1], name="again")]

    with Engine(journal, workflows=[order]) as engine:
        assert engine.run("r", order) == [["0:True", "1:True"], [], [["0:True"]]]
        steps = {entry.step for entry in engine.history("r") if getattr(entry, "effect", None)}
    assert steps == {"gather#1/0/map#1/0/reserve#1", "gather#1/0/map#1/1/reserve#1", "again#1/0/map#1/0/reserve#1"}


# -- failures ----------------------------------------------------------------------------------------------------------


def test_every_branch_runs_to_its_end_and_the_first_failure_in_order_is_raised(journal: Journal) -> None:
    shop = Shop(stock=4)
    reserve = shop.effect(keyed())

    @workflow
    def order(run: Run) -> str:
        def fail(branch: Run) -> int:
            raise ValueError("the second")

        try:
            run.gather(lambda b: b.perform(reserve(units=5)), fail, lambda b: b.perform(reserve(units=1)), limit=1)
        except OutOfStock as error:
            return f"{error.available} left; {error.__notes__[0]}"
        return "nothing failed"

    with Engine(journal, workflows=[order]) as engine:
        assert engine.run("r", order) == "4 left; Raised in branch 0 of gather#1. Branches 1 (ValueError) failed too."
        assert engine.run("r", order).startswith("4 left")
    assert shop.stock == 3


def test_a_second_step_at_a_time_in_one_branch_is_refused(journal: Journal) -> None:
    @workflow
    async def order(run: AsyncRun) -> None:
        async def both(branch: AsyncRun) -> None:
            first = branch.decide("a", lambda: 1)
            try:
                await branch.decide("b", lambda: 2)
            finally:
                first.close()

        await run.gather(both)

    async def story() -> None:
        async with AsyncEngine(journal, workflows=[order]) as engine:
            with pytest.raises(errors.ConcurrentStep, match="gather#1/0/a#1 was still under way"):
                await engine.run("r", order)

    asyncio.run(story())


# -- I9: doubt ---------------------------------------------------------------------------------------------------------


def doubtful_workflow(shop: Shop, join: Callable[[Run, Any, Any, Any], None]) -> Any:
    lose, reserve = Shop(fail=_lost).effect(OPAQUE), shop.effect(keyed())

    def three(branch: Run) -> int:
        return sum(branch.perform(reserve(units=1), key=f"k{number}") for number in range(3))

    @workflow
    def order(run: Run) -> int:
        join(run, lambda b: b.perform(lose(units=1), name="lose"), three, reserve)
        return run.perform(reserve(units=5), key="after")

    return order


def _lost() -> None:
    raise ConnectionError("the reply was lost")


def gathers(run: Run, lose: Any, three: Any, _reserve: Any) -> None:
    run.gather(lose, three)


def swallows(run: Run, lose: Any, three: Any, _reserve: Any) -> None:
    with suppress(BaseException):  # what a careless user writes
        run.gather(lose, three)


def goes_on_in_finally(run: Run, lose: Any, three: Any, reserve: Any) -> None:
    try:
        run.gather(lose, three)
    finally:
        run.perform(reserve(units=5), key="in-finally")


def uses_threads_of_its_own(run: Run, lose: Any, three: Any, _reserve: Any) -> None:
    def quietly(body: Any, branch: Run) -> None:
        with suppress(BaseException):
            body(branch)

    threads = [threading.Thread(target=quietly, args=(body, run.branch(name))) for name, body in (("left", lose), ("right", three))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


@pytest.mark.parametrize("join", [gathers, swallows, goes_on_in_finally, uses_threads_of_its_own])
def test_i9_doubt_in_one_branch_stops_what_joins_it_and_no_sibling(journal: Journal, join: Any) -> None:
    shop = Shop()
    order = doubtful_workflow(shop, join)
    with Engine(journal, workflows=[order], budget=QUICK) as engine:
        doubt = ends_in_doubt(lambda: engine.run("r", order))
        assert doubt.step.endswith("lose#1")
        assert engine.get("r").status is Status.IN_DOUBT
        assert dict(shop.executions) == {"k0": 1, "k1": 1, "k2": 1}
        before = engine.history("r")
        assert engine.recover("r").status is Status.IN_DOUBT  # I7: without news nothing is appended and nothing sent
        assert engine.history("r") == before
        engine.resolve("r", doubt.step, OutcomeKind.APPLIED, value=7, by="ops", evidence="a look", reason="seen")
        if join is not goes_on_in_finally:
            assert engine.recover("r").result() > 0
            assert dict(shop.executions) == {"k0": 1, "k1": 1, "k2": 1, "after": 1}


async def _group(run: AsyncRun, *bodies: Any) -> None:
    async with asyncio.TaskGroup() as group:
        for number, body in enumerate(bodies):
            group.create_task(body(run.branch(f"branch-{number}")))


async def _wrapped(run: AsyncRun, *bodies: Any) -> None:
    with suppress(BaseException):
        await _group(run, *bodies)


async def _returned(run: AsyncRun, *bodies: Any) -> None:
    await asyncio.gather(*[body(run.branch(f"b{number}")) for number, body in enumerate(bodies)], return_exceptions=True)


async def _gathered(run: AsyncRun, *bodies: Any) -> None:
    async with asyncio.timeout(600):
        await run.gather(*bodies)


@pytest.mark.parametrize("join", [_group, _wrapped, _returned, _gathered])
def test_i9_holds_however_a_coroutine_joins_its_branches(journal: Journal, join: Any) -> None:
    shop = Shop()
    lose, reserve = Shop(fail=_lost).async_effect(OPAQUE), shop.async_effect(keyed())

    @workflow
    async def order(run: AsyncRun) -> int:
        await join(run, lambda b: b.perform(lose(units=1), name="lose"), lambda b: b.perform(reserve(units=1), key="beside"))
        return await run.perform(reserve(units=5), key="after")

    async def story() -> None:
        async with AsyncEngine(journal, workflows=[order], budget=QUICK) as engine:
            with pytest.raises(errors.RecoveryError):
                await engine.run("r", order)
            while (recovered := await engine.recover("r")).status is Status.WAITING:
                pass
            assert recovered.status is Status.IN_DOUBT

    asyncio.run(story())
    assert shop.executions["after"] == 0


# -- W2: a crash, and what a replay sees -------------------------------------------------------------------------------


def test_w2_after_a_crash_only_the_open_branch_is_reconciled(journal: Journal) -> None:
    shop, settled = Shop(), threading.Event()
    reserve = shop.effect(keyed())
    slow = Shop(fail=lambda: _die_once_after(settled)).effect(keyed())

    @workflow
    def order(run: Run) -> int:
        def quick(branch: Run) -> int:
            value = branch.perform(reserve(units=2), key="quick")
            settled.set()
            return value

        return sum(run.gather(quick, lambda b: b.perform(slow(units=1), key="slow")))

    _dead.clear()
    with Engine(journal, workflows=[order]) as engine:
        with pytest.raises(Killed):
            engine.run("r", order)
        recovered = engine.recover("r")
    assert recovered.result() == 2
    assert {verdict.key for verdict in recovered.verdicts if verdict.action != "keep"} == {"slow"}
    assert (shop.sent["quick"], shop.executions["quick"]) == (1, 1)


_dead: list[bool] = []


def _die_once_after(event: threading.Event) -> None:
    if not _dead:
        event.wait(60)
        _dead.append(True)
        raise Killed


def test_a_replay_returns_steps_in_the_order_in_which_they_were_completed(journal: Journal) -> None:
    """What branches tell each other through the workflow's own variables is told in the same order again."""
    seen: list[list[int]] = []
    reserve = Shop(fail=once(Killed())).async_effect(keyed())

    @workflow
    async def order(run: AsyncRun) -> list[int]:
        log: list[int] = []
        seen.append(log)

        async def after(turns: int) -> int:
            for _ in range(turns):
                await asyncio.sleep(0)
            return turns

        async def twice(branch: AsyncRun, turns: int) -> None:
            for number in range(1, 3):
                log.append(await branch.decide("wait", after, turns * 50 * number))

        await run.map(twice, [5, 3, 1, 4, 2], limit=5)
        await run.perform(reserve(units=1))
        return log

    async def story() -> None:
        async with AsyncEngine(journal, workflows=[order]) as engine:
            with pytest.raises(Killed):
                await engine.run("r", order)
            assert (await engine.recover("r")).result() == seen[0]

    asyncio.run(story())
    assert seen[0] == seen[1]
    assert seen[0] != [250, 500, 150, 300, 50, 100, 200, 400, 100, 200]  # a replay's own order


def test_threads_return_in_the_recorded_order_too() -> None:
    seen: list[list[int]] = []
    turns = [threading.Event() for _ in range(4)]
    reserve = Shop(fail=once(Killed())).effect(keyed())

    @workflow
    def order(run: Run) -> list[int]:
        log: list[int] = []
        seen.append(log)

        def backwards(branch: Run, number: int) -> None:
            def wait() -> int:
                if number < 3:
                    turns[number + 1].wait(60)
                return number

            log.append(branch.decide("wait", wait))
            turns[number].set()

        run.map(backwards, range(4), limit=4)
        run.perform(reserve(units=1))
        return log

    with Engine("memory://", workflows=[order]) as engine:
        with pytest.raises(Killed):
            engine.run("r", order)
        assert engine.recover("r").result() == [3, 2, 1, 0]
    assert seen == [[3, 2, 1, 0], [3, 2, 1, 0]]


def test_other_branches_than_recorded_diverge_before_anything_is_sent(journal: Journal) -> None:
    shop = Shop(fail=once(Killed()))
    reserve = shop.effect(keyed())
    bodies: list[Any] = [lambda b: b.decide("a", lambda: 1), lambda b: b.perform(reserve(units=1), key="first")]

    @workflow
    def order(run: Run) -> int:
        run.gather(*bodies, limit=1)
        return run.perform(reserve(units=1), key="after")

    with Engine(journal, workflows=[order], budget=QUICK) as engine:
        with pytest.raises(Killed):
            engine.run("r", order)
        for other, recorded, attempted in (
            ([bodies[0]], "2 branches", "1 branches"),
            ([lambda b: b.decide("other", lambda: 1), bodies[1]], "step gather#1/0/a#1", "step gather#1/0/other#1"),
            ([lambda b: None, bodies[1]], "step gather#1/0/a#1", "the end of branch gather#1/0"),
            ([lambda b: b.now(), bodies[1]], "step gather#1/0/a#1", "step gather#1/0/now#1"),
        ):
            kept, bodies[:] = list(bodies), other
            error = engine.recover("r").error
            bodies[:] = kept
            assert isinstance(error, errors.Diverged)
            assert (error.recorded, error.attempted) == (recorded, attempted)
        assert (shop.sent["first"], shop.sent["after"]) == (1, 0)
        assert engine.recover("r").result() > 0


# -- interrupts --------------------------------------------------------------------------------------------------------


def test_a_gather_that_times_out_leaves_its_effects_unknown_and_a_recovery_finds_them(journal: Journal) -> None:
    shop = Shop()
    hang, all_there = asyncio.Event(), asyncio.Event()

    async def body(branch: AsyncRun, number: int) -> int:
        return await branch.perform(reserve(units=1), key=f"k{number}")

    async def wait() -> None:
        if not hang.is_set():
            under_way.append(True)
            if len(under_way) == 3:
                all_there.set()
            await hang.wait()

    under_way: list[bool] = []

    @effect(keyed(), environment=Environment("shop"), name="reserve")
    async def reserve(call: Call, *, units: int) -> int:
        value = shop.reserve(call, units, deduplicates=True)
        await wait()
        return value

    @workflow
    async def order(run: AsyncRun) -> int:
        gathered = asyncio.ensure_future(run.map(body, range(3), limit=3))
        if not hang.is_set():
            await all_there.wait()
            gathered.cancel()
        try:
            return sum(await gathered)
        except asyncio.CancelledError:
            return -1

    async def story() -> None:
        async with AsyncEngine(journal, workflows=[order]) as engine:
            with pytest.raises(errors.RecoveryError):
                await engine.run("r", order)
            hang.set()
            assert (await engine.recover("r")).result() > 0

    asyncio.run(story())
    assert dict(shop.executions) == {"k0": 1, "k1": 1, "k2": 1}


# -- readings ----------------------------------------------------------------------------------------------------------


def test_the_clock_random_numbers_and_uuids_are_read_once(journal: Journal) -> None:
    shop = Shop(fail=once(Killed()))
    reserve = shop.effect(keyed())
    drawn: list[tuple[Any, ...]] = []

    @workflow
    def order(run: Run) -> str:
        found = (run.now(), run.random(), run.uuid(), run.now())
        drawn.append(found)
        run.perform(reserve(units=1), key=str(found[2]))
        return found[0].isoformat()

    with Engine(journal, workflows=[order]) as engine:
        with pytest.raises(Killed):
            engine.run("r", order)
        assert engine.recover("r").result() == drawn[0][0].isoformat()
    (first, second) = drawn
    assert first == second
    assert first[0].tzinfo is UTC
    assert first[0] <= first[3]
    assert 0 <= first[1] < 1
    assert (first[2].version, first[2].variant) == (4, "specified in RFC 4122")
    assert dict(shop.executions) == {str(first[2]): 1}


def test_a_reading_does_not_pass_for_another_ones_record(journal: Journal) -> None:
    asked: list[str] = ["now"]
    reserve = Shop(fail=once(Killed())).effect(keyed())

    @workflow
    def order(run: Run) -> int:
        run.decide("now", lambda: 1) if asked[0] == "decide" else run.now()
        return run.perform(reserve(units=1))

    with Engine(journal, workflows=[order], budget=QUICK) as engine:
        with pytest.raises(Killed):
            engine.run("r", order)
        asked[0] = "decide"
        error = engine.recover("r").error
    assert isinstance(error, errors.Diverged)
    assert (error.recorded, error.attempted) == ("a reading of the clock", "a decision")


# -- timers ------------------------------------------------------------------------------------------------------------


def test_what_a_timer_and_an_effect_came_to_first_is_the_same_in_a_replay() -> None:
    """A timeout of the workflow's own, raced against an effect: the winner is the first run's."""
    shop, clock, first = Shop(fail=once(Killed())), ManualClock(), []
    reserve = shop.async_effect(keyed())

    @workflow
    async def order(run: AsyncRun) -> str:
        came: list[str] = []

        async def wait(branch: AsyncRun) -> None:
            await branch.sleep(timedelta(hours=1))
            came.append("timer")

        async def work(branch: AsyncRun) -> None:
            await branch.decide("slow", slow)
            came.append("work")

        async def slow() -> int:
            clock.advance(timedelta(hours=2))
            for _ in range(1_000):
                await asyncio.sleep(0)
            return 1

        await run.gather(work, wait)
        first.append(came[0])
        await run.perform(reserve(units=1))
        return came[0]

    async def story() -> None:
        patient = Budget(max_wait=None)
        async with AsyncEngine("memory://", workflows=[order], clock=clock, budget=patient) as engine:
            with pytest.raises(Killed):
                await engine.run("r", order)
            assert (await engine.recover("r")).result() == first[0]

    asyncio.run(story())
    assert first[0] == first[1]


def test_w4_an_absolute_deadline_stays_where_it_was() -> None:
    clock = ManualClock()

    @workflow
    def order(run: Run) -> str:
        deadline = run.now() + timedelta(minutes=10)
        run.sleep_until(deadline)
        return deadline.isoformat()

    with Engine("memory://", workflows=[order], clock=clock, budget=QUICK) as engine:
        began_us = clock.wall_us()
        with pytest.raises(errors.TimerPending, match="it sleeps until"):
            engine.run("r", order)
        assert engine.get("r").status is Status.WAITING
        clock.advance(timedelta(minutes=9))
        assert engine.recover("r").next_look == EPOCH + timedelta(microseconds=began_us, minutes=10)
        recovered = engine.recover("r", budget=Budget(max_wait=timedelta(minutes=1)))
        assert recovered.result() == (EPOCH + timedelta(microseconds=began_us) + timedelta(minutes=10)).isoformat()
        assert clock.wall_us() - began_us == 10 * 60 * 1_000_000


def test_a_run_is_listed_with_the_next_of_its_timers_and_not_with_one_that_has_passed() -> None:
    """Whoever lists what is due would come in vain, again and again, until the later timer ends."""
    clock = ManualClock()

    @workflow
    def order(run: Run) -> None:
        run.gather(lambda branch: branch.sleep(timedelta(minutes=10)), lambda branch: branch.sleep(timedelta(seconds=1)))

    with Engine("memory://", workflows=[order], clock=clock, budget=Budget(max_wait=timedelta(seconds=5))) as engine:
        ends = EPOCH + timedelta(microseconds=clock.wall_us(), minutes=10)
        with pytest.raises(errors.TimerPending):
            engine.run("r", order)
        assert engine.recover("r").next_look == ends
        assert engine.get("r").next_look == ends
        length = len(engine.history("r"))
        assert engine.recover("r").next_look == ends
        assert len(engine.history("r")) == length  # it is said once
        clock.advance(timedelta(minutes=10))
        assert engine.recover("r").status is Status.COMPLETED


def test_a_moment_without_a_time_zone_is_refused_before_anything_is_written() -> None:
    @workflow
    def order(run: Run) -> None:
        run.sleep_until(datetime(2030, 1, 1))  # noqa: DTZ001  # what is refused

    with Engine("memory://", workflows=[order]) as engine:
        with pytest.raises(errors.DefinitionError, match="no time zone"):
            engine.run("r", order)
        assert kinds(engine.history("r")) == ["opened"]


@pytest.mark.parametrize(("many", "named"), [(False, "run.gather"), (True, "run.map")])
def test_what_is_gathered_is_functions_and_a_mistake_ends_no_run(many: bool, named: str) -> None:
    """What one writes who knows asyncio.gather."""

    @effect(OPAQUE)
    def act(call: Call) -> int:
        return 1

    @workflow
    def order(run: Run) -> None:
        if many:
            run.map(act(), [1, 2])  # type: ignore[arg-type]
        else:
            run.gather(lambda branch: branch.perform(act()), act())  # type: ignore[arg-type]

    @workflow
    async def later(run: AsyncRun) -> None:
        if many:
            await run.map(act(), [1, 2])  # type: ignore[arg-type]
        else:
            await run.gather(act())  # type: ignore[arg-type]

    async def story() -> None:
        async with AsyncEngine("memory://", workflows=[later]) as engine:
            with pytest.raises(errors.DefinitionError, match=f"{named}.*a Bound is not a function"):
                await engine.run("r", later)

    with Engine("memory://", workflows=[order]) as engine:
        with pytest.raises(errors.DefinitionError, match=f"{named}.*a Bound is not a function"):
            engine.run("r", order)
        assert engine.get("r").status == "running"
        assert len(engine.history("r")) == 1
    asyncio.run(story())
