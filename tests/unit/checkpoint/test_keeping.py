"""Retention, pins, verification and reading back."""

from __future__ import annotations

import contextlib
import errno
import json
from pathlib import Path
from typing import Any

import pytest

from recovery.checkpoint.errors import CheckpointInvalid, NotACandidate, NothingToRestore, SaveFailed, StoreRefused
from recovery.checkpoint.files import LocalDisk
from recovery.checkpoint.kinds import Kind
from recovery.checkpoint.layout import SEQUENCE_MAX, sequence_after
from recovery.checkpoint.marks import Mark, Marks
from recovery.checkpoint.readback import ReadBack
from recovery.checkpoint.retention import Keep, plan
from recovery.checkpoint.scanning import Candidate, Rejected
from recovery.checkpoint.store import CheckpointStore
from tests.unit.checkpoint.disks import Call, RecordingDisk
from tests.unit.checkpoint.making import same, small, spread


@pytest.fixture
def store(tmp_path: Path) -> CheckpointStore:
    return spread(tmp_path / "run", keep=Keep(last=2), disk=RecordingDisk())


class Slot:
    value: Any = "the state before"

    def swap(self, new: Any) -> None:
        self.value = new


def names(store: CheckpointStore) -> list[str]:
    return [each.name for each in store.scan()]


def test_the_last_ones_stay_and_the_others_are_gone(store: CheckpointStore) -> None:
    saved = [store.save(small(step)) for step in range(4)]
    assert names(store) == [saved[3].name, saved[2].name]
    store.gc()
    assert list(store.place.trash.iterdir()) == []


def test_a_pinned_one_stays_until_it_is_unpinned(store: CheckpointStore) -> None:
    pinned = store.save(small(0))
    store.pin(pinned.name)
    store.pin(pinned.name)
    saved = [store.save(small(step)) for step in range(1, 4)]
    assert names(store) == [saved[2].name, saved[1].name, pinned.name]
    store.unpin(pinned.name)
    store.unpin(pinned.name)
    assert store.gc(dry_run=True).retired == (pinned.name,)
    assert pinned.name in names(store)
    assert store.gc().retired == (pinned.name,)
    assert pinned.name not in names(store)


def test_a_mark_that_is_there_already_is_made_durable_all_the_same(tmp_path: Path) -> None:
    """Whoever made it was refused before it was synced."""
    disk = RecordingDisk()
    store = spread(tmp_path / "run", disk=disk)
    saved = store.save(small(0))
    disk.refuse = lambda call: errno.ENOSPC if call == Call("sync_directory", store.place.marks) else None
    with pytest.raises(StoreRefused, match=r"marks \(No space left on device\).*repeating it is safe"):
        store.pin(saved.name)
    disk.refuse = lambda _: None
    disk.log.clear()
    store.pin(saved.name)
    assert Call("sync_directory", store.place.marks) in disk.log


@pytest.mark.parametrize("order", ["pin", "unpin", "verify", "gc"])
def test_what_the_system_refuses_of_an_order_is_an_error_of_ours(tmp_path: Path, order: str) -> None:
    disk = RecordingDisk()
    store = spread(tmp_path / "run", keep=Keep(last=1), disk=disk)
    name = store.save(small(0)).name
    if order == "unpin":
        store.pin(name)
    spread(store.path, keep=Keep(last=5)).save(small(1))
    disk.refuse = lambda call: errno.EIO
    with pytest.raises(StoreRefused, match=r"run: the file system refused .*Input/output error.*run it again"):
        store.gc() if order == "gc" else getattr(store, order)(name)
    disk.refuse = lambda _: None
    store.gc() if order == "gc" else getattr(store, order)(name)


@pytest.mark.parametrize("error", [errno.EROFS, errno.EACCES, errno.EPERM])
def test_a_store_that_may_only_be_read_restores_as_it_loads(tmp_path: Path, error: int) -> None:
    disk = RecordingDisk()
    store = spread(tmp_path / "run", disk=disk)
    saved, slot = store.save(small(3)), Slot()
    disk.refuse = lambda call: error
    store.restore(saved, build=lambda checkpoint: checkpoint.state, into=slot)
    assert slot.value == small(3).values
    assert list(store.place.marks.iterdir()) == []


def test_a_restore_that_cannot_be_marked_for_another_reason_replaces_nothing(tmp_path: Path) -> None:
    disk = RecordingDisk()
    store = spread(tmp_path / "run", disk=disk)
    saved, slot = store.save(small(3)), Slot()
    disk.refuse = lambda call: errno.ENOSPC
    with pytest.raises(StoreRefused):
        store.restore(saved, build=lambda checkpoint: checkpoint.state, into=slot)
    assert slot.value == Slot().value


def test_a_disk_that_does_not_answer_a_load_is_an_error_of_ours(store: CheckpointStore) -> None:
    saved = store.save(small(1))

    class Silent(LocalDisk):
        def read_into(self, file: int, buffer: object) -> int:
            raise OSError(errno.EIO, "Input/output error")

    with pytest.raises(StoreRefused, match=r"Nothing was loaded or replaced"):
        spread(store.path, disk=Silent()).load(saved)


def test_a_hint_that_cannot_be_written_fails_no_save(store: CheckpointStore) -> None:
    """`CURRENT` decides nothing; that somebody made a directory of it must not stop every save behind its commit."""
    first = store.save(small(0))
    store.place.current.unlink()
    store.place.current.mkdir()
    second = store.save(small(1))
    assert store.latest("weights").name == second.name
    assert second.manifest.parent == first.id
    assert not list(store.path.glob(".CURRENT-*"))
    store.place.current.rmdir()
    third = store.save(small(2))
    assert json.loads(store.place.current.read_bytes()) == {"id": third.id, "name": third.name}


def test_a_reader_whose_candidates_are_retired_meanwhile_finds_the_newer_one(tmp_path: Path) -> None:
    """It has no lease: between its look and its reading a trainer saves, and retires what it was about to read."""
    writer = spread(tmp_path / "run", keep=Keep(last=1), disk=RecordingDisk())
    pinned = writer.save(small(0))
    writer.pin(pinned.name)
    writer.save(small(1))
    ahead = iter(range(2, 6))

    class Slow(LocalDisk):
        def open(self, path: Path) -> tuple[int, int]:
            if path.name.startswith("shard") and (number := next(ahead, None)) is not None:
                writer.save(small(number))
            return super().open(path)

    found, passed = spread(tmp_path / "run", disk=Slow()).load_latest("weights")
    assert (found.manifest.step, passed) == (5, ()), "and not the pinned one, which is older"


@pytest.mark.parametrize("junk", ["999999999999999-000000000000", ".tmp-999999999999999-ab"])
def test_a_directory_named_as_the_last_of_all_does_not_end_the_store(store: CheckpointStore, junk: str) -> None:
    store.save(small(0))
    (store.place.checkpoints / junk).mkdir()
    saved = store.save(small(1))
    assert (saved.manifest.sequence, store.latest("weights").name) == (2, saved.name)


def test_a_sequence_that_no_name_can_hold_is_refused_and_not_saved_out_of_sight() -> None:
    assert sequence_after([-1, SEQUENCE_MAX - 1], store="s") == SEQUENCE_MAX
    with pytest.raises(SaveFailed, match="Nothing was committed"):
        sequence_after([SEQUENCE_MAX], store="s")


def test_the_last_verified_stays(store: CheckpointStore) -> None:
    verified = [store.save(small(0)), store.save(small(1))]
    for each in verified:
        store.verify(each.name)
    saved = [store.save(small(step)) for step in range(2, 5)]
    assert names(store) == [saved[2].name, saved[1].name, verified[1].name]


def test_marks_outlive_the_process(store: CheckpointStore) -> None:
    pinned = store.save(small(0))
    store.pin(pinned.name)
    fresh = spread(store.path, keep=Keep(last=1))
    fresh.save(small(1))
    fresh.save(small(2))
    assert pinned.name in names(fresh)


def test_each_kind_keeps_its_own_last(store: CheckpointStore) -> None:
    kv = store.save(small(0).but(kind=Kind.INFERENCE_KV))
    for step in range(3):
        store.save(small(step))
    assert kv.name in names(store)


def test_what_is_no_checkpoint_is_neither_pinned_nor_verified(store: CheckpointStore) -> None:
    with pytest.raises(NothingToRestore):
        store.pin("000000000001-0123456789ab")
    store.save(small(0))
    for order in (store.pin, store.verify):
        with pytest.raises(NotACandidate):
            order("000000000001-0123456789ab")


def test_gc_on_nothing_does_nothing(tmp_path: Path) -> None:
    store = spread(tmp_path / "run")
    assert store.gc(dry_run=True).retired == ()
    assert not store.path.exists()


def test_gc_sweeps_what_a_crashed_save_left(store: CheckpointStore) -> None:
    saved = store.save(small(0))
    left = store.path / "ckpt" / ".tmp-000000000002-00ff"
    (left / "deep").mkdir(parents=True)
    (left / "deep" / "file").write_bytes(b"x")
    (left / "link").symlink_to(saved.path)
    assert store.gc(dry_run=True).unfinished == (left.name,)
    assert left.exists()
    store.gc()
    assert not left.exists()
    assert same(store.load(saved).arrays, small(0).arrays)


def candidate(sequence: int, kind: Kind = Kind.WEIGHTS) -> Candidate:
    class Known:
        id = "0" * 64

    known: Any = Known()
    known.kind = kind
    return Candidate(Path(f"{sequence:012d}-0123456789ab"), known)


def test_the_plan_says_why_each_one_stays() -> None:
    found = [candidate(n) for n in range(9, 0, -1)]
    marks = Marks(
        {
            Mark.PINNED: frozenset({found[6].name}),
            Mark.RESTORED: frozenset({found[7].name}),
            Mark.VERIFIED: frozenset({found[4].name, found[5].name}),
        }
    )
    planned = plan(found, marks, Keep(last=2))
    assert planned.kept == {
        found[0].name: "one of the last",
        found[1].name: "one of the last",
        found[4].name: "last verified",
        found[6].name: "pinned",
        found[7].name: "restored from",
    }
    assert planned.retired == tuple(found[n].name for n in (2, 3, 5, 8))


def test_a_rejected_one_is_not_counted_and_not_retired() -> None:
    broken = Rejected("000000000010-0123456789ab", "digest", "", damaged=True)
    unread = Rejected("000000000011-0123456789ab", "unreadable", "", damaged=False)
    planned = plan([unread, broken, candidate(2), candidate(1)], Marks(), Keep(last=1))
    assert list(planned.kept) == [candidate(2).name]
    assert planned.retired == (candidate(1).name,)
    assert planned.damaged == (broken,)


class Lying(RecordingDisk):
    """A disk that says it wrote a shard and has another byte in it."""

    at = 0

    def sync(self, file: int) -> None:
        path = self._files[file]
        if path.suffix == ".safetensors":
            data = bytearray(path.read_bytes())
            data[self.at] ^= 1
            path.write_bytes(data)


@pytest.mark.parametrize(("policy", "at"), [("full", -1), ("full", 0), ("sample", 0), ("sample", 20), ("sample", -1)])
def test_what_was_not_written_as_it_was_is_seen_by_reading_back(tmp_path: Path, policy: str, at: int) -> None:
    disk = RecordingDisk()
    store = spread(tmp_path / "run", read_back=policy, disk=disk)
    kept = store.save(small(0))
    lying = Lying()
    lying.at = at
    with pytest.raises(SaveFailed, match="put into quarantine"):
        spread(store.path, read_back=policy, disk=lying).save(small(1))
    assert store.latest("weights").name == kept.name
    assert len(list(store.place.quarantine.iterdir())) == 1
    assert kept.name in store.place.current.read_text()


def test_without_reading_back_the_load_sees_it(tmp_path: Path) -> None:
    lying = Lying()
    lying.at = 200
    store = spread(tmp_path / "run", read_back=ReadBack.NONE, disk=lying)
    saved = store.save(small(1))
    with pytest.raises(CheckpointInvalid):
        spread(store.path).load(saved)


def test_a_full_read_back_counts_as_verified(tmp_path: Path) -> None:
    store = spread(tmp_path / "run", keep=Keep(last=1), read_back=ReadBack.FULL, disk=RecordingDisk())
    verified = store.save(small(0))
    other = spread(tmp_path / "run", keep=Keep(last=1), disk=RecordingDisk())
    other.save(small(1))
    newest = other.save(small(2))
    assert names(other) == [newest.name, verified.name]


def test_a_load_falls_back_and_says_what_it_passed_over(store: CheckpointStore) -> None:
    kept, broken = store.save(small(0)), store.save(small(1))
    shard = broken.path / broken.manifest.shards()[0].name
    data = bytearray(shard.read_bytes())
    data[-1] ^= 1
    shard.write_bytes(data)
    loaded, passed = store.load_latest("weights")
    assert loaded.manifest == kept.manifest
    assert [(each.name, each.reason, each.damaged) for each in passed] == [(broken.name, "digest", True)]


def test_a_journal_is_told_after_the_commit_and_before_anything_is_retired(tmp_path: Path) -> None:
    disk = RecordingDisk()
    store = spread(tmp_path / "run", keep=Keep(last=1), disk=disk)
    store.save(small(0))
    seen: list[tuple[str, int]] = []
    saved = store.save(small(1), record=lambda manifest: seen.append((store.latest("weights").id, len(names(store)))))
    assert seen == [(saved.id, 2)]


def test_a_journal_that_refuses_leaves_the_checkpoint_and_retires_nothing(tmp_path: Path) -> None:
    store = spread(tmp_path / "run", keep=Keep(last=1), disk=RecordingDisk())
    store.save(small(0))

    def refuse(manifest: Any) -> None:
        raise LookupError("no journal")

    with pytest.raises(LookupError):
        store.save(small(1), record=refuse)
    assert [each.manifest.step for each in store.scan() if isinstance(each, Candidate)] == [1, 0]


def test_a_shard_that_the_safetensors_library_reads_otherwise_is_seen_by_reading_back(
    store: CheckpointStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Other(contextlib.nullcontext[Any]):
        def __init__(self, *_: object, **__: object) -> None:
            super().__init__(self)

        def keys(self) -> list[str]:
            return ["another"]

    monkeypatch.setattr("safetensors.safe_open", Other)
    with pytest.raises(SaveFailed, match="put into quarantine"):
        store.save(small(1))


def test_what_retention_takes_away_while_somebody_looks_is_not_called_damaged(store: CheckpointStore) -> None:
    older, newer = store.save(small(0)), store.save(small(1))

    class Slow(LocalDisk):
        """The older one goes when the newer one is looked at: after both were listed."""

        def open(self, path: Path) -> tuple[int, int]:
            if older.path.is_dir():
                store.place.disk.rename(older.path, store.place.trash / older.name)
            return super().open(path)

    assert [each.name for each in spread(store.path, disk=Slow()).scan()] == [newer.name]
