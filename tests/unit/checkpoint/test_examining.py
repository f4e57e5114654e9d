"""An examination finds whole what a load takes, and nothing else, in little memory; and says everything that is wrong."""

from __future__ import annotations

import json
import shutil
import tracemalloc
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from recovery.checkpoint import examining
from recovery.checkpoint.errors import CheckpointError, CheckpointInvalid
from recovery.checkpoint.examining import Examined, examine
from recovery.checkpoint.fingerprint import digest_of_group
from recovery.checkpoint.kinds import RULES
from recovery.checkpoint.scanning import Candidate, Rejected, look
from recovery.checkpoint.store import CheckpointStore
from tests.fuzz.spoiling import spoilt, whole
from tests.unit.checkpoint.forging import forge
from tests.unit.checkpoint.learners import LIFECYCLE, learning
from tests.unit.checkpoint.making import Plain, cut, small, spread

CASES = 100


def examined(store: CheckpointStore, candidate: Candidate) -> Examined:
    return examine(store.place, candidate, lambda _: None)


def refused(store: CheckpointStore, candidate: Candidate) -> str:
    """The word for what is wrong, by a load; "" if nothing is."""
    try:
        store.load(candidate)
    except CheckpointInvalid as error:
        return str(error.reason)
    except CheckpointError as error:
        return type(error).__name__
    return ""


def test_whatever_was_spoilt_it_agrees_with_a_load(tmp_path: Path) -> None:
    files = whole(tmp_path / "whole")
    met: Counter[str] = Counter()
    for number in range(CASES):
        store = spread(tmp_path / "case")
        path = store.place.checkpoints / "000000000001-0123456789ab"
        path.mkdir(parents=True)
        for name, data in spoilt(files, number).items():
            (path / name).write_bytes(data)
        named = look(store.place, path.name)
        if isinstance(named, Rejected) and named.reason == "identity":  # a whole manifest, whose name we did not guess
            path = path.rename(path.with_name(named.problem.split()[-1]))
        candidate = look(store.place, path.name)
        if isinstance(candidate, Candidate):
            reason, found = refused(store, candidate), examined(store, candidate)
            assert found.whole == (reason == ""), number
            assert not reason or found.unread or reason in {each.reason for each in found.damage}, number
            met[reason or "whole"] += 1
        shutil.rmtree(tmp_path / "case")
    assert met["whole"] > 2
    assert len(met) > 6


def of_learning(name: str, change: Callable[[np.ndarray[Any, Any]], None]) -> Callable[[dict[str, Any], Path], None]:
    """An edit for `forge`: the elements of one tensor of a learning state."""

    def edit(document: dict[str, Any], path: Path) -> None:
        shard = path / document["tensors"][name]["slices"][0]["file"]
        data = bytearray(shard.read_bytes())
        length = int.from_bytes(data[:8], "little")
        header = json.loads(data[8 : 8 + length])
        begin, end = header[name]["data_offsets"]
        dtype = {"F64": "<f8", "I32": "<i4"}[header[name]["dtype"]]
        change(np.frombuffer(memoryview(data)[8 + length + begin : 8 + length + end], dtype=dtype))
        shard.write_bytes(data)

    return edit


def negative(values: np.ndarray[Any, Any]) -> None:
    values[-1] = -0.5


def other(values: np.ndarray[Any, Any]) -> None:
    values[0] = 9


@pytest.mark.parametrize(("name", "change"), [("v/bias", negative), ("reference/layer", other)])
def test_what_must_hold_between_values_is_found_in_parts(
    tmp_path: Path, name: str, change: Callable[[np.ndarray[Any, Any]], None]
) -> None:
    store = spread(tmp_path / "run")
    lifecycle = replace(LIFECYCLE, snapshots={"reference": digest_of_group(learning().arrays, "reference")})
    saved = store.save(learning(lifecycle=lifecycle))
    assert examined(store, saved).whole
    path = forge(saved, of_learning(name, change))
    candidate = look(store.place, path.name)
    assert isinstance(candidate, Candidate)
    assert refused(store, candidate) == "invariant"
    assert [each.reason for each in examined(store, candidate).damage] == ["invariant"]


def test_every_file_is_judged(tmp_path: Path) -> None:
    store = spread(tmp_path / "run")
    saved = cut(store, {"a": np.arange(9.0), "b": np.arange(12).reshape(6, 2)}, 3)
    for entry in (saved.manifest.files[0], saved.manifest.files[2], saved.manifest.files[3]):
        path = saved.path / entry.name
        data = path.read_bytes()
        path.write_bytes(data[:-1] + bytes([data[-1] ^ 1]))
    found = examined(store, saved)
    assert [(each.where.partition(", ")[2], each.reason) for each in found.damage] == [
        ("shard-000-of-003.safetensors", "digest"),
        ("shard-002-of-003.safetensors", "digest"),
        ("state.json", "digest"),
    ]


def test_what_cannot_be_read_is_not_called_damaged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = spread(tmp_path / "run")
    saved = store.save(small(1))

    def fails(*_: object) -> int:
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(store.place.disk, "read_into", fails)
    found = examined(store, saved)
    assert (found.whole, found.damage, found.unread) == (False, (), "Input/output error")


def test_what_retention_took_meanwhile_is_not_called_damaged(tmp_path: Path) -> None:
    store = spread(tmp_path / "run")
    saved = store.save(small(1))
    shutil.rmtree(saved.path)
    found = examined(store, saved)
    assert (found.whole, found.damage, found.gone) == (False, (), True)


def test_it_tells_every_byte_of_the_tensors_and_takes_little_memory(tmp_path: Path) -> None:
    store = spread(tmp_path / "run")
    saved = store.save(Plain({f"w/{number}": np.ones(2 << 20) for number in range(2)}))
    told: list[int] = []
    tracemalloc.start()
    found = examine(store.place, saved, told.append)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert found.whole
    assert 32 << 20 <= sum(told) <= saved.manifest.total_bytes
    assert peak < 8 << 20


def test_every_kind_that_is_stored_has_its_invariants() -> None:
    assert set(examining.HOLD) == {kind for kind, rule in RULES.items() if rule.stored}
