"""Texts: JSON as it is stored, and what its text says.

Owns the one way of writing it, and what is refused in reading it. Must not know types, so that whoever only reads a journal needs no pydantic. Invariant:
reading what was written gives the same JSON, with every declared secret under its veil.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from typing import Any, Final

from recovery.core.entries import JSON
from recovery.core.showing import ESCAPED, MARKED, Veiled


def dumps(stored: JSON) -> str:
    """Compact text, keys in the order they have: the same JSON gives the same text. NaN is refused with ValueError."""
    return _WRITTEN(stored)


def written_by(encoder: json.JSONEncoder) -> Callable[[JSON], str]:
    """What `encoder.encode` does, by an encoder in C that is made once: made anew for each text, it took longer than the text."""
    make = getattr(json.encoder, "c_make_encoder", None)
    if make is None:  # a Python without it
        return encoder.encode
    quoted = json.encoder.encode_basestring  # in C where there is one
    colon, comma, sort, skip, nan = (
        encoder.key_separator, encoder.item_separator, encoder.sort_keys, encoder.skipkeys, encoder.allow_nan,
    )  # fmt: skip
    parts: Callable[[JSON, int], tuple[str, ...]] = make(None, encoder.default, quoted, None, colon, comma, sort, skip, nan)

    def written(stored: JSON) -> str:
        try:
            return "".join(parts(stored, 0))
        except (ValueError, TypeError, RecursionError):
            return encoder.encode(stored)  # for its error: this one does not look for a thing that holds itself

    return written


def loads(text: str) -> JSON:
    """Strict: duplicate keys, NaN, infinities and numbers that overflow to them are refused with ValueError."""
    try:
        return _DECODER.decode(text)
    except RecursionError:
        raise ValueError("nested too deeply") from None


def loads_own(text: str) -> JSON:
    """`loads`, for text that a digest has proven to be what `dumps` wrote: it holds nothing that is to be refused, and objects that mean something
    else than themselves only where it has a key that begins with a dollar."""
    if '"$' in text:
        return loads(text)
    try:
        stored, end = SCAN(text, 0)
    except (RecursionError, StopIteration):
        return loads(text)  # for its error
    return stored if end == len(text) else loads(text)


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(pairs) != 1:
        if len(found) != len(pairs):
            raise ValueError("duplicate key")
        return found
    ((name, value),) = pairs
    if name == MARKED:
        return Veiled(found)
    if name == ESCAPED and type(value) is Veiled:
        return {ESCAPED: dict(value)}  # a user's object that only looks like one
    return found


def _finite(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise ValueError(f"{text[:20]} is not a finite number")
    return number


_ENCODER: Final = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), allow_nan=False)
_WRITTEN: Final = written_by(_ENCODER)
_DECODER: Final = json.JSONDecoder(object_pairs_hook=_unique, parse_constant=_finite, parse_float=_finite)
SCAN: Final[Callable[[str, int], tuple[JSON, int]]] = json.JSONDecoder().scan_once  # type: ignore[attr-defined]  # `raw_decode` without a frame
"""The JSON that begins at a place of a text that `loads_own` reads, and where it ends. Raises StopIteration where none begins, and ValueError."""
