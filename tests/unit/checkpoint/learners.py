"""Learning states for tests: small, valid, and changed in one place at a time."""

from __future__ import annotations

from typing import Any

import numpy as np

from recovery.checkpoint import generators
from recovery.checkpoint.learning import Cursor, Learning
from recovery.checkpoint.lifecycle import Lifecycle, Stage

LIFECYCLE = Lifecycle(tokenizer="a" * 64, data="b" * 64, model="c" * 64, stage=Stage("tune", last_update=10))


def learning(**changes: Any) -> Learning:
    """A state after three updates of two examples each."""
    fields: dict[str, Any] = {
        "arrays": {
            "w/layer": np.array([[0.5, -1.0], [2.0, 0.25]]),
            "w/bias": np.array([0.125, -0.0]),
            "m/layer": np.array([[0.1, 0.2], [-0.3, 0.4]]),
            "m/bias": np.array([0.1, 0.2]),
            "v/layer": np.array([[0.1, 0.2], [0.3, 0.0]]),
            "v/bias": np.array([0.1, 0.2]),
            "reference/layer": np.array([[1, 2], [3, 4]], dtype=np.int32),
        },
        "counter": 3,
        "cursor": Cursor(draws=6, per_update=2, examples=4),
        "generators": {"draws": generators.capture(np.random.default_rng(1)), "masks": generators.capture(np.random.Philox(2))},
        "history": np.array([0.3, 0.2, 0.1]),
        "config": {"rate": 0.1, "layers": 2, "seed": 2**80, "names": ["a", "b"]},
        "lifecycle": LIFECYCLE,
    }
    return Learning(**{**fields, **changes})


def with_array(name: str, values: Any) -> Learning:
    return learning(arrays={**learning().arrays, name: np.asarray(values)})


def without_array(name: str) -> Learning:
    return learning(arrays={key: values for key, values in learning().arrays.items() if key != name})
