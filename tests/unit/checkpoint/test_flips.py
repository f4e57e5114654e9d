"""One flipped bit, in any byte of any file of a checkpoint, is refused; in `CURRENT`, a hint, it changes nothing."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from recovery.checkpoint.errors import CheckpointError
from recovery.checkpoint.store import CheckpointStore
from tests.unit.checkpoint.disks import RecordingDisk
from tests.unit.checkpoint.making import Plain, spread

STATE = Plain({"w/0": np.arange(6.0), "m/0": np.array([True, False])}, {"counter": 3, "rng": 2**100, "loss": 0.5})


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> CheckpointStore:
    store = spread(tmp_path_factory.mktemp("run"))
    store.save(STATE)
    return store


def flipped(root: Path, path: Path) -> list[int]:
    """Flip one bit in each byte, another one from byte to byte; the places where a load went through."""
    original = path.read_bytes()
    store = CheckpointStore(root)
    candidate = store.latest("weights")
    passed = []
    with path.open("r+b", buffering=0) as file:
        for at in range(len(original)):
            file.seek(at)
            file.write(bytes([original[at] ^ 1 << (at * 5 + 3) % 8]))
            try:
                store.load(candidate)
                passed.append(at)
            except CheckpointError:
                pass
            file.seek(at)
            file.write(original[at : at + 1])
    assert store.load(candidate)
    return passed


@pytest.mark.parametrize("name", ["MANIFEST.json", "state.json", "shard-000-of-001.safetensors"])
def test_a_flipped_bit_is_refused(store: CheckpointStore, name: str) -> None:
    assert flipped(store.path, store.latest("weights").path / name) == []


def test_a_flipped_bit_in_a_packed_checkpoint_is_refused(tmp_path: Path) -> None:
    store = CheckpointStore(tmp_path / "run", disk=RecordingDisk())
    saved = store.save(STATE)
    assert saved.path.is_file()
    assert flipped(store.path, saved.path) == []


def test_a_flipped_bit_in_the_hint_changes_nothing(store: CheckpointStore) -> None:
    current = store.place.current
    original = current.read_bytes()
    before = store.latest("weights")
    for at in range(len(original)):
        current.write_bytes(original[:at] + bytes([original[at] ^ 1 << at % 8]) + original[at + 1 :])
        if at % 10 == 0:
            assert store.latest("weights") == before
    assert store.load(store.latest("weights")).state["counter"] == 3
    current.write_bytes(original)
