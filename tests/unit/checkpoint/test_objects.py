"""Checkpoints in object stores: in memory, on a file system, and on a real S3 protocol on loopback."""

from __future__ import annotations

import logging
import threading
import urllib.request
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import numpy as np
import obstore
import pytest
from obstore.store import LocalStore, MemoryStore, ObjectStore, S3Store

from recovery.checkpoint.bucket import BucketDisk
from recovery.checkpoint.errors import CheckpointInvalid, CommitLost, NothingToRestore, SaveFailed, WrongKind
from recovery.checkpoint.manifest import Manifest
from recovery.checkpoint.objects import ObjectCheckpoints
from recovery.checkpoint.retention import Keep
from recovery.checkpoint.scanning import Candidate, Rejected
from tests.unit.checkpoint.making import Plain, same, small


@pytest.fixture(scope="module")
def s3() -> Iterator[str]:
    """The address of an S3 server with one bucket."""
    from moto.server import ThreadedMotoServer  # takes seconds, which the other tests need not wait for

    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    with urllib.request.urlopen(urllib.request.Request(f"http://{host}:{port}/bucket", method="PUT")):
        pass
    yield f"http://{host}:{port}"
    server.stop()


@pytest.fixture(params=["memory", "local", "s3"])
def objects(request: pytest.FixtureRequest, tmp_path: Path) -> ObjectStore:
    if request.param == "memory":
        return MemoryStore()
    if request.param == "local":
        return LocalStore(str(tmp_path))
    return S3Store(
        "bucket",
        prefix=tmp_path.name,
        endpoint=request.getfixturevalue("s3"),
        access_key_id="key",
        secret_access_key="secret",
        region="us-east-1",
        client_options={"allow_http": True},
        virtual_hosted_style_request=False,
    )


def keys(objects: ObjectStore) -> list[str]:
    return sorted(each["path"] for chunk in obstore.list(objects) for each in chunk)


def test_what_was_saved_is_loaded_bit_for_bit(objects: ObjectStore) -> None:
    one = ObjectCheckpoints(objects, "runs/7").save(small(1))
    two = ObjectCheckpoints(objects, "runs/7").save(small(2))
    store = ObjectCheckpoints(objects, "runs/7")
    assert [each.name for each in store.scan()] == [two.name, one.name]
    latest = store.latest("weights")
    assert (latest.manifest.sequence, latest.manifest.parent) == (2, one.id)
    assert same(store.load(latest).arrays, small(2).arrays)
    assert same(store.load(one).arrays, small(1).arrays)
    assert store.load_latest("weights")[0].state["rng"] == 2**100 + 2


def test_an_upload_in_parts(objects: ObjectStore) -> None:
    """More than a part in each of two shards, and pieces that end in the middle of a chunk."""
    large = {"w": np.random.default_rng(0).standard_normal((1100, 1700)), "v": np.arange(1_500_001, dtype=np.float64)}
    store = ObjectCheckpoints(objects)
    candidate = store.save(Plain(large))
    assert candidate.manifest.writers == 2
    assert same(store.load(candidate).arrays, large)


def test_the_commit_record_is_put_last_and_alone_decides(objects: ObjectStore) -> None:
    store = ObjectCheckpoints(objects)
    one = store.save(small(1))
    two = store.save(small(2))
    objects.delete("commits/000000000002.json")
    assert [each.name for each in store.scan()] == [one.name], "everything of the second one but its record is there"
    assert f"ckpt/{two.name}/MANIFEST.json" in keys(objects)
    three = store.save(small(3))
    assert three.manifest.sequence == 2


class _Gate(BucketDisk):
    """Lets both writers see the same newest sequence before either commits."""

    barrier = threading.Barrier(2)

    def create_only(self, path: Path, data: bytes) -> None:
        self.barrier.wait(timeout=60)
        super().create_only(path, data)


def gated(objects: ObjectStore, disk: BucketDisk) -> ObjectCheckpoints:
    store = ObjectCheckpoints(objects)
    store._bucket = disk
    store.place = type(store.place)(store.place.root, disk, store.place.limits, store.place.streams)
    return store


def test_of_two_writers_of_one_sequence_one_wins(objects: ObjectStore) -> None:
    outcomes: list[Candidate | CommitLost] = []

    def save(number: int) -> None:
        try:
            outcomes.append(gated(objects, _Gate(objects)).save(small(number)))
        except CommitLost as error:
            outcomes.append(error)

    threads = [threading.Thread(target=save, args=(number,)) for number in (1, 2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    (winner,) = [each for each in outcomes if isinstance(each, Candidate)]
    (lost,) = [each for each in outcomes if isinstance(each, CommitLost)]
    assert "sequence 1 first" in str(lost)
    assert [each.name for each in ObjectCheckpoints(objects).scan()] == [winner.name]
    assert {key.split("/")[1] for key in keys(objects) if key.startswith("ckpt/")} == {winner.name}, "the loser's is removed"


class _Deaf(BucketDisk):
    """A request whose answer is lost. `arrived`: whether it reached the store."""

    arrived = True

    def create_only(self, path: Path, data: bytes) -> None:
        if self.arrived:
            super().create_only(path, data)
        raise OSError(5, "the connection broke", str(path))


@pytest.mark.parametrize("arrived", [True, False])
def test_a_commit_whose_answer_is_lost_removes_nothing(objects: ObjectStore, arrived: bool) -> None:
    """Removing what may be committed would leave a checkpoint without its files."""
    disk = _Deaf(objects)
    disk.arrived = arrived
    with pytest.raises(SaveFailed, match=r"Whether it was committed is not known"):
        gated(objects, disk).save(small(1))
    found = ObjectCheckpoints(objects).scan()
    assert len(found) == arrived
    assert all(isinstance(each, Candidate) for each in found)
    assert any(key.endswith("MANIFEST.json") for key in keys(objects))


class _Twice(BucketDisk):
    """A client that repeats a request by itself, as those of object stores do: the second one meets the first."""

    def create_only(self, path: Path, data: bytes) -> None:
        super().create_only(path, data)
        super().create_only(path, data)


def test_our_own_repeated_commit_is_recognised(objects: ObjectStore) -> None:
    saved = gated(objects, _Twice(objects)).save(small(1))
    assert ObjectCheckpoints(objects).latest("weights").id == saved.id


class _Broken(BucketDisk):
    """Refuses the n-th write."""

    left = 0

    def create(self, path: Path) -> int:
        self.left -= 1
        if self.left < 0:
            raise OSError(5, "the object store refused", str(path))
        return super().create(path)


@pytest.mark.parametrize("after", range(3))
def test_a_failed_upload_leaves_what_was_there(objects: ObjectStore, after: int) -> None:
    store = ObjectCheckpoints(objects)
    one = store.save(small(1))
    before = keys(objects)
    disk = _Broken(objects)
    disk.left = after
    with pytest.raises(SaveFailed, match="Nothing was committed"):
        gated(objects, disk).save(small(2))
    assert keys(objects) == before
    assert store.latest("weights").name == one.name


@pytest.mark.parametrize("part", ["shard-000-of-001.safetensors", "state.json", "MANIFEST.json"])
def test_damage_is_refused_and_an_earlier_one_chosen(objects: ObjectStore, part: str) -> None:
    store = ObjectCheckpoints(objects)
    one, two = store.save(small(1)), store.save(small(2))
    key = f"ckpt/{two.name}/{part}"
    data = bytearray(obstore.get(objects, key).bytes())
    data[len(data) // 2] ^= 1
    obstore.put(objects, key, bytes(data))
    with pytest.raises(CheckpointInvalid):
        store.load(two)
    found, passed = store.load_latest("weights")
    assert found.manifest.id == one.id
    assert len(passed) == 1


@pytest.mark.parametrize(
    "record",
    [
        b"",
        b"{}",
        b'{"format":1,"sequence":2,"directory":"../../etc","id":"00"}',
        b'{"format":1,"sequence":2,"directory":"000000000001-%s","id":"00"}',
        b"[" * 4000,
        b"x" * 5000,
    ],
)
def test_a_record_that_is_none(record: bytes) -> None:
    objects = MemoryStore()
    store = ObjectCheckpoints(objects)
    one = store.save(small(1))
    obstore.put(objects, "commits/000000000002.json", record.replace(b"%s", one.name.split("-")[1].encode()))
    rejected, kept = store.scan()
    assert isinstance(rejected, Rejected)
    assert kept.name == one.name
    assert store.latest("weights").rejected == (rejected,)


def test_retention_and_pins(objects: ObjectStore) -> None:
    store = ObjectCheckpoints(objects, "p", keep=Keep(last=2, verified=0))
    saved = [store.save(small(number)) for number in range(5)]
    store.pin(saved[0])
    current: list[object] = []

    class Slot:
        def swap(self, new: object) -> None:
            current.append(new)

    store.restore(saved[1], build=lambda checkpoint: checkpoint.state["counter"], into=Slot())
    assert current == [1]
    planned = store.gc(dry_run=True)
    assert planned.retired == (saved[2].name,)
    assert len(store.scan()) == 5
    store.gc()
    assert [each.name for each in store.scan()] == [saved[at].name for at in (4, 3, 1, 0)]
    assert not any(saved[2].name in key for key in keys(objects))
    store.unpin(saved[0])
    store.gc()
    assert [each.name for each in store.scan()] == [saved[at].name for at in (4, 3, 1)]


def test_what_was_never_committed_goes_after_its_grace(objects: ObjectStore) -> None:
    store = ObjectCheckpoints(objects)
    saved = store.save(small(1))
    loose = "ckpt/000000000009-0123456789ab"
    obstore.put(objects, f"{loose}/state.json", b"{}")
    assert store.gc().unfinished == ()
    assert f"{loose}/state.json" in keys(objects)
    assert store.gc(grace=timedelta(seconds=-5)).unfinished == ("000000000009-0123456789ab",)
    assert not any(key.startswith(loose) for key in keys(objects))
    assert same(store.load(saved).arrays, small(1).arrays)


@pytest.mark.parametrize("part", ["commits/000000000001.json", "MANIFEST.json"])
def test_what_a_record_may_speak_of_is_never_swept(objects: ObjectStore, part: str) -> None:
    """A record or manifest that cannot be read at this moment, or is damaged, is for a person: its shards are not loose."""
    store = ObjectCheckpoints(objects)
    saved = store.save(small(1))
    store.save(small(2))
    obstore.put(objects, part if part.startswith("commits") else f"ckpt/{saved.name}/{part}", b"{}")
    before = keys(objects)
    planned = store.gc(grace=timedelta(seconds=-5))
    assert planned.unfinished == ()
    assert len(planned.damaged) == 1
    assert set(before) <= set(keys(objects))


class _Overtaken(BucketDisk):
    """Before its state is uploaded, others commit this sequence and later ones, and retire it again."""

    others: ObjectCheckpoints | None = None

    def create(self, path: Path) -> int:
        others, self.others = self.others, None
        if others is not None and path.name == "state.json":
            for number in (2, 3, 4):
                others.save(small(number))
            others.gc()
        else:
            self.others = others
        return super().create(path)


def test_a_save_that_was_overtaken_does_not_take_the_place_of_a_retired_one(objects: ObjectStore) -> None:
    others = ObjectCheckpoints(objects, keep=Keep(last=1, verified=0))
    disk = _Overtaken(objects)
    disk.others = others
    with pytest.raises(CommitLost):
        gated(objects, disk).save(small(1))
    assert disk.others is None
    assert [each.name.split("-")[0] for each in others.scan()] == ["000000000003"]


def test_the_journal_is_told_after_the_commit(objects: ObjectStore) -> None:
    store = ObjectCheckpoints(objects)
    told: list[tuple[Manifest, int]] = []
    saved = store.save(small(1), record=lambda manifest: told.append((manifest, len(store.scan()))))
    assert told == [(saved.manifest, 1)]


def test_an_empty_prefix_and_another_kind(objects: ObjectStore) -> None:
    store = ObjectCheckpoints(objects)
    with pytest.raises(NothingToRestore):
        store.latest("weights")
    saved = store.save(small(1))
    with pytest.raises(WrongKind):
        store.load(saved, kind="learning")
    with pytest.raises(NothingToRestore, match="kind"):
        store.load_latest("learning")
