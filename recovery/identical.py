"""When two values are the same value: identical in type and content, all the way down.

Owns the comparison behind the codec's promise, and the list of what no type could store. Must not know JSON or pydantic
adapters. Invariant: `difference(a, b)` is None only if no program can tell b from a, but for object identity, the name of
a fixed-offset time zone, and attributes that are not part of the value (caches, which fields were set explicitly).
"""

from __future__ import annotations

import datetime as dt
import math
from collections import defaultdict, deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields, is_dataclass
from decimal import Decimal
from enum import Enum
from functools import lru_cache
from types import NoneType
from typing import Any, Final, TypeAlias

from pydantic import BaseModel

from recovery.frozen import thawed

DEPTH_MAX: Final = 100

_SET_ADVICE: Final = "The order of a set differs from process to process; use a sorted list or a tuple."
_NUMBER_ADVICE: Final = "Use None, or a string, for what is not a number."
_COPY_ADVICE: Final = "Declare the type that the value has, or convert the value to the declared type first."


_ATOMS: Final = frozenset({str, int, bool, NoneType})
_TEXTS: Final = {str}
_ELSE: Final = (list, tuple, dict, deque, set, frozenset, float, Decimal)  # what a dataclass may be, too, and is then compared as
_Parts: TypeAlias = tuple[Sequence[str | int], Sequence[Any]]


@dataclass(frozen=True, slots=True)
class Difference:
    """Where a value stops being storable, why, and what to do. Never holds the value itself."""

    path: str
    problem: str
    advice: str

    def under(self, name: str | int) -> Difference:
        """The same, seen from one level up."""
        return Difference(f"[{name}]{self.path}" if isinstance(name, int) else f"{name:.100}{self.path}", self.problem, self.advice)


def difference(value: Any, copy: Any, root: str) -> Difference | None:
    """The first place where `copy` is not identical to `value`, or None. Paths begin with `root`."""
    if _alike(value, copy, 0):
        return None  # nearly always, and without the names that a path is made of
    found = _difference(value, copy, 0)
    return found.under(root) if found else None


def unfit(value: Any, root: str) -> Difference | None:
    """The first part of a value that no declared type could make storable, or None."""
    found = _unfit(value, 0)
    return found.under(root) if found else None


def _alike(value: Any, copy: Any, depth: int) -> bool:
    """Whether `_difference` finds none, of what most values are made of; False where that takes a closer look."""
    kind = type(value)
    if kind is not type(copy):
        return False
    if kind in _ATOMS:
        return bool(value == copy)
    if kind is float:
        return bool(value == copy) and value != 0 and math.isfinite(value)
    if depth > DEPTH_MAX:
        return False
    if kind is list:
        return len(value) == len(copy) and _pairwise(value, copy, depth + 1)
    if kind is dict:
        same = len(value) == len(copy) and set(map(type, (*value, *copy))) <= _TEXTS and list(value) == list(copy)
        return same and _pairwise(value.values(), copy.values(), depth + 1)
    names = _plain_names(kind)  # type: ignore[arg-type]  # mypy does not take every type for hashable
    if names is None or (issubclass(kind, BaseModel) and not (_is_bare(value) and _is_bare(copy))):
        return False
    return _pairwise(
        [getattr(value, name, _Missing) for name in names], [getattr(copy, name, _Missing) for name in names], depth + 1
    )


def _pairwise(values: Iterable[Any], copies: Iterable[Any], depth: int) -> bool:
    for value, copy in zip(values, copies, strict=True):
        kind = type(value)
        if kind in _ATOMS and kind is type(copy):  # most parts, and a call for each takes longer
            if value != copy:
                return False
        elif not _alike(value, copy, depth):
            return False
    return True


@lru_cache(maxsize=1024)
def _plain_names(kind: type) -> tuple[str, ...] | None:
    """The fields of a model or dataclass that is nothing else besides; None: it is none."""
    if issubclass(kind, BaseModel):
        return tuple(kind.model_fields)
    if is_dataclass(kind) and not issubclass(kind, _ELSE):
        return tuple(item.name for item in fields(kind))
    return None


def _is_bare(value: BaseModel) -> bool:
    return not value.__pydantic_extra__ and not value.__pydantic_private__


def _difference(value: Any, copy: Any, depth: int) -> Difference | None:
    kind = type(value)
    if kind is not type(copy) and thawed(kind) is not type(copy):
        return Difference("", f"it is {_article(kind)}, and comes back as {_article(type(copy))}", _COPY_ADVICE)
    if kind is float and value == copy and value != 0 and math.isfinite(value):
        return None  # the common case, and a long list of them
    if kind in _ATOMS:
        return None if value == copy else Difference("", f"this {kind.__name__} comes back as another one", _COPY_ADVICE)
    if (found := _unfit_here(value, depth)) is not None:
        return found
    parts, others = _parts(value), _parts(copy)
    if parts is None or others is None:
        same = _same_leaf(value, copy)
        return None if same else Difference("", f"this {kind.__name__} comes back as another one", _leaf_advice(value))
    for name, part, other_name, other in zip(*parts, *others, strict=False):
        if name != other_name:
            break
        if (found := _difference(part, other, depth + 1)) is not None:
            return found.under(name)
    if parts[0] == others[0] and _same_frame(value, copy):
        return None
    return Difference("", f"this {kind.__name__} comes back with other parts", _COPY_ADVICE)


def _unfit(value: Any, depth: int) -> Difference | None:
    if (found := _unfit_here(value, depth)) is not None:
        return found
    for name, part in zip(*(_parts(value) or ((), ())), strict=True):
        if (found := _unfit(part, depth + 1)) is not None:
            return found.under(name)
    return None


def _unfit_here(value: Any, depth: int) -> Difference | None:
    if depth > DEPTH_MAX:
        return Difference("", f"it is nested deeper than {DEPTH_MAX} levels, or contains itself", "Flatten it.")
    if isinstance(value, float) and not math.isfinite(value):
        return Difference("", f"{float(value)} is not a finite number", _NUMBER_ADVICE)
    if isinstance(value, Decimal) and not value.is_finite():
        return Difference("", "it is not a finite number", _NUMBER_ADVICE)
    if isinstance(value, set | frozenset):
        return Difference("", f"{_article(type(value))} has no order", _SET_ADVICE)
    return None


def _parts(value: Any) -> _Parts | None:
    """What a value is made of, as names and parts, or None for a leaf. A dict's order counts: programs see it."""
    if isinstance(value, list | tuple):
        return range(len(value)), value
    if isinstance(value, dict):
        return _dict_parts(value)
    if isinstance(value, BaseModel):
        return _model_parts(value)
    if isinstance(value, deque):
        return range(len(value)), list(value)
    if is_dataclass(value) and not isinstance(value, type):
        names = _field_names(type(value))
        return names, [getattr(value, name[1:], _Missing) for name in names]
    return None


def _dict_parts(value: dict[Any, Any]) -> _Parts:
    if all(type(key) is str for key in value):
        return [f".{key}" for key in value], list(value.values())
    names: list[str | int] = []
    parts: list[Any] = []
    for index, item in enumerate(value.items()):
        names += [f"(key {index})", f"(item {index})"]
        parts += item  # keys are compared as values: 1 and True are equal as keys
    return names, parts


def _model_parts(value: BaseModel) -> _Parts:
    names: list[str | int] = list(_model_names(type(value)))
    parts = [getattr(value, name[1:], _Missing) for name in _model_names(type(value))]
    for name, part in {**(value.__pydantic_extra__ or {}), **(value.__pydantic_private__ or {})}.items():
        names.append(f".{name}")
        parts.append(part)
    return names, parts


@lru_cache(maxsize=1024)
def _field_names(kind: type) -> tuple[str, ...]:
    return tuple(f".{item.name}" for item in fields(kind))


@lru_cache(maxsize=1024)
def _model_names(kind: type[BaseModel]) -> tuple[str, ...]:
    return tuple(f".{name}" for name in kind.model_fields)


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
