"""What is told to a run from outside of its journal, and read there by its owner and by those who wait for it.

Owns messages, late evidence, and the promises about both. Knows no append. Invariant: neither is fenced, nor moves a run's head.
"""

# pyright: reportReturnType=false
# The body of a protocol's method is its docstring; mypy checks those who implement it.
from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from recovery.core.ids import Epoch
from recovery.ports.runs import RunRow


@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    """Something said to a run from outside of its journal: a signal, an order, the end of a child. Which messages a run has taken
    in is said by its own entries, never by the inbox.

    slot: at most one message of a run has it, and the first one wins; "" for as many as come.
    """

    run_id: str
    kind: str
    body: str  # JSON text
    at_us: int
    token: str  # one per message, kept over retries
    name: str = ""
    slot: str = ""
    by: str = ""
    number: int = 0  # given by the store: 1, 2, 3, ... within a run


@dataclass(frozen=True, slots=True)
class Delivered:
    """The message is in the inbox, with its number: from now on, or since an earlier call."""

    message: Message


@dataclass(frozen=True, slots=True)
class SlotTaken:
    """Nothing was written: another message came first."""

    first: Message


@dataclass(frozen=True, slots=True)
class NotOpen:
    """Nothing was written: the run is settled, or there is none."""

    run: RunRow | None


Delivery = Delivered | SlotTaken | NotOpen


@dataclass(frozen=True, slots=True)
class Evidence:
    """What a superseded worker knew: kept outside the fence, never thrown away. `body` is an encoded entry as JSON text."""

    run_id: str
    step: str
    epoch: Epoch
    at_us: int
    kind: str
    body: str


class Telling(Protocol):
    """Said by anybody, at any time."""

    def deliver(self, message: Message) -> Delivery:
        """Put a message into its run's inbox. Durable on return, and read by whoever asks for the inbox after that. It never
        moves the head. The next look of a run that rests (in doubt, held or waiting: another branch may wait for this) comes
        forward to the message's time: who appends that it rests and then reads the inbox misses nothing. A repeat (same run and
        token) is Delivered again, whatever came since."""

    def inbox(self, run_id: str, after: int = 0) -> list[Message]:
        """The messages of a run behind a number, in the order of their numbers; read committed. None ever comes in below one that
        was read."""

    def add_evidence(self, evidence: Evidence) -> None:
        """Keep one item outside the fence. Durable on return. An identical item (all fields but at_us) is kept once."""

    def evidence(self, run_id: str) -> list[Evidence]:
        """What `add_evidence` kept for a run, oldest first."""
