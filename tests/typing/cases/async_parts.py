"""Right and wrong uses of what outlives a run's code, in `async def`. Each line marked `expect-error` is one."""

from collections.abc import Callable, Coroutine
from datetime import timedelta
from typing import Any, assert_type
from uuid import UUID

from pydantic import BaseModel

from recovery import AsyncEngine, AsyncRun, Call, Retry, contracts, effect, workflow
from recovery.operators.fitting import Fit


class Approval(BaseModel):
    granted: bool


@effect(contracts.Keyed(window=timedelta(hours=24)))
async def pay(call: Call, *, cents: int) -> str:
    return call.key


@workflow
async def order(run: AsyncRun) -> str:
    asked = await run.wait_for("approval", schema=Approval, about=pay(cents=5))
    assert_type(asked, Approval)
    assert_type(await run.wait_for("size", schema=int, timeout=timedelta(days=1), default=None), int | None)
    assert_type(await run.receive("lines", schema=str), str)
    run.publish("done", 1)
    await run.sleep(timedelta(minutes=1))
    async with run.saga("booking"):
        paid = await run.perform(pay(cents=1), retry=Retry(attempts=3))
        assert_type(paid, str)
    assert_type(await run.gather(lambda b: b.random(), lambda b: b.perform(pay(cents=1))), tuple[float, str])
    bodies: list[Callable[[AsyncRun], Coroutine[Any, Any, UUID]]] = [lambda b: b.uuid()]
    assert_type(await run.gather(*bodies), tuple[UUID, ...])
    assert_type(await run.map(lambda b, cents: b.perform(pay(cents=cents)), [1, 2]), list[str])
    return paid


async def looks(engine: AsyncEngine) -> None:
    assert_type((await engine.check()).fits, list[Fit])
    assert_type((await engine.change_version("r", by="ann", reason="x")).dropped, tuple[str, ...])


# -- wrong -------------------------------------------------------------------------------------------------------------


@workflow
async def forgets(run: AsyncRun) -> int:
    run.wait_for("approval", schema=Approval)  # expect-error: never awaited
    run.receive("lines", schema=str)  # expect-error: never awaited
    run.sleep(timedelta(minutes=1))  # expect-error: never awaited
    run.gather(lambda b: b.random())  # expect-error: never awaited
    run.map(lambda b, cents: b.perform(pay(cents=cents)), [1])  # expect-error: never awaited
    asked = run.wait_for("approval", schema=Approval)
    print(asked.granted)  # expect-error: a coroutine
    granted: bool = await run.wait_for("approval", schema=Approval)  # expect-error: an Approval
    size: int = await run.wait_for("size", schema=int, default=None)  # expect-error: may be None
    await run.sleep(60)  # expect-error: not a timedelta
    with run.saga("booking"):  # expect-error: async with
        print(granted, size)
    both: tuple[str, str] = await run.gather(lambda b: b.random(), lambda b: b.uuid())  # expect-error: a number and a UUID
    print(both)
    return await run.random()  # expect-error: a float


async def forgotten_looks(engine: AsyncEngine) -> None:
    engine.check()  # expect-error: never awaited
    engine.change_version("r", by="ann", reason="x")  # expect-error: never awaited
