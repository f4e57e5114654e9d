"""Typed: whether the fields of a contract hold what their types say.

Owns the refusals of values of another type, of texts that cannot be printed and of durations beyond a thousand years. Knows nothing of what
the values mean. Invariant: behind `misfit` a comparison with a member of an enum decides, since nothing stands there that only looks like one.
"""

from __future__ import annotations

from collections.abc import Iterator
from enum import Enum
from types import NoneType
from typing import Any, Final, NamedTuple, get_args, get_type_hints

from recovery.core.terms import DURATION_MAX, Contract, Lookup, microseconds

TEXT_MAX: Final = 200  # characters: a name is said on one line, and is what a hold names


class Misfit(NamedTuple):
    """A value that its field cannot have."""

    field: str
    reason: str
    advice: str


def misfit(contract: Contract) -> Misfit | None:
    """The first field that holds what it cannot, or None."""
    return next(_misfits(contract), None)


def _misfits(contract: Contract) -> Iterator[Misfit]:
    for name, hint in _HINTS.items():
        yield from _of(name, getattr(contract, name), hint)
    if contract.lookup is not None:
        for name, hint in _LOOKUP_HINTS.items():
            yield from _of(f"lookup.{name}", getattr(contract.lookup, name), hint)


def _of(field: str, value: Any, hint: Any) -> Iterator[Misfit]:
    """A text passes for a member of a StrEnum in `==` and not in `is`, True passes for 1, and a text for a tuple of its letters."""
    if hint == tuple[str, ...]:
        if type(value) is not tuple or any(type(part) is not str for part in value):
            yield Misfit(field, f"{value!r:.60} is not a tuple of names", 'Write a tuple, such as ("id",).')
        return
    allowed = get_args(hint) or (hint,)
    if type(value) not in allowed:
        kinds = " or ".join("None" if kind is NoneType else _called(field, kind) for kind in allowed)
        yield Misfit(field, f"{value!r:.60} is not {kinds}", _instead(field, allowed))
    elif isinstance(value, str) and not isinstance(value, Enum) and (len(value) > TEXT_MAX or not value.isprintable()):
        yield Misfit(field, f"it is not a text of up to {TEXT_MAX} printable characters", "Name it shortly, on one line.")
    elif type(value) is int and field.endswith("_us") and value > microseconds(DURATION_MAX):
        yield Misfit(field, "it is longer than a thousand years", "State a shorter duration, or None where that is possible.")


def _called(field: str, kind: type) -> str:
    if kind is int and field.endswith("_us"):
        return "a duration"
    return {int: "a whole number", bool: "True or False", str: "a text", Lookup: "a Lookup"}.get(kind, f"one of {kind.__name__}")


def _instead(field: str, allowed: tuple[Any, ...]) -> str:
    kind = allowed[0]
    if issubclass(kind, Enum):
        return f"Write contracts.{kind.__name__}.{next(iter(kind)).name}, or another of its members."
    if kind is int and field.endswith("_us"):
        return "Write whole microseconds." if "." in field else "Write a timedelta."
    return "Leave it out, or write one." if kind is not bool else "Write True or False."


_HINTS: Final = get_type_hints(Contract)
_LOOKUP_HINTS: Final = get_type_hints(Lookup)
