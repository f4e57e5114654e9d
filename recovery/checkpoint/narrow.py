"""Narrow floats: number formats that machine learning stores and numpy does not know, as raw words.

Owns how such an array looks in numpy, and the two questions that are asked of its values. Must not know files. Invariant: an array of one of these
dtypes holds the bits as they are, and its dtype says which format they are; nothing computes with them here.

Each is a structured dtype of one field that bears the format's name, so that two formats of one width are two dtypes. BF16 is the upper half of an
IEEE binary32; the others are those of "FP8 Formats for Deep Learning" (Micikevicius et al., 2022): E5M2 has infinities, E4M3 has none and one NaN.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

import numpy as np

Array = np.ndarray[Any, Any]


class Format(NamedTuple):
    """`word`: the unsigned integer of its width. A value is finite unless all bits of `unfinite` are set; `sign` is the sign bit."""

    word: str
    unfinite: int
    sign: int


FORMATS: Final = {
    "BF16": Format("<u2", 0x7F80, 0x8000),
    "F8_E4M3": Format("u1", 0x7F, 0x80),
    "F8_E5M2": Format("u1", 0x7C, 0x80),
}
"""By the name that safetensors has for it."""

DTYPES: Final[dict[str, np.dtype[Any]]] = {name: np.dtype([(name, told.word)]) for name, told in FORMATS.items()}


def is_narrow(array: Array) -> bool:
    names = array.dtype.names
    return names is not None and len(names) == 1 and names[0] in FORMATS


def is_finite(array: Array) -> bool:
    """Whether every value of a narrow array is finite."""
    words, told = _words(array)
    return not bool(((words & told.unfinite) == told.unfinite).any())


def has_negative(array: Array) -> bool:
    """Whether a value of a narrow array is less than zero. A negative zero is not."""
    words, told = _words(array)
    return bool((words > told.sign).any())


def words(array: Array) -> Array:
    """A narrow array as the unsigned integers that it consists of; any other one as it is."""
    return _words(array)[0] if is_narrow(array) else array


def _words(array: Array) -> tuple[Array, Format]:
    assert array.dtype.names is not None, "asked of a narrow array only"
    name = array.dtype.names[0]
    return array[name], FORMATS[name]
