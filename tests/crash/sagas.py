"""A saga for killed workers: two bookings that happen, one that is refused, and what undoes the two.

Owns the workflows of the shape `saga`. Each booking has a business key, so that the service's own count says what was done and undone, and how
often.
"""

from __future__ import annotations

from typing import Any

from recovery import AsyncRun, Call, Run, effect, workflow
from tests.crash.workflows import (
    RESENDING,
    SCARCE,
    SKU,
    TIMEOUT,
    Booking,
    OutOfStock,
    Resolution,
    async_service,
    choose,
    choose_async,
    environment,
    seconds,
    send,
    send_async,
    service,
    translated,
)


@effect(RESENDING, environment=environment, rejects=(OutOfStock,), timeout=TIMEOUT)
def book(call: Call, *, sku: str, units: int) -> Booking:
    return send(call, sku, units, lost=False)


@book.compensation(RESENDING, timeout=TIMEOUT)
def unbook(call: Call, outcome: Booking, *, sku: str, units: int) -> bool:
    with service() as client, translated():
        return client.release(outcome.id, idempotency_key=call.key, timeout=seconds(call)).released


@effect(RESENDING, environment=environment, rejects=(OutOfStock,), timeout=TIMEOUT, name="book")
async def book_async(call: Call, *, sku: str, units: int) -> Booking:
    return await send_async(call, sku, units, lost=False)


@book_async.compensation(RESENDING, timeout=TIMEOUT, name="unbook")
async def unbook_async(call: Call, outcome: Booking, *, sku: str, units: int) -> bool:
    async with async_service() as client:
        with translated():
            return (await client.release(outcome.id, idempotency_key=call.key, timeout=seconds(call))).released


@workflow
def saga(run: Run, units: int) -> Resolution:
    plan = run.decide("plan", choose, units)
    try:
        with run.saga("booking"):
            for number, sku in enumerate((SKU, SKU, SCARCE), 1):
                run.perform(book(sku=sku, units=plan.units), key=f"{run.run_id}:{number}")
    except OutOfStock as error:
        return Resolution(plan.made_by, [], error.sku)
    raise AssertionError("there was none in stock")


@workflow(name="saga")
async def saga_async(run: AsyncRun, units: int) -> Resolution:
    plan = await run.decide("plan", choose_async, units)
    try:
        async with run.saga("booking"):
            for number, sku in enumerate((SKU, SKU, SCARCE), 1):
                await run.perform(book_async(sku=sku, units=plan.units), key=f"{run.run_id}:{number}")
    except OutOfStock as error:
        return Resolution(plan.made_by, [], error.sku)
    raise AssertionError("there was none in stock")


SAGAS: dict[str, dict[str, Any]] = {"sync": {"saga": saga}, "async": {"saga": saga_async}}
