"""The two states that are saved: weights and two moments of eight layers, binary64, with what else a learning state has; 256 MB and 96 kB of arrays."""

from __future__ import annotations

import numpy as np

from recovery.checkpoint import generators
from recovery.checkpoint.learning import Cursor, Learning
from recovery.checkpoint.lifecycle import Lifecycle, Stage

LAYERS = 8
UPDATES = 40


def large() -> Learning:
    return _state(256_000_000)


def small() -> Learning:
    return _state(96_000)


def _state(size: int) -> Learning:
    """In 24 arrays that are not copied: a save in the foreground reads them where they are."""
    draw = np.random.default_rng(17)
    return Learning(
        arrays={
            f"{group}/{layer}": draw.standard_exponential(size // (3 * LAYERS * 8)) for group in "wmv" for layer in range(LAYERS)
        },
        counter=UPDATES,
        cursor=Cursor(draws=2 * UPDATES, per_update=2),
        generators={"draws": generators.capture(draw)},
        history=draw.random(UPDATES),
        config={"rate": 0.001, "layers": LAYERS},
        lifecycle=Lifecycle(tokenizer="a" * 64, data="b" * 64, model="c" * 64, stage=Stage("train")),
        copy=False,
    )
