"""Sharded saves, with writers in this process: what is committed, who is named, who is refused. Processes that are killed: `tests/crash/test_sharded.py`."""

# ruff: noqa: PT012  # what is raised is raised by leaving the block

from __future__ import annotations

import errno
import json
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from recovery.checkpoint.errors import (
    CheckpointInvalid,
    NothingToRestore,
    RankFailed,
    SaveFailed,
    StoreBusy,
    WriterRefused,
    WritersMissing,
    WrongKind,
)
from recovery.checkpoint.fingerprint import digest_of_group
from recovery.checkpoint.kinds import Kind
from recovery.checkpoint.layout import TEMPORARY
from recovery.checkpoint.manifest import FILE, STATE
from recovery.checkpoint.readback import ReadBack
from recovery.checkpoint.scanning import Candidate
from recovery.checkpoint.sharded import Sharded, Terms, sharded
from recovery.checkpoint.store import CheckpointStore
from tests.unit.checkpoint.disks import Call, RecordingDisk
from tests.unit.checkpoint.learners import LIFECYCLE
from tests.unit.checkpoint.learners import learning as learner
from tests.unit.checkpoint.making import same, small

DEADLINE = timedelta(seconds=60)  # by the system's clock; nobody here is late by it


@pytest.fixture
def store(tmp_path: Path) -> CheckpointStore:
    return CheckpointStore(tmp_path / "run", disk=RecordingDisk())


def left_over(store: CheckpointStore) -> list[str]:
    return [path.name for path in (store.path / "ckpt").iterdir() if path.name.startswith(TEMPORARY)]


def rows(writers: int, of: int) -> list[tuple[int, int]]:
    """(first row, number of rows) of each writer, in order: 6 rows over 4 writers are 2, 2, 2 and none."""
    each = -(-of // writers)
    return [(min(of, each * n), max(0, min(each, of - each * n))) for n in range(writers)]


WHOLE = {"w/0": np.arange(6 * 5.0).reshape(6, 5), "w/1": np.arange(7, dtype=np.float32), "steps": np.array(7)}


def hand_in(writer: Any, index: int, writers: int, whole: dict[str, np.ndarray[Any, Any]] = WHOLE) -> None:
    """Rows of everything that has rows; what has none is the first writer's."""
    for name, array in whole.items():
        if array.ndim == 0:
            if index == 0:
                writer.put(name, array)
            continue
        first, count = rows(writers, len(array))[index]
        at = (first, *(0,) * (array.ndim - 1))
        writer.put(name, array[first : first + count], at=at, of=array.shape)


def save_sharded(store: CheckpointStore, writers: int, **options: Any) -> Candidate:
    with store.sharded(kind="weights", writers=writers, deadline=DEADLINE, **options) as save:
        for index in range(writers):
            with store.writer(str(save.attempt), index) as writer:
                hand_in(writer, index, writers)
    assert save.candidate is not None
    return save.candidate


@dataclass
class Time:
    """Passes when somebody pauses. `then`: what happens at a pause, by its number."""

    us: int = 0
    then: dict[int, Callable[[], Any]] = field(default_factory=dict)
    pauses: int = 0

    def pause(self, seconds: float) -> None:
        self.us += round(seconds * 1e6)
        self.pauses += 1
        self.then.get(self.pauses, lambda: None)()


def timed(store: CheckpointStore, time: Time, writers: int = 3, seconds: float = 10) -> Any:
    clock = {"now_us": lambda: time.us, "pause": time.pause}
    return sharded(store.shop, Terms(Kind.WEIGHTS, writers, timedelta(seconds=seconds), clock=clock))


# -- what is committed -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("writers", [1, 2, 3, 4, 8])
def test_what_several_writers_save_is_what_one_would_have_saved(store: CheckpointStore, writers: int) -> None:
    saved = save_sharded(store, writers, state={"counter": 5, "rng": 2**100})
    loaded = store.load(saved, kind="weights")
    assert same(loaded.arrays, WHOLE)
    assert (loaded.state, saved.manifest.step, saved.manifest.writers) == ({"counter": 5, "rng": 2**100}, 5, writers)
    assert store.latest("weights") == saved
    assert left_over(store) == []


def test_fault_21_six_rows_over_four_writers_come_back_with_the_empty_shard(store: CheckpointStore) -> None:
    saved = save_sharded(store, 4)
    tensor = saved.manifest.tensors["w/0"]
    assert [part.shape for part in tensor.slices] == [(2, 5), (2, 5), (2, 5), (0, 5)]
    assert len(saved.manifest.shards()) == 4
    assert same(store.load(saved).arrays, WHOLE)


def test_a_writer_that_has_nothing_to_write_is_waited_for_all_the_same(store: CheckpointStore) -> None:
    with store.sharded(kind="weights", writers=2, deadline=DEADLINE) as save:
        with save.writer(0) as writer:
            writer.put("w", np.ones(3))
        with save.writer(1):
            pass
    assert save.candidate is not None
    assert (len(save.candidate.manifest.shards()), save.candidate.manifest.writers) == (1, 2)
    assert store.load(save.candidate).arrays["w"].sum() == 3


def test_the_record_and_the_journals_position_go_with_it(store: CheckpointStore) -> None:
    heard: list[str] = []
    saved = save_sharded(store, 2, record=lambda manifest: heard.append(manifest.name), step=9, fingerprint="0a")
    assert heard == [saved.name]
    assert (saved.manifest.step, saved.manifest.fingerprint) == (9, "0a")


@pytest.mark.parametrize("policy", ReadBack)
def test_every_policy_of_reading_back_serves(tmp_path: Path, policy: ReadBack) -> None:
    store = CheckpointStore(tmp_path / "run", disk=RecordingDisk(), read_back=policy)
    assert same(store.load(save_sharded(store, 2)).arrays, WHOLE)


def test_shards_are_synced_before_the_manifest_and_everything_before_the_commit(store: CheckpointStore) -> None:
    saved = save_sharded(store, 3)
    log = store.place.disk.log  # type: ignore[attr-defined]
    manifest = next(n for n, call in enumerate(log) if call.what == "create" and call.path.name == FILE)
    commit = next(n for n, call in enumerate(log) if call.what == "rename" and call.target == saved.path)
    assert {entry.name for entry in saved.manifest.shards()} <= {call.path.name for call in log[:manifest] if call.what == "sync"}
    assert {FILE, STATE} <= {call.path.name for call in log[:commit] if call.what == "sync"}
    assert any(call.what == "remove_directory" and call.path.name == "writers" for call in log[:manifest])


# -- what does not fit together ----------------------------------------------------------------------------------------


def refused(store: CheckpointStore, *puts: list[tuple[Any, ...]]) -> CheckpointInvalid:
    with pytest.raises(CheckpointInvalid) as caught, store.sharded(kind="weights", writers=len(puts), deadline=DEADLINE) as save:
        for index, parts in enumerate(puts):
            with save.writer(index) as writer:
                for name, part, at, of in parts:
                    writer.put(name, part, at=at, of=of)
    assert left_over(store) == []
    assert store.scan() == []
    return caught.value


ONES = np.ones((2, 3))


@pytest.mark.parametrize(
    ("at", "reason"),
    [((3, 0), "tiling"), ((1, 0), "tiling"), ((0, 0), "tiling"), ((2, 1), "tiling")],
    ids=["reaching out, with a gap", "overlapping", "twice the same", "beside the tensor"],
)
def test_fault_21_slices_must_tile_the_tensor_exactly(store: CheckpointStore, at: tuple[int, int], reason: str) -> None:
    assert refused(store, [("w", ONES, (0, 0), (4, 3))], [("w", ONES, at, (4, 3))]).reason == reason


def test_fault_21_a_gap_is_refused(store: CheckpointStore) -> None:
    assert refused(store, [("w", ONES, (0, 0), (5, 3))], [("w", ONES, (2, 0), (5, 3))]).reason == "tiling"


@pytest.mark.parametrize(
    ("part", "of"), [(ONES, (5, 3)), (ONES.astype(np.float32), (4, 3)), (np.ones(3), (12,))], ids=["shape", "dtype", "rank"]
)
def test_fault_21_writers_must_mean_the_same_tensor(store: CheckpointStore, part: Any, of: tuple[int, ...]) -> None:
    error = refused(store, [("w", ONES, (0, 0), (4, 3))], [("w", part, (2, 0)[: part.ndim], of)])
    assert (error.reason, error.where) == ("schema", "writer 1, w")
    assert "writer 0 has F64 of [4, 3]" in error.problem


@pytest.mark.parametrize(
    ("part", "reason"), [(np.array([np.inf]), "finite"), (np.array(["a"]), "dtype"), ([1.0], "dtype")], ids=str
)
def test_what_cannot_be_saved_is_refused_by_its_writer_and_the_save_is_given_up_at_once(
    store: CheckpointStore, part: Any, reason: str
) -> None:
    assert refused(store, [("w", ONES, None, None)], [("x", part, None, None)]).reason == reason


def test_a_negative_second_moment_is_seen_by_the_writer_that_holds_it(store: CheckpointStore) -> None:
    with pytest.raises(CheckpointInvalid, match="a second moment is negative"):
        save_learning(store, spoil=lambda name, part: part - 1e9 if name.startswith("v/") else part)
    assert left_over(store) == []


def save_learning(store: CheckpointStore, writers: int = 2, spoil: Any = lambda _, part: part) -> tuple[Any, Candidate]:
    state = learner()
    with store.sharded(kind="learning", writers=writers, deadline=DEADLINE, state=state.state()) as save:
        for index in range(writers):
            with save.writer(index) as writer:
                hand_in(writer, index, writers, {name: spoil(name, np.array(array)) for name, array in state.arrays.items()})
    assert save.candidate is not None
    return state, save.candidate


def test_a_learning_state_in_shards_is_complete(store: CheckpointStore) -> None:
    state, saved = save_learning(store, writers=3)
    loaded = store.load(saved, kind="learning")
    assert type(state).from_parts(loaded.arrays, loaded.state).digest == state.digest
    assert store.parts(saved).state == loaded.state


def with_reference() -> Any:
    """A learning state whose lifecycle record names a group of its arrays."""
    state = learner()
    record = replace(LIFECYCLE, snapshots={"reference": digest_of_group(state.arrays, "reference")})
    return learner(lifecycle=record)


def test_a_reference_is_not_saved_in_parts_which_nobody_could_compare(store: CheckpointStore) -> None:
    state = with_reference()
    with (
        pytest.raises(CheckpointInvalid, match="a reference cannot be compared in parts"),
        store.sharded(kind="learning", writers=1, deadline=DEADLINE, state=state.state()) as save,
        save.writer(0) as writer,
    ):
        hand_in(writer, 0, 1, dict(state.arrays))
    assert left_over(store) == []


def test_parts_of_a_state_with_a_reference_are_read(store: CheckpointStore) -> None:
    state = with_reference()
    parts = store.parts(store.save(state), kind="learning")
    assert parts.state["lifecycle"]["snapshots"] == dict(state.lifecycle.snapshots)
    assert np.array_equal(parts.load_slice("reference/layer", (1, 0), (1, 2)), [[3, 4]])


def test_a_learning_state_that_lacks_something_is_refused(store: CheckpointStore) -> None:
    with (
        pytest.raises(CheckpointInvalid),
        store.sharded(kind="learning", writers=1, deadline=DEADLINE, state={"counter": 1}) as save,
        save.writer(0) as writer,
    ):
        writer.put("w/0", np.ones(3))
    with pytest.raises(NothingToRestore):
        store.latest("learning")


# -- who is missing, and who is refused --------------------------------------------------------------------------------


def begin(save: Sharded, index: int) -> Any:
    """A writer that has begun and does not end."""
    writer = save.writer(index)
    writer.__enter__()
    writer.put("w", np.ones((2, 3)), at=(2 * index, 0), of=(6, 3))
    return writer


def end(writer: Any) -> None:
    writer.__exit__(None, None, None)


def test_fault_34_missing_writers_are_named_at_the_deadline_and_the_attempt_is_abandoned(store: CheckpointStore) -> None:
    kept, time = store.save(small(1)), Time()
    with pytest.raises(WritersMissing) as caught, timed(store, time) as save:
        end(begin(save, 0))
        late = begin(save, 1)
    assert caught.value.missing == "writer 1 (it had begun), writer 2"
    assert 10e6 < time.us < 11e6
    assert left_over(store) == []
    assert store.latest("weights") == kept
    with pytest.raises(WriterRefused, match="that save has ended, or was given up"):
        end(late)
    with pytest.raises(WriterRefused), save.writer(2):
        pass
    assert left_over(store) == []
    assert save_sharded(store, 2).manifest.parent == kept.id


def test_whoever_comes_before_the_deadline_is_waited_for(store: CheckpointStore) -> None:
    time = Time()
    with timed(store, time) as save:
        for index in range(2):
            end(begin(save, index))
        time.then[30] = lambda: end(begin(save, 2))
    assert save.candidate is not None
    assert 0 < time.us < 10e6


def test_the_wait_is_no_busy_loop(store: CheckpointStore) -> None:
    time = Time()
    with pytest.raises(WritersMissing), timed(store, time, seconds=60):
        pass
    assert time.pauses < 60 / 0.05 + 10


def test_fault_34_a_late_shard_is_never_part_of_a_later_checkpoint(store: CheckpointStore) -> None:
    """The writer has its shard open when the attempt is abandoned; the next save has the same sequence."""
    time = Time()
    with pytest.raises(WritersMissing), timed(store, time) as save:
        late = begin(save, 0)
    with store.sharded(kind="weights", writers=3, deadline=DEADLINE) as again:
        assert again.attempt.name.split("-")[1] == save.attempt.name.split("-")[1]
        with pytest.raises(WriterRefused):
            end(late)
        for index in range(3):
            end(begin(again, index))
    assert again.candidate is not None
    assert store.load(again.candidate).arrays["w"].shape == (6, 3)


def test_fault_34_a_writer_that_fails_says_so_and_nobody_waits_for_the_deadline(store: CheckpointStore) -> None:
    time = Time()

    def train(save: Sharded) -> None:
        with save.writer(1):
            raise ZeroDivisionError("no step")

    with pytest.raises(RankFailed) as caught, timed(store, time) as save, pytest.raises(ZeroDivisionError):
        train(save)
    assert (caught.value.who, caught.value.rank, caught.value.problem) == ("writer", 1, "ZeroDivisionError: no step")
    assert time.us == 0
    assert left_over(store) == []


def test_a_disk_that_is_full_for_one_writer_fails_the_save_of_all(store: CheckpointStore) -> None:
    disk = store.place.disk
    with (
        pytest.raises(SaveFailed, match="nothing in") as caught,
        store.sharded(kind="weights", writers=2, deadline=DEADLINE) as save,
    ):
        writers = [begin(save, 0), begin(save, 1)]
        end(writers[0])

        def full(call: Call) -> int | None:
            return errno.ENOSPC if call.what == "reserve" else None

        disk.refuse = full  # type: ignore[attr-defined]
        with pytest.raises(SaveFailed, match="shard-001-of-002"):
            end(writers[1])
        disk.refuse = lambda _: None  # type: ignore[attr-defined]
    assert caught.value.__notes__ == ["Writer 1 said so."]
    assert left_over(store) == []


def test_fault_35_two_processes_that_are_one_writer_never_share_a_file(store: CheckpointStore) -> None:
    with store.sharded(kind="weights", writers=2, deadline=DEADLINE) as save:
        first = begin(save, 0)
        with (
            pytest.raises(WriterRefused, match="another process has begun as this writer"),
            store.writer(save.attempt, 0) as second,
        ):
            second.put("w", np.zeros(1000))
        end(first)
        with pytest.raises(WriterRefused), store.writer(save.attempt, 0):
            pass
        with save.writer(1) as other:
            other.put("w", np.ones((4, 3)), at=(2, 0), of=(6, 3))
    assert save.candidate is not None
    assert store.load(save.candidate).arrays["w"].sum() == 18


def test_fault_35_two_coordinators_do_not_save_at_once(store: CheckpointStore) -> None:
    other = CheckpointStore(store.path, disk=RecordingDisk(), wait=timedelta(0))
    with store.sharded(kind="weights", writers=1, deadline=DEADLINE) as save:
        with pytest.raises(StoreBusy), other.sharded(kind="weights", writers=1, deadline=DEADLINE):
            pass
        end(begin_whole(save))
    assert save.candidate is not None


def begin_whole(save: Sharded) -> Any:
    writer = save.writer(0)
    writer.__enter__()
    writer.put("w", np.ones(3))
    return writer


@pytest.mark.parametrize("index", [-1, 2])
def test_a_writer_must_be_one_of_those_that_are_waited_for(store: CheckpointStore, index: int) -> None:
    with (
        pytest.raises(WriterRefused, match="there are 2 writers"),
        store.sharded(kind="weights", writers=2, deadline=DEADLINE) as save,
        save.writer(index),
    ):
        pass
    assert left_over(store) == []


@pytest.mark.parametrize("attempt", ["", "000000000001-0123456789ab", "../quarantine", ".tmp-000000000009-00"])
def test_only_a_save_under_way_has_writers(store: CheckpointStore, attempt: str) -> None:
    store.save(small(1))
    with pytest.raises(WriterRefused), store.writer(attempt, 0):
        pass


def test_an_error_in_the_coordinators_block_abandons_the_save_and_passes(store: CheckpointStore) -> None:
    for error in (ZeroDivisionError("mine"), FileNotFoundError(errno.ENOENT, "mine", "program")):
        with pytest.raises(type(error)) as caught, store.sharded(kind="weights", writers=1, deadline=DEADLINE):
            raise error
        assert caught.value is error
        assert left_over(store) == []


def forge_receipt(save: Sharded, change: Callable[[dict[str, Any]], Any]) -> None:
    path = save.attempt / "writers" / "receipt-00000.json"
    document = json.loads(path.read_bytes())
    change(document)
    path.write_bytes(json.dumps(document, separators=(",", ":"), sort_keys=True).encode())


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda document: document.update(attempt=".tmp-000000000001-00"), "identity"),
        (lambda document: document.update(writer=1), "identity"),
        (lambda document: document["shard"].update(size=1), "size"),
        (lambda document: document["shard"].update(name="../x"), "path"),
        (lambda document: document.update(shard=None), "slices"),
        (lambda document: document["parts"].clear(), "schema"),
        (lambda document: document.update(parts=None), "fields"),
        (lambda document: document["parts"][0].update(dtype="F32"), "schema"),
        (lambda document: document["parts"][0].update(dtype=1), "dtype"),
        (lambda document: document["parts"][0].update(tensor="x y"), "name"),
        (lambda document: document.update(more=1), "fields"),
    ],
)
def test_a_receipt_is_not_believed(store: CheckpointStore, change: Callable[[dict[str, Any]], Any], reason: str) -> None:
    with pytest.raises(CheckpointInvalid) as caught, store.sharded(kind="weights", writers=1, deadline=DEADLINE) as save:
        end(begin_whole(save))
        forge_receipt(save, change)
    assert caught.value.reason == reason
    assert left_over(store) == []


def test_a_digest_that_is_not_the_shards_is_seen_when_it_is_read_back(tmp_path: Path) -> None:
    store = CheckpointStore(tmp_path / "run", disk=RecordingDisk(), read_back="full")
    kept = store.save(small(1))
    with (
        pytest.raises(SaveFailed, match="put into quarantine"),
        store.sharded(kind="weights", writers=1, deadline=DEADLINE) as save,
    ):
        end(begin_whole(save))
        forge_receipt(save, lambda document: document["shard"].update(blake3="0" * 64))
    assert store.latest("weights").name == kept.name


# -- loading with another number of processes --------------------------------------------------------------------------


@pytest.mark.parametrize("readers", [1, 2, 3, 5, 8])
@pytest.mark.parametrize("writers", [1, 3, 4])
def test_another_number_of_processes_reads_its_rows(store: CheckpointStore, writers: int, readers: int) -> None:
    parts = store.parts(save_sharded(store, writers), kind="weights")
    whole = WHOLE["w/0"]
    found = [parts.load_slice("w/0", (first, 0), (count, 5)) for first, count in rows(readers, len(whole))]
    assert np.array_equal(np.concatenate(found), whole)
    columns = [parts.load_slice("w/0", (0, at), (6, 1)) for at in range(5)]
    assert np.array_equal(np.concatenate(columns, axis=1), whole)
    assert parts.load_slice("steps", (), ()) == 7


def test_only_shards_that_hold_something_of_it_are_read_and_each_once(store: CheckpointStore) -> None:
    saved = save_sharded(store, 3)
    disk = store.place.disk
    opened: list[str] = []
    plain = disk.open
    disk.open = lambda path: opened.append(path.name) or plain(path)  # type: ignore[func-returns-value, method-assign]
    found = store.parts(saved).load_slices({"w/0": ((2, 1), (2, 3)), "w/1": ((3,), (2,))})
    assert opened == ["shard-001-of-003.safetensors"]
    assert np.array_equal(found["w/0"], WHOLE["w/0"][2:4, 1:4])
    assert np.array_equal(found["w/1"], WHOLE["w/1"][3:5])


def test_a_slice_is_verified_with_its_whole_shard(store: CheckpointStore) -> None:
    saved = save_sharded(store, 3)
    shard = saved.path / "shard-001-of-003.safetensors"
    content = bytearray(shard.read_bytes())
    content[-1] ^= 1  # of w/1; what is asked for is of w/0
    shard.write_bytes(content)
    parts = store.parts(saved)
    assert np.array_equal(parts.load_slice("w/0", (0, 0), (2, 5)), WHOLE["w/0"][:2])
    with pytest.raises(CheckpointInvalid) as caught:
        parts.load_slice("w/0", (2, 0), (1, 1))
    assert caught.value.reason == "digest"


@pytest.mark.parametrize(
    ("name", "at", "shape"), [("x", (), ()), ("w/0", (0,), (6,)), ("w/0", (5, 0), (2, 5)), ("w/0", (-1, 0), (1, 5))], ids=str
)
def test_what_is_not_there_is_not_read(store: CheckpointStore, name: str, at: Any, shape: Any) -> None:
    with pytest.raises(CheckpointInvalid) as caught:
        store.parts(save_sharded(store, 2)).load_slice(name, at, shape)
    assert caught.value.reason == "schema"


def test_parts_of_one_kind_are_not_taken_for_another(store: CheckpointStore) -> None:
    with pytest.raises(WrongKind):
        store.parts(save_sharded(store, 2), kind="learning")
