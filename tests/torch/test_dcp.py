"""DCP's own `save` and `load`, with a store under them: no pickle, nothing half loaded, and the store's promises."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed.checkpoint as dcp

from recovery.checkpoint import CheckpointStore
from recovery.checkpoint.errors import NotACandidate
from recovery.checkpoint.torch import About, ExactLoadPlanner, PlainSavePlanner, StoreReader, StoreWriter
from tests.torch import jobs, ranks

pytestmark = pytest.mark.filterwarnings("ignore:torch.distributed is disabled:UserWarning")


def state() -> dict[str, Any]:
    return {
        "a": torch.arange(12.0).reshape(3, 4),
        "inner": {
            "b": torch.ones(5, dtype=torch.bfloat16),
            "rate": 0.1,
            "betas": (0.9, 0.99),
            "ids": [1, 2],
            "big": 2**70,
            3: True,
        },
    }


def blank() -> dict[str, Any]:
    return {
        "a": torch.zeros(3, 4),
        "inner": {"b": torch.zeros(5, dtype=torch.bfloat16), "rate": 0.0, "betas": (0.0, 0.0), "ids": [], "big": 0, 3: False},
    }


def told(of: dict[str, Any]) -> str:
    return repr(of)


@pytest.fixture
def store(tmp_path: Path) -> CheckpointStore:
    return CheckpointStore(tmp_path)


@pytest.fixture
def saved(store: CheckpointStore) -> Any:
    with StoreWriter(store, About(step=7)) as writer:
        dcp.save(state(), storage_writer=writer, planner=PlainSavePlanner())
    return writer.candidate


def test_dcp_saves_into_the_store_and_loads_from_it(store: CheckpointStore, saved: Any) -> None:
    into = blank()
    dcp.load(into, storage_reader=StoreReader(store, saved), planner=ExactLoadPlanner())
    assert told(into) == told(state())
    assert (saved.manifest.step, store.latest("weights").name) == (7, saved.name)
    assert sorted(store.load(saved).arrays) == ["a", "inner.b"]


def test_no_file_of_it_is_a_pickle(saved: Any) -> None:
    names = {path.name for path in saved.path.iterdir()}
    assert names == {"MANIFEST.json", "state.json", "shard-000-of-001.safetensors"}


def test_a_planner_that_pickles_is_refused_by_name_and_nothing_is_committed(store: CheckpointStore) -> None:
    refused = pytest.raises(dcp.CheckpointException, match=r"inner\.\w+: it is no plain value; save with PlainSavePlanner")
    with refused, StoreWriter(store) as writer:
        dcp.save(state(), storage_writer=writer)
    assert store.scan() == []


def test_what_has_no_plain_form_is_refused_by_name(store: CheckpointStore) -> None:
    with pytest.raises(dcp.CheckpointException, match="odd: set is no plain value"), StoreWriter(store) as writer:
        dcp.save({**state(), "odd": {1, 2}}, storage_writer=writer, planner=PlainSavePlanner())
    assert store.scan() == []


def test_a_planner_that_would_unpickle_is_refused_before_anything_is_loaded(store: CheckpointStore, saved: Any) -> None:
    into = blank()
    with pytest.raises(dcp.CheckpointException, match="load with ExactLoadPlanner"):
        dcp.load(into, storage_reader=StoreReader(store, saved))
    assert told(into) == told(blank())


@pytest.mark.parametrize("file", ["MANIFEST.json", "state.json", "shard-000-of-001.safetensors"])
def test_one_flipped_bit_is_refused_before_anything_is_loaded(file: str, store: CheckpointStore, saved: Any) -> None:
    whole = (saved.path / file).read_bytes()
    for at in range(0, len(whole), 97):
        (saved.path / file).write_bytes(whole[:at] + bytes([whole[at] ^ 4]) + whole[at + 1 :])
        into = blank()
        with pytest.raises((dcp.CheckpointException, NotACandidate)):
            dcp.load(into, storage_reader=StoreReader(store, store.inspect(saved.name)), planner=ExactLoadPlanner())
        assert told(into) == told(blank())


@pytest.mark.parametrize(
    ("change", "named"),
    [
        (lambda into: into.pop("a"), "nothing here is called a"),
        (lambda into: into.update(c=torch.zeros(1)), "nothing is saved for c"),
        (lambda into: into.update(a=torch.zeros(3, 5)), r"\[3, 4\] is saved"),
        (lambda into: into.update(a=torch.zeros(3, 4, dtype=torch.float64)), "float64"),
        (lambda into: into.update(a="text"), "a tensor here is none there"),
    ],
    ids=["missing", "unknown", "size", "dtype", "no tensor"],
)
def test_another_key_size_or_dtype_is_refused_before_anything_is_loaded(
    change: Any, named: str, store: CheckpointStore, saved: Any
) -> None:
    into = blank()
    change(into)
    before = told(into)
    with pytest.raises(dcp.CheckpointException, match=named):
        dcp.load(into, storage_reader=StoreReader(store, saved), planner=ExactLoadPlanner())
    assert told(into) == before


def test_leaving_the_writer_gives_the_store_back(store: CheckpointStore, saved: Any) -> None:
    other = CheckpointStore(store.path, wait=store.wait / 100)
    with pytest.raises(dcp.CheckpointException, match="infinite or not a number"), StoreWriter(store) as writer:
        dcp.save({"a": torch.tensor([float("nan")])}, storage_writer=writer, planner=PlainSavePlanner())
    with StoreWriter(other) as writer:
        dcp.save(state(), storage_writer=writer, planner=PlainSavePlanner())
    assert [each.name[:12] for each in store.scan()] == ["000000000002", "000000000001"]


def test_two_ranks_through_dcp_s_own_collectives(tmp_path: Path) -> None:
    for loaded, failed, untouched in ranks.values(ranks.run(jobs.through_dcp, 2, str(tmp_path))):
        assert loaded
        assert "(digest)" in failed
        assert untouched
