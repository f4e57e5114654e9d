"""Odd values: those that no journal can store, by names that a scenario can write down.

Owns what each name stands for. Invariant: none of them is made before it is asked for, since one takes 50 MB.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from enum import StrEnum
from typing import Any, Final

ODD: Final = "$odd"
"""{"$odd": "nan"} in a scenario is that value."""


class Odd(StrEnum):
    """What is wrong with a value."""

    LARGE = "50MB"  # larger than anything that is stored
    NAN = "nan"  # no number
    INFINITY = "infinity"  # no finite one, deep inside
    PAIR = "pair"  # it would come back as a list


_MADE: Final[dict[Odd, Callable[[], Any]]] = {
    Odd.LARGE: lambda: "x" * 50_000_000,
    Odd.NAN: lambda: math.nan,
    Odd.INFINITY: lambda: {"deep": [1.0, math.inf]},
    Odd.PAIR: lambda: (1, 2),
}


def odd(name: str) -> Any:
    """The value of that name. Raises ValueError."""
    return _MADE[Odd(name)]()
