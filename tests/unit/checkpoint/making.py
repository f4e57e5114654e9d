"""Small states to save, and stores to save them in."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from recovery.checkpoint.kinds import Kind


@dataclass(frozen=True)
class Plain:
    """A capture that is nothing but arrays and values."""

    arrays: Mapping[str, np.ndarray[Any, Any]]
    values: Any = field(default_factory=dict)
    kind: Kind = Kind.WEIGHTS

    def state(self) -> Any:
        return self.values

    def but(self, **changes: Any) -> Plain:
        return replace(self, **changes)


def small(number: int = 0) -> Plain:
    """Different for different numbers, in every array and in the state."""
    random = np.random.default_rng(number)
    arrays = {
        "w/0": random.standard_normal((3, 4)),
        "w/1": random.standard_normal(5).astype(np.float32),
        "steps": np.array(number, dtype=np.int64),
        "mask": random.integers(0, 2, 7).astype(bool),
        "empty": np.zeros((0, 3)),
    }
    return Plain(arrays, {"counter": number, "rng": 2**100 + number, "loss": [0.1 * number, 1.0]})


def same(one: Mapping[str, np.ndarray[Any, Any]], other: Mapping[str, np.ndarray[Any, Any]]) -> bool:
    """Bit for bit, names, dtypes and shapes included."""
    return one.keys() == other.keys() and all(
        one[name].dtype == other[name].dtype
        and one[name].shape == other[name].shape
        and np.ascontiguousarray(one[name]).tobytes() == np.ascontiguousarray(other[name]).tobytes()
        for name in one
    )
