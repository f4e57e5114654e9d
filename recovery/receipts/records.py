"""What a receipt says, as values: receipts, absence, JSON within bounds, fingerprints.

Owns what can be stored and how it is read back. Knows nothing of SQL. Invariant: what `encode` accepts, `decode` gives back
equal in type and value, so that a first outcome and its replay cannot differ.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final, TypeAlias

import rfc8785

from recovery.core.errors import RecoveryError, ValueNotStorable
from recovery.core.ids import Epoch, digest_bytes

JSON: TypeAlias = Any

VALUE_BYTES_MAX: Final = 64 * 1024


class Kind(StrEnum):
    """What a row says about its key. Only the last three are ever final, and only they are shown."""

    OPEN = "open"  # being decided; visible to its own transaction only
    FENCED = "fenced"  # nothing happened yet; an epoch was raised, and lower ones are refused
    APPLIED = "applied"  # the effect is committed, with its value
    REJECTED = "rejected"  # the effect was rolled back, and its declared error is remembered
    CLOSED = "closed"  # refused for ever: nothing happened and nothing will


@dataclass(frozen=True, slots=True, kw_only=True)
class Receipt:
    """One decided key. ``pruned``: the outcome is known to be ``kind``, its value is no longer kept.

    at_us: when it was decided, microseconds since the Unix epoch on the environment's clock.
    replayed: False only for the one call that decided it.
    """

    scope: str
    key: str
    kind: Kind
    fingerprint: str
    at_us: int
    value: JSON = None  # the work's result, or the fields of the rejection
    error: str = ""  # the name of the rejection
    who: str = ""
    pruned: bool = False
    replayed: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Absent:
    """No transaction has decided this key, none is about to, as of ``as_of_us`` on the environment's clock.

    It says nothing about copies that come later: close the key, raise its epoch, or let a carried deadline pass."""

    scope: str
    key: str
    as_of_us: int


def encode(value: JSON, *, where: str) -> str:
    """Compact JSON of at most 64 KiB. Raises ValueNotStorable, also for what would come back as something else (a tuple, NaN)."""
    advice = "Return None, booleans, finite numbers, strings, lists and dicts with string keys."
    try:
        text = json.dumps(value, allow_nan=False, separators=(",", ":"))
    except (TypeError, ValueError, RecursionError) as problem:
        raise ValueNotStorable(where=where, path="$", problem=str(problem), advice=advice) from problem
    if len(text) > VALUE_BYTES_MAX:
        size = f"it takes {len(text)} bytes, {VALUE_BYTES_MAX} are allowed"
        raise ValueNotStorable(where=where, path="$", problem=size, advice="Store it elsewhere and return its name and digest.")
    if not _same(json.loads(text), value):
        raise ValueNotStorable(where=where, path="$", problem="it would come back as something else", advice=advice)
    return text


def decode(text: str) -> JSON:
    return json.loads(text)


def _same(left: JSON, right: JSON) -> bool:
    if type(left) is not type(right):
        return False
    if isinstance(left, dict):
        return left.keys() == right.keys() and all(_same(left[name], right[name]) for name in left)
    if isinstance(left, list):
        return len(left) == len(right) and all(map(_same, left, right))
    return bool(left == right)


def fingerprint(request: JSON) -> str:
    """Digest of a request's canonical JSON (RFC 8785): equal for equal requests, whatever their spacing and order of fields.

    Put everything into it that decides what happens: method, path, the caller's account, body."""
    try:
        return digest_bytes(rfc8785.dumps(request))
    except (rfc8785.CanonicalizationError, TypeError) as problem:
        raise ValueNotStorable(
            where="fingerprint", path="$", problem=str(problem), advice="Send integers up to 2^53 and finite numbers."
        ) from problem


def rejection_fields(error: Exception) -> JSON:
    """What is remembered of a declared rejection: its public attributes."""
    if isinstance(error, RecoveryError):
        return dict(error.fields)
    return {name: field for name, field in vars(error).items() if not name.startswith("_")}


def rejection_name(declared: type[Exception]) -> str:
    """What a rejection is remembered as: its class's ``name``, which outlives a renamed class, else the class's name."""
    name = getattr(declared, "name", None)
    return name if isinstance(name, str) else declared.__name__


def parse_epoch(text: str) -> Epoch | None:
    if not text:
        return None
    incarnation, _, n = text.partition(".")
    return Epoch(int(incarnation), int(n))
