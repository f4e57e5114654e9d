"""Comparing two states: every field, from cause to effect, and what a tolerance lets pass."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from recovery.checkpoint import generators
from recovery.checkpoint.learning import Cursor
from recovery.checkpoint.lifecycle import Exposure
from recovery.checkpoint.resume.comparing import Divergence, Moment, differences, divergence, fields
from recovery.checkpoint.resume.tolerance import EXACT, Contract, Tolerance
from tests.unit.checkpoint.learners import LIFECYCLE, learning, with_array, without_array

WHOLE = Moment.of(learning())


def test_equal_states_do_not_diverge() -> None:
    assert divergence(3, WHOLE, Moment.of(learning())) is None


def test_the_fields_go_from_cause_to_effect() -> None:
    named = fields(WHOLE)
    firsts = [name.replace(".", "/").partition("/")[0] for name in named]
    assert [*dict.fromkeys(firsts)] == ["config", "config_digest", "lifecycle", "cursor", "counter", "generators", "history", "m", "v", "reference", "w"]  # fmt: skip
    assert "generators.draws.state.state" in named
    assert "lifecycle.tokenizer" in named


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"counter": 4}, "counter"),
        ({"cursor": Cursor(8, 2, 4)}, "cursor.draws"),
        ({"history": np.array([0.3, 0.2, np.nextafter(0.1, 1)])}, "history"),
        ({"lifecycle": LIFECYCLE.merge(Exposure().seen("final", "eval-1"))}, "lifecycle.exposure"),
        ({"lifecycle": replace(LIFECYCLE, tokenizer="d" * 64)}, "lifecycle.tokenizer"),
        ({"config": {**learning().config, "layers": 2.0}}, "config.layers"),
        ({"generators": {"draws": learning().generators["draws"]}}, "generators.masks.bit_generator"),
        ({"arrays": {**learning().arrays, "w/bias": np.array([0.125, 0.0])}}, "w/bias"),
        ({"arrays": {**learning().arrays, "reference/layer": np.array([[1, 2], [3, 5]], dtype=np.int32)}}, "reference/layer"),
    ],
)
def test_every_field_is_compared(change: dict[str, Any], field: str) -> None:
    found = divergence(3, WHOLE, Moment.of(learning(**change)))
    assert found is not None
    assert (found.step, found.field) == (3, field)


def test_a_generator_that_has_drawn_diverges_by_the_leaf() -> None:
    drawn = np.random.default_rng(1)
    drawn.random()
    found = divergence(3, WHOLE, Moment.of(learning(generators={**learning().generators, "draws": generators.capture(drawn)})))
    assert found is not None
    assert (found.field, found.ulps, found.also) == ("generators.draws.state.state", None, ())
    assert found.expected == str(learning().generators["draws"]["state"]["state"])


def test_a_divergence_names_index_values_and_distance() -> None:
    one = learning().arrays["m/layer"].copy()
    one[1, 0] = np.nextafter(one[1, 0], 0)
    assert divergence(3, WHOLE, Moment.of(with_array("m/layer", one))) == Divergence(
        3, "m/layer", (1, 0), "-0.3", repr(float(one[1, 0])), 1, 1, 1
    )


def test_the_first_is_the_nearest_to_the_cause_and_the_others_are_named() -> None:
    changed = {**learning().arrays, "w/bias": np.array([0.5, 0.5]), "m/bias": np.array([0.5, 0.5])}
    found = divergence(3, WHOLE, Moment.of(learning(arrays=changed, history=[0.3, 0.2, 0.5])))
    assert found is not None
    assert (found.field, found.index, found.also) == ("history", (2,), ("m/bias", "w/bias"))


def test_a_missing_array_diverges_both_ways() -> None:
    less = Moment.of(without_array("reference/layer"))
    assert [(each.field, each.expected, each.found) for each in differences(3, WHOLE, less)] == [
        ("reference/layer", "present", "missing")
    ]
    assert [(each.field, each.expected, each.found) for each in differences(3, less, WHOLE)] == [
        ("reference/layer", "missing", "present")
    ]


def test_a_divergence_survives_json() -> None:
    found = divergence(3, WHOLE, Moment.of(with_array("w/bias", [1.0, 2.0])))
    assert found is not None
    assert Divergence.from_json(found.to_json()) == found


# -- tolerance ---------------------------------------------------------------------------------------------------------

LOOSE = Contract("loose", "a test", (Tolerance("w", 1e-6, "sums in another order"), Tolerance("history", 1e-6, "the same")))


def moved(name: str, by: float) -> Moment:
    return Moment.of(with_array(name, learning().arrays[name] + by))


def test_what_a_rule_names_may_differ_by_its_bound() -> None:
    """Relative to the array's largest magnitude, 2.0 here."""
    assert divergence(3, WHOLE, moved("w/layer", 1.9e-6), LOOSE) is None
    assert divergence(3, WHOLE, moved("w/layer", 2.1e-6), LOOSE) is not None
    assert divergence(3, WHOLE, moved("w/layer", 1e-15), EXACT) is not None
    assert divergence(3, WHOLE, Moment.of(learning(history=[0.3, 0.2, 0.1 + 1e-8])), LOOSE) is None


def test_what_no_rule_names_is_exact_under_every_contract() -> None:
    assert divergence(3, WHOLE, moved("m/layer", 1e-15), LOOSE) is not None
    assert divergence(3, WHOLE, Moment.of(learning(counter=4)), LOOSE) is not None
    assert divergence(3, WHOLE, Moment.of(learning(config={**learning().config, "rate": 0.1 + 1e-16 * 2})), LOOSE) is not None


@pytest.mark.parametrize(
    "found",
    [
        with_array("w/layer", np.full((2, 2), np.nan)),
        with_array("w/layer", learning().arrays["w/layer"].astype(np.float32)),
        with_array("w/layer", learning().arrays["w/layer"].reshape(4)),
        with_array("w/layer", np.array([[1, 2], [3, 4]])),
    ],
)
def test_no_bound_covers_other_types_shapes_or_what_is_not_finite(found: Any) -> None:
    assert divergence(3, WHOLE, Moment.of(found), LOOSE) is not None


def test_a_group_is_not_another_one_that_begins_alike() -> None:
    assert LOOSE.rule("w/layer") is not None
    assert LOOSE.rule("weights/layer") is None
    assert LOOSE.rule("history") is not None


def test_a_contract_survives_json() -> None:
    assert Contract.from_json(LOOSE.to_json()) == LOOSE
