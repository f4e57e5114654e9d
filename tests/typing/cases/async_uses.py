"""Right and wrong uses of async effects and workflows. Each line marked `expect-error` is an error, and no other is."""

from collections.abc import Coroutine
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, assert_type

from recovery import (
    Absent,
    Answer,
    Applied,
    AsyncChild,
    AsyncEngine,
    AsyncRun,
    Bound,
    Call,
    Compensated,
    Effect,
    Recovered,
    Rejected,
    Run,
    RunInfo,
    Workflow,
    contracts,
    effect,
    workflow,
)


@dataclass(frozen=True)
class Reservation:
    id: str


@effect(contracts.Keyed(window=timedelta(hours=24)))
async def reserve(call: Call, *, sku: str, units: int) -> Reservation:
    return Reservation(call.key)


@reserve.probe
async def find(call: Call, *, sku: str, units: int) -> Answer[Reservation]:
    return Absent()


@reserve.compensation(contracts.Keyed(window=timedelta(hours=24)))
async def release(call: Call, outcome: Reservation, *, sku: str, units: int) -> int:
    return 1


@effect(contracts.Opaque())
def blocking(call: Call) -> int:
    return 1


assert_type(reserve(sku="a", units=1), Bound[Reservation])
assert_type(release(Reservation("1"), sku="a", units=1), Bound[int])
kept: Effect[[], int] = blocking


async def choose(limit: int) -> str:
    return "FILTER-A"


def roll() -> int:
    return 4


@workflow
async def resolve(run: AsyncRun, incident: str) -> str:
    sku = await run.decide("plan", choose, 2)
    assert_type(sku, str)
    assert_type(await run.decide("roll", roll), int)
    pending: Coroutine[Any, Any, int] = run.decide("roll", roll)
    await pending
    booking = await run.perform(reserve(sku=sku, units=2), key="reservation-1")
    assert_type(booking, Reservation)
    assert_type(await run.attempt(reserve(sku=sku, units=2)), Applied[Reservation] | Rejected)
    return booking.id


assert_type(resolve.decode_result(""), str)


@workflow(version="2")
async def other(run: AsyncRun) -> None:
    return None


wanted: Workflow[[], None] = other


# -- wrong -------------------------------------------------------------------------------------------------------------


@workflow
async def forgets(run: AsyncRun, incident: str) -> str:
    run.perform(reserve(sku="a", units=2))  # expect-error: never awaited
    run.decide("plan", choose, 2)  # expect-error: never awaited
    booking = run.perform(reserve(sku="a", units=2))
    print(booking.id)  # expect-error: a coroutine has no id
    plan: str = run.decide("plan", choose, 2)  # expect-error: a coroutine
    print(plan)
    await run.decide("plan", choose, "two")  # expect-error: wrong argument
    await run.perform(reserve(sku="a"))  # expect-error: missing argument
    return await run.perform(reserve(sku=plan, units=2))  # expect-error: a Reservation


async def takes_run(run: Run) -> None:
    await run.perform(reserve(sku="a", units=2))  # expect-error: a Run is not awaited


@reserve.probe  # expect-error: another parameter
async def wrong_parameter(call: Call, *, sku: str) -> Answer[Reservation]:
    return Absent()


@reserve.probe  # expect-error: another outcome
async def wrong_outcome(call: Call, *, sku: str, units: int) -> Answer[str]:
    return Absent()


@workflow
async def wrong_run(run: Run) -> None:
    return None


@workflow(name="named")
async def wrong_run_named(run: Run) -> None:
    return None


bad: Workflow[[], None] = wrong_run  # expect-error: an async def takes AsyncRun
worse: Workflow[[], None] = wrong_run_named  # expect-error: an async def takes AsyncRun


async def runs(database: str) -> None:
    async with AsyncEngine(database, workflows=[resolve, other]) as engine:
        assert_type(engine, AsyncEngine)
        assert_type(await engine.run("r", resolve, "incident"), str)
        assert_type(await engine.recover("r"), Recovered[Any])
        assert_type(await engine.list(), list[RunInfo])
        engine.run("r", resolve, "incident")  # expect-error: never awaited
        await engine.run("r", resolve)  # expect-error: the input is missing
        await engine.run("r", resolve, 7)  # expect-error: wrong input
        wrong: str = engine.run("r", resolve, "incident")  # expect-error: a coroutine
        print(wrong)


@workflow
async def branches(run: AsyncRun) -> int:
    async def one(branch: AsyncRun, number: int) -> str:
        return str(await branch.decide("number", lambda: number))

    async def booked(branch: AsyncRun) -> Reservation:
        return await branch.perform(reserve(sku="FILTER-A", units=1))

    async def numbered(branch: AsyncRun) -> str:
        return await one(branch, 1)

    assert_type(await run.gather(booked, numbered), tuple[Reservation, str])
    assert_type(await run.gather(*[booked, booked]), tuple[Reservation, ...])
    assert_type(await run.map(one, [1, 2]), list[str])
    assert_type((await run.now()).year, int)
    await run.map(one, ["a"])  # expect-error: items of another type
    await run.gather(one)  # expect-error: a body that wants more than a run
    await run.gather(booked(run))  # expect-error: a value, not a body
    return len(await run.gather(booked))


@workflow
async def small(run: AsyncRun, sku: str, units: int = 1) -> Reservation:
    return await run.perform(reserve(sku=sku, units=units))


@workflow
async def parents(run: AsyncRun) -> int:
    child = await run.start(small("FILTER-A", units=2), run_id="small-1", detached=True)
    assert_type(child, AsyncChild[Reservation])
    assert_type(await child.result(), Reservation)
    assert_type(await run.await_child(child), Reservation)
    assert_type(await run.call_child(small("HOSE"), name="hose"), Reservation)
    run.start(small("HOSE"))  # expect-error: never awaited
    child.result()  # expect-error: never awaited
    (await run.start(small("HOSE"))).result()  # expect-error: never awaited
    run.start(small("HOSE")).result()  # expect-error: a coroutine has no result
    await run.start(small, run_id="small-2")  # expect-error: not bound
    count: int = await child.result()  # expect-error: a Reservation
    return count


@workflow(compensate_on=("failed",))
async def undoes(run: AsyncRun) -> Compensated:
    async with run.saga("booking", when=["cancelled"]):
        await run.perform(reserve(sku="a", units=2))
    run.compensate()  # expect-error: never awaited
    return await run.compensate()
