"""A complete learning state: what belongs to it, what must hold in it, and what weights lack."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from recovery.checkpoint import generators
from recovery.checkpoint.errors import CheckpointInvalid, WrongKind
from recovery.checkpoint.fingerprint import digest_of_group
from recovery.checkpoint.invariants import INVARIANTS
from recovery.checkpoint.kinds import Kind
from recovery.checkpoint.learning import Cursor, Learning, Weights, continued, missing_for_continuation, take
from recovery.checkpoint.lifecycle import Exposure, Stage
from tests.unit.checkpoint.learners import LIFECYCLE, learning, with_array, without_array


def parts(state: Learning) -> tuple[dict[str, Any], dict[str, Any]]:
    """As files hold them."""
    return dict(state.arrays), json.loads(json.dumps(state.state()))


def test_a_state_survives_its_parts_bit_for_bit() -> None:
    state = learning()
    again = Learning.from_parts(*parts(state))
    assert again.digest == state.digest
    assert again.history.tolist() == state.history.tolist()
    assert again.config == state.config


def test_a_history_of_several_columns_keeps_its_shape() -> None:
    state = learning(history=np.array([[0.1, 1.0], [0.2, 2.0], [0.3, 3.0]]))
    assert Learning.from_parts(*parts(state)).history.shape == (3, 2)


def test_a_state_before_the_first_update_is_one() -> None:
    state = learning(counter=0, cursor=Cursor(0, 2, 4), history=())
    assert Learning.from_parts(*parts(state)).counter == 0


@pytest.mark.parametrize(
    "change",
    [
        {"counter": 4},
        {"cursor": Cursor(draws=6, per_update=2, examples=5)},
        {"history": np.array([0.3, 0.2, np.nextafter(0.1, 1)])},
        {"config": {"rate": 0.1, "layers": 2.0, "seed": 2**80, "names": ["a", "b"]}},
        {"lifecycle": LIFECYCLE.merge(Exposure().seen("final", "eval-1"))},
        {"generators": {"draws": generators.capture(np.random.default_rng(2)), "masks": generators.capture(np.random.Philox(2))}},
        {"arrays": {**learning().arrays, "w/bias": np.array([0.125, 0.0])}},
        {"arrays": {**learning().arrays, "w/bias": np.array([0.125, -0.0], dtype=np.float32)}},
        {"arrays": {**learning().arrays, "w/bias": np.array([[0.125, -0.0]])}},
    ],
)
def test_the_digest_changes_with_every_field(change: dict[str, Any]) -> None:
    assert learning(**change).digest != learning().digest


def test_a_state_is_a_copy_of_its_own() -> None:
    """An update that goes on while a save is under way must not reach it."""
    weights = np.array([0.5, 1.5])
    history = [0.3, 0.2, 0.1]
    state = learning(arrays={"w/only": weights}, history=history)
    before = state.digest
    weights += 1.0
    history.append(0.0)
    assert state.digest == before
    with pytest.raises(ValueError, match="read-only"):
        state.arrays["w/only"][0] = 9.0


BROKEN: dict[str, list[tuple[str, Callable[[], Learning]]]] = {
    "counted": [("counter", lambda: learning(counter=-1)), ("counter", lambda: learning(counter=3.0)), ("counter", lambda: learning(counter=True))],
    "drawn": [
        ("cursor.draws", lambda: learning(cursor=Cursor(5, 2))),
        ("cursor.draws", lambda: learning(cursor=Cursor(-6, 2))),
        ("cursor.draws", lambda: learning(cursor=Cursor(6.0, 2))),  # type: ignore[arg-type]
        ("cursor.per_update", lambda: learning(cursor=Cursor(0, 0), counter=0, history=())),
        ("cursor.examples", lambda: learning(cursor=Cursor(6, 2, -1))),
    ],
    "recorded": [("history", lambda: learning(history=[0.3, 0.2])), ("history", lambda: learning(history=0.5))],
    "named": [
        ("arrays.bias", lambda: with_array("bias", [1.0])),
        ("arrays.w/", lambda: with_array("w/", [1.0])),
        ("arrays", lambda: learning(arrays={"m/layer": np.ones(1)})),
    ],
    "moments": [
        ("arrays.m", lambda: without_array("m/bias")),
        ("arrays.v", lambda: with_array("v/other", [1.0])),
        ("arrays.m/bias", lambda: with_array("m/bias", [[0.1, 0.2]])),
        ("arrays.m", lambda: learning(arrays={"w/a": np.ones(1), "v/a": np.ones(1)})),
    ],
    "finite": [
        ("w/bias", lambda: with_array("w/bias", [0.1, np.nan])),
        ("m/bias", lambda: with_array("m/bias", [0.1, np.inf])),
        ("history", lambda: learning(history=[0.3, np.nan, 0.1])),
    ],
    "positive": [("arrays.v/bias", lambda: with_array("v/bias", [0.1, -1e-300]))],
    "generators": [
        ("generators", lambda: learning(generators={})),
        ("generators.draws", lambda: learning(generators={"draws": {"bit_generator": "PCG64"}})),
    ],
    "configured": [("config", lambda: learning(config={})), ("config", lambda: learning(config={"rate": float("nan")})), ("config", lambda: learning(config={"f": print}))],
    "referenced": [("arrays.reference", lambda: learning(lifecycle=replace(LIFECYCLE, snapshots={"reference": "e" * 64})))],
    "in stage": [("counter", lambda: learning(counter=11, cursor=Cursor(22, 2, 4), history=[0.0] * 11))],
}  # fmt: skip


@pytest.mark.parametrize(
    ("name", "where", "make"), [(name, where, make) for name, cases in BROKEN.items() for where, make in cases]
)
def test_a_state_that_breaks_an_invariant_is_refused(name: str, where: str, make: Callable[[], Learning]) -> None:
    invariant = next(each for each in INVARIANTS if each.name == name)
    state = make()
    assert next(place for place, _ in invariant.broken(state)) == where
    with pytest.raises(CheckpointInvalid) as caught:
        state.check()
    assert caught.value.where == where


def test_every_invariant_has_a_state_that_breaks_it() -> None:
    assert {each.name for each in INVARIANTS} == BROKEN.keys()
    learning().check()


def test_moments_may_be_absent_together() -> None:
    learning(arrays={"w/a": np.ones(1)}).check()
    learning(arrays={"w/a": np.ones(1), "m/a": np.ones(1)}).check()


@pytest.mark.parametrize(
    ("change", "where"),
    [
        ({"counter": None}, "counter"),
        ({"cursor": None}, "cursor"),
        ({"cursor": {"draws": 6}}, "cursor"),
        ({"generators": []}, "generators"),
        ({"history": [0.1]}, "history"),
        ({"history": {"shape": [3], "values": [0.3, 0.2]}}, "history"),
        ({"history": {"shape": [3, 1, 1], "values": [0.3, 0.2, 0.1]}}, "history"),
        ({"history": {"shape": [3], "values": [3, 2, 1]}}, "history"),
        ({"history": {"shape": [-3], "values": [0.3, 0.2, 0.1]}}, "history"),
        ({"history": {"shape": 3, "values": [0.3, 0.2, 0.1]}}, "history"),
        ({"config": "x"}, "config"),
        ({"config": {"rate": 0.2}}, "config_digest"),
        ({"config_digest": 1}, "config_digest"),
        ({"lifecycle": {}}, "lifecycle"),
        ({"more": 1}, "state"),
    ],
)
def test_a_document_that_is_no_state_is_refused(change: dict[str, Any], where: str) -> None:
    arrays, state = parts(learning())
    with pytest.raises(CheckpointInvalid) as caught:
        Learning.from_parts(arrays, {**state, **change})
    assert caught.value.where == where


@pytest.mark.parametrize("name", ["counter", "cursor", "generators", "history", "config", "config_digest", "lifecycle"])
def test_a_missing_part_is_refused_by_name(name: str) -> None:
    arrays, state = parts(learning())
    del state[name]
    with pytest.raises(CheckpointInvalid, match=f"{name} is missing"):
        Learning.from_parts(arrays, state)


@pytest.mark.parametrize(
    ("found", "where"),
    [
        (without_array("reference/layer"), "arrays"),
        (with_array("reference/more", [1.0]), "arrays"),
        (with_array("reference/layer", [[1, 2], [3, 4]]), "arrays.reference/layer"),
        (with_array("w/bias", [1.0]), "arrays.w/bias"),
        (learning(generators={"draws": learning().generators["draws"]}), "generators"),
        (learning(generators={**learning().generators, "noise": learning().generators["draws"]}), "generators"),
        (learning(cursor=Cursor(6, 2, 5)), "cursor"),
        (learning(config={**learning().config, "rate": 0.2}), "config"),
        (learning(config={**learning().config, "layers": 2.0}), "config"),
        (learning(lifecycle=replace(LIFECYCLE, tokenizer="d" * 64)), "lifecycle.tokenizer"),
        (learning(lifecycle=replace(LIFECYCLE, stage=Stage("pretrain"))), "lifecycle.stage"),
    ],
)
def test_a_state_of_another_run_does_not_fit(found: Learning, where: str) -> None:
    with pytest.raises(CheckpointInvalid) as caught:
        found.check_fits(learning())
    assert caught.value.where == where


def test_an_earlier_or_later_state_of_the_same_run_fits() -> None:
    seen = LIFECYCLE.merge(Exposure().seen("final", "eval-1"))
    learning(counter=5, cursor=Cursor(10, 2, 4), history=[0.0] * 5, lifecycle=seen).check_fits(learning())


FROZEN = replace(LIFECYCLE, stage=Stage("tune", updates=("w", "m", "v")))


def test_what_the_stage_does_not_update_must_be_what_the_run_has() -> None:
    """A frozen reference of the same shape and other content is another one."""
    other = learning(arrays={**learning().arrays, "reference/layer": np.array([[1, 2], [3, 5]], dtype=np.int32)}, lifecycle=FROZEN)
    with pytest.raises(CheckpointInvalid, match="stage tune does not update it"):
        other.check_fits(learning(lifecycle=FROZEN))
    moved = learning(arrays={**learning().arrays, "w/bias": np.array([1.0, 2.0])}, lifecycle=FROZEN)
    moved.check_fits(learning(lifecycle=FROZEN))


def test_a_reference_is_checked_by_its_digest() -> None:
    digest = digest_of_group(learning().arrays, "reference")
    learning(lifecycle=replace(LIFECYCLE, snapshots={"reference": digest, "elsewhere": "e" * 64})).check()
    assert digest != digest_of_group(with_array("reference/more", [1]).arrays, "reference")


def test_a_state_that_takes_a_runs_place_keeps_every_look() -> None:
    old = learning(lifecycle=LIFECYCLE.merge(Exposure().seen("final", "eval-1")))
    run = learning(lifecycle=LIFECYCLE.merge(Exposure().seen("final", "eval-2")))
    fitted = old.fitted(run, Exposure().seen("final", "eval-3"))
    assert fitted.lifecycle.exposure.count("final") == 3
    assert replace(fitted, lifecycle=old.lifecycle).digest == old.digest
    with pytest.raises(CheckpointInvalid):
        with_array("w/bias", [1.0]).fitted(run)


def test_arrays_can_be_left_where_they_are_for_a_save_that_ends_before_the_next_update() -> None:
    weights = np.ones(3)
    assert np.shares_memory(learning(arrays={"w/a": weights}, copy=False).arrays["w/a"], weights)
    assert not np.shares_memory(learning(arrays={"w/a": weights}).arrays["w/a"], weights)
    assert weights.flags.writeable


def endless() -> list[Any]:
    value: list[Any] = []
    value.append(value)
    return value


@pytest.mark.parametrize("config", [{1: "a", "1": "b"}, {"a": endless()}])
def test_a_configuration_that_would_lose_something_is_refused(config: dict[Any, Any]) -> None:
    with pytest.raises(CheckpointInvalid):
        Weights({"w/0": np.zeros(1)}, config)


def test_a_mask_is_not_lost_in_silence() -> None:
    with pytest.raises(CheckpointInvalid, match="mask"):
        Weights({"w/0": np.ma.masked_array([1.0, 2.0], [True, False])})


def test_weights_survive_their_parts() -> None:
    for weights in (Weights.of(learning()), Weights({"w/a": np.ones(1)})):
        again = Weights.from_parts(dict(weights.arrays), json.loads(json.dumps(weights.state())))
        assert (again.arrays.keys(), again.config, again.lifecycle) == (weights.arrays.keys(), weights.config, weights.lifecycle)
    with pytest.raises(CheckpointInvalid):
        Weights.from_parts({"w/a": np.ones(1)}, learning().state())


def test_a_part_is_taken_by_name_and_what_is_left_is_told() -> None:
    taken = take(learning(), ["w/bias", "reference/layer"])
    assert [*taken.weights.arrays] == ["w/bias", "reference/layer"]
    assert taken.left == ("w/layer", "m/layer", "m/bias", "v/layer", "v/bias")
    with pytest.raises(CheckpointInvalid, match="there is no w/other to take"):
        take(learning(), ["w/bias", "w/other"])


def test_a_cursor_counts_what_updates_consumed() -> None:
    cursor = Cursor(draws=6, per_update=2, examples=4)
    assert (cursor.epoch, cursor.offset) == (1, 2)
    assert (cursor.advanced().epoch, cursor.advanced().offset) == (2, 0)
    assert (Cursor(6, 2).epoch, Cursor(6, 2).offset) == (0, 6)


def test_weights_are_refused_as_a_continuation_with_the_list_of_what_is_missing() -> None:
    weights = Weights.of(learning())
    assert weights.kind is Kind.WEIGHTS
    assert [*weights.arrays] == ["w/layer", "w/bias"]
    missing = missing_for_continuation(weights)
    assert missing == (
        "first moments (m/...)",
        "second moments (v/...)",
        "optimizer counter",
        "states of the random generators",
        "draw cursor",
        "history",
    )
    with pytest.raises(WrongKind) as caught:
        continued(weights, name="best.ckpt")
    assert str(caught.value).startswith("best.ckpt is of the kind weights, and learning was asked for.")
    assert all(each in str(caught.value) for each in missing)


def test_bare_weights_lack_their_configuration_as_well() -> None:
    assert missing_for_continuation(Weights({"w/a": np.ones(1)}))[-2:] == ("configuration", "lifecycle record")


def test_a_learning_state_can_be_continued() -> None:
    state = learning()
    assert continued(state, name="last.ckpt") is state
