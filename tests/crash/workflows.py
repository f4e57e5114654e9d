"""What the killed workers do: workflows in both colours against the inventory service, which they cannot reach around.

Each decision names the process that made it, so that a decision made twice changes the outcome. Three shapes: `plain` (one effect is
applied, one is rejected), `lossy` (first replies are lost, so that a step is sent again, asked about and closed), `doubtful` (no key, no
look-up: it parks).
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from recovery import (
    Absent,
    Answer,
    AsyncRun,
    Call,
    Closed,
    Environment,
    Found,
    Indeterminate,
    InFlight,
    NotSent,
    Refused,
    Rejection,
    ReplyWas,
    Run,
    TurnedAway,
    contracts,
    effect,
    workflow,
)
from recovery.errors import NotExecuted
from recovery.examples.inventory import client as inventory

SERVICE = "INVENTORY_URL"
SKU = "FILTER-A"
SCARCE = "FILTER-Z"  # none in stock

TIMEOUT = timedelta(seconds=30)
GENERATIONS = 5
"""Closed keys that a workflow wants again at most; each costs a kill between an attempt and its request."""

environment = Environment("inventory", scope="warehouse-1")


@dataclass(frozen=True)
class Booking:
    id: str
    units: int


@dataclass(frozen=True)
class Plan:
    units: int
    made_by: int  # the process that decided


@dataclass(frozen=True)
class Resolution:
    made_by: int
    bookings: list[Booking]
    refused: str


class OutOfStock(Rejection):
    sku: str
    units: int


def choose(units: int) -> Plan:
    return Plan(units, os.getpid())


async def choose_async(units: int) -> Plan:
    return Plan(units, os.getpid())


# -- what the service's words mean -------------------------------------------------------------------------------------


@contextmanager
def translated() -> Iterator[None]:
    """The client's errors as rejections and answers; what it does not know stays an exception, which means unknown."""
    try:
        yield
    except inventory.OutOfStock as error:
        raise OutOfStock(sku=error.sku, units=error.units) from None
    except inventory.InFlight as error:
        raise ReplyWas(InFlight(error.retry_after)) from None
    except inventory.NotSent:
        raise ReplyWas(NotSent()) from None
    except inventory.TurnedAway:
        raise ReplyWas(TurnedAway()) from None
    except inventory.Closed:
        raise ReplyWas(Closed()) from None


def booked(reservation: inventory.Reservation, call: Call, lost: bool) -> Booking:
    """The reply, unless it is the first attempt's and that one is to be lost."""
    if lost and call.attempt == 1:
        raise ConnectionResetError("the reply was lost")
    return Booking(reservation.id, reservation.units)


def answered(known: inventory.Known) -> Answer[Booking]:
    match known:
        case inventory.Applied(inventory.Reservation() as found):
            return Found(Booking(found.id, found.units))
        case inventory.Rejected(inventory.OutOfStock() as error):
            return Refused(OutOfStock(sku=error.sku, units=error.units))
        case inventory.Tombstone():
            return Closed()
        case inventory.Absent(as_of_us):
            return Absent(datetime.fromtimestamp(as_of_us / 1e6, UTC))
    raise AssertionError(known)


def seconds(call: Call) -> timedelta:
    return timedelta(seconds=max(0.001, call.remaining_seconds()))


def service() -> inventory.InventoryClient:
    return inventory.InventoryClient(os.environ[SERVICE])


def async_service() -> inventory.AsyncInventoryClient:
    return inventory.AsyncInventoryClient(os.environ[SERVICE])


# -- effects -----------------------------------------------------------------------------------------------------------

RESENDING = contracts.Keyed(window=timedelta(hours=24))
# Shorter than the settle window, so that nothing is ever sent again and only asking and closing are left.
ASKING = contracts.Keyed(window=timedelta(minutes=15), lookup=contracts.Lookup(), close=True)
CLOSING = contracts.Keyed(window=timedelta(minutes=15), close=True)


def send(call: Call, sku: str, units: int, lost: bool) -> Booking:
    with service() as client, translated():
        return booked(client.reserve(sku, units, idempotency_key=call.key, timeout=seconds(call)), call, lost)


def look(call: Call) -> Answer[Booking]:
    with service() as client, translated():
        return answered(client.look_up(call.key, timeout=seconds(call)))


def bar(call: Call) -> Answer[Booking]:
    with service() as client, translated():
        return answered(client.close(call.key, timeout=seconds(call)))


@effect(RESENDING, environment=environment, rejects=(OutOfStock,), timeout=TIMEOUT)
def reserve(call: Call, *, sku: str, units: int, lost: bool = False) -> Booking:
    return send(call, sku, units, lost)


@effect(ASKING, environment=environment, timeout=TIMEOUT)
def reserve_asking(call: Call, *, sku: str, units: int, lost: bool = False) -> Booking:
    try:
        return send(call, sku, units, lost)
    except ConnectionResetError:
        raise ReplyWas(Indeterminate()) from None


@reserve_asking.probe
def find(call: Call, *, sku: str, units: int, lost: bool = False) -> Answer[Booking]:
    return look(call)


@reserve_asking.close
def bar_asked(call: Call, *, sku: str, units: int, lost: bool = False) -> Answer[Booking]:
    return bar(call)


@effect(CLOSING, environment=environment, timeout=TIMEOUT)
def reserve_closing(call: Call, *, sku: str, units: int, lost: bool = False) -> Booking:
    return send(call, sku, units, lost)


@reserve_closing.close
def bar_closed(call: Call, *, sku: str, units: int, lost: bool = False) -> Answer[Booking]:
    return bar(call)


@effect(contracts.Opaque(), environment=environment, timeout=TIMEOUT)
def reserve_opaque(call: Call, *, sku: str, units: int, lost: bool = False) -> Booking:
    return send(call, sku, units, lost)


async def send_async(call: Call, sku: str, units: int, lost: bool) -> Booking:
    async with async_service() as client:
        with translated():
            return booked(await client.reserve(sku, units, idempotency_key=call.key, timeout=seconds(call)), call, lost)


async def look_async(call: Call) -> Answer[Booking]:
    async with async_service() as client:
        with translated():
            return answered(await client.look_up(call.key, timeout=seconds(call)))


async def bar_async(call: Call) -> Answer[Booking]:
    async with async_service() as client:
        with translated():
            return answered(await client.close(call.key, timeout=seconds(call)))


@effect(RESENDING, environment=environment, rejects=(OutOfStock,), timeout=TIMEOUT, name="reserve")
async def reserve_async(call: Call, *, sku: str, units: int, lost: bool = False) -> Booking:
    return await send_async(call, sku, units, lost)


@effect(ASKING, environment=environment, timeout=TIMEOUT, name="reserve_asking")
async def reserve_asking_async(call: Call, *, sku: str, units: int, lost: bool = False) -> Booking:
    try:
        return await send_async(call, sku, units, lost)
    except ConnectionResetError:
        raise ReplyWas(Indeterminate()) from None


@reserve_asking_async.probe
async def find_async(call: Call, *, sku: str, units: int, lost: bool = False) -> Answer[Booking]:
    return await look_async(call)


@reserve_asking_async.close
async def bar_asked_async(call: Call, *, sku: str, units: int, lost: bool = False) -> Answer[Booking]:
    return await bar_async(call)


@effect(CLOSING, environment=environment, timeout=TIMEOUT, name="reserve_closing")
async def reserve_closing_async(call: Call, *, sku: str, units: int, lost: bool = False) -> Booking:
    return await send_async(call, sku, units, lost)


@reserve_closing_async.close
async def bar_closed_async(call: Call, *, sku: str, units: int, lost: bool = False) -> Answer[Booking]:
    return await bar_async(call)


@effect(contracts.Opaque(), environment=environment, timeout=TIMEOUT, name="reserve_opaque")
async def reserve_opaque_async(call: Call, *, sku: str, units: int, lost: bool = False) -> Booking:
    return await send_async(call, sku, units, lost)


def generations(run_id: str, number: int) -> list[str]:
    return [f"{run_id}:{number}:{generation}" for generation in range(1, GENERATIONS + 1)]


# -- workflows ---------------------------------------------------------------------------------------------------------


@workflow
def plain(run: Run, units: int) -> Resolution:
    plan = run.decide("plan", choose, units)
    first = run.perform(reserve(sku=SKU, units=plan.units), key=f"{run.run_id}:1")
    try:
        run.perform(reserve(sku=SCARCE, units=plan.units), key=f"{run.run_id}:2")
    except OutOfStock as error:
        return Resolution(plan.made_by, [first], error.sku)
    raise AssertionError("there was none in stock")


@workflow
def lossy(run: Run, units: int) -> Resolution:
    plan = run.decide("plan", choose, units)
    bookings = [run.perform(reserve(sku=SKU, units=plan.units, lost=True), key=f"{run.run_id}:1")]
    for number, kind in enumerate((reserve_asking, reserve_closing), 2):
        for key in generations(run.run_id, number):
            try:
                bookings.append(run.perform(kind(sku=SKU, units=plan.units, lost=True), key=key))
                break
            except NotExecuted:
                continue  # proven, and its key is closed: wanting it again is a new step
    return Resolution(plan.made_by, bookings, "")


@workflow
def doubtful(run: Run, units: int) -> Resolution:
    plan = run.decide("plan", choose, units)
    return Resolution(plan.made_by, [run.perform(reserve_opaque(sku=SKU, units=plan.units, lost=True), key=f"{run.run_id}:1")], "")


@workflow(name="plain")
async def plain_async(run: AsyncRun, units: int) -> Resolution:
    plan = await run.decide("plan", choose_async, units)
    first = await run.perform(reserve_async(sku=SKU, units=plan.units), key=f"{run.run_id}:1")
    try:
        await run.perform(reserve_async(sku=SCARCE, units=plan.units), key=f"{run.run_id}:2")
    except OutOfStock as error:
        return Resolution(plan.made_by, [first], error.sku)
    raise AssertionError("there was none in stock")


@workflow(name="lossy")
async def lossy_async(run: AsyncRun, units: int) -> Resolution:
    plan = await run.decide("plan", choose_async, units)
    bookings = [await run.perform(reserve_async(sku=SKU, units=plan.units, lost=True), key=f"{run.run_id}:1")]
    for number, kind in enumerate((reserve_asking_async, reserve_closing_async), 2):
        for key in generations(run.run_id, number):
            try:
                bookings.append(await run.perform(kind(sku=SKU, units=plan.units, lost=True), key=key))
                break
            except NotExecuted:
                continue  # proven, and its key is closed: wanting it again is a new step
    return Resolution(plan.made_by, bookings, "")


@workflow(name="doubtful")
async def doubtful_async(run: AsyncRun, units: int) -> Resolution:
    plan = await run.decide("plan", choose_async, units)
    bound = reserve_opaque_async(sku=SKU, units=plan.units, lost=True)
    return Resolution(plan.made_by, [await run.perform(bound, key=f"{run.run_id}:1")], "")


WORKFLOWS: dict[str, dict[str, Any]] = {
    "sync": {"plain": plain, "lossy": lossy, "doubtful": doubtful},
    "async": {"plain": plain_async, "lossy": lossy_async, "doubtful": doubtful_async},
}

KEYS: dict[str, Callable[[str], list[list[str]]]] = {
    "plain": lambda run: [[f"{run}:1"]],
    "lossy": lambda run: [[f"{run}:1"], generations(run, 2), generations(run, 3)],
    "doubtful": lambda run: [[f"{run}:1"]],
}
"""Run id -> for each booking the keys under which it may have been made: exactly one of them, once."""
