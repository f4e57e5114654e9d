"""Trust: the weaker of two contracts, field by field.

Owns the order of promises: one rule for each field of a contract and of a look-up. Knows nothing of evidence or time. Invariant: `weaker` is
commutative in what it trusts, associative and idempotent, and its result never promises more than either contract: lowering trust is
retroactive, raising it never (an intent is judged by the weaker of the contract it was written with and of later ones).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import Enum
from functools import reduce
from typing import Any, Final, TypeAlias

from recovery.core.terms import AfterWindow, Batch, Contract, Deletion, Enforced, Kind, Lookup, Replay, WindowStart

Rule: TypeAlias = Callable[[Any, Any], Any]

UNDECLARED: Final = Lookup(authoritative=False, deletion=Deletion.INVISIBLE)
"""A probe whose contract declares no look-up: what it finds is proof, what it does not find never is."""

_KEYED: Final = frozenset({Kind.KEYED, Kind.SWALLOW, Kind.FIRST_SENT, Kind.COTRANSACTIONAL})


def weakest(contracts: tuple[Contract, ...]) -> Contract:
    """What all of `contracts` promise. Raises ValueError for none."""
    if not contracts:
        raise ValueError("an intent is judged by at least one contract")
    return reduce(weaker, contracts)


def weaker(a: Contract, b: Contract) -> Contract:
    """What both promise. Name, version and carrier stay those of `a`, the pinned one."""
    if a == b:
        return a
    value = _each(RULES, a, b)
    if value["kind"] is Kind.FIRST_SENT and a.window_us != b.window_us:
        value["kind"] = (
            Kind.KEYED
        )  # the shorter window licenses less, the longer one is over later: the key is shared, the fence is not
    unstated = {name for side in (a, b) for name in side.unstated if getattr(side, name) == value[name]}
    return Contract(**value, unstated=tuple(sorted(unstated)))


def _each(rules: Mapping[str, Rule], a: Any, b: Any) -> dict[str, Any]:
    return {name: rule(getattr(a, name), getattr(b, name)) for name, rule in rules.items()}


# -- rules -------------------------------------------------------------------------------------------------------------


def _pinned(a: Any, b: Any) -> Any:  # noqa: ARG001  # one signature for all rules
    """For people only: nothing is concluded from it."""
    return a


def _both(a: bool, b: bool) -> bool:
    """A promise."""
    return a and b


def _either(a: bool, b: bool) -> bool:
    """A warning."""
    return a or b


def _shorter(a: int | None, b: int | None) -> int | None:
    """A duration that protects; None protects for no time."""
    return None if a is None or b is None else min(a, b)


def _sooner(a: int | None, b: int | None) -> int | None:
    """A duration that ends something; None never ends it."""
    return min((value for value in (a, b) if value is not None), default=None)


def _same(otherwise: Enum) -> Rule:
    """Two different ways share nothing."""
    return lambda a, b: a if a is b else otherwise


def _later(*order: Enum) -> Rule:
    """From the strongest to the weakest."""
    return lambda a, b: max(a, b, key=order.index)


def _shared(a: tuple[str, ...], b: tuple[str, ...]) -> tuple[str, ...]:
    return a if a == b else tuple(sorted(set(a) & set(b)))


def _weaker_kind(a: Kind, b: Kind) -> Kind:
    """Two kinds share only what both promise: any two keyed ones a key, any two others at most a look-up."""
    if a is b or b is Kind.READ:
        return a
    if a is Kind.READ:
        return b
    if Kind.OPAQUE in {a, b}:
        return Kind.OPAQUE
    return Kind.KEYED if {a, b} <= _KEYED else Kind.PROBEABLE


def _weaker_lookup(a: Lookup | None, b: Lookup | None) -> Lookup | None:
    return None if a is None or b is None else Lookup(**_each(LOOKUP_RULES, a, b))


_REPLAYS: Final = _later(Replay.ORIGINAL, Replay.CURRENT, Replay.INDETERMINATE, Replay.RESUMES, Replay.REEXECUTES)

LOOKUP_RULES: Final[Mapping[str, Rule]] = {
    "lag_us": max,
    "retention_us": _sooner,
    "authoritative": _both,
    "deletion": _later(Deletion.IMPOSSIBLE, Deletion.VISIBLE, Deletion.INVISIBLE),
    "marker_reliable": _both,
    "original": _both,
}
"""One for each field of a look-up."""

RULES: Final[Mapping[str, Rule]] = {
    "kind": _weaker_kind,
    "name": _pinned,
    "version": _pinned,
    "key_carrier": _pinned,
    "key_length_max": min,
    "window_us": _shorter,
    "window_starts": _later(WindowStart.TERMINATED, WindowStart.COMPLETED, WindowStart.FIRST_SEEN),
    "after_window": _later(AfterWindow.REJECTS, AfterWindow.EXECUTES_AS_NEW),
    "mismatch_checked": _both,
    "lock_outlives_execution": _both,
    "fail_open": _either,
    "replay_success": _REPLAYS,
    "replay_rejection": _REPLAYS,
    "replay_failure": _REPLAYS,
    "failures_effect_free": _both,
    "lookup": _weaker_lookup,
    "close": _both,
    "cancel_by_key": _both,
    "compare_and_set": _either,
    "settle_window_us": max,
    "clock_error_us": max,
    "enforced": _same(Enforced.NOTHING),
    "trust_settle": _both,
    "valid_for_us": _sooner,
    "disconnect_cancels": _either,
    "stable_fields": _shared,
    "shown_once": _either,
    "batch": _same(Batch.NONE),
}
"""One for each field of a contract but `unstated`. A field without a rule would keep what the pinned contract promised."""
