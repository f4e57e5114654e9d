"""The commit protocol, as the disk sees it: what is synced before what, what every refusal leaves, and what every power cut leaves."""

from __future__ import annotations

import errno
from pathlib import Path

import numpy as np
import pytest

from recovery.checkpoint.errors import SaveFailed, SpaceMissing
from recovery.checkpoint.files import LocalDisk
from recovery.checkpoint.manifest import FILE, STATE
from recovery.checkpoint.retention import Keep
from recovery.checkpoint.saving import LARGE_BYTES, WAITING
from recovery.checkpoint.store import PACKED_BYTES, CheckpointStore
from tests.power import stores
from tests.power.record import Said
from tests.power.sweep import Questions, Swept, swept
from tests.unit.checkpoint.disks import Call, RecordingDisk, changes, refusing_at
from tests.unit.checkpoint.making import Plain, same, small, spread


def told(log: list[Call], root: Path) -> list[str]:
    """What changed what, with the names that are random left out."""
    lines = []
    for call in log:
        path = call.path.relative_to(root).as_posix() if call.path != root else "."
        parts = ["TMP" if part.startswith((".tmp-", ".CURRENT-")) else part for part in path.split("/")]
        if call.what not in {"write", "reserve", "close"}:
            lines.append(f"{call.what} {'/'.join(parts)}")
    return lines


def test_everything_is_synced_before_what_names_it_and_the_manifest_comes_last(tmp_path: Path) -> None:
    disk = RecordingDisk()
    store = spread(tmp_path / "run", disk=disk)
    store.save(small(0))
    disk.log.clear()
    saved = store.save(small(1))
    shard = saved.manifest.shards()[0].name
    assert told(disk.log, store.path) == [
        "make_directory ckpt/TMP",
        f"create ckpt/TMP/{shard}",
        f"create ckpt/TMP/{STATE}",
        f"create ckpt/TMP/{FILE}",
        f"sync ckpt/TMP/{shard}",  # together: the first takes most of the others with it
        f"sync ckpt/TMP/{STATE}",
        f"sync ckpt/TMP/{FILE}",
        "sync_directory ckpt/TMP",
        "rename ckpt/TMP",
        "sync_directory ckpt",
        "reopen CURRENT",  # which decides nothing and is not waited for
    ]


def test_a_small_state_is_committed_by_the_sync_of_a_file_and_of_its_name(tmp_path: Path) -> None:
    disk = RecordingDisk()
    store = CheckpointStore(tmp_path / "run", disk=disk)
    store.save(small(0))
    disk.log.clear()
    store.save(small(1))
    assert told(disk.log, store.path) == [
        "create ckpt/TMP",
        "sync ckpt/TMP",
        "rename ckpt/TMP",
        "sync_directory ckpt",
        "reopen CURRENT",
    ]


def test_a_new_store_is_durable_itself(tmp_path: Path) -> None:
    disk = RecordingDisk()
    root = tmp_path / "new" / "run"
    CheckpointStore(root, disk=disk).save(small())
    made = [call.path for call in disk.log if call.what == "make_directory"]
    synced = [call.path for call in disk.log if call.what == "sync_directory"]
    assert {root.parent, root, root / "ckpt"} <= set(made)
    assert {path.parent for path in made} <= set(synced)


def test_the_directories_of_an_earlier_process_are_made_durable_by_the_first_save(tmp_path: Path) -> None:
    """It may have crashed, or been refused, between making them and syncing their names: then the next save's sync names nothing that is durable."""
    root = tmp_path / "run"
    for name in ("ckpt", "marks", "quarantine", "trash"):
        (root / name).mkdir(parents=True)
    disk = RecordingDisk()
    store = CheckpointStore(root, disk=disk)
    store.save(small(0))
    synced = [call.path for call in disk.log if call.what == "sync_directory"]
    assert synced[:2] == [tmp_path, root]
    disk.log.clear()
    store.save(small(1))
    assert not {tmp_path, root} & {call.path for call in disk.log if call.what == "sync_directory"}


@pytest.mark.parametrize(("large", "packed"), [(False, 0), (False, PACKED_BYTES), (True, 0)], ids=["small", "packed", "large"])
def test_retired_checkpoints_leave_the_candidates_durably_before_they_are_deleted(tmp_path: Path, large: bool, packed: int) -> None:
    disk = RecordingDisk()
    store = CheckpointStore(tmp_path / "run", keep=Keep(last=1), packed_bytes=packed, disk=disk)
    state = Plain({"w": np.zeros(LARGE_BYTES if large else 1, np.uint8)})
    first = store.save(state)
    disk.log.clear()
    store.save(state)
    assert list(store.place.trash.iterdir()) == ([] if large else [store.place.trash / first.name])
    for _ in range(WAITING):
        store.save(state)
    assert len(list(store.place.trash.iterdir())) == (0 if large else 1)
    lines = told(disk.log, store.path)
    retired = lines.index(f"rename ckpt/{first.name}")
    assert "rename ckpt/TMP" in lines[:retired]  # the new one was committed before
    synced = retired + lines[retired:].index("sync_directory ckpt")
    deleted = [
        number for number, line in enumerate(lines) if line.startswith(("unlink trash", f"remove_directory trash/{first.name}"))
    ]
    assert deleted
    assert min(deleted) > synced


def test_what_another_process_left_in_the_trash_goes_with_the_first_save(tmp_path: Path) -> None:
    """After a power cut it may have the name of what is to go there."""
    store = CheckpointStore(tmp_path / "run", keep=Keep(last=1))
    first = store.save(small(0))
    store.save(small(1))
    assert [each.name for each in store.place.trash.iterdir()] == [first.name]
    CheckpointStore(tmp_path / "run", keep=Keep(last=3)).save(small(2))
    assert list(store.place.trash.iterdir()) == []


@pytest.mark.parametrize("packed", [0, PACKED_BYTES], ids=["directories", "packed"])
@pytest.mark.parametrize("error", [errno.ENOSPC, errno.EDQUOT, errno.EIO])
def test_whatever_is_refused_the_old_checkpoint_stays_and_nothing_is_left_over(tmp_path: Path, error: int, packed: int) -> None:
    """Fault 30, and 7 (an error while syncing or closing is an error of the save): every call is refused once."""
    disk = RecordingDisk()
    store = CheckpointStore(tmp_path / "run", keep=Keep(last=2), packed_bytes=packed, disk=disk)
    store.save(small(0))
    store.save(small(1))
    disk.log.clear()
    last = store.save(small(2))
    calls, step = len(disk.log), 3
    assert calls > (8 if packed else 16)
    for number in range(calls):
        disk.refuse = refusing_at(number, error)
        try:
            last = store.save(small(step))
        except SaveFailed as failed:
            if failed.fate.startswith("The new checkpoint exists"):
                last = store.latest("weights")
                assert last.manifest.step == step
        assert not [each for each in (store.path / "ckpt").iterdir() if each.name.startswith(".tmp-")]
        loaded, passed = store.load_latest("weights")
        assert loaded.manifest == last.manifest
        assert same(loaded.arrays, small(loaded.manifest.step).arrays)
        assert passed == ()
        step += 1
    disk.refuse = lambda _: None
    assert store.save(small(step)).manifest.parent == last.id


def test_a_refusal_before_the_commit_is_told_as_such(tmp_path: Path) -> None:
    disk = RecordingDisk()
    store = CheckpointStore(tmp_path / "run", disk=disk)
    disk.refuse = lambda call: errno.EDQUOT if call.what == "write" else None
    with pytest.raises(SaveFailed, match=r"Nothing was committed.*Make room"):
        store.save(small())
    assert store.scan() == []
    assert not store.place.current.exists()


def test_what_could_not_be_removed_is_not_said_to_be(tmp_path: Path) -> None:
    disk = RecordingDisk()
    store = CheckpointStore(tmp_path / "run", disk=disk)
    first = store.save(small(0))
    begun = False

    def refuse(call: Call) -> int | None:
        nonlocal begun
        begun = begun or call.what == "write"
        return errno.EROFS if begun else None

    disk.refuse = refuse
    with pytest.raises(
        SaveFailed, match=r"Nothing was committed; what was written could not be removed, and the next save sweeps it"
    ):
        store.save(small(1))
    disk.refuse = lambda _: None
    assert store.save(small(2)).manifest.parent == first.id
    assert not list(store.place.checkpoints.glob(".tmp-*"))


def test_missing_room_is_seen_before_anything_is_written(tmp_path: Path) -> None:
    class Full(RecordingDisk):
        def free_bytes(self, path: Path) -> int:
            return 1000

    disk = Full()
    store = CheckpointStore(tmp_path / "run", disk=disk)
    with pytest.raises(SpaceMissing, match="1000 are free"):
        store.save(small())
    assert not [call for call in disk.log if call.what == "create"]


def lost_power(base: Path, disk: RecordingDisk, packed: int, *, stop_at_first: bool = False) -> Swept:
    """Every legal state of the disk after each call of a save over another one: a sample, without a file system, of what `make power` looks at."""
    base.mkdir()
    store = CheckpointStore(base / stores.STORE, keep=Keep(last=1), packed_bytes=packed, disk=disk)
    store.save(small(1))
    first = list(changes(disk.log, base))
    store.save(small(2))
    record = list(changes(disk.log, base))
    begun = [Said({"saved": 1}), Said({"begin": True}), Said({"saving": 2})]
    ask = Questions(stores.read, stores.wrong_with, stores.recovered_wrongly)
    told = [*first, *begun, *record[len(first) :], Said({"saved": 2})]
    return swept(told, stores.Facts(), ask, stop_at_first=stop_at_first)


@pytest.mark.parametrize("packed", [0, PACKED_BYTES], ids=["directories", "packed"])
def test_every_power_cut_leaves_the_old_or_the_new_checkpoint(tmp_path: Path, packed: int) -> None:
    """Fault 5."""
    found = lost_power(tmp_path / "base", RecordingDisk(), packed)
    assert found.failures == []
    assert found.distinct > 50
    assert found.readings > 2


@pytest.mark.parametrize("packed", [0, PACKED_BYTES], ids=["directories", "packed"])
def test_a_rename_that_was_not_preceded_by_a_sync_is_seen(tmp_path: Path, packed: int) -> None:
    """The control: without the syncs of files the same states do lose the checkpoint."""

    class Careless(RecordingDisk):
        def sync(self, file: int) -> None: ...

    [failure] = lost_power(tmp_path / "base", Careless(), packed, stop_at_first=True).failures
    assert "damaged" in failure or "acknowledged" in failure


def test_the_local_disk_syncs_for_real(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What the recording disk leaves out: each sync reaches the system."""
    synced: list[int] = []
    monkeypatch.setattr("os.fsync", synced.append)
    disk = LocalDisk()
    file = disk.create(tmp_path / "file")
    disk.sync(file)
    disk.sync_directory(tmp_path)
    disk.close(file)
    assert len(synced) == 2
    assert synced[0] == file
