"""Trust: the weaker of two contracts, field by field.

Owns the order of promises. Knows nothing of evidence or time. Invariant: `weaker` is commutative in what it trusts,
associative and idempotent, and its result never promises more than either contract: lowering trust is retroactive,
raising it never (an intent is judged by the weaker of the contract it was written with and of later ones).
"""

from __future__ import annotations

from enum import Enum
from functools import reduce
from typing import Any, Final, TypeVar

from recovery.core.contracts import AfterWindow, Batch, Contract, Deletion, Enforced, Kind, Lookup, Replay, WindowStart

E = TypeVar("E", bound=Enum)

UNDECLARED: Final = Lookup(authoritative=False, deletion=Deletion.INVISIBLE)
"""A probe whose contract declares no look-up: what it finds is proof, what it does not find never is."""

_REPLAYS: Final = (Replay.ORIGINAL, Replay.CURRENT, Replay.INDETERMINATE, Replay.RESUMES, Replay.REEXECUTES)
_DELETIONS: Final = (Deletion.IMPOSSIBLE, Deletion.VISIBLE, Deletion.INVISIBLE)
_STARTS: Final = (WindowStart.TERMINATED, WindowStart.COMPLETED, WindowStart.FIRST_SEEN)
_AFTER: Final = (AfterWindow.REJECTS, AfterWindow.EXECUTES_AS_NEW)
_AND: Final = ("mismatch_checked", "lock_outlives_execution", "failures_effect_free", "close", "cancel_by_key", "trust_settle")
_OR: Final = ("fail_open", "disconnect_cancels", "shown_once")


def weakest(contracts: tuple[Contract, ...]) -> Contract:
    """What all of `contracts` promise. Raises ValueError for none."""
    if not contracts:
        raise ValueError("an intent is judged by at least one contract")
    return reduce(weaker, contracts)


def weaker(a: Contract, b: Contract) -> Contract:
    """What both promise. Name and version stay those of `a`, the pinned one."""
    if a == b:
        return a
    value: dict[str, Any] = {
        "kind": _weaker_kind(a.kind, b.kind),
        "name": a.name,
        "version": a.version,
        "key_carrier": a.key_carrier,
        "key_length_max": min(a.key_length_max, b.key_length_max),
        "window_us": None if a.window_us is None or b.window_us is None else min(a.window_us, b.window_us),
        "window_starts": _later(_STARTS, a.window_starts, b.window_starts),
        "after_window": _later(_AFTER, a.after_window, b.after_window),
        "replay_success": _later(_REPLAYS, a.replay_success, b.replay_success),
        "replay_rejection": _later(_REPLAYS, a.replay_rejection, b.replay_rejection),
        "replay_failure": _later(_REPLAYS, a.replay_failure, b.replay_failure),
        "lookup": None if a.lookup is None or b.lookup is None else _weaker_lookup(a.lookup, b.lookup),
        "settle_window_us": max(a.settle_window_us, b.settle_window_us),
        "clock_error_us": max(a.clock_error_us, b.clock_error_us),
        "enforced": a.enforced if a.enforced is b.enforced else Enforced.NOTHING,
        "stable_fields": a.stable_fields
        if a.stable_fields == b.stable_fields
        else tuple(sorted(set(a.stable_fields) & set(b.stable_fields))),
        "batch": a.batch if a.batch is b.batch else Batch.NONE,
    }
    value |= {name: getattr(a, name) and getattr(b, name) for name in _AND}
    value |= {name: getattr(a, name) or getattr(b, name) for name in _OR}
    unstated = {name for side in (a, b) for name in side.unstated if getattr(side, name) == value[name]}
    return Contract(**value, unstated=tuple(sorted(unstated)))


def _weaker_kind(a: Kind, b: Kind) -> Kind:
    """Two kinds share only what both promise: any two keyed ones a key, any two others at most a look-up."""
    if a is b or b is Kind.READ:
        return a
    if a is Kind.READ:
        return b
    if Kind.OPAQUE in {a, b}:
        return Kind.OPAQUE
    keyed = {Kind.KEYED, Kind.SWALLOW, Kind.FIRST_SENT, Kind.COTRANSACTIONAL}
    return Kind.KEYED if {a, b} <= keyed else Kind.PROBEABLE


def _weaker_lookup(a: Lookup, b: Lookup) -> Lookup:
    retentions = [value for value in (a.retention_us, b.retention_us) if value is not None]
    return Lookup(
        lag_us=max(a.lag_us, b.lag_us),
        retention_us=min(retentions, default=None),
        authoritative=a.authoritative and b.authoritative,
        deletion=_later(_DELETIONS, a.deletion, b.deletion),
        marker_reliable=a.marker_reliable and b.marker_reliable,
        original=a.original and b.original,
    )


def _later(order: tuple[E, ...], a: E, b: E) -> E:
    return max(a, b, key=order.index)
