"""Workflows that wait for people, for killed workers: a booking, an approval of the next one, and a note.

Owns the workflows of the shape `approved`. Each booking has a key of its own, so that the service's own count says what was done twice.
"""

from __future__ import annotations

from typing import Any

from recovery import AsyncRun, Run, workflow
from tests.crash.workflows import SKU, Resolution, choose, choose_async, reserve, reserve_async


@workflow
def approved(run: Run, units: int) -> Resolution:
    plan = run.decide("plan", choose, units)
    first = run.perform(reserve(sku=SKU, units=plan.units), key=f"{run.run_id}:1")
    call = reserve(sku=SKU, units=plan.units)
    run.publish("stage", "asking")
    answer = run.wait_for("approval", schema=str, about=call)
    second = run.perform(call, key=f"{run.run_id}:2")
    note = run.receive("notes", schema=str)
    return Resolution(plan.made_by, [first, second], f"{answer}, {note}")


@workflow(name="approved")
async def approved_async(run: AsyncRun, units: int) -> Resolution:
    plan = await run.decide("plan", choose_async, units)
    first = await run.perform(reserve_async(sku=SKU, units=plan.units), key=f"{run.run_id}:1")
    call = reserve_async(sku=SKU, units=plan.units)
    run.publish("stage", "asking")
    answer = await run.wait_for("approval", schema=str, about=call)
    second = await run.perform(call, key=f"{run.run_id}:2")
    note = await run.receive("notes", schema=str)
    return Resolution(plan.made_by, [first, second], f"{answer}, {note}")


APPROVALS: dict[str, dict[str, Any]] = {"sync": {"approved": approved}, "async": {"approved": approved_async}}
