"""The incident app: a worker approves a repair and reserves its parts from the inventory service.

Owns nothing but the example: one workflow in both colours, its effect with a probe and a compensation, and the engines for
`recover --app recovery.examples.incident:engine`. `INVENTORY_URL` and `RECOVERY_DB` say where the service and the journal are.

`python -m recovery.examples.incident RUN_ID` is the worker of the demo.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from recovery import (
    Absent,
    Answer,
    AsyncEngine,
    AsyncRun,
    Call,
    Closed,
    Engine,
    Environment,
    Expired,
    Found,
    Gone,
    InFlight,
    Mismatch,
    NotSent,
    ReceiptRow,
    Refused,
    Rejection,
    ReplyWas,
    Run,
    TurnedAway,
    contracts,
    effect,
    workflow,
)
from recovery.examples.inventory import client
from recovery.examples.inventory.client import AsyncInventoryClient, InventoryClient, Reservation

INVENTORY_URL = os.environ.get("INVENTORY_URL", "http://127.0.0.1:8080")
DATABASE = os.environ.get("RECOVERY_DB", "sqlite:///incident.db")

inventory_service = Environment("inventory", scope="warehouse-1")
remembers = contracts.Keyed(window=timedelta(hours=24), name="inventory service")


@dataclass(frozen=True)
class Incident:
    machine: str
    sku: str
    units: int


@dataclass(frozen=True)
class Resolution:
    approved_by: str
    reservation: Reservation


class OutOfStock(Rejection):
    sku: str
    units: int


class NoSuchReservation(Rejection):
    id: str


def approve(incident: Incident) -> str:
    """Who approves the repair. A model or a person in a real app: asked once, and never again on replay."""
    return f"shift lead of {incident.machine}"


# -- what the client says, in the words of recovery --------------------------------------------------------------------


@contextmanager
def replies() -> Iterator[None]:
    """Everything else that comes out of the client means that it might have happened."""
    try:
        yield
    except client.OutOfStock as error:
        raise OutOfStock(sku=error.sku, units=error.units) from error
    except client.NoSuchReservation as error:
        raise NoSuchReservation(id=error.id) from error
    except client.InventoryError as error:
        raise _answered(error) from error


def _answered(error: client.InventoryError) -> Exception:
    match error:
        case client.NotSent():
            return ReplyWas(NotSent())
        case client.InFlight():
            return ReplyWas(InFlight(error.retry_after))
        case client.KeyMismatch():
            return ReplyWas(Mismatch())
        case client.Closed():
            return ReplyWas(Closed())
        case client.Expired():
            return ReplyWas(Expired())
        case client.TurnedAway():
            return ReplyWas(TurnedAway())
    return error


def found(known: client.Known) -> Answer[Reservation]:
    """What the service knows about a reservation's key. A receipt whose value was pruned still says that it happened."""
    match known:
        case client.Applied(Reservation() as reservation):
            return Found(reservation)
        case client.Applied():
            return Gone()
        case client.Rejected(client.OutOfStock() as error):
            return Refused(OutOfStock(sku=error.sku, units=error.units))
        case client.Rejected():
            return Expired()
        case client.Tombstone():
            return Closed()
        case client.Absent(as_of_us):
            return Absent(datetime.fromtimestamp(as_of_us / 1_000_000, UTC))


@inventory_service.receipts
def applied(since: datetime | None) -> list[ReceiptRow]:
    """What the service has done for anybody: where `recover orphans` looks for effects that the journal does not know."""
    since_us = 0 if since is None else round(since.timestamp() * 1_000_000)
    with InventoryClient(INVENTORY_URL) as inventory:
        listed = inventory.receipts(since_us=since_us)
    return [
        ReceiptRow(
            key=one.key, fingerprint=one.fingerprint, outcome=one.outcome, at=datetime.fromtimestamp(one.at_us / 1_000_000, UTC)
        )
        for one in listed
        if one.kind == "applied"
    ]


def within(call: Call) -> dict[str, Any]:
    """The key, and the time that this attempt has left."""
    return {"idempotency_key": call.key, "timeout": timedelta(seconds=call.remaining_seconds())}


# -- def ---------------------------------------------------------------------------------------------------------------


@effect(remembers, environment=inventory_service, rejects=(OutOfStock,), timeout=timedelta(seconds=10))
def reserve(call: Call, *, sku: str, units: int) -> Reservation:
    """Take units of an article out of stock."""
    with replies(), InventoryClient(INVENTORY_URL) as inventory:
        return inventory.reserve(sku, units, **within(call))


@reserve.probe
def find(call: Call, *, sku: str, units: int) -> Answer[Reservation]:  # noqa: ARG001  # the key alone names it
    with replies(), InventoryClient(INVENTORY_URL) as inventory:
        return found(inventory.look_up(call.key))


@reserve.compensation(remembers, rejects=(NoSuchReservation,))
def release(call: Call, outcome: Reservation, *, sku: str, units: int) -> None:  # noqa: ARG001  # the receipt names it
    with replies(), InventoryClient(INVENTORY_URL) as inventory:
        inventory.release(outcome.id, **within(call))


@workflow
def resolve(run: Run, incident: Incident) -> Resolution:
    """Approve a repair and reserve its parts."""
    approved_by = run.decide("approve", approve, incident)
    booking = run.perform(reserve(sku=incident.sku, units=incident.units), key="reservation-1")
    return Resolution(approved_by, booking)


engine = Engine(DATABASE, workflows=[resolve], environments=[inventory_service])


# -- async def ---------------------------------------------------------------------------------------------------------


@effect(remembers, environment=inventory_service, rejects=(OutOfStock,), timeout=timedelta(seconds=10))
async def reserve_async(call: Call, *, sku: str, units: int) -> Reservation:
    """Take units of an article out of stock."""
    with replies():
        async with AsyncInventoryClient(INVENTORY_URL) as inventory:
            return await inventory.reserve(sku, units, **within(call))


@reserve_async.probe
async def find_async(call: Call, *, sku: str, units: int) -> Answer[Reservation]:  # noqa: ARG001  # the key alone names it
    with replies():
        async with AsyncInventoryClient(INVENTORY_URL) as inventory:
            return found(await inventory.look_up(call.key))


@reserve_async.compensation(remembers, rejects=(NoSuchReservation,))
async def release_async(call: Call, outcome: Reservation, *, sku: str, units: int) -> None:  # noqa: ARG001  # the receipt names it
    with replies():
        async with AsyncInventoryClient(INVENTORY_URL) as inventory:
            await inventory.release(outcome.id, **within(call))


@workflow
async def resolve_async(run: AsyncRun, incident: Incident) -> Resolution:
    """As `resolve`, awaited."""
    approved_by = await run.decide("approve", approve, incident)
    booking = await run.perform(reserve_async(sku=incident.sku, units=incident.units), key="reservation-1")
    return Resolution(approved_by, booking)


async_engine = AsyncEngine(DATABASE, workflows=[resolve_async], environments=[inventory_service])


if __name__ == "__main__":
    with engine:
        sys.stdout.write(f"{engine.run(sys.argv[1], resolve, Incident(machine='press-4', sku='FILTER-A', units=2))}\n")
