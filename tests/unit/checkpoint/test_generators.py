"""Random generators: their states as plain values, checked before any generator is touched."""

from __future__ import annotations

import json
import random
from typing import Any

import numpy as np
import pytest

from recovery.checkpoint.errors import CheckpointInvalid
from recovery.checkpoint.generators import GLOBALS, KINDS, PYTHON, Generators, capture, check, restore, watching

NUMPY = [kind for kind in KINDS if kind != PYTHON]


def numbers(generator: np.random.Generator) -> list[float]:
    """Draws of several kinds: some keep half a word for the next draw."""
    return [
        *generator.normal(size=3).tolist(),
        *generator.integers(100, size=3, dtype=np.int32).tolist(),
        float(generator.random()),
    ]


@pytest.mark.parametrize("kind", NUMPY)
def test_a_state_goes_on_where_it_was_captured(kind: str) -> None:
    first = np.random.Generator(getattr(np.random, kind)(7))
    first.integers(10, dtype=np.int32)  # an odd number of half words
    state = json.loads(json.dumps(capture(first)))
    expected = numbers(first)
    other = np.random.Generator(getattr(np.random, kind)(8))
    restore(other, state)
    assert numbers(other) == expected


def test_capturing_draws_nothing() -> None:
    one, other = np.random.default_rng(5), np.random.default_rng(5)
    capture(one)
    assert numbers(one) == numbers(other)


def test_pythons_and_numpys_old_generators_keep_their_second_normal_deviate() -> None:
    python, legacy = random.Random(4), np.random.RandomState(4)
    python.gauss(0, 1)
    legacy.standard_normal()
    states = json.loads(json.dumps([capture(python), capture(legacy)]))
    expected = [python.gauss(0, 1), legacy.standard_normal()]
    others = random.Random(9), np.random.RandomState(9)
    restore(others[0], states[0])
    restore(others[1], states[1])
    assert [others[0].gauss(0, 1), others[1].standard_normal()] == expected


@pytest.fixture
def global_generators() -> Any:
    kept = random.getstate(), np.random.get_state()
    yield
    random.setstate(kept[0])
    np.random.set_state(kept[1])


@pytest.mark.usefixtures("global_generators")
def test_the_process_wide_generators_can_be_registered() -> None:
    registered = Generators(numpy_global=True, python_global=True, own=np.random.default_rng(1))
    assert [*registered] == ["own", *GLOBALS]
    states = registered.capture()
    expected = np.random.rand(), random.random()
    registered.restore(states)
    assert (np.random.rand(), random.random()) == expected


@pytest.mark.usefixtures("global_generators")
def test_an_unregistered_draw_from_a_process_wide_generator_is_seen() -> None:
    with watching({}) as drawn:
        np.random.default_rng(3).normal()
    assert drawn == []
    with watching(Generators(numpy_global=True).capture()) as drawn:
        np.random.rand()
        random.random()
    assert drawn == ["random"]
    with watching({}) as drawn:
        np.random.rand()
    assert drawn == ["numpy.random"]


class Owner:
    def __init__(self) -> None:
        self.draws = np.random.default_rng(1)
        self.noise = np.random.default_rng(2)
        self.workers = [random.Random(3), random.Random(4)]
        self.named = {"left": np.random.RandomState(5)}


@pytest.mark.usefixtures("global_generators")
def test_an_unregistered_draw_from_an_attribute_is_seen() -> None:
    owner = Owner()
    registered = {"draws": capture(owner.draws)}
    with watching(registered, owner) as drawn:
        owner.draws.random()
    assert drawn == []
    with watching({"draws": capture(owner.draws)}, owner) as drawn:
        owner.draws.random()
        owner.noise.random()
        owner.workers[1].random()
        owner.named["left"].rand()
    assert drawn == ["noise", "workers[1]", "named['left']"]


def changed(kind: str, **fields: Any) -> dict[str, Any]:
    generator = random.Random(1) if kind == PYTHON else getattr(np.random, kind)(1)
    return {**capture(generator), **fields}


@pytest.mark.parametrize(
    "state",
    [
        {},
        3,
        {"bit_generator": "Generator"},
        {"bit_generator": "PCG64"},
        changed("PCG64", uinteger=2**33),
        changed("PCG64", has_uint32=7),
        changed("PCG64", extra=1),
        changed("PCG64", state={"state": -1, "inc": 3}),
        changed("PCG64", state={"state": 2**128, "inc": 3}),
        changed("PCG64", state={"state": 5, "inc": 4}),
        changed("PCG64", state={"state": 5}),
        changed("PCG64", state=5),
        changed("PCG64DXSM", state={"state": 5, "inc": 0}),
        changed("MT19937", state={"key": [1, 2], "pos": 3}),
        changed("MT19937", state={"key": [0] * 624, "pos": 3}),
        changed("MT19937", state={"key": [1] * 624, "pos": 700}),
        changed("MT19937", state={"key": [2**32] * 624, "pos": 3}),
        changed("MT19937", state={"key": "x" * 624, "pos": 3}),
        changed("Philox", buffer_pos=9),
        changed("Philox", buffer=[1]),
        changed("SFC64", state={"state": [0, 0, 0, 0]}),
        changed("SFC64", state={"state": [0.5, 1, 2, 3]}),
        changed(PYTHON, key=[1] * 624 + [700]),
        changed(PYTHON, key=[0] * 624 + [3]),
        changed(PYTHON, key="abc"),
        changed(PYTHON, key=[1]),
        changed(PYTHON, version=2),
    ],
)  # fmt: skip
def test_what_is_no_state_is_refused(state: Any) -> None:
    with pytest.raises(CheckpointInvalid) as caught:
        check(state, where="generators.draws")
    assert caught.value.where == "generators.draws"


@pytest.mark.parametrize("kind", KINDS)
def test_a_state_that_was_captured_is_one(kind: str) -> None:
    check(changed(kind), where="generators.draws")


@pytest.mark.parametrize("kind", KINDS)
def test_no_check_takes_anything_from_the_one_before(kind: str) -> None:
    """They may share a generator: what is missing in a state must not be what an earlier one left there."""
    states = [capture(random.Random(seed) if kind == PYTHON else getattr(np.random, kind)(seed)) for seed in (1, 2)]
    for state in (*states, *states):
        check(state, where="generator")
        for name in state:
            with pytest.raises(CheckpointInvalid):
                check({key: value for key, value in state.items() if key != name}, where="generator")
        if isinstance(state.get("state"), dict):
            for name in state["state"]:
                inner = {key: value for key, value in state["state"].items() if key != name}
                with pytest.raises(CheckpointInvalid):
                    check({**state, "state": inner}, where="generator")


def test_another_generators_state_is_refused_and_nothing_is_touched() -> None:
    own = np.random.default_rng(1)
    before = capture(own)
    with pytest.raises(CheckpointInvalid, match="it is the state of Philox, and the generator here is PCG64"):
        restore(own, changed("Philox"))
    assert capture(own) == before


@pytest.mark.parametrize(
    ("states", "problem"),
    [
        ({"draws": changed("PCG64")}, "the state of masks is missing"),
        ({"draws": changed("PCG64"), "masks": changed("PCG64"), "noise": changed("PCG64")}, "nothing here is registered as noise"),
        ({"draws": changed("PCG64"), "masks": changed("SFC64")}, "the state of SFC64"),
        ({"draws": changed("PCG64"), "masks": {}}, "no generator that can be restored"),
    ],
)
def test_generators_are_restored_together_or_not_at_all(states: dict[str, Any], problem: str) -> None:
    registered = Generators(draws=np.random.default_rng(5), masks=np.random.default_rng(6))
    before = registered.capture()
    with pytest.raises(CheckpointInvalid, match=problem):
        registered.restore(states)
    assert registered.capture() == before
