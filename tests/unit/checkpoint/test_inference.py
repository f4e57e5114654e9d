"""Inference state: a hit is whole and exactly what was asked for, everything else is a miss, and losing an entry is harmless."""

from __future__ import annotations

import os
import threading
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from recovery.checkpoint.errors import CheckpointError, CheckpointInvalid, WrongKind
from recovery.checkpoint.files import LocalDisk
from recovery.checkpoint.inference import ABANDONED_SECONDS, Identity, KVStore
from recovery.checkpoint.kinds import Kind
from recovery.checkpoint.limits import Limits
from recovery.checkpoint.reading import Directory
from recovery.checkpoint.validating import validate
from tests.unit.checkpoint.making import same, small, spread

MODEL = Identity(model="m" * 64, adapter="a" * 64, dtype="F32", layout="layer,head,token,width", page_tokens=4)
TOKENS = [5, 7, 11, 13, 17, 19, 23, 29]


def kv(number: int = 0, tokens: int = 8) -> dict[str, np.ndarray]:
    random = np.random.default_rng(number)
    return {name: random.standard_normal((2, 3, tokens, 4)).astype(np.float32) for name in ("0/k", "0/v", "1/k", "1/v")}


def entry_of(store: KVStore) -> Path:
    (path,) = [each for identity in store.path.iterdir() for each in identity.iterdir()]
    return path


@pytest.fixture
def store(tmp_path: Path) -> KVStore:
    return KVStore(tmp_path / "kv")


def test_what_was_put_is_got_bit_for_bit(store: KVStore) -> None:
    assert store.put(MODEL, TOKENS, kv())
    hit = KVStore(store.path).get(MODEL, TOKENS)
    assert hit is not None
    assert hit.tokens == 8
    assert same(hit.arrays, kv())
    assert all(array.flags.writeable for array in hit.arrays.values())


@pytest.mark.parametrize("field", [field.name for field in fields(Identity)])
def test_another_identity_is_a_miss(store: KVStore, field: str) -> None:
    store.put(MODEL, TOKENS, kv())
    other = replace(MODEL, **{field: 2 if field == "page_tokens" else "other"})
    assert store.get(other, TOKENS) is None
    assert store.longest(other, TOKENS) is None
    assert store.misses == {"absent": 2}


@pytest.mark.parametrize("tokens", [TOKENS[:4], TOKENS[:-1], [*TOKENS, 31], [*TOKENS[:-1], 30], [6, *TOKENS[1:]], []])
def test_other_tokens_are_a_miss(store: KVStore, tokens: list[int]) -> None:
    store.put(MODEL, TOKENS, kv())
    assert store.get(MODEL, tokens) is None


def test_the_longest_kept_beginning_is_used_as_a_whole(store: KVStore) -> None:
    assert store.longest(MODEL, TOKENS) is None
    store.put(MODEL, TOKENS[:4], kv(4, 4))
    store.put(MODEL, TOKENS, kv(8))
    longer = store.longest(MODEL, [*TOKENS, 31, 37, 41])
    assert longer is not None
    assert longer.tokens == 8
    assert same(longer.arrays, kv(8))
    shorter = store.longest(MODEL, [*TOKENS[:7], 30])
    assert shorter is not None
    assert (shorter.tokens, same(shorter.arrays, kv(4, 4))) == (4, True)
    assert store.longest(MODEL, [6, *TOKENS[1:]]) is None, "another first token leaves no beginning"


def test_a_damaged_longer_entry_gives_way_to_a_shorter_one(store: KVStore) -> None:
    store.put(MODEL, TOKENS, kv(8))
    (entry_of(store) / "state.json").write_bytes(b"{}")
    store.put(MODEL, TOKENS[:4], kv(4, 4))
    found = store.longest(MODEL, TOKENS)
    assert found is not None
    assert found.tokens == 4


def test_every_flipped_bit_is_a_miss(store: KVStore) -> None:
    """One bit of every fifth byte here, each bit of a checkpoint in the tests of the store; the validator is the same."""
    tokens = TOKENS[:4]
    store.put(MODEL, tokens, {"k": np.arange(4, dtype=np.float32)})
    path = entry_of(store)
    files = {file.name: file.read_bytes() for file in path.iterdir()}
    for name, content in files.items():
        for at in range(0, len(content), 5):
            path.mkdir(exist_ok=True)
            for other, whole in files.items():
                (path / other).write_bytes(whole)
            (path / name).write_bytes(content[:at] + bytes([content[at] ^ (1 << at % 8)]) + content[at + 1 :])
            assert store.get(MODEL, tokens) is None, (name, at)
            assert not path.exists(), "what is damaged is not kept"


def test_an_entry_in_anothers_place_is_a_miss(store: KVStore) -> None:
    store.put(MODEL, TOKENS, kv())
    entry = entry_of(store)
    other = replace(MODEL, model="n" * 64)
    place = store.path / other.name / entry.name
    place.parent.mkdir()
    entry.rename(place)
    assert store.get(other, TOKENS) is None
    assert store.misses == {"identity": 1}
    store.put(MODEL, TOKENS, kv())
    entry.rename(entry.with_name("0" * 64))
    assert store.get(MODEL, TOKENS) is None


def test_whole_pages_of_finite_numbers_only(store: KVStore) -> None:
    for tokens in (TOKENS[:3], []):
        with pytest.raises(CheckpointInvalid, match="whole pages"):
            store.put(MODEL, tokens, kv())
    with pytest.raises(CheckpointInvalid, match="whole numbers"):
        store.put(MODEL, [1.0, 2.0, 3.0, 4.0], kv())  # type: ignore[list-item]
    with pytest.raises(CheckpointInvalid, match="63 bits"):
        store.put(MODEL, np.array([2**63, 1, 2, 3], dtype=np.uint64), kv())  # type: ignore[arg-type]
    with pytest.raises(CheckpointInvalid, match="infinite"):
        store.put(MODEL, TOKENS, {"k": np.array([np.inf])})
    assert not any(store.path.rglob("*.json")), "nothing is left of what was refused"


@pytest.mark.parametrize(("field", "value"), [("model", ""), ("dtype", ""), ("layout", ""), ("page_tokens", 0)])
def test_an_identity_states_everything(field: str, value: object) -> None:
    with pytest.raises(CheckpointInvalid, match=field):
        replace(MODEL, **{field: value})


def test_what_is_there_stays_there(store: KVStore) -> None:
    assert store.put(MODEL, TOKENS, kv(1))
    assert not store.put(MODEL, TOKENS, kv(2))
    assert store.refusals == {"there already": 1}
    hit = store.get(MODEL, TOKENS)
    assert hit is not None
    assert same(hit.arrays, kv(1))


def test_what_was_asked_for_longest_ago_goes_first(store: KVStore) -> None:
    sequences = [[number] * 4 for number in range(4)]
    store.put(MODEL, sequences[0], kv(0, 4))
    size = sum(file.stat().st_size for file in entry_of(store).iterdir())
    store.capacity_bytes = 3 * size + size // 2
    for age, number in enumerate((1, 2), start=1):
        store.put(MODEL, sequences[number], kv(number, 4))
        for path in (store.path / MODEL.name).iterdir():
            os.utime(path, (path.stat().st_atime, path.stat().st_mtime - 10 * age))
    assert store.get(MODEL, sequences[0]) is not None, "now it is the youngest"
    store.put(MODEL, sequences[3], kv(3, 4))
    kept = [number for number, tokens in enumerate(sequences) if store.get(MODEL, tokens) is not None]
    assert kept == [0, 2, 3]


def test_more_than_the_capacity_is_not_kept(tmp_path: Path) -> None:
    store = KVStore(tmp_path, capacity_bytes=100)
    assert not store.put(MODEL, TOKENS, kv())
    assert store.refusals == {"larger than the capacity": 1}
    assert list(tmp_path.iterdir()) == []


def test_an_entry_whose_files_are_larger_than_the_capacity_drives_out_nothing(store: KVStore) -> None:
    store.put(MODEL, TOKENS[:4], kv(0, 4))
    size = sum(file.stat().st_size for file in entry_of(store).iterdir())
    store.capacity_bytes = size + 50
    spare = size + 50 - 4 * 8 - sum(array.nbytes for array in kv(0, 4).values())
    assert not store.put(MODEL, [1, 2, 3, 4], kv(1, 4) | {"more": np.zeros(spare // 8)})
    assert store.refusals == {"larger than the capacity": 1}
    assert store.get(MODEL, TOKENS[:4]) is not None


def test_an_entry_of_the_future_is_nobodys_present(store: KVStore) -> None:
    """A clock that was wrong for a moment: what others write meanwhile is not taken for abandoned ever after."""
    store.put(MODEL, TOKENS, kv())
    entry = entry_of(store)
    os.utime(entry, (4e9, 4e9))
    busy = entry.parent / ".tmp-000000000001-aa"
    busy.mkdir()
    (busy / "shard").write_bytes(b"x")
    store.put(MODEL, TOKENS[:4], kv(4, 4))
    assert busy.exists()


@pytest.mark.parametrize("change", [{"adapter": None}, {"adapter": 1}, {"model": "\ud800"}, {"layout": "a\nb"}])
def test_an_identity_is_text(change: dict[str, Any]) -> None:
    with pytest.raises(CheckpointInvalid):
        replace(MODEL, **change)


def test_tokens_of_unequal_lengths_are_none(store: KVStore) -> None:
    with pytest.raises(CheckpointInvalid, match="whole numbers"):
        store.get(MODEL, [[1], [2, 3]])  # type: ignore[list-item]  # what it is about


def test_what_a_dead_writer_left_is_swept(store: KVStore) -> None:
    store.put(MODEL, TOKENS, kv())
    identity = store.path / MODEL.name
    old, young = identity / ".tmp-000000000001-aa", identity / ".trash-bb"
    for path in (old, young):
        path.mkdir()
        (path / "shard").write_bytes(b"x")
    os.utime(old, (0, young.stat().st_mtime - ABANDONED_SECONDS - 5))
    store.put(MODEL, TOKENS[:4], kv(4, 4))
    assert not old.exists()
    assert young.exists(), "somebody may be at it"


class _Full(LocalDisk):
    def sync(self, file: int) -> None:
        raise OSError(28, "No space left on device")


def test_a_full_disk_costs_the_entry_and_nothing_else(tmp_path: Path) -> None:
    store = KVStore(tmp_path, disk=_Full())
    assert not store.put(MODEL, TOKENS, kv())
    assert store.refusals == {"No space left on device": 1}
    assert store.get(MODEL, TOKENS) is None
    assert not any(path.is_file() for path in tmp_path.rglob("*"))


def test_inference_state_is_no_checkpoint(store: KVStore, tmp_path: Path) -> None:
    store.put(MODEL, TOKENS, kv())
    with pytest.raises(WrongKind, match="continue that sequence"):
        validate(Directory(LocalDisk(), entry_of(store), Limits()), Limits(), kind=Kind.LEARNING)
    checkpoints = spread(tmp_path / "checkpoints")
    saved = checkpoints.save(small())
    place = entry_of(store)
    for file in place.iterdir():
        file.unlink()
    for file in saved.path.iterdir():
        (place / file.name).write_bytes(file.read_bytes())
    assert store.get(MODEL, TOKENS) is None, "weights are no keys and values"


def test_readers_and_writers_at_once(tmp_path: Path) -> None:
    """Eight threads with a store each, room for two of four entries: whatever is got is whole."""
    start = threading.Barrier(8)
    wrong: list[object] = []
    capacity = 2 * sum(array.nbytes for array in kv().values()) + 4096

    def work(number: int) -> None:
        store = KVStore(tmp_path, capacity_bytes=capacity)
        start.wait()
        for turn in range(12):
            which = (number + turn) % 4
            tokens = [which] * 8
            try:
                store.put(MODEL, tokens, kv(which))
                hit = store.get(MODEL, tokens)
            except CheckpointError as error:
                wrong.append(error)
                return
            if hit is not None and not same(hit.arrays, kv(which)):
                wrong.append(which)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []
    assert not [path for path in tmp_path.rglob(".*") if any(path.iterdir())], "nothing is left lying about"
