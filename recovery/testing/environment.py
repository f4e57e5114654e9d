"""A simulated environment: a warehouse behind a network, with every fault that a scenario can ask for.

Owns the way of a request from its sender to the warehouse and back. Must not know engines or journals: it is reached through a
`Connection`, which shows nothing of the ledger that judges. Invariant: a copy arrives at most once, whatever became of its sender.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextvars import ContextVar
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, Final

from recovery.definitions.answer import Answer, Found, NotSent, Refused, ReplyWas, Unreachable
from recovery.definitions.call import Call
from recovery.definitions.rejection import Rejection
from recovery.testing.clock import ManualClock
from recovery.testing.ledger import Asked, Executed, Ledger, Left
from recovery.testing.warehouse import Knobs, Marking, Outcome, Request, Value, Warehouse

Gate = Callable[[str], None]
"""Called at the named places inside the environment, in the sender's thread; it may block, or raise and never return."""

PLACES: Final = {
    "environment.held": "the request is on its way and has not arrived yet",
    "environment.received": "the request has arrived; nothing is done yet",
    "environment.committed": "it is done and recorded; the reply has not left",
}
"""Where a sender can be stopped while its request is outside; beside the crash points, in scenarios only."""


@dataclass(slots=True)
class _Copy:
    """A request on its way, and what came of it."""

    request: Request
    arrived: bool = False
    outcome: Outcome | None = None


@dataclass(slots=True)
class Faults:
    """What goes wrong next. Each counts requests; `down` stays until it is ended."""

    hold: list[int | None] = field(
        default_factory=list
    )  # for how many microseconds the next requests are held; None: until delivered
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
        self.warehouse = Warehouse(clock, self._ledger, knobs or Knobs(), dict(stock))
        self._waiting: list[_Copy] = []

    @property
    def stock(self) -> dict[str, int]:
        """What is left of everything."""
        return dict(self.warehouse.stock)

    def executions(self) -> dict[str, int]:
        """How often each key's effect was carried out. The judge: a `Connection` does not lead here."""
        counted: dict[str, int] = {}
        for event in self._ledger.events:
            if isinstance(event, Executed):
                counted[event.key] = counted.get(event.key, 0) + 1
        return counted

    def connect(self, process: str, gate: Gate = lambda _place: None) -> Connection:
        """The way in for one process."""
        return Connection(self, process, gate)

    def deliver(self) -> int:
        """Let every held copy arrive now; how many there were."""
        waiting = [copy for copy in self._waiting if not copy.arrived]
        for copy in waiting:
            self._arrive(copy)
        return len(waiting)

    def submit(self, request: Request, process: str, gate: Gate) -> Value:
        """What a sender gets: the value, a raised rejection, a raised answer, or a lost connection."""
        call = request.call
        self._left(call, process, dict(request.arguments), "send", f"sends {call.key} {dict(request.arguments)}")
        if self.faults.down:
            raise ReplyWas(NotSent()) if self.faults.refuses else ConnectionError("the environment is down")
        copy = _Copy(request)
        if self.faults.hold:
            self._hold(copy, self.faults.hold.pop(0), gate)
        else:
            gate("environment.received")
            self._arrive(copy)
        gate("environment.committed")
        if self.faults.drop_replies:
            self.faults.drop_replies -= 1
            self._tell(f"the reply to {call.key} is lost")
            raise ConnectionError("the connection was lost")
        return _reply(copy.outcome)

    def look_up(self, call: Call, process: str) -> Answer[Value]:
        """What a look-up by key or marker shows."""
        answer = Unreachable(detail="down") if self.faults.down else self.warehouse.look_up(call)
        asked = Asked(at_us=self._clock.wall_us(), process=process, run_id=call.run_id, key=call.key)
        self._ledger.add(asked, process, f"asks for {call.key}: {_in_words(answer)}")
        return answer

    def close(self, call: Call, process: str) -> Answer[Value]:
        """The outcome of a key, or its refusal for ever from now on."""
        self._left(call, process, {}, "close", f"closes {call.key}")
        return Unreachable(detail="down") if self.faults.down else self.warehouse.close(call)

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
        self._waiting.append(copy)
        gives_up_us = now_us + round(call.remaining_seconds() * 1_000_000)
        self._tell(f"{call.key} is held" + (f" for {timedelta(microseconds=held_us)}" if held_us is not None else ""))
        if held_us is not None:
            self._clock.at(now_us + held_us, lambda: self._arrive(copy))
        gate("environment.held")
        self._clock.advance_to(gives_up_us if held_us is None else min(gives_up_us, now_us + held_us))
        if not copy.arrived:
            raise TimeoutError("no reply in time")

    def _arrive(self, copy: _Copy) -> None:
        if not copy.arrived:
            copy.arrived = True
            copy.outcome = self.warehouse.carry_out(copy.request)

    def _tell(self, text: str) -> None:
        self._ledger.tell(self._clock.wall_us(), "environment", text)


@dataclass(frozen=True, slots=True)
class Connection:
    """One process's way to the environment: three verbs and nothing else."""

    _environment: SimulatedEnvironment = field(repr=False)
    _process: str
    _gate: Gate = field(repr=False)

    def reserve(self, call: Call, arguments: Mapping[str, Any], marking: Marking = Marking.KEY) -> Value:
        """Send one request for `sku` and `qty`. Raises OutOfStock, ReplyWas, or an OSError where no reply came."""
        self._gate("")
        return self._environment.submit(Request(call=call, arguments=arguments, marking=marking), self._process, self._gate)

    def look_up(self, call: Call) -> Answer[Value]:
        """Ask, read-only."""
        self._gate("")
        return self._environment.look_up(call, self._process)

    def close(self, call: Call) -> Answer[Value]:
        """Close the key of `call`."""
        self._gate("")
        return self._environment.close(call, self._process)


_connection: ContextVar[Connection] = ContextVar("recovery_testing_connection")


def connection() -> Connection:
    """The connection of the process that this code runs in. Raises LookupError where nobody has called `connected`."""
    return _connection.get()


def connected(made: Connection) -> None:
    """Give the current context its connection: what a process does when it starts."""
    _connection.set(made)


def _reply(outcome: Outcome | None) -> Value:
    match outcome:
        case dict():
            return outcome
        case Rejection():
            raise outcome
        case None | Unreachable():
            raise ConnectionError("no reply")
        case _:
            raise ReplyWas(outcome)


def _in_words(answer: Answer[Value]) -> str:
    match answer:
        case Found(outcome):
            return f"found {outcome['receipt']}"
        case Refused(error):
            return f"refused: {error}"
        case _:
            return type(answer).__name__.lower()
