"""Workflows as a user has them who has not said anything about tests: effects that call real services, and nothing that acts in their place."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import Enum
from typing import Annotated, Any
from uuid import UUID, uuid4

from annotated_types import Ge
from pydantic import AfterValidator, BaseModel

from recovery import AsyncRun, Batched, Call, Run, contracts, effect, workflow
from recovery.contracts import Batch

DAY = timedelta(hours=24)


class Colour(Enum):
    RED = "red"


class Booking(BaseModel):
    """Of everything a little."""

    id: UUID
    units: Annotated[int, Ge(1)]
    at: datetime
    colour: Colour
    note: str | None


@dataclass(frozen=True)
class Ticket:
    number: str


def reached(*_: Any, **__: Any) -> Any:
    raise AssertionError("a real service must not be reached")


@effect(contracts.Keyed(window=DAY))
def reserve(call: Call, *, sku: str, units: int) -> Booking:
    return reached()


@reserve.compensation(contracts.Keyed(window=DAY))
def release(call: Call, outcome: Booking, *, sku: str, units: int) -> None:
    reached()


@effect(contracts.Opaque())
def ticket(call: Call, *, text: str) -> Ticket:
    return reached()


@effect(contracts.Keyed(window=DAY, batch=Batch.PER_ITEM_RESULT))
def ship(call: Call, *, skus: list[str]) -> Batched[str]:
    return reached()


@effect(contracts.Read())
def stocked(call: Call, *, sku: str) -> int:
    return reached()


@effect(contracts.Keyed(window=DAY))
async def areserve(call: Call, *, sku: str) -> Booking:
    return reached()


def booked(run: Run, sku: str, units: int) -> Booking:
    """The effect is named here, and not in the workflow."""
    return run.perform(reserve(sku=sku, units=units))


@workflow
def repair(run: Run, sku: str, units: int = 2) -> list[Any]:
    if run.perform(stocked(sku=sku)) < 1:
        return []
    booking = booked(run, sku, units)
    shipped = run.perform(ship(skus=[sku, "bolt"]))
    assert len(shipped.items) == 2
    return [str(booking.id), booking.units]


@workflow
def closing(run: Run) -> str:
    return run.perform(ticket(text="closed")).number


@workflow
async def arepair(run: AsyncRun, sku: str) -> int:
    return (await run.perform(areserve(sku=sku))).units


@workflow
def hosted(run: Run, sku: str) -> int:
    """Whoever recovers it runs elsewhere, and asks for another key: a key per attempt."""
    return run.perform(reserve(sku=sku, units=1), key=f"{sku}-{threading.current_thread().name}").units


@workflow
def minting(run: Run) -> int:
    return run.perform(reserve(sku="A", units=1), key=str(uuid4())).units


kept: dict[str, Booking] = {}


@workflow
def remembering(run: Run, sku: str) -> int:
    """What is remembered beside the journal is not there, or there, in the process that recovers it."""
    if sku not in kept:
        kept[sku] = run.perform(reserve(sku=sku, units=1))
    return kept[sku].units


def odd(value: str) -> str:
    if value != "the one that nobody guesses":
        raise ValueError("it is another one")
    return value


@effect(contracts.Opaque())
def guess(call: Call) -> Annotated[str, AfterValidator(odd)]:
    return reached()


@workflow
def guessing(run: Run) -> str:
    return run.perform(guess())


TOOLS = {"reserve": reserve, "ticket": ticket}


@workflow
def agent(run: Run) -> str:
    """Its effects are in a table."""
    tool = run.decide("tool", lambda: "ticket")
    return str(run.perform(TOOLS[tool].parse({"text": "hello"})))


@workflow
def conjuring(run: Run) -> None:
    """Its effect is made while it runs."""

    @effect(contracts.Opaque(), name="conjured")
    def conjured(call: Call) -> None:
        reached()

    run.perform(conjured())
