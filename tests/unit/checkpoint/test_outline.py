"""What saves of the same arrays share: it is the same as if it were worked out anew, and nothing passes by it that would be refused alone."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from recovery.checkpoint.errors import CheckpointError, CheckpointInvalid, LimitExceeded
from recovery.checkpoint.limits import Limits
from recovery.checkpoint.outline import KNOWN_OUTLINES, balanced, outlined
from recovery.checkpoint.store import CheckpointStore
from tests.unit.checkpoint.making import Plain, spread

LIMITS = Limits()

ARRAYS = {"w/0": np.arange(6.0).reshape(2, 3), "w/1": np.zeros(4, np.float32), "b": np.array(1, np.int64)}


def test_saves_of_the_same_arrays_share_one_whatever_their_values() -> None:
    other = {name: array + 1 for name, array in ARRAYS.items()} | {"b": np.array(7, np.int64)}
    assert outlined(other, LIMITS) is outlined(ARRAYS, LIMITS)


@pytest.mark.parametrize(
    "changed",
    [
        pytest.param({"w/0": np.zeros((3, 2))}, id="another shape"),
        pytest.param({"w/1": np.zeros(4, np.int32)}, id="another dtype"),
        pytest.param({"w/1": np.zeros(4, ">f4")}, id="another byte order"),
        pytest.param({"w/2": np.zeros(4)}, id="one more"),
    ],
)
@pytest.mark.parametrize("packed", [True, False], ids=["packed", "spread"])
def test_a_state_that_changed_is_saved_as_it_is(tmp_path: Path, changed: dict[str, Any], packed: bool) -> None:
    store = (CheckpointStore if packed else spread)(tmp_path / "run")
    store.save(Plain(ARRAYS))
    state = Plain(ARRAYS | changed)
    anew = (CheckpointStore if packed else spread)(tmp_path / "anew")
    loaded = store.load(store.save(state))
    assert {name: (array.dtype.newbyteorder("<"), array.shape) for name, array in state.arrays.items()} == {
        name: (array.dtype, array.shape) for name, array in loaded.arrays.items()
    }
    assert all(np.array_equal(state.arrays[name], array) for name, array in loaded.arrays.items())
    assert loaded.manifest.tensors == anew.save(state).manifest.tensors


class Derived(np.ndarray[Any, Any]):
    """A type of the user's own."""


@pytest.mark.parametrize(
    ("array", "problem"),
    [
        (np.ma.masked_array(np.zeros(4, np.float32), [1, 0, 0, 0]), "masked"),
        ([0.0] * 4, "it is a list"),
        (np.zeros(4, np.complex128), "cannot be saved"),
    ],
)
def test_what_may_not_be_saved_is_refused_after_saves_of_the_same_names_and_shapes(array: Any, problem: str) -> None:
    outlined(ARRAYS, LIMITS)
    for _ in range(2):  # what is refused is not kept
        with pytest.raises(CheckpointInvalid, match=problem):
            outlined(ARRAYS | {"w/1": array}, LIMITS)


def test_an_array_of_a_type_of_its_own_is_an_array() -> None:
    assert outlined(ARRAYS | {"w/1": ARRAYS["w/1"].view(Derived)}, LIMITS) is outlined(ARRAYS, LIMITS)


@pytest.mark.parametrize(
    "limits",
    [replace(LIMITS, tensors=2), replace(LIMITS, rank=1), replace(LIMITS, total_bytes=71), replace(LIMITS, manifest_bytes=1100)],
    ids=["tensors", "rank", "total_bytes", "manifest_bytes"],
)
def test_it_is_of_the_limits_that_it_was_made_for(limits: Limits) -> None:
    outlined(ARRAYS, LIMITS)
    for _ in range(2):
        with pytest.raises(LimitExceeded):
            outlined(ARRAYS, limits)


def test_a_name_that_no_tensor_may_have_is_refused_again_and_again() -> None:
    for _ in range(KNOWN_OUTLINES + 1):
        with pytest.raises(CheckpointError, match="no name of a tensor"):
            outlined({"with space": np.zeros(1)}, LIMITS)


@given(st.dictionaries(st.text(min_size=1, max_size=3), st.integers(0, 1000), max_size=12), st.integers(1, 5))
def test_parts_hold_every_name_once_and_differ_by_no_more_than_one_array(sizes: dict[str, int], parts: int) -> None:
    found = balanced(sizes, parts)
    assert sorted(name for part in found for name in part) == sorted(sizes)
    assert len(found) == min(parts, len(sizes))
    assert all(found)
    weights = [sum(max(1, sizes[name]) for name in part) for part in found]
    assert not found or max(weights) - min(weights) <= max(max(1, size) for size in sizes.values())
    assert found == balanced(dict(reversed(sizes.items())), parts)
