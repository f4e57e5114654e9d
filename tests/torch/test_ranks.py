"""Two and four ranks over gloo: exact, resharded, and bounded when one of them is lost."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from recovery.checkpoint import CheckpointStore
from recovery.checkpoint.errors import CheckpointInvalid, RanksMissing, WritersMissing
from tests.torch import jobs, ranks


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, Any, Any]:
    """A store with what four ranks saved after three updates; what the job was then, and three updates later, for each rank."""
    directory = str(tmp_path_factory.mktemp("store"))
    came = ranks.values(ranks.run(jobs.train_and_save, 4, directory, 3, 3))
    assert len({name for name, _, _ in came}) == 1
    return directory, [before for _, before, _ in came], [after for _, _, after in came]


def test_four_ranks_resume_what_four_ranks_saved_exactly(saved: tuple[str, Any, Any]) -> None:
    directory, before, after = saved
    came = ranks.values(ranks.run(jobs.load_and_train, 4, directory, 3))
    assert [each[1:] for each in came] == [(False, one, other) for one, other in zip(before, after, strict=True)]


def test_the_parts_of_four_ranks_are_one_checkpoint_in_which_nothing_is_saved_twice(saved: tuple[str, Any, Any]) -> None:
    store = CheckpointStore(saved[0])
    candidate = store.latest()
    tensors = candidate.manifest.tensors
    assert len(candidate.manifest.shards()) == 4
    assert [part.shape for part in tensors["w/first.weight"].slices] == [(2, 5), (2, 5), (2, 5), (0, 5)]  # six rows over four ranks
    assert len(tensors["b/scale"].slices) == 1  # every rank holds it
    read = store.load(candidate)
    assert {name: array.tobytes().hex() for name, array in read.arrays.items()} == {
        name: told[2] for name, told in saved[1][0]["tensors"].items()
    }
    assert sorted(read.state["generators"]) == [f"{rank}/{name}" for rank in range(4) for name in ("sampler", "torch")]


def test_two_ranks_load_what_four_ranks_saved_if_they_say_so(saved: tuple[str, Any, Any]) -> None:
    directory, before, _ = saved
    for _, resharded, loaded, _ in ranks.values(ranks.run(jobs.load_and_train, 2, directory, 0, True)):
        assert resharded
        assert loaded["tensors"] == before[0]["tensors"]
    for each in ranks.run(jobs.load_and_train, 2, directory):
        assert isinstance(each.error, CheckpointInvalid)
        assert "4 ranks saved it and 2 load it" in str(each.error)


def test_a_rank_killed_in_mid_save_is_named_by_all_others_and_the_old_checkpoint_loads(tmp_path: Path) -> None:
    came = ranks.run(jobs.save_twice, 4, str(tmp_path), kill={2: "checkpoint.shard.before"})
    assert came[2].status == ranks.KILLED
    for rank in (0, 1, 3):
        assert isinstance(came[rank].error, WritersMissing), came[rank]
        assert came[rank].error.missing == "rank 2"
    store = CheckpointStore(tmp_path)
    assert [each.name[:12] for each in store.scan()] == ["000000000001"]  # the attempt is gone
    for _, resharded, loaded, _ in ranks.values(ranks.run(jobs.load_and_train, 4, str(tmp_path))):
        assert (resharded, loaded["counter"]) == (False, 1)


def test_a_rank_killed_with_its_shard_durable_and_its_receipt_missing_is_as_lost(tmp_path: Path) -> None:
    came = ranks.run(jobs.save_twice, 2, str(tmp_path), kill={1: "checkpoint.shard.after"})
    assert came[1].status == ranks.KILLED
    assert isinstance(came[0].error, WritersMissing)
    assert came[0].error.missing == "rank 1"
    assert [each.name[:12] for each in CheckpointStore(tmp_path).scan()] == ["000000000001"]


def test_a_rank_that_comes_late_to_an_abandoned_attempt_is_refused_and_told_why(tmp_path: Path) -> None:
    for each in ranks.run(jobs.save_late, 2, str(tmp_path)):
        assert isinstance(each.error, WritersMissing), each
        assert each.error.missing == "rank 1"
    assert CheckpointStore(tmp_path).scan() == []


def test_a_coordinator_killed_before_its_commit_is_named_by_the_others(tmp_path: Path) -> None:
    came = ranks.run(jobs.save_twice, 2, str(tmp_path), kill={0: "checkpoint.commit.before"})
    assert came[0].status == ranks.KILLED
    assert isinstance(came[1].error, RanksMissing)
    assert came[1].error.missing == "rank 0"
    assert CheckpointStore(tmp_path).latest().manifest.step == 1


def test_what_one_rank_is_refused_all_raise_and_nothing_is_committed(tmp_path: Path) -> None:
    for each in ranks.run(jobs.save_with_a_fault, 2, str(tmp_path), "nan"):
        assert isinstance(each.error, CheckpointInvalid)
        assert (each.error.reason, "w/first.weight" in each.error.where) == ("finite", True)
    for each in ranks.run(jobs.save_with_a_fault, 2, str(tmp_path), "behind"):
        assert isinstance(each.error, CheckpointInvalid)
        assert (each.error.where, "counter" in each.error.problem) == ("rank 1", True)
    assert CheckpointStore(tmp_path).scan() == []


def test_damage_that_one_rank_sees_makes_all_of_them_pass_the_checkpoint_over(tmp_path: Path) -> None:
    ranks.values(ranks.run(jobs.save_twice, 2, str(tmp_path)))
    newest = CheckpointStore(tmp_path).latest()
    shard = newest.path / "shard-001-of-002.safetensors"
    whole = shard.read_bytes()
    shard.write_bytes(whole[:-1] + bytes([whole[-1] ^ 1]))
    for name, _, loaded, _ in ranks.values(ranks.run(jobs.load_and_train, 2, str(tmp_path))):
        assert (name[:12], loaded["counter"]) == ("000000000001", 1)


def test_a_save_beside_the_training_overlaps_its_collectives_and_one_is_under_way_at_a_time(tmp_path: Path) -> None:
    came = ranks.values(ranks.run(jobs.save_beside, 2, str(tmp_path)))
    for overlapped, refused, told in came:
        assert overlapped
        assert refused == "SaveUnderWay"
        assert told == [1, 2]
    assert [each.manifest.step for each in CheckpointStore(tmp_path).scan()] == [2, 1]


def test_a_save_beside_the_training_that_fails_raises_the_alarm_and_the_next_call_raises_it(tmp_path: Path) -> None:
    for alarm, raised, step in ranks.values(ranks.run(jobs.fail_beside, 2, str(tmp_path))):
        assert (alarm, raised, step) == ("CheckpointInvalid", "CheckpointInvalid", 1)
