"""Workflows as a user would write them, with effects that call real services, for explorations by name."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from datetime import timedelta

from recovery import Applied, AsyncRun, Call, Rejection, Run, contracts, effect, workflow
from recovery.testing import AS_IT_STANDS, Exploration, ScriptedEnvironment, connection

REMEMBERS = contracts.Keyed(window=timedelta(hours=24))


class SoldOut(Rejection):
    """There is none left."""

    sku: str


@dataclass(frozen=True)
class Booking:
    """What the service answers."""

    id: str
    units: int


@effect(REMEMBERS, rejects=(SoldOut,))
def reserve(call: Call, *, sku: str, units: int) -> Booking:
    raise AssertionError("a real service must not be reached")


@effect(contracts.Opaque())
def tell(call: Call, *, text: str) -> None:
    raise AssertionError("a real service must not be reached")


@effect(contracts.Read(), rejects=(SoldOut,))
def stock(call: Call, *, sku: str) -> int:
    raise AssertionError("a real service must not be reached")


@workflow
def count(run: Run, sku: str) -> int:
    """One pure read."""
    came = run.attempt(stock(sku=sku))
    return came.value if isinstance(came, Applied) else 0


@effect(REMEMBERS, rejects=(SoldOut,))
async def areserve(call: Call, *, sku: str, units: int) -> Booking:
    raise AssertionError("a real service must not be reached")


def booked(sku: str, units: int) -> Booking:
    if sku == "gone":
        raise SoldOut(sku=sku)
    return Booking(f"B-{sku}", units)


@workflow
def repair(run: Run, sku: str, units: int = 2) -> str:
    """One decision, one keyed effect, one that nobody can ask about."""
    wanted = run.decide("how-many", lambda: units)
    booking = run.perform(reserve(sku=sku, units=wanted))
    run.perform(tell(text=booking.id))
    return booking.id


@workflow
async def arepair(run: AsyncRun, sku: str) -> Booking:
    return await run.perform(areserve(sku=sku, units=1))


tried: list[str] = []


@workflow
def clutching(run: Run) -> str:
    """It catches its own death, and tries everything that a run can do."""
    try:
        return run.perform(reserve(sku="A", units=1)).id
    except BaseException:
        for name, act in (
            ("perform", lambda: run.perform(reserve(sku="B", units=9), name="clutched")),
            ("decide", lambda: run.decide("clutched", lambda: "late")),
            ("attempt", lambda: run.attempt(reserve(sku="C", units=9), name="clutched-again")),
            ("ask", lambda: connection().available("A")),
        ):
            try:
                act()
            except BaseException as error:
                tried.append(f"{name}: {type(error).__name__}")
        raise


exploration = Exploration(repair, "A", effects={reserve: booked, tell: lambda text: None})
async_exploration = Exploration(arepair, "A", effects={areserve: booked})
clutched = Exploration(clutching, effects={reserve: booked})


class Shop:
    """A fake of the service that lives in this process."""

    def __init__(self) -> None:
        self.bookings: dict[str, Booking] = {}
        self.sold: Counter[str] = Counter()

    def sell(self, key: str, units: int) -> Booking:
        self.sold[key] += 1
        return Booking(f"B-{sum(self.sold.values())}", units)


shop = Shop()


@effect(REMEMBERS)
def buy(call: Call, *, units: int) -> Booking:
    """It looks its key up first."""
    if call.key not in shop.bookings:
        shop.bookings[call.key] = shop.sell(call.key, units)
    return shop.bookings[call.key]


@effect(REMEMBERS)
def grab(call: Call, *, units: int) -> Booking:
    """Its contract says that it knows its keys, which is not true."""
    return shop.sell(call.key, units)


@workflow
def shopping(run: Run) -> str:
    return run.perform(buy(units=2)).id


@workflow
def grabbing(run: Run) -> str:
    return run.perform(grab(units=2)).id


def reopened() -> None:
    shop.__init__()  # type: ignore[misc]


honest = Exploration(shopping, effects=ScriptedEnvironment({buy: AS_IT_STANDS}, fresh=reopened))
lying = Exploration(grabbing, effects=ScriptedEnvironment({grab: AS_IT_STANDS}, fresh=reopened))

drawn = iter(range(10**9))


@workflow
def moody(run: Run) -> int:
    run.decide("mood", lambda: next(drawn))
    return 1


moodiness = Exploration(moody, effects={reserve: booked})
