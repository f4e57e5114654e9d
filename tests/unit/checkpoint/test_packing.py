"""A checkpoint in one file: the same files, judged by the same function, and refused where the one file is not what was written."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import safetensors.numpy

from recovery.checkpoint import packing
from recovery.checkpoint import state as states
from recovery.checkpoint.contrasting import contrast
from recovery.checkpoint.draft import WIDE_BYTES
from recovery.checkpoint.errors import CheckpointInvalid, SaveFailed
from recovery.checkpoint.examining import examine
from recovery.checkpoint.files import Bytes, LocalDisk
from recovery.checkpoint.manifest import FILE, STATE
from recovery.checkpoint.readback import ReadBack
from recovery.checkpoint.retention import Keep
from recovery.checkpoint.scanning import Candidate, Rejected
from recovery.checkpoint.store import PACKED_BYTES, CheckpointStore
from recovery.checkpoint.tensors import Tensors
from tests.unit.checkpoint.disks import RecordingDisk
from tests.unit.checkpoint.making import Plain, same, small, spread

SHARD = "shard-000-of-001.safetensors"


@pytest.fixture
def store(tmp_path: Path) -> CheckpointStore:
    return CheckpointStore(tmp_path / "run", keep=Keep(last=2), disk=RecordingDisk())


def files_of(content: bytes) -> dict[str, bytes]:
    """What the safetensors library finds in a packed checkpoint."""
    return {name: array.tobytes() for name, array in safetensors.numpy.load(content).items()}


def test_it_holds_the_bytes_of_a_directory_and_has_its_id(store: CheckpointStore, tmp_path: Path) -> None:
    """The layout is no part of what a checkpoint is."""
    packed, lying = store.save(small(1)), spread(tmp_path / "other", disk=RecordingDisk()).save(small(1))
    assert packed.path.is_file()
    assert packed.manifest == lying.manifest
    assert packed.name == lying.name
    assert files_of(packed.path.read_bytes()) == {each.name: each.read_bytes() for each in lying.path.iterdir()}


def test_the_safetensors_library_reads_it_and_what_is_in_it(store: CheckpointStore) -> None:
    content = store.save(small(1)).path.read_bytes()
    assert same(safetensors.numpy.load(files_of(content)[SHARD]), small(1).arrays)


def test_a_state_that_would_be_written_in_many_streams_is_packed_as_one_shard(tmp_path: Path) -> None:
    store = CheckpointStore(tmp_path, streams=16, packed_bytes=1 << 30, disk=RecordingDisk())
    wide = Plain({f"w/{number}": np.full(WIDE_BYTES // 128, number, dtype=np.float64) for number in range(16)}, {"counter": 1})
    saved = store.save(wide)
    assert saved.path.is_file()
    assert same(CheckpointStore(tmp_path).load(saved).arrays, wide.arrays)


def test_a_state_without_arrays_is_packed_too(store: CheckpointStore) -> None:
    saved = store.save(Plain({}, {"counter": 1}))
    assert set(files_of(saved.path.read_bytes())) == {FILE, STATE}
    assert store.load(saved).state == {"counter": 1}


@pytest.mark.parametrize(("more", "packed"), [(0, True), (1, False)])
def test_the_bound_counts_arrays_and_state(tmp_path: Path, more: int, packed: bool) -> None:
    state = Plain({"w": np.zeros(1000, np.uint8)}, {"counter": 1})
    size = 1000 + len(states.to_bytes(state.values, CheckpointStore(tmp_path).place.limits))
    saved = CheckpointStore(tmp_path, packed_bytes=size - more, disk=RecordingDisk()).save(state)
    assert saved.path.is_file() == packed
    assert PACKED_BYTES == 262144


def test_arrays_of_many_dtypes_and_both_byte_orders_are_packed(store: CheckpointStore, tmp_path: Path) -> None:
    """Neighbours of one dtype are looked at together."""
    arrays = {
        "a": np.arange(3, dtype="<f8"),
        "b": np.arange(3, 6, dtype=">f8"),
        "c": np.arange(6, 9, dtype="<f8"),
        "d": np.zeros((0, 2)),
        "e": np.asfortranarray(np.arange(6, dtype=np.float32).reshape(2, 3)),
        "f": np.array([1j], np.complex64),
        "g": np.array(5, np.int8),
    }
    packed, lying = store.save(Plain(arrays)), spread(tmp_path / "other", disk=RecordingDisk()).save(Plain(arrays))
    assert packed.manifest == lying.manifest
    little = {name: array.astype(array.dtype.newbyteorder("<")) for name, array in arrays.items()}
    assert same(store.load(packed).arrays, little)


@pytest.mark.parametrize("name", ["a", "b", "c", "e", "f"])
def test_of_many_arrays_the_one_that_is_not_finite_is_named(store: CheckpointStore, name: str) -> None:
    arrays = {
        "a": np.zeros(3),
        "b": np.zeros(3, ">f8"),
        "c": np.zeros(3),
        "d": np.zeros(0),
        "e": np.zeros(3, np.float32),
        "f": np.zeros(3, np.complex64),
    }
    arrays[name][1] = np.nan
    with pytest.raises(CheckpointInvalid, match=f"{name}: it holds a number that is infinite"):
        store.save(Plain(arrays))
    assert not store.scan()


def test_its_parts_are_read_as_those_of_a_directory(store: CheckpointStore, tmp_path: Path) -> None:
    packed, lying = store.save(small(1)), spread(tmp_path / "other", disk=RecordingDisk()).save(small(1))
    parts = store.parts(packed)
    assert (parts.load_slice("w/0", (1, 1), (2, 3)) == small(1).arrays["w/0"][1:3, 1:4]).all()
    assert parts.state == small(1).values
    assert examine(store.place, packed, lambda _: None).whole
    with Tensors(LocalDisk(), packed.path, packed.manifest, store.place.limits) as one:
        assert same({name: one.whole(name) for name in small(1).arrays}, small(1).arrays)
        with Tensors(LocalDisk(), lying.path, lying.manifest, store.place.limits) as other:
            assert contrast(one, other, (parts.state, parts.state), lambda _: None).equal


def test_both_layouts_stand_in_one_store(tmp_path: Path) -> None:
    """Which one a save takes can change from one to the next; order, parents and retention do not ask."""
    disk = RecordingDisk()
    saved = [CheckpointStore(tmp_path, packed_bytes=number % 2 << 20, disk=disk).save(small(number)) for number in range(4)]
    store = CheckpointStore(tmp_path, keep=Keep(last=2), disk=disk)
    assert [each.manifest.parent for each in saved[1:]] == [each.id for each in saved[:-1]]
    assert [each.name for each in store.scan()] == [each.name for each in reversed(saved)][:3]
    assert store.gc().retired == (saved[1].name,)
    assert [store.load(each).manifest.step for each in store.scan() if isinstance(each, Candidate)] == [3, 2]


def test_it_is_pinned_verified_restored_and_retired_by_its_name(store: CheckpointStore) -> None:
    first = store.save(small(1))
    store.pin(first.name)
    store.verify(first.name)
    for number in range(2, 6):
        store.save(small(number))
    assert first.path.is_file()
    store.unpin(first.name)
    store.mark_verified(first.name, whole=False)
    store.gc()
    assert not first.path.exists()
    assert not list(store.place.trash.iterdir())


# -- what is refused ---------------------------------------------------------------------------------------------------


def cut_at(part: float) -> Callable[[bytes], bytes]:
    return lambda content: content[: int(len(content) * part)]


def header_of(change: Callable[[dict[str, dict[str, object]]], None]) -> Callable[[bytes], bytes]:
    """Change the document of the header, in its one form otherwise."""

    def changed(content: bytes) -> bytes:
        length = int.from_bytes(content[:8], "little")
        document = json.loads(content[8 : 8 + length])
        change(document)
        text = json.dumps(document, separators=(",", ":")).encode()
        text += b" " * (-len(text) % 8)
        return len(text).to_bytes(8, "little") + text + content[8 + length :]

    return changed


def renamed(document: dict[str, dict[str, object]]) -> None:
    document["../state.json"] = document.pop(STATE)


def of_signed(document: dict[str, dict[str, object]]) -> None:
    document[STATE]["dtype"] = "I8"


def in_rows(document: dict[str, dict[str, object]]) -> None:
    begin, end = document[STATE]["data_offsets"]  # type: ignore[misc]
    document[STATE]["shape"] = [1, end - begin]  # type: ignore[has-type]


def overlapping(document: dict[str, dict[str, object]]) -> None:
    document[STATE]["data_offsets"] = document[FILE]["data_offsets"]


def described(document: dict[str, dict[str, object]]) -> None:
    document["__metadata__"] = {"format": "pt"}


def without_state(content: bytes) -> bytes:
    files = {name: data for name, data in files_of(content).items() if name != STATE}
    return repacked(files)


def with_another(content: bytes) -> bytes:
    return repacked(files_of(content) | {"more.json": b"{}"})


def repacked(files: dict[str, bytes]) -> bytes:
    header, order = packing.packed_header({name: len(data) for name, data in files.items()})
    return header + b"".join(files[name] for name in order)


SPOILT: dict[str, Callable[[bytes], bytes]] = {
    "nothing": lambda _: b"",
    "zeros": lambda content: bytes(len(content)),
    "the prefix": lambda content: content[:8],
    "half": cut_at(0.5),
    "without its last byte": lambda content: content[:-1],
    "with a byte more": lambda content: content + b"\0",
    "a huge header": lambda content: (1 << 40).to_bytes(8, "little") + content[8:],
    "a header of 5000 bytes": lambda content: (5000).to_bytes(8, "little") + content[8:] + bytes(5000),
    "another form of the header": header_of(lambda document: document.update({FILE: document.pop(FILE)})),
    "a name outside": header_of(renamed),
    "numbers with a sign": header_of(of_signed),
    "rows": header_of(in_rows),
    "an overlap": header_of(overlapping),
    "a description": header_of(described),
    "no state": without_state,
    "a file too many": with_another,
}


@pytest.mark.parametrize("how", SPOILT)
def test_what_is_spoilt_is_no_candidate_and_goes_into_quarantine(store: CheckpointStore, how: str) -> None:
    first, second = store.save(small(1)), store.save(small(2))
    content = SPOILT[how](second.path.read_bytes())
    second.path.write_bytes(content)
    with pytest.raises(CheckpointInvalid):
        store.load(second)
    loaded, passed = CheckpointStore(store.path).load_latest("weights")
    assert loaded.manifest == first.manifest
    assert [(each.name, each.damaged) for each in passed] == [(second.name, True)]
    third = CheckpointStore(store.path, disk=RecordingDisk()).save(small(3))
    assert third.manifest.parent == first.id
    assert (store.place.quarantine / second.name).read_bytes() == content


def test_a_link_is_not_followed_and_left_to_a_person(store: CheckpointStore, tmp_path: Path) -> None:
    saved = store.save(small(1))
    outside = saved.path.rename(tmp_path / "outside")
    saved.path.symlink_to(outside)
    [found] = CheckpointStore(store.path).scan()
    assert isinstance(found, Rejected)
    assert (found.reason, found.damaged) == ("name", False)
    CheckpointStore(store.path, disk=RecordingDisk()).save(small(2))
    assert saved.path.is_symlink()
    assert outside.exists()


def test_a_link_that_is_called_like_a_save_under_way_is_removed_and_not_followed(store: CheckpointStore, tmp_path: Path) -> None:
    store.save(small(1))
    kept = tmp_path / "kept"
    kept.mkdir()
    (kept / "file").touch()
    (store.place.checkpoints / ".tmp-000000000009-00ff").symlink_to(kept)
    store.save(small(2))
    assert (kept / "file").exists()
    assert not list(store.place.checkpoints.glob(".tmp-*"))


def test_what_a_crash_left_is_swept(store: CheckpointStore) -> None:
    store.save(small(1))
    (store.place.checkpoints / ".tmp-000000000002-00ff").write_bytes(b"half of it")
    store.save(small(2))
    assert not list(store.place.checkpoints.glob(".tmp-*"))


@pytest.mark.parametrize("at", [0, 700, -1])
@pytest.mark.parametrize("policy", [ReadBack.SAMPLE, ReadBack.FULL])
def test_a_byte_that_was_not_written_as_it_was_is_seen_by_reading_back(tmp_path: Path, policy: ReadBack, at: int) -> None:
    class Lying(RecordingDisk):
        def write(self, file: int, data: Bytes) -> None:
            changed = bytearray(data)
            if len(changed) > 1000:
                changed[at] ^= 1
            super().write(file, changed)

    good = CheckpointStore(tmp_path, read_back=policy, disk=RecordingDisk()).save(small(0))
    with pytest.raises(SaveFailed, match="quarantine"):
        CheckpointStore(tmp_path, read_back=policy, disk=Lying()).save(small(1))
    assert CheckpointStore(tmp_path).latest("weights").name == good.name


def test_a_file_that_shrinks_while_it_is_read_is_refused(store: CheckpointStore) -> None:
    saved = store.save(small(1))

    class Shrinking(LocalDisk):
        def read_into(self, file: int, buffer: Bytes) -> int:
            raise AssertionError("a packed file is read by place")

        def read_at(self, file: int, buffer: Bytes, at: int) -> int:
            return super().read_at(file, memoryview(buffer).cast("B")[:-1], at)

    with pytest.raises(CheckpointInvalid):
        CheckpointStore(store.path, disk=Shrinking()).load(saved)
