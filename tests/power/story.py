"""What the programs on the disk do: a workflow of one decision and three effects, in a world that stands outside the disk.

Owns the effects and the world that counts them. Invariant: the world forgets nothing and is told by no disk; an effect lands at most once under a
key only if whoever sends it takes care, since `book_asked` would book again.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

from recovery import Absent, Answer, Call, Closed, Environment, Found, Run, contracts, effect, workflow
from recovery.errors import NotExecuted

warehouse = Environment("warehouse", scope="w-1")


@dataclass(frozen=True)
class Booking:
    id: str
    units: int


@dataclass(frozen=True)
class Outcome:
    units: int
    bookings: list[Booking]


@dataclass
class World:
    """Landed keys in order, each as often as it was executed, and keys that are closed. landing: is called when one lands, before the reply."""

    landed: list[str] = field(default_factory=list)
    closed: set[str] = field(default_factory=set)
    landing: Callable[[str], None] = lambda key: None

    def book(self, key: str) -> None:
        assert key not in self.closed
        self.landed.append(key)
        self.landing(key)


world = World()
"""The one that this process reaches."""

TIMEOUT = timedelta(seconds=30)
GENERATIONS = 3
"""Keys under which the second booking is wanted at most: a further one for each that recovery has closed."""


@effect(contracts.Keyed(window=timedelta(hours=24)), environment=warehouse, timeout=TIMEOUT)
def book(call: Call, *, units: int) -> Booking:
    """The environment knows its keys: a repeat gets the first reply."""
    if call.key not in world.landed:
        world.book(call.key)
    return Booking(call.key, units)


@effect(
    contracts.Keyed(window=timedelta(minutes=15), lookup=contracts.Lookup(), close=True), environment=warehouse, timeout=TIMEOUT
)
def book_asked(call: Call, *, units: int) -> Booking:
    """The window is too short to send anything again: it is asked about, and closed. A repeat would book twice."""
    world.book(call.key)
    return Booking(call.key, units)


@book_asked.probe
def find(call: Call, *, units: int) -> Answer[Booking]:
    return Found(Booking(call.key, units)) if call.key in world.landed else Absent(datetime.now(UTC))


@book_asked.close
def bar(call: Call, *, units: int) -> Answer[Booking]:
    if call.key in world.landed:
        return Found(Booking(call.key, units))
    world.closed.add(call.key)
    return Closed()


def choose(units: int) -> int:
    return units


@workflow
def errand(run: Run, units: int, note: str = "") -> Outcome:
    chosen = run.decide("units", choose, units)
    bookings = [run.perform(book(units=chosen), key=f"{run.run_id}:1")]
    for generation in range(GENERATIONS):
        try:
            bookings.append(run.perform(book_asked(units=chosen), key=f"{run.run_id}:2:{generation}"))
            break
        except NotExecuted:
            continue  # its key is closed, so that wanting it again is a new step
    bookings.append(run.perform(book(units=chosen), key=f"{run.run_id}:3"))
    return Outcome(chosen, bookings)


def wrong_with(outcome: Outcome, run_id: str) -> str:
    """What is wrong with a run's outcome in this world, or ""."""
    ids = [booking.id.removeprefix(f"{run_id}:")[0] for booking in outcome.bookings]
    if ids != ["1", "2", "3"]:
        return f"{run_id} has booked {outcome}"
    ours = [key for key in world.landed if key.startswith(f"{run_id}:")]
    return "" if sorted(ours) == sorted(booking.id for booking in outcome.bookings) else f"{run_id} has landed {ours}"
