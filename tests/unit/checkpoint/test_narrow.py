"""Narrow floats: which bits are a finite number, and which a negative one; saved and refused like other numbers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from recovery.checkpoint import narrow
from recovery.checkpoint.errors import CheckpointInvalid
from recovery.checkpoint.fingerprint import digest_of_array
from recovery.checkpoint.kinds import Kind
from recovery.checkpoint.store import CheckpointStore
from recovery.checkpoint.validating import INVARIANTS
from tests.unit.checkpoint.making import Plain, same


def words(name: str, *bits: int) -> np.ndarray[Any, Any]:
    return np.array(bits, dtype=narrow.FORMATS[name].word).view(narrow.DTYPES[name])


LARGEST = {"BF16": 0x7F7F, "F8_E4M3": 0x7E, "F8_E5M2": 0x7B}
"""From the formats' own tables: 3.39e38, 448 and 57344."""

UNFINITE = {"BF16": (0x7F80, 0xFF80, 0x7FC0), "F8_E4M3": (0x7F, 0xFF), "F8_E5M2": (0x7C, 0xFC, 0x7D)}
"""Infinities and NaN. E4M3 has no infinity."""


@pytest.mark.parametrize("name", narrow.FORMATS)
def test_the_largest_number_is_finite_and_what_comes_after_it_is_not(name: str) -> None:
    sign = narrow.FORMATS[name].sign
    assert narrow.is_finite(words(name, 0, LARGEST[name], LARGEST[name] | sign))
    for bits in UNFINITE[name]:
        assert not narrow.is_finite(words(name, 0, bits))


@pytest.mark.parametrize("name", narrow.FORMATS)
def test_a_negative_zero_is_not_negative(name: str) -> None:
    sign = narrow.FORMATS[name].sign
    assert not narrow.has_negative(words(name, 0, sign, LARGEST[name]))
    assert narrow.has_negative(words(name, 0, sign | 1))


@pytest.mark.parametrize("name", narrow.FORMATS)
def test_they_are_saved_and_loaded_bit_for_bit_under_their_own_dtype(name: str, tmp_path: Path) -> None:
    store = CheckpointStore(tmp_path)
    arrays = {"w/0": words(name, *range(8)).reshape(2, 4), "w/one": words(name, 3).reshape(()), "w/none": words(name)}
    saved = store.save(Plain(arrays))
    assert {tensor.dtype for tensor in saved.manifest.tensors.values()} == {name}
    assert same(store.load(saved).arrays, arrays)


@pytest.mark.parametrize("name", narrow.FORMATS)
def test_one_that_is_not_finite_is_refused(name: str, tmp_path: Path) -> None:
    with pytest.raises(CheckpointInvalid) as caught:
        CheckpointStore(tmp_path).save(Plain({"w/0": words(name, 0, UNFINITE[name][0])}))
    assert (caught.value.reason, "w/0" in caught.value.where) == ("finite", True)


def test_a_negative_second_moment_is_refused_in_a_narrow_format_too() -> None:
    from tests.unit.checkpoint.learners import learning

    state = learning()
    arrays = dict(state.arrays)
    for name in [name for name in arrays if name.startswith("v/")]:
        arrays[name] = np.full(arrays[name].shape, 0x8001, dtype="<u2").view(narrow.DTYPES["BF16"])
    with pytest.raises(CheckpointInvalid, match="second moment is negative"):
        INVARIANTS[Kind.LEARNING](arrays, state.state())


def test_two_formats_of_one_width_have_two_digests() -> None:
    assert digest_of_array(words("F8_E4M3", 1)) != digest_of_array(words("F8_E5M2", 1))
