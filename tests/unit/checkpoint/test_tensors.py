"""Elements of one tensor at a time, however it is cut into shards."""

from __future__ import annotations

from math import prod
from pathlib import Path

import numpy as np
import pytest

from recovery.checkpoint import tensors
from recovery.checkpoint.errors import CheckpointInvalid
from recovery.checkpoint.scanning import Candidate
from recovery.checkpoint.store import CheckpointStore
from recovery.checkpoint.tensors import Tensors, blocks
from tests.unit.checkpoint.making import cut, small, spread

ARRAYS = {
    "rows": np.arange(40.0).reshape(10, 4),
    "deep": np.arange(60, dtype=np.float32).reshape(5, 4, 3),
    "line": np.arange(7, dtype=np.int16),
    "scalar": np.array(7),
    "empty": np.zeros((0, 3)),
}


def inside(store: CheckpointStore, candidate: Candidate) -> Tensors:
    return Tensors(store.place.disk, candidate.path, candidate.manifest, store.place.limits)


@pytest.mark.parametrize(("writers", "axis"), [(1, 0), (2, 0), (3, 0), (3, 1), (4, 2)])
def test_a_tensor_is_whole_however_it_is_cut(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, writers: int, axis: int) -> None:
    monkeypatch.setattr(tensors, "BLOCK", 64)
    store = spread(tmp_path / "run")
    candidate = cut(store, ARRAYS, writers, axis)
    assert store.load(candidate).manifest == candidate.manifest  # the fixture is a checkpoint
    with inside(store, candidate) as found:
        for name, array in ARRAYS.items():
            assert np.array_equal(found.whole(name), array)
            assert found.whole(name).dtype == array.dtype
            parts = [found.flat(name, *each) for each in blocks(array.shape, array.itemsize, rows=not found.in_one(name))]
            assert np.array_equal(np.concatenate(parts) if parts else array.reshape(-1), array.reshape(-1))


@pytest.mark.parametrize("shape", [(), (1,), (0, 3), (3, 0), (7,), (5, 3), (2, 3, 4)])
@pytest.mark.parametrize("rows", [True, False])
def test_blocks_cover_a_tensor_once_and_are_small(monkeypatch: pytest.MonkeyPatch, shape: tuple[int, ...], rows: bool) -> None:
    monkeypatch.setattr(tensors, "BLOCK", 24)
    found = list(blocks(shape, 8, rows=rows))
    assert [at for begin, end in found for at in range(begin, end)] == list(range(prod(shape)))
    most = max(3, prod(shape[1:])) if rows else 3
    assert all(end - begin <= most for begin, end in found)


def test_what_was_changed_since_is_no_tensor(tmp_path: Path) -> None:
    store = spread(tmp_path / "run")
    saved = store.save(small(1))
    shard = saved.path / saved.manifest.shards()[0].name
    shard.write_bytes(shard.read_bytes()[:-1])
    with inside(store, saved) as found, pytest.raises(CheckpointInvalid):
        found.whole("w/0")
