"""Faults that other checkpoint writers were reported to have, each as the smallest case that shows it. The number is that of the public list.

Those that need a process that dies are in `tests/crash`; those about the order of syncs, power cuts and full disks in `test_protocol`.
"""

from __future__ import annotations

import errno
import json
import os
import shutil
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from recovery.checkpoint.errors import CheckpointInvalid, LimitExceeded, NothingToRestore, SaveFailed, StoreBusy, UnknownFormat
from recovery.checkpoint.files import LocalDisk
from recovery.checkpoint.header import read_header
from recovery.checkpoint.limits import Limits
from recovery.checkpoint.manifest import FILE, STATE
from recovery.checkpoint.retention import Keep
from recovery.checkpoint.scanning import Candidate, Rejected
from recovery.checkpoint.store import CheckpointStore
from recovery.checkpoint.validating import Checkpoint
from recovery.core.errors import DefinitionError
from tests.unit.checkpoint.disks import RecordingDisk
from tests.unit.checkpoint.forging import forge, with_header
from tests.unit.checkpoint.making import Plain, same, small, spread


@pytest.fixture
def store(tmp_path: Path) -> CheckpointStore:
    return spread(tmp_path / "run", disk=RecordingDisk())


def shard_of(candidate: Candidate) -> Path:
    return candidate.path / candidate.manifest.shards()[0].name


class Slot:
    """A run's current state."""

    def __init__(self) -> None:
        self.value: Any = "the state before"

    def swap(self, new: Any) -> None:
        self.value = new


def refused(store: CheckpointStore, candidate: Candidate, reason: str) -> None:
    """It is refused for that reason, and the run that wanted it has its state."""
    slot = Slot()
    with pytest.raises(CheckpointInvalid) as caught:
        store.restore(candidate, build=lambda checkpoint: checkpoint.arrays, into=slot)
    assert caught.value.reason == reason
    assert slot.value == "the state before"


def test_fault_2_a_directory_without_a_manifest_is_never_chosen(store: CheckpointStore) -> None:
    saved = store.save(small(1))
    torn = store.path / "ckpt" / "000000000200-0123456789ab"
    torn.mkdir()
    (torn / shard_of(saved).name).write_bytes(shard_of(saved).read_bytes())
    found = store.latest("weights")
    assert found.name == saved.name
    assert [(each.name, each.reason) for each in found.rejected] == [(torn.name, "files")]


@pytest.mark.parametrize("name", ["2", "checkpoint-200", "000000000002", "000000000002-XYZ", "step-9"])
def test_fault_3_a_directory_is_not_trusted_by_its_name(store: CheckpointStore, name: str) -> None:
    saved = store.save(small(1))
    (store.path / "ckpt" / name).mkdir()
    assert store.latest("weights").name == saved.name
    assert {each.name: each.reason for each in store.scan() if each.name == name} == {name: "name"}


@pytest.mark.parametrize("missing", [STATE, "shard-000-of-001.safetensors"])
def test_fault_3_a_missing_file_is_no_warning(store: CheckpointStore, missing: str) -> None:
    kept, broken = store.save(small(1)), store.save(small(2))
    (broken.path / missing).unlink()
    found = store.latest("weights")
    assert found.name == kept.name
    assert missing in found.rejected[0].problem


def test_fault_6_an_empty_newest_manifest_goes_into_quarantine(store: CheckpointStore) -> None:
    kept, broken = store.save(small(1)), store.save(small(2))
    os.truncate(broken.path / FILE, 0)
    found = store.latest("weights")
    assert found.name == kept.name
    assert [(each.name, each.damaged) for each in found.rejected] == [(broken.name, True)]
    fresh = spread(store.path)  # another process
    assert [each.name for each in fresh.gc(dry_run=True).damaged] == [broken.name]
    saved = fresh.save(small(3))
    assert [path.name for path in (store.path / "quarantine").iterdir()] == [broken.name]
    assert saved.manifest.parent == kept.id
    assert saved.manifest.sequence > broken.manifest.sequence


def test_fault_7_an_error_while_closing_is_an_error_of_the_save(store: CheckpointStore) -> None:
    kept = store.save(small(1))
    store.place.disk.refuse = lambda call: errno.EIO if call.what == "close" else None  # type: ignore[attr-defined]
    with pytest.raises(SaveFailed, match="Nothing was committed"):
        store.save(small(2))
    assert store.latest("weights").name == kept.name


@pytest.mark.parametrize("given", [None, "", "0" * 63, 0])
def test_fault_9_a_missing_digest_is_no_success(store: CheckpointStore, given: Any) -> None:
    saved = store.save(small(1))
    forged = forge(saved, lambda document, _: [entry.update(blake3=given) for entry in document["files"]] and None)
    refused(store, Candidate(forged, saved.manifest), "digest")


def test_fault_9_a_manifest_without_digests_is_refused(store: CheckpointStore) -> None:
    saved = store.save(small(1))
    forged = forge(saved, lambda document, _: [entry.pop("blake3") for entry in document["files"]] and None)
    refused(store, Candidate(forged, saved.manifest), "fields")


def test_fault_10_hint_and_retention_follow_the_commit(tmp_path: Path) -> None:
    disk = RecordingDisk()
    store = spread(tmp_path / "run", keep=Keep(last=1), disk=disk)
    kept = store.save(small(1))
    before = store.place.current.read_bytes()
    disk.refuse = lambda call: errno.EIO if call.what == "rename" and call.path.name.startswith(".tmp-") else None
    with pytest.raises(SaveFailed):
        store.save(small(2))
    assert store.place.current.read_bytes() == before
    assert same(store.load(kept).arrays, small(1).arrays)


def test_fault_11_a_failed_save_leaves_no_step_behind(store: CheckpointStore) -> None:
    first = store.save(small(1))
    store.place.disk.refuse = lambda call: errno.EIO if call.path.name == FILE else None  # type: ignore[attr-defined]
    with pytest.raises(SaveFailed):
        store.save(small(2))
    store.place.disk.refuse = lambda _: None  # type: ignore[attr-defined]
    assert store.latest("weights").manifest.step == 1
    assert store.save(small(2)).manifest.parent == first.id


def test_fault_11_a_run_that_was_rolled_back_saves_again(store: CheckpointStore) -> None:
    """Lower steps after higher ones: what counts is the order of commits."""
    early = store.save(small(10))
    store.save(small(20))
    slot = Slot()
    store.restore(early, build=lambda checkpoint: checkpoint.state, into=slot)
    again = store.save(small(11))
    assert store.latest("weights").name == again.name
    assert store.load_latest("weights")[0].manifest.step == 11


def test_fault_13_a_later_save_holds_the_later_tensors(store: CheckpointStore) -> None:
    arrays = {"w/0": np.zeros(8)}
    first = store.save(Plain(arrays))
    arrays["w/0"] = np.ones(8)  # another object
    second = store.save(Plain(arrays))
    arrays["w/0"] += 1  # the same object, changed
    third = store.save(Plain(arrays))
    assert len({each.manifest.shards()[0].blake3 for each in (first, second, third)}) == 3
    assert [store.load(each).arrays["w/0"][0] for each in (first, second, third)] == [0, 1, 2]


def test_fault_14_saving_what_was_loaded_changes_nothing(store: CheckpointStore) -> None:
    saved = [store.save(small(5))]
    for _ in range(3):
        loaded = store.load(saved[-1])
        saved.append(store.save(Plain(loaded.arrays, loaded.state)))
    assert len({(each.manifest.schema, each.manifest.files) for each in saved}) == 1


def test_fault_22_a_key_too_many_is_refused(store: CheckpointStore) -> None:
    saved = store.save(small(1))

    def add(header: dict[str, Any]) -> dict[str, Any]:
        end = max(entry["data_offsets"][1] for entry in header.values())
        return header | {"extra": {"dtype": "U8", "shape": [0], "data_offsets": [end, end]}}

    refused(store, Candidate(forge(saved, with_header(add)), saved.manifest), "schema")


def test_fault_22_a_key_too_few_is_refused(store: CheckpointStore) -> None:
    saved = store.save(small(1))
    forged = forge(saved, with_header(lambda header: {key: value for key, value in header.items() if key != "empty"}))
    refused(store, Candidate(forged, saved.manifest), "schema")


def test_fault_23_half_a_load_replaces_nothing(store: CheckpointStore) -> None:
    saved = store.save(small(1))
    os.truncate(shard_of(saved), saved.manifest.shards()[0].size - 3)
    refused(store, saved, "size")


def test_fault_23_a_state_that_cannot_be_built_replaces_nothing(store: CheckpointStore) -> None:
    saved = store.save(small(1))
    slot = Slot()

    def build(checkpoint: Checkpoint) -> Any:
        return checkpoint.arrays["w/9"]

    with pytest.raises(KeyError):
        store.restore(saved, build=build, into=slot)
    assert slot.value == "the state before"


def test_fault_25_saving_never_writes_over_what_is_loaded(store: CheckpointStore) -> None:
    first = store.save(small(1))
    before = {path.name: (path.read_bytes(), path.stat().st_ino) for path in first.path.iterdir()}
    loaded = store.load(first)
    store.save(Plain(loaded.arrays, loaded.state))
    assert same(loaded.arrays, small(1).arrays)
    assert {path.name: (path.read_bytes(), path.stat().st_ino) for path in first.path.iterdir()} == before


def test_fault_26_a_huge_header_is_refused_before_it_is_read(store: CheckpointStore) -> None:
    saved = store.save(small(1))

    def edit(document: dict[str, Any], path: Path) -> None:
        shard = path / shard_of(saved).name
        shard.write_bytes((10**12).to_bytes(8, "little") + shard.read_bytes()[8:])

    with pytest.raises(LimitExceeded, match="1000000000000"):
        store.load(Candidate(forge(saved, edit), saved.manifest))


def test_fault_26_a_product_of_dimensions_does_not_wrap(store: CheckpointStore) -> None:
    saved = store.save(small(1))

    def edit(document: dict[str, Any], path: Path) -> None:
        shape = [2**32, 2**32]
        document["tensors"]["empty"] |= {"shape": shape}
        document["tensors"]["empty"]["slices"][0] |= {"offset": [0, 0], "shape": shape}
        with_header(lambda header: header | {"empty": header["empty"] | {"shape": shape}})(document, path)

    with pytest.raises(LimitExceeded):
        store.load(Candidate(forge(saved, edit), saved.manifest))
    wide = spread(store.path, limits=Limits(total_bytes=2**80))
    assert [each.reason for each in wide.scan() if isinstance(each, Rejected)] == ["size"]  # before anything is allocated
    with pytest.raises(CheckpointInvalid, match=f"its shape needs {2**64} bytes"):
        read_header(
            json.dumps({"a": {"dtype": "U8", "shape": [2**32, 2**32], "data_offsets": [0, 0]}}).encode(), 0, Limits(), where="a"
        )


def test_fault_26_an_unknown_dtype_is_refused(store: CheckpointStore) -> None:
    saved = store.save(small(1))
    forged = forge(saved, with_header(lambda header: header | {"w/1": header["w/1"] | {"dtype": "F33"}}))
    refused(store, Candidate(forged, saved.manifest), "dtype")


def test_fault_26_a_duplicate_key_is_refused(store: CheckpointStore) -> None:
    saved = store.save(small(1))

    def twice(header: dict[str, Any]) -> bytes:
        entries = [f"{json.dumps(key)}:{json.dumps(value)}" for key, value in header.items()]
        return ("{" + ",".join([*entries, entries[-1]]) + "}").encode()

    refused(store, Candidate(forge(saved, with_header(twice)), saved.manifest), "json")


@pytest.mark.parametrize("name", ["../state.json", "/etc/passwd", "a/b", "..", "", ".hidden", "a\\b", "a\0b"])
def test_fault_27_a_file_outside_is_not_opened(store: CheckpointStore, name: str) -> None:
    saved = store.save(small(1))
    forged = forge(saved, lambda document, _: document["files"][0].update(name=name))
    refused(store, Candidate(forged, saved.manifest), "path")


@pytest.mark.parametrize("which", [FILE, STATE, "shard-000-of-001.safetensors"])
def test_fault_27_a_link_is_not_followed(store: CheckpointStore, tmp_path: Path, which: str) -> None:
    saved = store.save(small(1))
    outside = tmp_path / "outside"
    (saved.path / which).rename(outside)
    (saved.path / which).symlink_to(outside)
    refused(store, saved, "files")


def test_fault_27_what_is_no_regular_file_is_not_read(store: CheckpointStore) -> None:
    saved = store.save(small(1))
    (saved.path / STATE).unlink()
    os.mkfifo(saved.path / STATE)
    refused(store, saved, "files")


def test_fault_29_a_file_that_shrinks_while_it_is_read_is_an_error_and_no_signal(store: CheckpointStore) -> None:
    saved = store.save(Plain({"w": np.arange(1 << 18, dtype=np.float64)}))

    class Shrinking(LocalDisk):
        """Another machine truncates the file once it has been opened and its header was read."""

        def read_into(self, file: int, buffer: Any) -> int:
            count = super().read_into(file, buffer)
            if len(memoryview(buffer).cast("B")) > 1 << 16:
                os.truncate(shard_of(saved), 1 << 20)
            return count

    with pytest.raises(CheckpointInvalid, match="shorter"):
        spread(store.path, disk=Shrinking()).load(saved)


def test_fault_29_nothing_that_is_loaded_is_mapped(store: CheckpointStore) -> None:
    saved = store.save(Plain({"w": np.arange(1 << 18, dtype=np.float64)}))
    loaded = store.load(saved)
    assert loaded.arrays["w"].flags.owndata
    maps = Path("/proc/self/maps")
    assert not maps.exists() or str(store.path) not in maps.read_text()


def test_fault_31_a_stale_higher_step_neither_wins_nor_survives_instead(tmp_path: Path) -> None:
    """keep=1, and a checkpoint of step 1000 from before the run was rolled back."""
    store = spread(tmp_path / "run", keep=Keep(last=1), disk=RecordingDisk())
    store.save(small(1000))
    new = store.save(small(7))
    assert [each.name for each in store.scan()] == [new.name]
    assert store.latest("weights").manifest.step == 7


@pytest.mark.parametrize("last", [0, -1])
def test_fault_31_keeping_none_is_refused(last: int) -> None:
    with pytest.raises(DefinitionError, match="delete the one that was just saved"):
        Keep(last=last)


def test_fault_31_a_failed_save_retires_nothing(tmp_path: Path) -> None:
    disk = RecordingDisk()
    store = spread(tmp_path / "run", keep=Keep(last=2), disk=disk)
    kept = [store.save(small(1)), store.save(small(2))]
    disk.refuse = lambda call: errno.EIO if call.path.name == FILE and call.what == "sync" else None
    with pytest.raises(SaveFailed):
        store.save(small(3))
    assert [each.name for each in store.scan()] == [each.name for each in reversed(kept)]


def test_fault_31_the_order_is_of_numbers_and_not_of_text(tmp_path: Path) -> None:
    store = spread(tmp_path / "run", keep=Keep(last=1), disk=RecordingDisk())
    saved = store.save(small(1))

    def far(document: dict[str, Any], _: Path) -> None:
        document["sequence"] = 10**12 - 1  # the next one has a digit more, and comes first as text

    forge(saved, far)
    fresh = spread(store.path, keep=Keep(last=1))
    new = fresh.save(small(2))
    assert new.name < f"{10**12 - 1:012d}"
    assert fresh.latest("weights").name == new.name
    assert [each.name for each in fresh.scan()] == [new.name]


def test_fault_31_the_restored_from_is_not_deleted_from_under_the_run(tmp_path: Path) -> None:
    store = spread(tmp_path / "run", keep=Keep(last=1, verified=0), disk=RecordingDisk())
    origin = store.save(small(1))
    store.restore(origin, build=lambda checkpoint: checkpoint.state, into=Slot())
    for step in (2, 3):
        new = store.save(small(step))
    assert [each.name for each in store.scan()] == [new.name, origin.name]
    store.restore(new, build=lambda checkpoint: checkpoint.state, into=Slot())
    assert store.gc().retired == (origin.name,)


@pytest.mark.parametrize("content", [b"", b"{}", b"\xff", b'{"id":"x","name":"../../etc"}', b"0" * 4096])
def test_fault_33_a_hint_that_is_wrong_changes_nothing(store: CheckpointStore, content: bytes) -> None:
    saved = store.save(small(1))
    store.place.current.write_bytes(content)
    assert store.latest("weights").name == saved.name
    assert store.save(small(2)).manifest.parent == saved.id


def test_fault_33_a_dangling_hint_changes_nothing(store: CheckpointStore, tmp_path: Path) -> None:
    saved = store.save(small(1))
    store.place.current.unlink()
    store.place.current.symlink_to(tmp_path / "gone")
    assert store.latest("weights").name == saved.name
    new = store.save(small(2))
    assert not store.place.current.is_symlink()
    assert json.loads(store.place.current.read_bytes()) == {"id": new.id, "name": new.name}


def test_fault_35_two_threads_that_save_at_once_publish_two_whole_checkpoints(store: CheckpointStore) -> None:
    gate = threading.Barrier(4)

    def save(step: int) -> Candidate:
        gate.wait(60)
        return store.save(small(step))

    with ThreadPoolExecutor(4) as pool:
        saved = list(pool.map(save, range(4)))
    assert sorted(each.manifest.sequence for each in saved) == [1, 2, 3, 4]
    for step, each in enumerate(saved):
        if each.manifest.sequence > 1:
            assert same(store.load(each).arrays, small(step).arrays)
    assert len(store.scan()) == 3  # Keep(last=3)


def test_fault_35_a_second_writer_waits_or_is_told(tmp_path: Path) -> None:
    from datetime import timedelta

    inside, go_on = threading.Event(), threading.Event()

    class Waiting(RecordingDisk):
        def create(self, path: Path) -> int:
            inside.set()
            assert go_on.wait(60)
            return super().create(path)

    slow = spread(tmp_path / "run", disk=Waiting())
    with ThreadPoolExecutor(1) as pool:
        saving = pool.submit(slow.save, small(1))
        assert inside.wait(60)
        with pytest.raises(StoreBusy):
            spread(tmp_path / "run", wait=timedelta(0)).save(small(2))
        go_on.set()
        assert saving.result(60).manifest.step == 1


def test_an_attempt_never_shares_its_directory(store: CheckpointStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """Fault 35: what another writer may have is not written into, even if the random name is the same."""
    store.save(small(1))
    monkeypatch.setattr("secrets.token_hex", lambda _: "00" * 8)
    original = RecordingDisk.make_directory

    def taken(self: RecordingDisk, path: Path) -> None:
        original(self, path)
        original(self, path)

    monkeypatch.setattr(RecordingDisk, "make_directory", taken)
    with pytest.raises(SaveFailed, match="exists"):
        store.save(small(2))


def test_a_newer_format_is_left_alone(store: CheckpointStore) -> None:
    saved = store.save(small(1))
    document = json.loads((saved.path / FILE).read_bytes()) | {"format": 2, "more": True}
    (saved.path / FILE).write_text(json.dumps(document))
    with pytest.raises(NothingToRestore, match="UnknownFormat"):
        store.latest("weights")
    with pytest.raises(UnknownFormat, match="newer recovery"):
        store.load(saved)
    assert store.gc().damaged == ()
    assert saved.path.is_dir()


def test_a_disk_that_does_not_answer_proves_no_damage(store: CheckpointStore) -> None:
    saved = store.save(small(1))

    class Silent(LocalDisk):
        def open(self, path: Path) -> tuple[int, int]:
            raise OSError(errno.EIO, os.strerror(errno.EIO), str(path))

    silent = spread(store.path, disk=Silent())
    with pytest.raises(NothingToRestore, match="unreadable"):
        silent.latest("weights")
    assert silent.gc().damaged == ()
    assert store.latest("weights").name == saved.name


def test_a_file_too_many_makes_no_candidate(store: CheckpointStore) -> None:
    saved = store.save(small(1))
    (saved.path / "notes.txt").write_text("mine")
    refused(store, saved, "files")
    with pytest.raises(NothingToRestore, match="files"):
        store.latest("weights")


def test_a_checkpoint_under_another_ones_name_is_refused(store: CheckpointStore) -> None:
    """A copy that was renamed would come before the one that is newest."""
    saved = store.save(small(1))
    copy = saved.path.with_name(f"{9:012d}-{saved.id[:12]}")
    shutil.copytree(saved.path, copy)
    refused(store, Candidate(copy, saved.manifest), "identity")
    assert store.latest("weights").name == saved.name


@pytest.mark.parametrize("number", [np.nan, np.inf])
def test_numbers_that_are_none_are_not_loaded(store: CheckpointStore, number: float) -> None:
    saved = store.save(small(1))

    def edit(document: dict[str, Any], path: Path) -> None:
        shard = path / shard_of(saved).name
        data = shard.read_bytes()
        shard.write_bytes(data.replace(small(1).arrays["w/0"].tobytes()[:8], np.float64(number).tobytes()))

    refused(store, Candidate(forge(saved, edit), saved.manifest), "finite")


def test_slices_that_do_not_tile_are_refused_before_a_shard_is_opened(store: CheckpointStore) -> None:
    """Fault 21: rows 1 and 2 of 3 stated twice, row 0 never."""
    saved = store.save(Plain({"a": np.arange(12.0).reshape(3, 4)}))

    def edit(document: dict[str, Any], _: Path) -> None:
        (part,) = document["tensors"]["a"]["slices"]
        document["tensors"]["a"]["slices"] = [
            part | {"key": "a", "offset": [1, 0], "shape": [2, 4]},
            part | {"key": "b", "offset": [2, 0], "shape": [1, 4]},
        ]

    forged = Candidate(forge(saved, edit), saved.manifest)
    (forged.path / shard_of(saved).name).unlink()
    refused(store, forged, "tiling")


def test_a_file_that_grows_while_it_is_read_is_refused(store: CheckpointStore) -> None:
    saved = store.save(small(1))

    class Growing(LocalDisk):
        grown = False

        def read_into(self, file: int, buffer: Any) -> int:
            if not self.grown and len(memoryview(buffer).cast("B")) == 8:
                self.grown = True
                with shard_of(saved).open("ab") as other:
                    other.write(b"x")
            return super().read_into(file, buffer)

    with pytest.raises(CheckpointInvalid, match="grew"):
        spread(store.path, disk=Growing()).load(saved)
