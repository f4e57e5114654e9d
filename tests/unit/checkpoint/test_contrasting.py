"""Two checkpoints beside each other: every difference, its first place, and nothing where there is none."""

from __future__ import annotations

import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from recovery.checkpoint import narrow, tensors
from recovery.checkpoint.contrasting import Contrast, Leaf, contrast, work_bytes
from recovery.checkpoint.kinds import Kind
from recovery.checkpoint.scanning import Candidate
from recovery.checkpoint.store import CheckpointStore
from recovery.checkpoint.tensors import Tensors
from recovery.checkpoint.ulp import first_difference
from tests.unit.checkpoint.making import Plain, cut, small


@pytest.fixture
def store(tmp_path: Path) -> CheckpointStore:
    return CheckpointStore(tmp_path / "run")


def inside(store: CheckpointStore, candidate: Candidate) -> Tensors:
    return Tensors(store.place.disk, candidate.path, candidate.manifest, store.place.limits)


def compared(store: CheckpointStore, a: Candidate, b: Candidate) -> Contrast:
    told: list[int] = []
    states = store.load(a).state, store.load(b).state
    with inside(store, a) as one, inside(store, b) as other:
        found = contrast(one, other, states, told.append)
    assert sum(told) == work_bytes(a.manifest, b.manifest)
    return found


def of_states(store: CheckpointStore, one: Any, other: Any) -> list[Leaf]:
    saved = store.save(Plain({}))
    with inside(store, saved) as of_both:
        return list(contrast(of_both, of_both, (one, other), lambda _: None).state)


@pytest.mark.parametrize(
    ("writers", "axis"), [((1, 1), (0, 0)), ((1, 3), (0, 0)), ((2, 3), (0, 0)), ((2, 3), (0, 1)), ((3, 1), (1, 0))]
)
def test_the_cut_is_no_difference_and_hides_none(
    store: CheckpointStore, monkeypatch: pytest.MonkeyPatch, writers: tuple[int, int], axis: tuple[int, int]
) -> None:
    monkeypatch.setattr(tensors, "BLOCK", 64)
    random = np.random.default_rng(5)
    arrays = {"w": random.standard_normal((9, 4)), "x": random.integers(0, 9, (5, 2, 3)), "s": np.array(1.5), "e": np.zeros((0, 2))}
    changed = {name: values.copy() for name, values in arrays.items()}
    changed["w"][4:7, 2] = [0.5, np.nextafter(changed["w"][5, 2], 9), -changed["w"][6, 2]]
    changed["s"] = np.array(-1.5)
    a, same, b = (
        cut(store, arrays, writers[0], axis[0]),
        cut(store, arrays, writers[1], axis[1]),
        cut(store, changed, writers[1], axis[1]),
    )
    assert compared(store, a, same).equal
    found = {each.name: each.difference for each in compared(store, a, b).different}
    assert found == {name: first_difference(arrays[name], changed[name]) for name in ("w", "s")}


def test_the_largest_distance_may_lie_in_any_block(store: CheckpointStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tensors, "BLOCK", 64)
    one, other = np.ones(100), np.ones(100)
    other[[3, 50, 99]] = [np.nextafter(1, 2), 4.0, 1.5]
    (found,) = compared(store, store.save(Plain({"w": one})), store.save(Plain({"w": other}))).different
    assert found.difference == first_difference(one, other)


def test_names_dtypes_and_shapes_differ_by_name(store: CheckpointStore) -> None:
    a = store.save(Plain({"gone": np.ones(2), "wide": np.ones(2), "long": np.ones((2, 2))}))
    b = store.save(Plain({"new": np.ones(2), "wide": np.ones(2, np.float32), "long": np.ones(4)}))
    found = {each.name: each.change for each in compared(store, a, b).different}
    assert found == {"gone": "missing", "new": "added", "wide": "reshaped", "long": "reshaped"}


def test_kinds_differ(store: CheckpointStore) -> None:
    a, b = store.save(small(1)), store.save(small(1).but(kind=Kind.INFERENCE_KV))
    found = compared(store, a, b)
    assert (found.kinds, found.equal) == (("weights", "inference_kv"), False)


def test_equal_states_are_equal(store: CheckpointStore) -> None:
    found = compared(store, store.save(small(1)), store.save(small(1)))
    assert (found.equal, found.tensors, found.fields) == (True, 5, 3)


@pytest.mark.parametrize(
    ("one", "other", "leaf"),
    [
        ({"a": 1}, {"a": 2}, Leaf("a", "changed", 1, 2)),
        ({"a": 1}, {"a": 1.0}, Leaf("a", "changed", 1, 1.0)),
        ({"a": 1}, {"a": True}, Leaf("a", "changed", 1, True)),
        ({"a": 0.0}, {"a": -0.0}, Leaf("a", "changed", 0.0, -0.0, ulps=0)),
        ({"a": 1.0}, {"a": 1.0 + 2**-52}, Leaf("a", "changed", 1.0, 1.0 + 2**-52, ulps=1)),
        ({"a": {"b": None}}, {"a": {}}, Leaf("a.b", "missing", None)),
        ({"a": "x"}, {"a": "x", "b": ""}, Leaf("b", "added", b="")),
        ({"a": [{"b": 1}, {"b": 2}]}, {"a": [{"b": 1}, {"b": 3}]}, Leaf("a[1].b", "changed", 2, 3)),
        ({"a": ["x", "y"]}, {"a": ["x"]}, Leaf("a[1]", "missing", "y")),
        ({"a": [2]}, {"a": [3]}, Leaf("a", "changed", [2], [3])),
        ({"a": [2]}, {"a": [2, 3]}, Leaf("a", "changed", lengths=(1, 2))),
        ({"a": [2]}, {"a": []}, Leaf("a", "changed", [2], [])),
        ({"a": [2**80] * 9}, {"a": [3] * 9}, Leaf("a", "changed", [2**80] * 9, [3] * 9)),
        ({"a": [0.5] * 9}, {"a": [0.5] * 7}, Leaf("a", "changed", lengths=(9, 7))),
    ],
)
def test_a_leaf_is_told_with_its_path(store: CheckpointStore, one: Any, other: Any, leaf: Leaf) -> None:
    assert of_states(store, one, other)[0] == leaf
    assert of_states(store, one, one) == []


def test_a_list_of_numbers_is_told_by_its_first_difference(store: CheckpointStore) -> None:
    (leaf,) = of_states(store, {"loss": [0.5, 0.25, 1.0, 2.0, 3.0]}, {"loss": [0.5, 0.25, 1.5, 2.5, 3.0, 9.0]})
    assert leaf.lengths == (5, 6)
    assert leaf.difference == first_difference(np.array([0.5, 0.25, 1.0, 2.0, 3.0]), np.array([0.5, 0.25, 1.5, 2.5, 3.0]))


def test_the_lifecycle_is_a_part_of_its_own(store: CheckpointStore) -> None:
    leaves = of_states(store, {"lifecycle": {"data": "a"}, "lifecycles": 1}, {"lifecycle": {"data": "b"}, "lifecycles": 2})
    assert [(leaf.path, leaf.of_lifecycle) for leaf in leaves] == [("lifecycle.data", True), ("lifecycles", False)]


@pytest.mark.parametrize(
    ("dtype", "words", "a", "b", "ulps"),
    [("BF16", (0x3F80, 0x3F82), "1.0", "1.015625", 2), ("F8_E4M3", (0x38, 0x3C), "0x38", "0x3c", None)],
)
def test_narrow_floats_differ_too(
    store: CheckpointStore, dtype: str, words: tuple[int, int], a: str, b: str, ulps: int | None
) -> None:
    saved = [store.save(Plain({"w": np.array([(0,), (word,)], narrow.DTYPES[dtype])})) for word in words]
    (found,) = compared(store, *saved).different
    assert found.difference is not None
    assert (found.difference.index, found.difference.expected, found.difference.found) == ((1,), a, b)
    assert (found.difference.ulps, found.difference.ulps_max) == (ulps, ulps)


def test_large_tensors_are_compared_in_little_memory(store: CheckpointStore) -> None:
    values = np.ones(4 << 20)
    a = store.save(Plain({"w": values}))
    values[::7] = 2.0
    b = store.save(Plain({"w": values}))
    del values
    tracemalloc.start()
    with inside(store, a) as one, inside(store, b) as other:
        found = contrast(one, other, ({}, {}), lambda _: None)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert found.different[0].difference is not None
    assert found.different[0].difference.count == (4 << 20) // 7 + 1
    assert peak < 16 << 20
