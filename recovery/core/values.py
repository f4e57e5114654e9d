"""Values: how the classes are made of which each step of a run makes some.

Owns one decorator. Knows nothing of what they hold. Invariant: a value is never changed once it is made. That is held where code is checked: to mypy and
pyright these classes are frozen dataclasses. At run time they are not, since a frozen one calls `object.__setattr__` for each of its fields, which
took a tenth of a step: 4 microseconds for a request of twenty fields, where plain assignments take half of one. What each step makes is made by position, since
a class that is called with names is handed a dictionary of them (ADR 69).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dataclasses import dataclass as value
else:

    def value(*, frozen: bool, slots: bool, kw_only: bool = False) -> Callable[[type], type]:
        """A dataclass with slots that compares, and is hashed, by its fields. frozen, slots: said for whoever checks types."""
        assert frozen, "a value is never changed"
        return dataclass(slots=slots, kw_only=kw_only, unsafe_hash=True)


__all__ = ["value"]
