"""Small states to save, and stores to save them in."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from recovery.checkpoint import state as states
from recovery.checkpoint.commit import Attempt, shard_name
from recovery.checkpoint.kinds import Kind
from recovery.checkpoint.manifest import Manifest, Slice, TensorEntry
from recovery.checkpoint.saving import prepare
from recovery.checkpoint.scanning import Candidate
from recovery.checkpoint.shards import code_of
from recovery.checkpoint.store import CheckpointStore


def spread(path: Path, **options: Any) -> CheckpointStore:
    """A store whose checkpoints are directories, however small they are."""
    return CheckpointStore(path, packed_bytes=0, **options)


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


def cut(
    store: CheckpointStore, arrays: Mapping[str, np.ndarray[Any, Any]], writers: int, axis: int = 0, state: Any = None
) -> Candidate:
    """A committed checkpoint of weights whose tensors lie in several shards, cut along an axis; those without that axis lie in the first."""
    prepare(store.place)
    attempt = Attempt(store.place.disk, store.place.checkpoints, len(store.scan()) + 1, "00ff")
    attempt.begin()
    parts: list[dict[str, np.ndarray[Any, Any]]] = [{} for _ in range(writers)]
    tensors = {}
    for name, array in arrays.items():
        pieces = np.array_split(array, writers, axis) if array.ndim > axis else [array]
        slices, at = [], 0
        for number, piece in enumerate(pieces):
            offset = tuple(at if each == axis else 0 for each in range(array.ndim))
            slices.append(Slice(shard_name(number, writers), name, offset, piece.shape))  # empty ones too
            parts[number][name] = np.ascontiguousarray(piece).reshape(piece.shape)
            at += piece.shape[axis] if array.ndim > axis else 0
        tensors[name] = TensorEntry(code_of(array.dtype, where=name), array.shape, tuple(slices))
    written = attempt.write_shards(parts, store.place.limits, streams=1)
    files = (*(each.entry for each in written), attempt.write_state(states.to_bytes(state or {}, store.place.limits)))
    sequence = len(store.scan())  # the attempt is there already
    manifest = Manifest(Kind.WEIGHTS, sequence, 0, "", writers, files, dict(sorted(tensors.items())))
    attempt.write_manifest(manifest)
    return Candidate(attempt.commit(manifest), manifest)
