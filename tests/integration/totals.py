"""A workflow of three effects that add up, in both colours, for tests of engines and not of workflows."""

from __future__ import annotations

from datetime import timedelta

from recovery import AsyncRun, Call, Run, contracts, effect, workflow

KEYED = contracts.Keyed(window=timedelta(hours=24))


@effect(KEYED)
def echo(call: Call, *, number: int) -> int:
    return number


@workflow
def total(run: Run, first: int) -> int:
    return sum(run.perform(echo(number=first + step)) for step in range(3))


@workflow(name="total")
async def async_total(run: AsyncRun, first: int) -> int:
    return sum([await run.perform(echo(number=first + step)) for step in range(3)])
