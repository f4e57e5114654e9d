"""The reference trainer: a small model, Adam, sampled draws, two examples an update, in binary64.

Owns an update that can be read in one sitting and repeated bit for bit. Must not know files. Invariant: `restore(capture())` between two
updates changes nothing, in this process or in another.

It predicts a number from a short text: letters to rows of an embedding, their mean through one hidden layer with dropout, one output. It
uses +, -, x, / and square roots only, each of which IEEE 754 defines to the last bit, and adds from left to right. So its result depends on no
BLAS, no number of threads and no instruction set; `exp`, `tanh` and matrix products would.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import numpy as np

from recovery.checkpoint.fingerprint import digest_of
from recovery.checkpoint.generators import Generators
from recovery.checkpoint.learning import Array, Cursor, Learning
from recovery.checkpoint.lifecycle import Lifecycle, Stage

CONFIG: Final[Mapping[str, Any]] = {
    "seed": 20,
    "vocabulary": "abcdefgh",
    "examples": 64,
    "letters": 5,  # of each text
    "width": 6,
    "hidden": 8,
    "per_update": 2,
    "dropout": 0.25,
    "rate": 0.02,
    "rate_least": 0.002,
    "horizon": 30,  # the update at which the rate has come down to its least
    "beta1": 0.9,
    "beta2": 0.999,
    "epsilon": 1e-8,
}
"""Everything an update depends on that no update changes."""


class ReferenceTrainer:
    """A training run. Its whole state is what `capture` returns."""

    def __init__(self, config: Mapping[str, Any] = CONFIG) -> None:
        self.config = dict(config)
        seeds = np.random.SeedSequence(config["seed"]).spawn(4)
        self.texts, self.targets = _data(config, np.random.default_rng(seeds[0]))
        self.tokens = [np.array([config["vocabulary"].index(letter) for letter in text]) for text in self.texts]
        self.weights = _initial(config, np.random.default_rng(seeds[1]))
        self.first = {name: np.zeros_like(values) for name, values in self.weights.items()}
        self.second = {name: np.zeros_like(values) for name, values in self.weights.items()}
        self.draws = np.random.default_rng(seeds[2])  # which examples
        self.masks = np.random.default_rng(seeds[3])  # which hidden units are left out
        self.generators = Generators(draws=self.draws, masks=self.masks)
        self.counter = 0
        self.cursor = Cursor(draws=0, per_update=config["per_update"])
        self.losses: list[float] = []
        self.lifecycle = Lifecycle(
            tokenizer=digest_of(config["vocabulary"]),
            data=digest_of([self.texts, self.targets.tolist()]),
            model=digest_of([config["letters"], config["width"], config["hidden"]]),
            stage=Stage("reference"),
        )

    def step(self) -> None:
        """One update: draw, compute, move the weights, and only then count it."""
        chosen = self.draws.integers(len(self.tokens), size=self.config["per_update"])
        gradients = {name: np.zeros_like(values) for name, values in self.weights.items()}
        loss = 0.0
        for example in chosen:
            loss += self._learn_from(self.tokens[example], float(self.targets[example]), gradients)
        self._adam({name: values / len(chosen) for name, values in gradients.items()})
        self.losses.append(loss / len(chosen))
        self.counter += 1
        self.cursor = self.cursor.advanced()

    def capture(self) -> Learning:
        """The state between two updates: generators first, arrays copied."""
        states = self.generators.capture()
        groups = (("w", self.weights), ("m", self.first), ("v", self.second))
        return Learning(
            arrays={f"{group}/{name}": values for group, named in groups for name, values in named.items()},
            counter=self.counter,
            cursor=self.cursor,
            generators=states,
            history=np.array(self.losses, dtype=np.float64),
            config=self.config,
            lifecycle=self.lifecycle,
        )

    def restore(self, state: Learning) -> None:
        """Continue from a state, generators last. It must fit (`Learning.check_fits`); whoever loaded it has checked that."""
        for group, named in (("w", self.weights), ("m", self.first), ("v", self.second)):
            for name in named:
                named[name] = state.arrays[f"{group}/{name}"].copy()
        self.config = dict(state.config)
        self.counter, self.cursor, self.losses = state.counter, state.cursor, state.history.tolist()
        self.lifecycle = state.lifecycle
        self.generators.restore(state.generators)

    def rate(self, update: int) -> float:
        """The learning rate of the update with that number, from 1: linear down to its least, which it keeps beyond the horizon."""
        left = max(0, self.config["horizon"] - update) / self.config["horizon"]
        return float(self.config["rate_least"] + (self.config["rate"] - self.config["rate_least"]) * left)

    @staticmethod
    def total(rows: Array) -> Array:
        """The sum along the first axis, from left to right: the order is part of the result."""
        total: Array = np.add.accumulate(rows, axis=0)[-1]
        return total

    def _learn_from(self, tokens: Array, target: float, gradients: dict[str, Array]) -> float:
        """Half the squared error of one example; adds its gradients."""
        kept = self.masks.random(self.config["hidden"]) >= self.config["dropout"]
        scale = kept / (1.0 - self.config["dropout"])
        embedded = self.total(self.weights["embedding"][tokens]) / len(tokens)
        reached = self.total(embedded[:, None] * self.weights["hidden"])
        hidden = reached / (1.0 + np.abs(reached)) * scale
        error = float(self.total(hidden * self.weights["output"])) - target
        gradients["output"] += error * hidden
        back = error * self.weights["output"] * scale / (1.0 + np.abs(reached)) ** 2
        gradients["hidden"] += embedded[:, None] * back[None, :]
        share = self.total((self.weights["hidden"] * back[None, :]).T) / len(tokens)
        for token in tokens:
            gradients["embedding"][token] += share
        return 0.5 * error * error

    def _adam(self, gradients: Mapping[str, Array]) -> None:
        """Kingma and Ba, "Adam: a method for stochastic optimization" (2015), algorithm 1."""
        update, beta1, beta2 = self.counter + 1, self.config["beta1"], self.config["beta2"]
        unbiased1, unbiased2 = 1.0 - _power(beta1, update), 1.0 - _power(beta2, update)
        for name, gradient in gradients.items():
            self.first[name] = beta1 * self.first[name] + (1.0 - beta1) * gradient
            self.second[name] = beta2 * self.second[name] + (1.0 - beta2) * (gradient * gradient)
            step = (self.first[name] / unbiased1) / (np.sqrt(self.second[name] / unbiased2) + self.config["epsilon"])
            self.weights[name] = self.weights[name] - self.rate(update) * step


def make() -> ReferenceTrainer:
    """A run at its beginning."""
    return ReferenceTrainer()


def step(trainer: ReferenceTrainer) -> None:
    """One update of it."""
    trainer.step()


def _data(config: Mapping[str, Any], rng: np.random.Generator) -> tuple[list[str], Array]:
    """Texts, and a target for each: the mean of its letters' hidden values. The same texts whatever order the vocabulary has."""
    letters = "".join(sorted(config["vocabulary"]))
    drawn = rng.integers(len(letters), size=(config["examples"], config["letters"]))
    values = rng.integers(-8, 9, size=len(letters)) / 8.0
    return ["".join(letters[each] for each in text) for text in drawn], ReferenceTrainer.total(values[drawn].T) / config["letters"]


def _initial(config: Mapping[str, Any], rng: np.random.Generator) -> dict[str, Array]:
    sizes = {
        "embedding": (len(config["vocabulary"]), config["width"]),
        "hidden": (config["width"], config["hidden"]),
        "output": (config["hidden"],),
    }
    return {name: rng.random(size) - 0.5 for name, size in sizes.items()}


def _power(base: float, exponent: int) -> float:
    """By repeated multiplication: the last bit of a library's `pow` differs between libraries."""
    product = 1.0
    for _ in range(exponent):
        product *= base
    return product
