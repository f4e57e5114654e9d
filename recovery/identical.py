"""When two values are the same value: identical in type and content, all the way down.

Owns the comparison behind the codec's promise, and the list of what no type could store. Must not know JSON or pydantic
adapters. Invariant: `difference(a, b)` is None only if no program can tell b from a, but for object identity, the name of
a fixed-offset time zone, and attributes that are not part of the value (caches, which fields were set explicitly).
"""

from __future__ import annotations

import datetime as dt
import math
from collections import defaultdict, deque
from collections.abc import Iterator
from dataclasses import dataclass, fields, is_dataclass
from decimal import Decimal
from enum import Enum
from typing import Any, Final

from pydantic import BaseModel

DEPTH_MAX: Final = 100

_SET_ADVICE: Final = "The order of a set differs from process to process; use a sorted list or a tuple."
_COPY_ADVICE: Final = "Declare the type that the value has, or convert the value to the declared type first."


@dataclass(frozen=True, slots=True)
class Difference:
    """Where a value stops being storable, why, and what to do. Never holds the value itself."""

    path: str
    problem: str
    advice: str


def difference(value: Any, copy: Any, path: str, depth: int = 0) -> Difference | None:
    """The first place where `copy` is not identical to `value`, or None."""
    kind = type(value)
    if kind is not type(copy):
        problem = f"it is {_article(kind)}, and comes back as {_article(type(copy))}"
        return Difference(path, problem, _COPY_ADVICE)
    if (found := _unfit_here(value, path, depth)) is not None:
        return found
    parts = _parts(value)
    if parts is None:
        if _same_leaf(value, copy):
            return None
        return Difference(path, f"this {kind.__name__} comes back as another one", _leaf_advice(value))
    others = _parts(copy)
    for (name, part), (other_name, other) in zip(parts, others or (), strict=False):
        if name != other_name:
            break
        if (found := difference(part, other, f"{path}{name}", depth + 1)) is not None:
            return found
    if [name for name, _ in _parts(value) or ()] == [name for name, _ in _parts(copy) or ()] and _same_frame(value, copy):
        return None
    return Difference(path, f"this {kind.__name__} comes back with other parts", _COPY_ADVICE)


def unfit(value: Any, path: str, depth: int = 0) -> Difference | None:
    """The first part of a value that no declared type could make storable, or None."""
    if (found := _unfit_here(value, path, depth)) is not None:
        return found
    for name, part in _parts(value) or ():
        if (found := unfit(part, f"{path}{name}", depth + 1)) is not None:
            return found
    return None


def _unfit_here(value: Any, path: str, depth: int) -> Difference | None:
    if depth > DEPTH_MAX:
        return Difference(path[:200], f"it is nested deeper than {DEPTH_MAX} levels, or contains itself", "Flatten it.")
    if isinstance(value, float) and not math.isfinite(value):
        return Difference(path, f"{float(value)} is not a finite number", "Use None, or a string, for what is not a number.")
    if isinstance(value, Decimal) and not value.is_finite():
        return Difference(path, "it is not a finite number", "Use None, or a string, for what is not a number.")
    if isinstance(value, set | frozenset):
        return Difference(path, f"{_article(type(value))} has no order", _SET_ADVICE)
    return None


def _parts(value: Any) -> Iterator[tuple[str, Any]] | None:
    """What a value is made of, as (path, part), or None for a leaf. A dict's order counts: programs see it."""
    if isinstance(value, list | tuple | deque):
        return ((f"[{index}]", part) for index, part in enumerate(value))
    if isinstance(value, dict):
        return _dict_parts(value)
    if isinstance(value, BaseModel):
        return _model_parts(value)
    if is_dataclass(value) and not isinstance(value, type):
        return ((f".{item.name}", getattr(value, item.name, _Missing)) for item in fields(value))
    return None


def _dict_parts(value: dict[Any, Any]) -> Iterator[tuple[str, Any]]:
    for index, (key, part) in enumerate(value.items()):
        if type(key) is not str:
            yield f"(key {index})", key  # compared as a value of its own: 1 and True are equal as keys
        yield f".{key:.100}" if type(key) is str else f"(item {index})", part


def _model_parts(value: BaseModel) -> Iterator[tuple[str, Any]]:
    for name in type(value).model_fields:
        yield f".{name}", getattr(value, name, _Missing)
    for name, part in {**(value.__pydantic_extra__ or {}), **(value.__pydantic_private__ or {})}.items():
        yield f".{name}", part


class _Missing:
    """A field that an object does not have."""


def _same_frame(value: Any, copy: Any) -> bool:
    """What a container has besides its parts."""
    if isinstance(value, deque):
        return bool(value.maxlen == copy.maxlen)
    if isinstance(value, defaultdict):
        return bool(value.default_factory is copy.default_factory)
    return True


def _same_leaf(value: Any, copy: Any) -> bool:
    if isinstance(value, float):
        return value == copy and math.copysign(1.0, value) == math.copysign(1.0, copy)
    if isinstance(value, Enum):
        return value is copy or value == copy  # combined flags are equal without being the same object
    if isinstance(value, Decimal):
        return bool(value.as_tuple() == copy.as_tuple())  # 1.0 and 1.00 differ
    if isinstance(value, complex):
        return repr(value) == repr(copy)
    if isinstance(value, dt.datetime | dt.time):
        same_clock = value.replace(tzinfo=None) == copy.replace(tzinfo=None) and value.fold == copy.fold
        return same_clock and _same_zone(value.tzinfo, copy.tzinfo)
    return bool(value == copy)


def _same_zone(zone: dt.tzinfo | None, copy: dt.tzinfo | None) -> bool:
    """Fixed offsets only: a named zone also carries rules, which an offset in JSON has lost."""
    if zone is None or copy is None:
        return zone is copy
    offset = zone.utcoffset(None)
    return offset is not None and offset == copy.utcoffset(None)


def _leaf_advice(value: Any) -> str:
    if isinstance(value, dt.datetime | dt.time) and value.tzinfo is not None:
        return "Convert it to UTC or to a fixed offset, and store the zone's name beside it if you need it."
    return "Give its type a JSON form that keeps all of it, and an __eq__."


def _article(kind: type) -> str:
    return f"{'an' if kind.__name__[:1].lower() in 'aeiou' else 'a'} {kind.__name__}"
