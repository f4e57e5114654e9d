"""Strict JSON: bounded and unambiguous on the way in, canonical on the way out.

Owns the reading of JSON that nobody has verified yet. Invariant: what is accepted has one meaning (no duplicate key, no NaN or infinity, no
number that overflows) and neither size nor nesting beyond the bound.
"""

from __future__ import annotations

import json
from typing import Any, Final

from recovery import codec
from recovery.checkpoint.errors import CheckpointInvalid, LimitExceeded
from recovery.checkpoint.limits import at_most
from recovery.core.entries import JSON

_ENCODER: Final = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":"), sort_keys=True)
_NESTED: Final = (dict, list)


def read(data: bytes, *, bytes_max: int, depth_max: int, where: str) -> JSON:
    """The JSON in `data`. Raises LimitExceeded or CheckpointInvalid(reason="json")."""
    at_most(len(data), bytes_max, where=where, what="its size in bytes")
    try:
        found = codec.loads(data.decode("utf-8", "strict"))
    except UnicodeDecodeError:
        raise CheckpointInvalid(where=where, problem="it is not UTF-8", reason="json") from None
    except ValueError as error:
        if "nested" in str(error):
            raise LimitExceeded(where=where, what="its nesting", found="deeper", limit=depth_max) from None
        raise CheckpointInvalid(where=where, problem=f"it is not strict JSON: {_short(error)}", reason="json") from None
    require_bounds(data, found, bytes_max=bytes_max, depth_max=depth_max, where=where)
    return found


def require_bounds(data: bytes, document: JSON, *, bytes_max: int, depth_max: int, where: str) -> None:
    """Raise LimitExceeded if a document, or its bytes, would not be read."""
    at_most(len(data), bytes_max, where=where, what="its size in bytes")
    at_most(_depth(document, depth_max), depth_max, where=where, what="its nesting")


def canonical(document: JSON) -> bytes:
    """The one byte form of a document. Of one without floating-point numbers, with ASCII keys, it is RFC 8785's.

    Written by the standard library because a general RFC 8785 writer in Python takes longer than the flushes of a small commit.
    """
    return _ENCODER.encode(document).encode()


def is_object(found: JSON, keys: frozenset[str], *, where: str) -> dict[str, Any]:
    """`found` if it is an object with exactly these keys. Raises CheckpointInvalid(reason="fields")."""
    if not isinstance(found, dict):
        raise CheckpointInvalid(where=where, problem="it is not an object", reason="fields")
    if found.keys() != keys:
        wrong = sorted(found.keys() ^ keys)[:5]
        raise CheckpointInvalid(where=where, problem=f"keys are missing or unknown: {', '.join(map(repr, wrong))}", reason="fields")
    return found


def _depth(document: JSON, most: int) -> int:
    """How deep the document is nested, counted no further than `most` + 1."""
    level: list[Any] = [document] if type(document) in _NESTED else []
    depth = 0
    while level and depth <= most:
        depth += 1
        level = [inner for item in level for inner in (item.values() if type(item) is dict else item) if type(inner) in _NESTED]
    return depth


def _short(error: ValueError) -> str:
    """Its first line, cut: the text that it quotes is not ours."""
    return str(error).splitlines()[0][:120]
