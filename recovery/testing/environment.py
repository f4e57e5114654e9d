"""A simulated environment: a warehouse behind a network, with every fault that a scenario can ask for.

Owns the way of a request from its sender to the warehouse and back. Must not know engines or journals: it is reached through a
`Connection`, which shows nothing of the ledger that judges. Invariant: a copy arrives at most once, whatever became of its sender.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, Final, Protocol, TypeVar

from recovery.core.instants import instant_us
from recovery.definitions.answer import Answer, Found, NotSent, Refused, ReplyWas, Unreachable
from recovery.definitions.batched import Batched
from recovery.definitions.call import Call
from recovery.definitions.effect import Bound
from recovery.definitions.rejection import Rejection
from recovery.testing.clock import ManualClock
from recovery.testing.footprints import Footprint
from recovery.testing.knobs import NAMING, Knobs, Marking, Outcome, Request, Value
from recovery.testing.ledger import Asked, Executed, Ledger, Left
from recovery.testing.stockroom import Stockroom
from recovery.testing.warehouse import Saved, Warehouse

T = TypeVar("T")

Gate = Callable[[str], None]
"""Called at the named places inside the environment, in the sender's thread; it may block, or raise and never return."""

PLACES: Final = {
    "environment.held": "the request is on its way and has not arrived yet",
    "environment.received": "the request has arrived; nothing is done yet",
    "environment.prepared": "stock is held under the request's name, and not taken yet (prepared effects only)",
    "environment.working": "a request that takes time is being worked on",
    "environment.committed": "it is done and recorded; the reply has not left",
}
"""Where a sender can be stopped while its request is outside; beside the crash points, in scenarios only."""


class Inside(Protocol):
    """What becomes of requests that have arrived, and of questions. `Warehouse` says what each is."""

    def carry_out(self, request: Request) -> Outcome: ...
    def begin(self, request: Request) -> Outcome | None: ...
    def given_up(self, request: Request) -> None: ...
    def executed(self, request: Request) -> Outcome: ...
    def hold(self, request: Request) -> None: ...
    def look_up(self, call: Call, items: int = 0, *, by_name: bool = False) -> Answer[Any]: ...
    def close(self, call: Call) -> Answer[Any]: ...
    def cancel(self, call: Call) -> bool: ...


@dataclass(slots=True)
class _Copy:
    """A request on its way, and what came of it. due_us: when it arrives at the latest; None: not by itself."""

    request: Request
    takes_us: int = 0
    due_us: int | None = None
    arrived: bool = False
    abandoned: bool = False
    outcome: Outcome | None = None


@dataclass(slots=True)
class Faults:
    """What goes wrong next. Each counts requests; `down` stays until it is ended."""

    hold: list[int | None] = field(
        default_factory=list
    )  # for how many microseconds the next requests are held; None: until delivered
    duplicate: list[int | None] = field(default_factory=list)  # as `hold`, for a copy of the next requests
    takes_us: list[int] = field(default_factory=list)  # how long the next requests are worked on
    drop_replies: int = 0
    down: bool = False
    refuses: bool = False  # while down, a connection is refused: proof that a request never left


class SimulatedEnvironment:
    """Stock, keys and receipts on a virtual clock. One instance is one world; processes reach it through `connect`."""

    def __init__(
        self, clock: ManualClock, *, stock: Mapping[str, int], knobs: Knobs | None = None, ledger: Ledger | None = None
    ) -> None:
        self.faults = Faults()
        self._clock = clock
        self._ledger = ledger or Ledger(clock.wall_us())
        self.warehouse = Warehouse(clock, self._ledger, knobs or Knobs(), Stockroom(self._ledger, dict(stock)))
        self.insides: dict[str, Callable[[Bound[Any]], Inside]] = {}  # of effects that are not the warehouse's, by name
        self.furniture: list[Callable[[], object]] = [self.warehouse.standing]
        self._knobs = self.warehouse.knobs
        self.settle_us: int | None = None  # assumption A2, enforced: what has arrived acts no later than so long after its deadline
        self._waiting: list[_Copy] = []
        self._backup: Saved | None = None

    def standing(self) -> object:
        """Everything that its future depends on: equal for two environments which nobody can tell apart. Not that of the ledger."""
        on_the_way = [
            (copy.request.call.key, copy.request.call.attempt, copy.request.call.epoch, copy.takes_us, copy.due_us)
            for copy in self._waiting
            if not copy.arrived and not (copy.abandoned and self._knobs.disconnect_cancels)
        ]
        return self.faults, on_the_way, [standing() for standing in self.furniture]

    @property
    def held(self) -> int:
        """How many copies are on their way and can be delivered."""
        return sum(not copy.arrived for copy in self._waiting)

    @property
    def stock(self) -> dict[str, int]:
        """What is left of everything."""
        return dict(self.warehouse.stockroom.stock)

    def executions(self) -> dict[str, int]:
        """How often each key's effect was carried out. The judge: a `Connection` does not lead here."""
        counted: dict[str, int] = {}
        for event in self._ledger.events:
            if isinstance(event, Executed):
                counted[event.key] = counted.get(event.key, 0) + 1
        return counted

    def connect(self, process: str, gate: Gate = lambda _place: None, footprint: Footprint | None = None) -> Connection:
        """The way in for one process."""
        return Connection(self, process, gate, footprint or Footprint())

    def deliver(self) -> int:
        """Let every held copy arrive now; how many there were."""
        waiting = [copy for copy in self._waiting if not copy.arrived]
        for copy in waiting:
            self._arrive(copy)
        return len(waiting)

    def back_up(self) -> None:
        """Keep the present state, to be restored later."""
        self._backup = self.warehouse.saved()

    def restore(self) -> None:
        """Go back to the state that was backed up last. Raises ValueError if there is none."""
        if self._backup is None:
            raise ValueError("the environment has not been backed up")
        self.warehouse.put_back(self._backup)

    def submit(self, request: Request, process: str, gate: Gate) -> Value | Batched[Value]:
        """What a sender gets: the value, a raised rejection, a raised answer, or a lost connection."""
        call = request.call
        self._left(call, process, dict(request.arguments), "send", f"sends {call.key} {dict(request.arguments)}")
        if self.faults.down:
            raise ReplyWas(NotSent()) if self.faults.refuses else ConnectionError("the environment is down")
        copy = _Copy(request, self.faults.takes_us.pop(0) if self.faults.takes_us else 0)
        if self.faults.duplicate:
            self._travel(_Copy(request), self.faults.duplicate.pop(0), f"a copy of {call.key}")
        try:
            if self.faults.hold:
                self._hold(copy, self.faults.hold.pop(0), gate)
            else:
                self._act_in_time(copy)
                gate("environment.received")
                if request.marking is Marking.HOLD:
                    self._inside(request.subject).hold(request)
                    gate("environment.prepared")
                self._arrive(copy)
            self._await(copy, gate)
            gate("environment.committed")
        except BaseException:  # a simulated death is no Exception; raised again
            copy.abandoned = True  # whatever ended the sender: nobody listens any more
            raise
        if self.faults.drop_replies:
            self.faults.drop_replies -= 1
            self._tell(f"the reply to {call.key} is lost")
            raise ConnectionError("the connection was lost")
        return _reply(copy.outcome)

    def look_up(
        self, call: Call, process: str, items: int = 0, marking: Marking = Marking.KEY, subject: Bound[Any] | None = None
    ) -> Answer[Value]:
        """What a look-up by key, name or marker shows."""
        answer: Answer[Value] = Unreachable(detail="down")
        if not self.faults.down:
            answer = self._inside(subject).look_up(call, items, by_name=marking in NAMING)
        asked = Asked(at_us=self._clock.wall_us(), process=process, run_id=call.run_id, key=call.key)
        self._ledger.add(asked, process, f"asks for {call.key}: {_in_words(answer)}")
        return answer

    def close(self, call: Call, process: str, subject: Bound[Any] | None = None) -> Answer[Value]:
        """The outcome of a key, or its refusal for ever from now on."""
        self._left(call, process, {}, "close", f"closes {call.key}")
        return Unreachable(detail="down") if self.faults.down else self._inside(subject).close(call)

    def cancel(self, call: Call, process: str, subject: Bound[Any] | None = None) -> bool:
        """Undo what is found under a key; whether anything was. Raises ConnectionError."""
        self._left(call, process, {}, "cancel", f"cancels {call.key}")
        if self.faults.down:
            raise ConnectionError("the environment is down")
        return self._inside(subject).cancel(call)

    def _inside(self, subject: Bound[Any] | None) -> Inside:
        return self.warehouse if subject is None else self.insides[subject.effect.name](subject)

    def _left(self, call: Call, process: str, arguments: dict[str, Any], purpose: str, text: str) -> None:
        event = Left(
            at_us=self._clock.wall_us(),
            process=process,
            run_id=call.run_id,
            step=call.step,
            key=call.key,
            attempt=call.attempt,
            epoch=call.epoch,
            fingerprint=call.fingerprint,
            arguments=arguments,
            purpose=purpose,
        )
        self._ledger.add(event, process, f"{text} (attempt {call.attempt}, epoch {call.epoch})")

    def _hold(self, copy: _Copy, held_us: int | None, gate: Gate) -> None:
        """The copy travels on its own from here; its sender waits until it arrives, or until it gives up."""
        call, now_us = copy.request.call, self._clock.wall_us()
        gives_up_us = now_us + round(call.remaining_seconds() * 1_000_000)
        self._travel(copy, held_us, call.key)
        gate("environment.held")
        self._clock.advance_to(gives_up_us if held_us is None else min(gives_up_us, now_us + held_us))
        if not copy.arrived:
            raise TimeoutError("no reply in time")

    def _travel(self, copy: _Copy, held_us: int | None, what: str) -> None:
        """Into the network for so long, None: until it is delivered."""
        self._waiting.append(copy)
        self._tell(f"{what} is held" + (f" for {timedelta(microseconds=held_us)}" if held_us is not None else ""))
        if held_us is not None:
            copy.due_us = self._clock.wall_us() + held_us
            self._clock.at(copy.due_us, lambda: self._arrive(copy))

    def _act_in_time(self, copy: _Copy) -> None:
        """Whoever stands still between arrival and effect does so within A2, where that is enforced; one who dies never acts."""
        if self.settle_us is not None:
            copy.due_us = instant_us(copy.request.call.send_until) + self.settle_us
            self._clock.at(copy.due_us, lambda: None if copy.abandoned else self._arrive(copy))

    def _arrive(self, copy: _Copy) -> None:
        if copy.arrived:
            return
        copy.arrived = True
        if copy.abandoned and self._knobs.disconnect_cancels:
            self._tell(f"{copy.request.call.key} arrives, and nobody waits for it")
        elif not copy.takes_us:
            copy.outcome = self._inside(copy.request.subject).carry_out(copy.request)
        else:
            copy.outcome = self._inside(copy.request.subject).begin(copy.request)
            if copy.outcome is None:
                self._clock.at(self._clock.wall_us() + copy.takes_us, lambda: self._finish(copy))

    def _finish(self, copy: _Copy) -> None:
        if copy.abandoned and self._knobs.disconnect_cancels:
            self._inside(copy.request.subject).given_up(copy.request)
        else:
            copy.outcome = self._inside(copy.request.subject).executed(copy.request)

    def _await(self, copy: _Copy, gate: Gate) -> None:
        """The sender waits for work that takes time, until it gives up."""
        if not copy.takes_us or copy.outcome is not None:
            return
        gate("environment.working")
        now_us = self._clock.wall_us()
        self._clock.advance_to(now_us + min(copy.takes_us, round(copy.request.call.remaining_seconds() * 1_000_000)))
        if copy.outcome is None:
            raise TimeoutError("no reply in time")

    def _tell(self, text: str) -> None:
        self._ledger.tell(self._clock.wall_us(), "environment", text)


@dataclass(frozen=True, slots=True)
class Connection:
    """One process's way to the environment: what one can ask of it and nothing else."""

    _environment: SimulatedEnvironment = field(repr=False)
    _process: str
    _gate: Gate = field(repr=False)
    _footprint: Footprint = field(repr=False)

    def reserve(
        self, call: Call, arguments: Mapping[str, Any], marking: Marking = Marking.KEY, subject: Bound[Any] | None = None
    ) -> Value:
        """Send one request for `sku` and `qty`, or for all or none of `items`. Raises OutOfStock, ReplyWas, or an OSError where no reply came."""
        request = Request(call=call, arguments=arguments, marking=marking, subject=subject)
        came: Any = self._heard(lambda: self._environment.submit(request, self._process, self._gate), sends=True)
        return dict(came)

    def reserve_each(self, call: Call, items: list[dict[str, Any]], marking: Marking = Marking.KEY) -> Batched[Value]:
        """Send one request for several items, each with a result of its own. Raises as `reserve`."""
        request = Request(call=call, arguments={"items": items}, marking=marking)
        came: Any = self._heard(lambda: self._environment.submit(request, self._process, self._gate), sends=True)
        return came if isinstance(came, Batched) else Batched(())

    def look_up(
        self, call: Call, items: int = 0, marking: Marking = Marking.KEY, subject: Bound[Any] | None = None
    ) -> Answer[Value]:
        """Ask, read-only. items: how many a batch has whose items have results of their own."""
        return self._heard(lambda: self._environment.look_up(call, self._process, items, marking, subject))

    def close(self, call: Call, subject: Bound[Any] | None = None) -> Answer[Value]:
        """Close the key of `call`."""
        return self._heard(lambda: self._environment.close(call, self._process, subject), sends=True)

    def cancel(self, call: Call, subject: Bound[Any] | None = None) -> bool:
        """Undo what is found under the key of `call`, leaving no tombstone; whether anything was. Raises ConnectionError."""
        return self._heard(lambda: self._environment.cancel(call, self._process, subject), sends=True)

    def available(self, sku: str) -> int:
        """A pure read: how much there is."""
        return self._heard(lambda: self._environment.stock.get(sku, 0))

    def _heard(self, ask: Callable[[], T], *, sends: bool = False) -> T:
        """Ask, if this process still lives, and note what it was told."""
        self._gate("")
        footprint = self._footprint
        footprint.touched = footprint.outside = True
        footprint.sent = footprint.sent or sends
        try:
            came = ask()
        except Exception as error:  # an answer, too; raised again
            footprint.feed((type(error).__name__, str(error)))
            raise
        footprint.feed(came)
        return came


_connection: ContextVar[Connection] = ContextVar("recovery_testing_connection")


def connection() -> Connection:
    """The connection of the process that this code runs in. Raises LookupError where nobody has called `connected`."""
    return _connection.get()


def connected(made: Connection) -> None:
    """Give the current context its connection: what a process does when it starts."""
    _connection.set(made)


@contextmanager
def connecting(made: Connection) -> Iterator[None]:
    """`connected`, until the end of the block."""
    before = _connection.set(made)
    try:
        yield
    finally:
        _connection.reset(before)


def _reply(outcome: Outcome | None) -> Value | Batched[Value]:
    match outcome:
        case dict() | Batched():
            return outcome
        case Rejection():
            raise outcome
        case None | Unreachable():
            raise ConnectionError("no reply")
        case _:
            raise ReplyWas(outcome)


def _in_words(answer: Answer[Value]) -> str:
    match answer:
        case Found(outcome) if isinstance(outcome, dict):
            return f"found {outcome['receipt']}"
        case Refused(error):
            return f"refused: {error}"
        case _:
            return type(answer).__name__.lower()
