"""A family for killed workers: a run, its child and its grandchild, each of which books; and a child that nobody waits for.

Owns the workflows of the shape `family`. Each booking has a key that says whose it is, so that the service's own count says what was done twice.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from recovery import AsyncRun, Run, workflow
from tests.crash.workflows import SKU, Booking, Plan, Resolution, choose, choose_async, reserve, reserve_async


@dataclass(frozen=True)
class Booked:
    bookings: list[Booking]


@workflow
def grandchild(run: Run, key: str, units: int) -> Booking:
    return run.perform(reserve(sku=SKU, units=units), key=key)


@workflow
def child(run: Run, whose: str, plan: Plan) -> Booked:
    mine = run.perform(reserve(sku=SKU, units=plan.units), key=f"{whose}:child")
    return Booked([mine, run.call_child(grandchild(f"{whose}:grandchild", plan.units))])


@workflow
def family(run: Run, units: int) -> Resolution:
    plan = run.decide("plan", choose, units)
    run.start(grandchild(f"{run.run_id}:unasked", plan.units), name="unasked")
    booked = run.call_child(child(run.run_id, plan), run_id=f"{run.run_id}.child")
    own = run.perform(reserve(sku=SKU, units=plan.units), key=f"{run.run_id}:own")
    return Resolution(plan.made_by, [*booked.bookings, own], "")


@workflow(name="grandchild")
async def grandchild_async(run: AsyncRun, key: str, units: int) -> Booking:
    return await run.perform(reserve_async(sku=SKU, units=units), key=key)


@workflow(name="child")
async def child_async(run: AsyncRun, whose: str, plan: Plan) -> Booked:
    mine = await run.perform(reserve_async(sku=SKU, units=plan.units), key=f"{whose}:child")
    return Booked([mine, await run.call_child(grandchild_async(f"{whose}:grandchild", plan.units))])


@workflow(name="family")
async def family_async(run: AsyncRun, units: int) -> Resolution:
    plan = await run.decide("plan", choose_async, units)
    await run.start(grandchild_async(f"{run.run_id}:unasked", plan.units), name="unasked")
    booked = await run.call_child(child_async(run.run_id, plan), run_id=f"{run.run_id}.child")
    own = await run.perform(reserve_async(sku=SKU, units=plan.units), key=f"{run.run_id}:own")
    return Resolution(plan.made_by, [*booked.bookings, own], "")


FAMILIES: dict[str, dict[str, Any]] = {
    "sync": {"family": family, "child": child, "grandchild": grandchild},
    "async": {"family": family_async, "child": child_async, "grandchild": grandchild_async},
}
