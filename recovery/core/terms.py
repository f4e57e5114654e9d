"""Terms: the shape of a contract, which is versioned data that says what an environment promises.

Owns the fields of a contract, their defaults, and its stored form with its digest. Knows nothing of how a contract is stated, of runs or
of evidence. Invariant: a contract is a value; it is stored whole, by digest, and an intent is judged by the one it was written with or by
a weaker one. Durations are ``timedelta`` where people write them and whole microseconds (``_us``) where they are compared.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field, fields
from datetime import timedelta
from enum import StrEnum
from functools import cached_property
from typing import Any, Final, Self

from recovery.core.ids import digest_bytes

SETTLE_WINDOW_DEFAULT: Final = timedelta(minutes=20)
"""How long a copy may act after its sender gave up. A live Linux socket retransmits for at least 924 s (tcp_retries2 = 15,
tcp(7)), and a stalled receiver was seen to process a dead sender's request; 30 s would be a wish."""

CLOCK_ERROR_DEFAULT: Final = timedelta(seconds=2)
"""How far two clocks that are compared may differ (assumption A3)."""


FOR_EVER: Final = timedelta(days=36_525)
"""A century: as long as the environment's own record lives. Finite, so that it is compared like any other window."""


DURATION_MAX: Final = timedelta(days=365_000)
"""A thousand years. Whoever says more means "for ever", and an instant behind the year 9999 has no name."""


def microseconds(duration: timedelta) -> int:
    """Whole microseconds of a duration, of DURATION_MAX where it is longer."""
    return min(duration, DURATION_MAX) // timedelta(microseconds=1)


class Kind(StrEnum):
    """The classes of effects, from the strongest promise to none."""

    READ = "read"  # no effect
    KEYED = "keyed"  # one effect per key inside a window; a re-send is the look-up
    SWALLOW = "swallow"  # duplicates are accepted and dropped, and nothing is told
    FIRST_SENT = "first_sent"  # keyed, and late copies are refused by the time of first sending
    NAMED = "named"  # the client names the object, or compares and sets
    COTRANSACTIONAL = "cotransactional"  # receipt and effect in one transaction
    PREPARED = "prepared"  # hold, then confirm
    PROBEABLE = "probeable"  # not deduplicated, but findable by a marker
    OPAQUE = "opaque"  # no key, no receipt


NAMES: Final = frozenset({Kind.NAMED, Kind.PREPARED})
"""Classes whose key is the name of an object. It can be taken again once the object is gone, unless a window says otherwise."""


class Replay(StrEnum):
    """What a second sending of a key returns, for one class of first result."""

    ORIGINAL = "original"  # the first reply
    CURRENT = "current"  # the object's present state
    REEXECUTES = "reexecutes"  # forgotten: the work is done again
    RESUMES = "resumes"  # failed work is carried on
    INDETERMINATE = "indeterminate"  # the first failure is replayed for ever and says nothing (a cached 500)


class WindowStart(StrEnum):
    FIRST_SEEN = "first_seen"  # the first request that carried the key
    COMPLETED = "completed"  # the end of its execution
    TERMINATED = "terminated"  # the end of the work it started


class AfterWindow(StrEnum):
    EXECUTES_AS_NEW = "executes_as_new"  # the key is forgotten: a late copy acts again
    REJECTS = "rejects"  # a late copy is refused


class Deletion(StrEnum):
    """Whether receipts (or named objects) can be removed by others while we ask."""

    IMPOSSIBLE = "impossible"  # nobody else can remove one
    VISIBLE = "visible"  # a tombstone or audit trail shows it
    INVISIBLE = "invisible"  # a removed one looks like one that never was


class Batch(StrEnum):
    NONE = "none"  # one request, one effect
    ATOMIC = "atomic"  # all items or none, under one key
    PER_ITEM_KEY = "per_item_key"  # several intents in one request
    PER_ITEM_RESULT = "per_item_result"  # items without keys, each with a result of its own


class Enforced(StrEnum):
    """How the environment itself refuses late copies, beyond any clock of ours."""

    NOTHING = "nothing"  # it does not; only the settle window bounds them
    DEADLINE = "deadline"  # carried in the request, checked inside the environment's transaction by its own clock
    EPOCH = "epoch"  # carried in the request and already raised there


@dataclass(frozen=True, slots=True, kw_only=True)
class Lookup:
    """What a probe can see."""

    lag_us: int = 0  # an answer given at T reflects a state as of T - lag at the latest
    retention_us: int | None = None  # how long after the first attempt a receipt stays visible; None: as long as the database lives
    authoritative: bool = True  # an effect implies a visible receipt (read on the primary), so an absence may become final
    deletion: Deletion = Deletion.IMPOSSIBLE  # whether a receipt can be removed
    marker_reliable: bool = True  # an object without our marker is not ours
    original: bool = True  # the receipt holds the first reply, not the object's present state


@dataclass(frozen=True, kw_only=True)
class Contract:
    """One environment's promise about one kind of effect. State it with the constructor of its class; one that is built by hand is checked
    where an effect is defined with it.

    ``unstated`` names the fields that were left to their defaults; each verdict lists them among its assumptions.
    """

    kind: Kind  # the class of effect
    name: str = ""  # for people: the provider and the call
    version: int = 1  # of this description
    # keys
    key_carrier: str = ""  # for people: "header:Idempotency-Key", "json:/idempotency_key", "name"
    key_length_max: int = 255  # characters
    window_us: int | None = None  # how long a key, or a name once taken, cannot act again; None: no key, or not published
    window_starts: WindowStart = WindowStart.FIRST_SEEN  # what the window counts from
    after_window: AfterWindow = AfterWindow.EXECUTES_AS_NEW  # what a copy does that comes after it
    mismatch_checked: bool = True  # the environment refuses another request under a known key
    lock_outlives_execution: bool = True  # copies in flight are serialised until the first has ended
    fail_open: bool = False  # with its key store down it executes without protection
    # what is remembered
    replay_success: Replay = Replay.ORIGINAL  # what a re-send returns after a success
    replay_rejection: Replay = Replay.ORIGINAL  # after a declared rejection
    replay_failure: Replay = Replay.REEXECUTES  # after a failure of the environment (5xx)
    failures_effect_free: bool = True  # a 5xx that is forgotten had no effect
    # asking, closing
    lookup: Lookup | None = None  # None: it cannot be asked
    close: bool = False  # an atomic "tell me the outcome, or refuse this key for ever"
    cancel_by_key: bool = False  # cancels what it finds, leaves no tombstone: a late copy still acts
    compare_and_set: bool = False  # named: it sets what others may set too, instead of creating
    # time
    settle_window_us: int = microseconds(SETTLE_WINDOW_DEFAULT)  # how long a copy may act after its sender gave up
    clock_error_us: int = microseconds(CLOCK_ERROR_DEFAULT)  # how far two clocks that are compared may differ
    enforced: Enforced = Enforced.NOTHING  # what refuses late copies, beyond our clocks
    trust_settle: bool = False  # start a second keyless effect on an absence that is only assumed final
    valid_for_us: int | None = None  # how long an intent stays wanted; None: until somebody cancels it
    disconnect_cancels: bool = False  # a request whose sender went away is given up
    # shape of the outcome
    stable_fields: tuple[str, ...] = ()  # fields of an outcome that never change, and so identify it
    shown_once: bool = False  # its reply holds something that no later look-up shows
    batch: Batch = Batch.NONE  # whether one request carries several effects
    unstated: tuple[str, ...] = field(default=(), compare=False)  # fields left to their defaults

    @cached_property
    def keyed(self) -> bool:
        """Whether the environment itself keeps two sendings of one key from acting twice. A name does where it cannot be taken again."""
        named = self.kind in NAMES and self.window_us is not None
        return named or self.kind in {Kind.KEYED, Kind.SWALLOW, Kind.FIRST_SENT, Kind.COTRANSACTIONAL}

    def to_json(self) -> dict[str, Any]:
        """Plain JSON, every field written out, so that a later default never changes a stored contract."""
        body: dict[str, Any] = {}
        for item in fields(self):
            value = getattr(self, item.name)
            if isinstance(value, Lookup):
                value = {f.name: getattr(value, f.name) for f in fields(value)}
            body[item.name] = list(value) if isinstance(value, tuple) else value
        return body

    @classmethod
    def from_json(cls, body: dict[str, Any]) -> Self:
        """The contract that `to_json` wrote. Raises ValueError on a field that this version does not know: it may lower trust."""
        enums: dict[str, type[StrEnum]] = {"kind": Kind, "window_starts": WindowStart, "after_window": AfterWindow, "replay_success": Replay,
                 "replay_rejection": Replay, "replay_failure": Replay, "enforced": Enforced, "batch": Batch}  # fmt: skip
        if unknown := set(body) - {item.name for item in fields(cls)}:
            raise ValueError(f"unknown field {min(unknown)!r} of a contract")
        values: dict[str, Any] = {name: enums[name](value) if name in enums else value for name, value in body.items()}
        if values.get("lookup") is not None:
            lookup = dict(values["lookup"])
            if unknown := set(lookup) - {item.name for item in fields(Lookup)}:
                raise ValueError(f"unknown field {min(unknown)!r} of a look-up")
            values["lookup"] = Lookup(**{**lookup, "deletion": Deletion(lookup["deletion"])})
        for name in ("stable_fields", "unstated"):
            values[name] = tuple(values.get(name, ()))
        return cls(**values)

    @cached_property
    def digest(self) -> str:
        """Asked at each step. Contracts that differ in what was left unstated are equal, and have other digests."""
        return contract_digest(self.to_json())


def contract_digest(body: Any) -> str:
    """The digest of a contract's stored form. Of the text as it stands, so that it holds for fields that this version does not know."""
    return digest_bytes(json.dumps(body, sort_keys=True, separators=(",", ":")).encode())
