"""The ledger: everything that happened in a simulation, in the order in which it happened.

Owns the ground truth that a finished world is judged by, and its readable form. Must never be handed to the code under test.
Invariant: append-only; the position of an event is its place in the order of the whole world.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

from recovery.core.entries import Entry


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """Something that happened at a virtual time."""

    at_us: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Durable(Event):
    """An append was acknowledged by the store."""

    process: str
    run_id: str
    epoch: str
    first_seq: int
    entries: tuple[Entry, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Claimed(Event):
    """A process opened or claimed a run at this epoch."""

    process: str
    run_id: str
    epoch: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RefusedAppend(Event):
    """The store refused an append: fenced, or its key is taken."""

    process: str
    run_id: str
    epoch: str
    entries: tuple[Entry, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Left(Event):
    """A request's first byte left a process. `purpose`: send, close, cancel."""

    process: str
    run_id: str
    step: str
    key: str
    attempt: int
    epoch: str
    fingerprint: str
    arguments: dict[str, Any]
    purpose: str = "send"


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked(Event):
    """A process asked, read-only."""

    process: str
    run_id: str
    key: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Executed(Event):
    """The environment did it. `value` is what its first reply said."""

    key: str
    arguments: dict[str, Any]
    value: Any


@dataclass(frozen=True, slots=True, kw_only=True)
class Declined(Event):
    """The environment refused to do it, with a declared rejection, for the first time (not a replay)."""

    key: str
    error: str
    value: Any


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended(Event):
    """A call on an engine returned. `value` is set if and only if `exit` is "settled"."""

    process: str
    verb: str
    run_id: str
    exit: str
    value: Any = None
    error: str = ""
    message: str = ""
    rows: tuple[str, ...] = ()
    took_us: int = 0
    budget_us: int | None = None


@dataclass(slots=True)
class Ledger:
    """Events and lines. Safe for several threads."""

    start_us: int
    events: list[Event] = field(default_factory=list)
    lines: list[str] = field(default_factory=list)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def add(self, event: Event, who: str, text: str) -> None:
        """Keep an event, with the line that tells it."""
        with self._lock:
            self.events.append(event)
        self.tell(event.at_us, who, text)

    def tell(self, at_us: int, who: str, text: str) -> None:
        """One line of the transcript."""
        with self._lock:
            self.lines.append(f"{shown(at_us - self.start_us):>14}  {who:<12} {text}")

    def transcript(self) -> str:
        return "\n".join(self.lines)


def shown(elapsed_us: int) -> str:
    """+1:02:03.5, counted from the beginning."""
    text = str(timedelta(microseconds=elapsed_us))
    return "+" + (text.rstrip("0").rstrip(".") if "." in text else text)
