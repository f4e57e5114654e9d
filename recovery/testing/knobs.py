"""Knobs: how a simulated environment behaves, and how a request names itself to it.

Owns the words for what environments differ in. Knows no clock and no stock. Invariant: a knob says what the environment really does; what its
contract promises about that is another matter, and a scenario may let the two differ.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum
from typing import Any, Final, TypeAlias

from recovery.core.contracts import Batch, Deletion, Enforced, Replay
from recovery.definitions.answer import Answer
from recovery.definitions.batched import Batched
from recovery.definitions.call import Call
from recovery.definitions.effect import Bound
from recovery.definitions.rejection import Rejection

Value: TypeAlias = dict[str, Any]


class OutOfStock(Rejection):
    """There is less than was asked for."""

    sku: str
    available: int


class Remembered(StrEnum):
    """What a key store keeps under a key."""

    SUCCESS = "success"
    REJECTION = "rejection"
    FAILURE = "failure"


class Anchor(StrEnum):
    """What a key's window counts from."""

    FIRST_SEEN = "first_seen"  # the first request that carried the key, remembered or not
    COMPLETED = "completed"  # the request whose outcome is remembered


class OnMismatch(StrEnum):
    """What a known key answers to another request."""

    REFUSES = "refuses"
    REPLAYS = "replays"  # the first outcome, without a word


class Marking(StrEnum):
    """How a request names itself to the environment."""

    KEY = "key"  # an idempotency key: one effect per key
    SWALLOW = "swallow"  # a key whose duplicates are accepted and dropped without a word
    FIRST_SENT = "first_sent"  # a key, and the time of its first sending, behind which the environment refuses
    NAME = "name"  # the name of the object that is made
    HOLD = "hold"  # a name under which stock is held first and taken then
    MARKER = "marker"  # can be looked up, and is not deduplicated
    NONE = "none"  # neither


NAMING = frozenset({Marking.NAME, Marking.HOLD})
"""Markings under which the object itself is what deduplicates."""

STORED = frozenset({Marking.KEY, Marking.SWALLOW, Marking.FIRST_SENT})
"""Markings that need the key store."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Knobs:
    """How the environment behaves. Durations are exact: what happens at the very end of one has happened after it.

    window: how long a key is remembered, None for ever. lag: how late a receipt shows in look-ups. retention: how long it shows, None for ever.
    locks: a copy that comes while another of its key is worked on is told so; lock_for: only that long, None until the work has ended.
    reads_open: look-ups see work that is under way, as a locking read does; a plain one does not.
    fail_open: without its key store it executes unprotected. tombstone: a close leaves one. deletion: what a look-up shows of an object
    that a user has removed. replay: what a re-send and a look-up return after a success. batch: how requests with several items are taken.
    enforces: what in a request refuses its late copies. asking_raises: a question raises the epoch, as a sending does. disconnect_cancels: work ends when its sender goes away.
    """

    window: timedelta | None = None
    window_starts: Anchor = Anchor.FIRST_SEEN
    remembers: frozenset[Remembered] = frozenset({Remembered.SUCCESS, Remembered.REJECTION})
    mismatch: OnMismatch = OnMismatch.REFUSES
    lag: timedelta = timedelta(0)
    retention: timedelta | None = None
    locks: bool = True
    lock_for: timedelta | None = None
    reads_open: bool = True
    fail_open: bool = False
    tombstone: bool = True
    deletion: Deletion = Deletion.VISIBLE
    replay: Replay = Replay.ORIGINAL
    batch: Batch = Batch.NONE
    enforces: Enforced = Enforced.NOTHING
    asking_raises: bool = False
    disconnect_cancels: bool = False

    def __post_init__(self) -> None:
        """A knob that does nothing, or not what it says, would let a test pass for the wrong reason. Raises ValueError."""
        enums = {name: kind for name, kind in _KINDS.items() if not isinstance(getattr(self, name), kind)}
        if enums:
            name, kind = next(iter(enums.items()))
            raise ValueError(f"knob {name}: {getattr(self, name)!r} is not one of {kind.__name__}")
        if not isinstance(self.remembers, frozenset) or not all(isinstance(kept, Remembered) for kept in self.remembers):
            raise ValueError("knob remembers: it is a frozenset of what is Remembered")
        for name in ("window", "lag", "retention", "lock_for"):
            if (lasts := getattr(self, name)) is not None and (not isinstance(lasts, timedelta) or lasts < timedelta(0)):
                raise ValueError(f"knob {name}: {lasts!r} is not a duration of zero or longer")
        if self.lock_for is not None and not self.locks:
            raise ValueError("knob lock_for: nothing is locked without `locks`")
        if self.asking_raises and self.enforces is not Enforced.EPOCH:
            raise ValueError("knob asking_raises: no epoch is raised without `enforces=Enforced.EPOCH`")


_KINDS: Final[Mapping[str, type[StrEnum]]] = {
    "window_starts": Anchor,
    "mismatch": OnMismatch,
    "deletion": Deletion,
    "replay": Replay,
    "batch": Batch,
    "enforces": Enforced,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """One copy of one attempt, as it travels."""

    call: Call
    arguments: Mapping[str, Any]
    marking: Marking
    subject: Bound[Any] | None = None  # of an effect that has an inside of its own in the environment


Outcome: TypeAlias = Value | Batched[Value] | Rejection | Answer[Value]
