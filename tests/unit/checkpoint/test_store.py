"""A single writer saves and loads: what comes back is what went in, bit for bit, and what is refused changed nothing."""

from __future__ import annotations

import os
import stat
import warnings
from datetime import timedelta
from pathlib import Path

import numpy as np
import pytest
import safetensors.numpy

from recovery.checkpoint.commit import shard_name
from recovery.checkpoint.errors import CheckpointInvalid, LimitExceeded, NotACandidate, NothingToRestore, SaveFailed, WrongKind
from recovery.checkpoint.header import write_header
from recovery.checkpoint.kinds import Kind
from recovery.checkpoint.learning import Weights
from recovery.checkpoint.limits import Limits
from recovery.checkpoint.manifest import JournalPosition, Slice, TensorEntry
from recovery.checkpoint.reference import ReferenceTrainer
from recovery.checkpoint.store import CheckpointStore
from recovery.checkpoint.strict import canonical
from tests.unit.checkpoint.disks import RecordingDisk
from tests.unit.checkpoint.making import Plain, same, small, spread


@pytest.fixture
def store(tmp_path: Path) -> CheckpointStore:
    return CheckpointStore(tmp_path / "run", disk=RecordingDisk())


def test_what_is_loaded_is_what_was_saved(store: CheckpointStore) -> None:
    saved = store.save(small(3))
    loaded = store.load(store.latest("weights"))
    assert same(loaded.arrays, small(3).arrays)
    assert loaded.state == small(3).values
    assert loaded.manifest == saved.manifest
    assert loaded.manifest.step == 3


def test_what_is_saved_and_found_is_told_in_one_line(store: CheckpointStore) -> None:
    """A debugger, a log and a failing assertion show it; a manifest can list thousands of tensors."""
    weights = Weights({f"w/{n}": np.zeros(3) for n in range(500)})
    found = store.save(weights)
    assert repr(found) == f"<Candidate {found.name}: weights, step 0, 500 tensors, {found.manifest.total_bytes} bytes>"
    assert repr(weights) == "<Weights: 500 arrays, 12000 bytes>"
    for each in (found, found.manifest, store.load(found), ReferenceTrainer().capture()):
        assert len(repr(each)) < 600


def test_loaded_arrays_are_writable_and_nobody_elses(store: CheckpointStore) -> None:
    store.save(small())
    first, second = store.load(store.latest("weights")), store.load(store.latest("weights"))
    for name, array in first.arrays.items():
        assert array.flags.writeable
        assert not np.shares_memory(array, second.arrays[name])


def test_the_newest_is_the_last_that_was_committed(store: CheckpointStore) -> None:
    saved = [store.save(small(step)) for step in (30, 10, 20)]
    assert store.latest("weights").name == saved[-1].name
    assert [each.name for each in store.scan()] == [each.name for each in reversed(saved)]
    assert [each.manifest.parent for each in saved] == ["", saved[0].id, saved[1].id]


def test_a_large_state_is_written_in_two_files_and_read_back(tmp_path: Path) -> None:
    arrays = {f"w/{n}": np.random.default_rng(n).standard_normal((n, 1 << 17)) for n in range(6)}
    store = CheckpointStore(tmp_path, streams=2)
    saved = store.save(Plain(arrays))
    assert len(saved.manifest.shards()) == 2
    assert same(store.load(saved).arrays, arrays)


@pytest.mark.parametrize("dtype", ["u8", "i8", "f8", "c8", "f4", "u4", "i4", "f2", "u2", "i2", "i1", "u1", "?"])
def test_every_dtype_comes_back(store: CheckpointStore, dtype: str) -> None:
    array = np.arange(6).astype(dtype).reshape(2, 3)
    saved = store.save(Plain({"a": array, "scalar": np.array(array[0, 0]), "transposed": array.T, "strided": array[:, ::2]}))
    assert same(
        store.load(saved).arrays, {"a": array, "scalar": np.array(array[0, 0]), "transposed": array.T, "strided": array[:, ::2]}
    )


def test_other_byte_orders_come_back_little_endian(store: CheckpointStore) -> None:
    saved = store.save(Plain({"a": np.arange(5, dtype=">f8")}))
    assert same(store.load(saved).arrays, {"a": np.arange(5, dtype="<f8")})


def test_shards_are_files_that_the_safetensors_library_reads(tmp_path: Path) -> None:
    saved = spread(tmp_path / "run").save(small(1))
    (shard,) = saved.manifest.shards()
    assert same(safetensors.numpy.load((saved.path / shard.name).read_bytes()), small(1).arrays)


def test_files_have_the_mode_that_the_umask_leaves(tmp_path: Path) -> None:
    before = os.umask(0o027)
    try:
        saved = spread(tmp_path / "run").save(small())
        packed = CheckpointStore(tmp_path / "run").save(small())
    finally:
        os.umask(before)
    assert {stat.S_IMODE(path.stat().st_mode) for path in [*saved.path.iterdir(), packed.path]} == {0o640}


def test_a_journal_position_is_kept(store: CheckpointStore) -> None:
    position = JournalPosition("incident-7", 41, "ab" * 32)
    store.save(small(), journal=position, fingerprint="0123456789ab")
    found = store.latest("weights").manifest
    assert (found.journal, found.fingerprint) == (position, "0123456789ab")


def test_another_kind_is_refused_with_what_it_may_be_used_for(store: CheckpointStore) -> None:
    saved = store.save(small())
    with pytest.raises(WrongKind, match="cannot continue one"):
        store.load(saved, kind=Kind.LEARNING)
    with pytest.raises(NothingToRestore, match="kind"):
        store.latest(Kind.LEARNING)


@pytest.mark.parametrize("kind", [Kind.JOURNAL, Kind.RECEIPT])
def test_what_no_checkpoint_holds_is_not_saved(store: CheckpointStore, kind: Kind) -> None:
    with pytest.raises(WrongKind):
        store.save(small().but(kind=kind))
    assert not store.path.exists()


@pytest.mark.parametrize("number", [np.nan, np.inf, -np.inf])
def test_numbers_that_are_none_are_not_saved(store: CheckpointStore, number: float) -> None:
    kept = store.save(small(1))
    with pytest.raises(CheckpointInvalid, match=r"w/0.*not a number") as caught:
        store.save(Plain({"w/0": np.array([1.0, number])}))
    assert caught.value.reason == "finite"
    assert [each.name for each in store.scan()] == [kept.name]


@pytest.mark.parametrize(
    "arrays",
    [
        {"": np.zeros(1)},
        {"a b": np.zeros(1)},
        {"a": [1.0]},
        {"a": np.zeros(1, "U3")},
        {"a": np.zeros(1, object)},
        {"a": np.ma.masked_array([1.0, 2.0], [True, False])},
    ],
)
def test_what_is_no_named_array_of_numbers_is_not_saved(store: CheckpointStore, arrays: dict) -> None:
    with pytest.raises(CheckpointInvalid):
        store.save(Plain(arrays))
    assert not store.path.exists()


def test_too_many_tensors_are_refused_before_one_is_written(tmp_path: Path) -> None:
    store = CheckpointStore(tmp_path / "run", limits=Limits(tensors=2))
    with pytest.raises(LimitExceeded):
        store.save(Plain({f"w/{n}": np.zeros(1) for n in range(3)}))
    assert not store.path.exists()


@pytest.mark.parametrize(
    "limits", [Limits(manifest_bytes=5000), Limits(rank=1), Limits(total_bytes=100)], ids=["manifest_bytes", "rank", "total_bytes"]
)
def test_what_its_manifest_could_not_say_is_refused_before_anything_is_written(
    tmp_path: Path, limits: Limits, request: pytest.FixtureRequest
) -> None:
    store = CheckpointStore(tmp_path / "run", limits=limits)
    with pytest.raises(LimitExceeded, match=request.node.callspec.id):
        store.save(Plain({f"w/{n}": np.zeros((1, 1)) for n in range(40)}))
    assert not store.path.exists()


def test_a_header_that_could_not_be_read_is_refused_before_its_tensors_are_written(tmp_path: Path) -> None:
    disk = RecordingDisk()
    store = CheckpointStore(tmp_path / "run", limits=Limits(header_bytes=1000), disk=disk)
    with pytest.raises(LimitExceeded, match="header_bytes"):
        store.save(Plain({f"w/{n}": np.zeros(1) for n in range(40)}))
    assert not [call for call in disk.log if call.what == "write"]
    assert store.scan() == []


def test_as_many_tensors_as_may_be_fit_into_a_manifest(tmp_path: Path) -> None:
    """With names of an ordinary length."""
    limits = Limits()
    name = "model.layers.100.mlp.experts.100.down_projection"
    entry = TensorEntry("BF16", (4096, 4096), (Slice(shard_name(0, 1), name, (0, 0), (4096, 4096)),))
    assert limits.tensors * len(canonical({name: entry.document()})) < limits.manifest_bytes
    assert limits.tensors * len(write_header({name: ("BF16", (4096, 4096))})[0]) < limits.header_bytes


@pytest.mark.parametrize("place", ["file", "file/run", "dangling"])
def test_a_place_where_no_store_can_be_is_told(tmp_path: Path, place: str) -> None:
    (tmp_path / "file").write_bytes(b"")
    (tmp_path / "dangling").symlink_to(tmp_path / "nowhere")
    with pytest.raises(SaveFailed, match="Nothing was committed"):
        CheckpointStore(tmp_path / place).save(small())


def test_a_lease_that_the_system_refuses_is_told(store: CheckpointStore) -> None:
    store.save(small())
    lock = store.path / ".lease.lock"
    lock.unlink(missing_ok=True)
    lock.mkdir()
    with pytest.raises(SaveFailed, match="Nothing was committed"):
        store.save(small())


def test_a_lease_that_is_a_link_is_not_followed(store: CheckpointStore, tmp_path: Path) -> None:
    store.save(small())
    (tmp_path / "victim").write_bytes(b"somebody's")
    lock = store.path / ".lease.lock"
    lock.unlink()
    lock.symlink_to(tmp_path / "victim")
    with pytest.raises(SaveFailed, match="Nothing was committed"):
        store.save(small())
    assert (tmp_path / "victim").read_bytes() == b"somebody's"


def test_a_lease_ends_with_its_save_though_a_child_was_forked_meanwhile(store: CheckpointStore) -> None:
    """A child has the parent's files open, and with them its lock, until it lets go of them."""
    reading, writing = os.pipe()
    children: list[int] = []

    def fork(_: object) -> None:
        if (child := os.fork()) == 0:
            os.close(writing)
            os.read(reading, 1)  # until the parent closes its end
            os._exit(0)
        children.append(child)

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # that there are other threads, which the child does not need
        store.save(small(), record=fork)
    again = CheckpointStore(store.path, wait=timedelta(0), disk=RecordingDisk()).save(small(2))
    os.close(writing)
    os.close(reading)
    assert [os.waitpid(child, 0)[1] for child in children] == [0]
    assert again.manifest.step == 2


def test_another_schema_is_refused(store: CheckpointStore) -> None:
    one, other = store.save(small(1)), store.save(Plain({"w/0": np.zeros(3)}))
    assert store.load(one, schema=one.manifest.schema).manifest == one.manifest
    with pytest.raises(CheckpointInvalid, match="names, dtypes or shapes"):
        store.load(one, schema=other.manifest.schema)


def test_an_empty_store_has_nothing_and_says_so(store: CheckpointStore) -> None:
    assert store.scan() == []
    with pytest.raises(NothingToRestore, match="it is empty"):
        store.latest("weights")
    assert not store.path.exists()


@pytest.mark.parametrize("name", ["../x", "000000000001-0123456789ab", ".tmp-000000000001-00", ""])
def test_what_is_no_checkpoint_is_not_inspected(store: CheckpointStore, name: str) -> None:
    store.save(small())
    with pytest.raises(NotACandidate):
        store.inspect(name)
