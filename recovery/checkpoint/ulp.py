"""Distances between floating-point numbers, in units in the last place.

Owns what *how far apart* means. Must not know checkpoints. Invariant: two arrays are identical if and only if their types, shapes and bytes
are; a distance of 0 with different bits is the sign of a zero, and it counts as a difference.

A distance counts the representable numbers between two values (Goldberg, "What every computer scientist should know about floating-point
arithmetic", 1991, section 1.2): 1 is the closest that two different numbers can be, whatever their size.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import numpy as np

Array = np.ndarray[Any, np.dtype[Any]]

_SIGNED: Final = {2: np.int16, 4: np.int32, 8: np.int64}
_UNSIGNED: Final = {1: np.uint8, 2: np.uint16, 4: np.uint32, 8: np.uint64}


@dataclass(frozen=True, slots=True)
class Difference:
    """The first element, in C order, in which two arrays differ; and how many do.

    Invariant: `expected` and `found` read back as exactly the numbers that they show.
    """

    index: tuple[int, ...]  # of the first one; () where the arrays as a whole differ
    expected: str  # the value there
    found: str  # the other one
    ulps: int | None = None  # their distance; None for what has none: integers, NaN, other types or shapes
    count: int = 1  # elements that differ
    ulps_max: int | None = None  # the largest distance among them


def identical(expected: Array, found: Array) -> bool:
    """Whether type, shape and every bit agree. NaN equals NaN of the same bits; 0.0 differs from -0.0."""
    return expected.dtype == found.dtype and expected.shape == found.shape and expected.tobytes() == found.tobytes()


def distance(expected: Array, found: Array) -> np.ndarray[Any, np.dtype[np.uint64]]:
    """ULP distance of each pair of elements. Same shape as both; both float16, float32 or float64, else ValueError.

    NaN has no distance: where one of a pair is NaN, the result is the largest uint64 unless their bits agree (then 0).
    """
    if expected.dtype != found.dtype or expected.shape != found.shape or expected.dtype.kind != "f":
        raise ValueError(f"no ULP distance between {_shape(expected)} and {_shape(found)}")
    one, other = _ordered(expected), _ordered(found)
    high, low = np.maximum(one, other), np.minimum(one, other)
    # Wraps around where the true distance exceeds an int64, and comes out right in a uint64.
    apart: np.ndarray[Any, np.dtype[np.uint64]] = high.view(np.uint64) - low.view(np.uint64)
    unordered = np.isnan(expected.reshape(-1)) | np.isnan(found.reshape(-1))
    apart[unordered & (_bits(expected) != _bits(found))] = np.iinfo(np.uint64).max
    return apart.reshape(expected.shape)


def numbers(values: list[Any]) -> Array | None:
    """A list of floats, or of integers that an int64 holds, as an array; None for another one, and for one that is empty."""
    if not values:
        return None
    if all(type(value) is float for value in values):
        return np.array(values, dtype=np.float64)
    if all(type(value) is int and -(1 << 63) <= value < 1 << 63 for value in values):
        return np.array(values, dtype=np.int64)
    return None


def first_difference(expected: Array, found: Array) -> Difference | None:
    """Where two arrays begin to differ; None if they are identical. Elements of 1, 2, 4 or 8 bytes."""
    if expected.dtype != found.dtype or expected.shape != found.shape:
        return Difference((), _shape(expected), _shape(found))
    if identical(expected, found):
        return None
    differs = _bits(expected) != _bits(found)
    flat = int(np.argmax(differs))
    index = tuple(int(part) for part in np.unravel_index(flat, expected.shape)) if expected.shape else ()
    shown = repr(expected.flat[flat].item()), repr(found.flat[flat].item())
    count = int(np.count_nonzero(differs))
    if expected.dtype.kind != "f":
        return Difference(index, *shown, count=count)
    apart = distance(expected, found).reshape(-1)
    known = apart[differs & (apart != np.iinfo(np.uint64).max)]
    ulps = None if np.isnan(expected.flat[flat]) or np.isnan(found.flat[flat]) else int(apart[flat])
    return Difference(index, *shown, ulps=ulps, count=count, ulps_max=int(known.max()) if known.size else None)


def _ordered(values: Array) -> np.ndarray[Any, np.dtype[np.int64]]:
    """Flat: integers in the order of the numbers, neighbours one apart. Sign and magnitude turned into two's complement."""
    bits = np.ascontiguousarray(values).reshape(-1).view(_SIGNED[values.dtype.itemsize])
    lowest = np.iinfo(bits.dtype).min
    return np.where(bits < 0, lowest - bits, bits).astype(np.int64)


def _bits(values: Array) -> Array:
    """Flat, as unsigned integers of the elements' size."""
    flat = np.ascontiguousarray(values).reshape(-1)
    words: Array = flat.view(_UNSIGNED[values.dtype.itemsize])
    return words


def _shape(values: Array) -> str:
    return f"{values.dtype} {list(values.shape)}"
