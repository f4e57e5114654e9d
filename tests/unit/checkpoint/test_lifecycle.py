"""The lifecycle record: digests are compared, looks at a final test set only accumulate."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from recovery.checkpoint.errors import CheckpointInvalid
from recovery.checkpoint.lifecycle import Exposure, Lifecycle, Look, Stage, exposure_from

A, B = "a" * 64, "b" * 64
RECORD = Lifecycle(tokenizer=A, data=A, model=A, stage=Stage("tune", ("train",), ("w",), 40), snapshots={"first": A})

NAMES = st.text("abcxyz09", min_size=1, max_size=4)
EXPOSURES = st.frozensets(st.builds(Look, NAMES, NAMES), max_size=8).map(Exposure)


@given(EXPOSURES, EXPOSURES, EXPOSURES)
def test_exposure_is_merged_in_any_order_and_any_number_of_times(one: Exposure, other: Exposure, third: Exposure) -> None:
    assert one.merge(other) == other.merge(one)
    assert one.merge(other).merge(third) == one.merge(other.merge(third))
    assert one.merge(one) == one
    assert one.merge(other).covers(one)
    assert one.merge(other).covers(other)


@given(EXPOSURES)
def test_exposure_survives_json(exposure: Exposure) -> None:
    assert Exposure.from_json(json.loads(json.dumps(exposure.to_json()))) == exposure


def test_a_look_is_counted_once_by_its_key() -> None:
    exposure = Exposure().seen("final", "eval-1").seen("final", "eval-1").seen("final", "eval-2").seen("other", "eval-1")
    assert (exposure.count("final"), exposure.count("other"), exposure.count("unseen")) == (2, 1, 0)


def test_a_restore_cannot_lower_the_exposure() -> None:
    """An older checkpoint knows of fewer looks; what was seen meanwhile stays seen."""
    old = RECORD.merge(Exposure().seen("final", "eval-1"))
    now = RECORD.merge(Exposure().seen("final", "eval-1").seen("final", "eval-2"))
    assert old.merge(now).exposure == now.exposure
    assert now.merge(old).exposure == now.exposure


class Journal:
    """What a journal would have to say."""

    def looks(self) -> Iterable[Look]:
        return [Look("final", "eval-2"), Look("final", "eval-3")]


def test_exposure_is_merged_with_the_journals() -> None:
    restored = RECORD.merge(Exposure().seen("final", "eval-1")).merge(exposure_from(Journal()))
    assert restored.exposure.count("final") == 3
    assert exposure_from(None) == Exposure()


def test_a_look_under_any_key_that_an_effect_can_have_can_be_saved() -> None:
    """Otherwise every save after the restore that merged it would be refused."""

    class Odd:
        def looks(self) -> Iterable[Look]:
            return [Look("final test, 2026", "order 7 (second) " + "k" * 238)]

    exposure = exposure_from(Odd())
    assert Exposure.from_json(exposure.to_json()) == exposure
    assert exposure.count("final test, 2026") == 1
    with pytest.raises(CheckpointInvalid):
        Exposure().seen("final", "a\nb")


def test_a_record_survives_json() -> None:
    record = RECORD.merge(Exposure().seen("final", "eval-1"))
    assert Lifecycle.from_json(json.loads(json.dumps(record.to_json()))) == record
    open_ended = replace(record, stage=Stage("pretrain"), snapshots={}, tokenizer="")
    assert Lifecycle.from_json(json.loads(json.dumps(open_ended.to_json()))) == open_ended


@pytest.mark.parametrize(
    ("change", "where"),
    [
        ({"tokenizer": B}, "lifecycle.tokenizer"),
        ({"data": B}, "lifecycle.data"),
        ({"model": ""}, "lifecycle.model"),
        ({"snapshots": {"first": B}}, "lifecycle.snapshots"),
        ({"snapshots": {}}, "lifecycle.snapshots"),
        ({"stage": Stage("pretrain")}, "lifecycle.stage"),
    ],
)
def test_a_record_of_something_else_is_not_merged(change: dict[str, Any], where: str) -> None:
    with pytest.raises(CheckpointInvalid) as caught:
        replace(RECORD, **change).merge(RECORD)
    assert caught.value.where == where


@pytest.mark.parametrize(
    ("change", "where"),
    [
        ({"tokenizer": None}, "lifecycle.tokenizer"),
        ({"data": "short"}, "lifecycle.data"),
        ({"model": A.upper()}, "lifecycle.model"),
        ({"stage": None}, "lifecycle.stage"),
        ({"stage": {"name": "x"}}, "lifecycle.stage"),
        ({"stage": {"name": "x y", "reads": [], "updates": None, "last_update": None}}, "lifecycle.stage.name"),
        ({"stage": {"name": "x", "reads": "train", "updates": None, "last_update": None}}, "lifecycle.stage.reads"),
        ({"stage": {"name": "x", "reads": [], "updates": 3, "last_update": None}}, "lifecycle.stage.updates"),
        ({"stage": {"name": "x", "reads": [], "updates": None, "last_update": True}}, "lifecycle.stage.last_update"),
        ({"stage": {"name": "x", "reads": [], "updates": None, "last_update": -1}}, "lifecycle.stage.last_update"),
        ({"snapshots": []}, "lifecycle.snapshots"),
        ({"snapshots": {"first": ""}}, "lifecycle.snapshots.first"),
        ({"snapshots": {"": A}}, "lifecycle.snapshots"),
        ({"exposure": []}, "lifecycle.exposure"),
        ({"exposure": {"final": "eval-1"}}, "lifecycle.exposure"),
        ({"exposure": {"final": [1]}}, "lifecycle.exposure"),
        ({"more": 1}, "lifecycle"),
    ],
)
def test_what_is_no_record_is_refused(change: dict[str, Any], where: str) -> None:
    with pytest.raises(CheckpointInvalid) as caught:
        Lifecycle.from_json({**RECORD.to_json(), **change})
    assert caught.value.where == where


def test_a_missing_key_is_named() -> None:
    told = RECORD.to_json()
    del told["tokenizer"]
    with pytest.raises(CheckpointInvalid, match="tokenizer is missing"):
        Lifecycle.from_json(told)
