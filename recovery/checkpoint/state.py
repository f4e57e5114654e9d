"""The state document: everything of a state that is no array, as JSON that loses nothing.

Owns how plain values become JSON and come back. Invariant: `unseal(seal(value))` equals the value in type and value (mappings with their keys sorted); integers beyond 2^53 are decimal
strings, numbers with a point are hexadecimal, both under a tag; what has no such form is refused before anything is written.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from recovery.checkpoint import strict
from recovery.checkpoint.errors import CheckpointInvalid
from recovery.checkpoint.limits import Limits
from recovery.core.entries import JSON
from recovery.core.wording import of_type

INTEGER_MAX: Final = 2**53
_INT: Final = "$int"
_FLOAT: Final = "$float"
_DICT: Final = "$dict"
_DIGITS_MAX: Final = 400  # of one integer; a generator's state has some 40
_HEX_MAX: Final = 40  # characters of a number in hexadecimal; it has 24 at most
_LISTS: Final = (list, tuple)
_BITS_MAX: Final = 1320  # so that no more digits are written than are read


@dataclass(frozen=True, slots=True)
class Sealed:
    """A value as the bytes of a file, and as whoever reads these bytes gets it: equal in type and value, in containers of its own."""

    data: bytes
    value: Any


def sealed(value: Any, limits: Limits) -> Sealed:
    """Raises CheckpointInvalid(reason="state") or LimitExceeded."""
    try:
        document, copy = _sealed(value, ())
        data = strict.canonical(document)
    except RecursionError:
        raise _refused((), "it is nested too deeply") from None
    strict.require_bounds(data, document, bytes_max=limits.state_bytes, depth_max=2 * limits.depth, where="state.json")
    return Sealed(data, copy)


def to_bytes(value: Any, limits: Limits) -> bytes:
    """The file's content. Raises what `sealed` raises."""
    return sealed(value, limits).data


def from_bytes(data: bytes, limits: Limits) -> Any:
    """The value. Raises CheckpointInvalid or LimitExceeded."""
    found = strict.read(data, bytes_max=limits.state_bytes, depth_max=2 * limits.depth, where="state.json")
    return unseal(found)


Path = tuple[Any, ...]
"""Where a value is: () or (the path of what holds it, its key or index there). Put into words only where something is refused."""


def seal(value: Any) -> JSON:
    """`value` as JSON without floating-point numbers. Tuples become lists."""
    return _sealed(value, ())[0]


def _sealed(value: Any, path: Path) -> tuple[JSON, Any]:
    """(what `seal` makes of it, what `unseal` makes of that), in one walk, so that both are of the same moment."""
    kind = type(value)
    if kind is str:
        _require_text(value, path)
    elif kind is float:
        if not math.isfinite(value):
            raise _refused(path, "it is a number that is infinite or not a number", reason="finite")
        return {_FLOAT: value.hex()}, value
    elif kind is int:
        if value.bit_length() > _BITS_MAX:  # Python itself refuses to write much larger ones, and takes long for large ones
            raise _refused(path, f"it is an integer of {value.bit_length()} bits, and {_BITS_MAX} is the limit")
        return value if -INTEGER_MAX < value < INTEGER_MAX else {_INT: str(value)}, value
    elif kind is dict:
        return _sealed_mapping(value, path)
    elif isinstance(value, _LISTS):
        return _sealed_list(value, path)
    elif isinstance(value, Mapping):
        return _sealed_mapping(value, path)
    elif value is not None and kind is not bool:
        raise _refused(path, f"{kind.__name__} is no plain value; use numbers, strings, lists, mappings or an array")
    return value, value


def unseal(stored: JSON, path: Path = ()) -> Any:
    """What `seal` was given, with lists for tuples. Raises CheckpointInvalid on a tag that says nothing."""
    if isinstance(stored, dict):
        if len(stored) == 1:
            ((tag, inner),) = stored.items()
            if tag == _FLOAT:
                return _number(inner, path)
            if tag == _INT:
                return _integer(inner, path)
            if tag == _DICT and isinstance(inner, dict):
                return {key: unseal(item, (path, key)) for key, item in inner.items()}
            if tag.startswith("$"):
                raise _refused(path, f"{tag[:20]!r} is no tag")
        return {key: unseal(item, (path, key)) for key, item in stored.items()}
    if isinstance(stored, list):
        return _unseal_many(stored) or [unseal(item, (path, index)) for index, item in enumerate(stored)]
    if isinstance(stored, float):
        raise _refused(path, "it is a number with a point that is not written in hexadecimal")
    return stored


def _sealed_list(value: Sequence[Any], path: Path) -> tuple[list[JSON], list[Any]]:
    values = list(value)
    kinds = set(map(type, values))  # many numbers of one type, as histories and generators have them, need no look at each alone
    if kinds == {float} and all(map(math.isfinite, values)):
        return [{_FLOAT: text} for text in map(float.hex, values)], values
    if kinds == {int} and min(values) > -INTEGER_MAX and max(values) < INTEGER_MAX:
        return values, list(values)
    pairs = [_sealed(item, (path, index)) for index, item in enumerate(values)]
    return [document for document, _ in pairs], [copy for _, copy in pairs]


def _unseal_many(stored: list[Any]) -> list[Any]:
    """Many numbers of one type at once; nothing if one of them has to be looked at alone."""
    kinds = set(map(type, stored))
    if kinds == {int}:
        return stored
    if kinds != {dict} or set(map(len, stored)) != {1} or not all(_FLOAT in each for each in stored):
        return []
    texts = [each[_FLOAT] for each in stored]
    if set(map(type, texts)) != {str} or max(map(len, texts)) > _HEX_MAX:
        return []
    try:
        numbers = list(map(float.fromhex, texts))
    except (ValueError, OverflowError):
        return []
    return numbers if list(map(float.hex, numbers)) == texts and all(map(math.isfinite, numbers)) else []


def _require_text(value: str, path: Path) -> None:
    if not value.isascii():
        try:
            value.encode()
        except UnicodeEncodeError:
            raise _refused(path, "it is a string without a UTF-8 form") from None


def _sealed_mapping(value: Mapping[Any, Any], path: Path) -> tuple[JSON, dict[str, Any]]:
    document: dict[str, JSON] = {}
    copy: dict[str, Any] = {}
    for key, item in value.items():
        if type(key) is not str:
            raise _refused(path, f"its key {str(key)[:40]!r} is {of_type(key)}; use strings")
        _require_text(key, path)
        document[key], copy[key] = _sealed(item, (path, key))
    if len(document) == 1 and next(iter(document)).startswith("$"):
        return {_DICT: document}, copy
    return document, copy


def _integer(inner: Any, path: Path) -> int:
    if isinstance(inner, str) and len(inner) <= _DIGITS_MAX and inner.removeprefix("-").isdecimal() and inner.isascii():
        value = int(inner)
        if str(value) == inner and not -INTEGER_MAX < value < INTEGER_MAX:
            return value
    raise _refused(path, "it is no integer beyond 2^53 in decimal")


def _number(inner: Any, path: Path) -> float:
    if isinstance(inner, str) and len(inner) <= _HEX_MAX:
        try:
            value = float.fromhex(inner)
        except (ValueError, OverflowError):
            raise _refused(path, "it is no number in hexadecimal") from None
        if math.isfinite(value) and value.hex() == inner:
            return value
    raise _refused(path, "it is no finite number in hexadecimal")


def _refused(path: Path, problem: str, *, reason: str = "state") -> CheckpointInvalid:
    parts: list[str] = []
    while path:
        path, step = path
        parts.append(f"[{step}]" if type(step) is int else f".{step}")
    return CheckpointInvalid(where=f"state.json, {'$' + ''.join(reversed(parts)):.200}", problem=problem, reason=reason)
