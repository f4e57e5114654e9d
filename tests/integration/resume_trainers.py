"""Trainers that are verified: right ones, and ones with a public project's fault each. Importable by another process."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Any

import numpy as np

from recovery.checkpoint.generators import Generators
from recovery.checkpoint.learning import Cursor, Learning
from recovery.checkpoint.reference import CONFIG, ReferenceTrainer


def step(trainer: ReferenceTrainer) -> None:
    trainer.step()


class ForgetsItsMasks(ReferenceTrainer):
    """The generator of its dropout is not registered."""

    def __init__(self) -> None:
        super().__init__()
        self.generators = Generators(draws=self.draws)


class SwallowsAMissingState(ForgetsItsMasks):
    """It was saved with one generator and is restored by code with two, which logs the failure and goes on."""

    def restore(self, state: Learning) -> None:
        self.generators = Generators(draws=self.draws, masks=self.masks)
        try:
            super().restore(state)
        except Exception:  # the fault that is tested: a swallowed restore
            self.draws.bit_generator.state = state.generators["draws"]
        self.generators = Generators(draws=self.draws)


class CachesItsFirstCapture(ReferenceTrainer):
    """It keeps the arrays of its first capture, and saves those for ever."""

    def capture(self) -> Learning:
        state = super().capture()
        self.cached = getattr(self, "cached", state.arrays)
        return replace(state, arrays=self.cached)


class AppendsToItsHistory(ReferenceTrainer):
    """Its restore adds to what is there: right the first time only."""

    def restore(self, state: Learning) -> None:
        kept = self.losses
        super().restore(state)
        self.losses = [*kept, *self.losses]


class CountsAfterTheCapture(ReferenceTrainer):
    """Its checkpoint is taken inside the update, before the counter moves."""

    def capture(self) -> Learning:
        state = super().capture()
        return replace(state, counter=max(0, state.counter - 1)) if state.counter % 3 == 0 else state


class KeepsItsScheduleOutside(ReferenceTrainer):
    """The rate comes from a counter of the scheduler's own, which begins anew after a resume."""

    scheduled = 0

    def rate(self, update: int) -> float:
        return super().rate(self.scheduled + 1)

    def step(self) -> None:
        super().step()
        self.scheduled += 1


class DrawsFromNumpyItself(ReferenceTrainer):
    """A little noise from the process-wide generator."""

    registered = False

    def __init__(self) -> None:
        super().__init__()
        np.random.seed(5)
        if self.registered:
            self.generators = Generators(draws=self.draws, masks=self.masks, numpy_global=True)

    def step(self) -> None:
        super().step()
        self.weights["output"] = self.weights["output"] + 1e-3 * (np.random.rand() - 0.5)


class RegistersNumpyItself(DrawsFromNumpyItself):
    registered = True


class SeedsNothing(ReferenceTrainer):
    """Every run from the beginning is another one."""

    def step(self) -> None:
        super().step()
        self.weights["output"] = self.weights["output"] + 1e-9 * random.SystemRandom().random()


class RestoresFloatsThroughText(ReferenceTrainer):
    """Seven digits of each second moment."""

    def restore(self, state: Learning) -> None:
        super().restore(state)
        for name, values in self.second.items():
            self.second[name] = np.array([float(f"{each:.6e}") for each in values.flat]).reshape(values.shape)


class AddsInAnotherOrder(ReferenceTrainer):
    """In float32; after a resume its sums go from right to left, as with another number of threads."""

    turned = False

    def __init__(self) -> None:
        super().__init__()
        for named in (self.weights, self.first, self.second):
            for name, values in named.items():
                named[name] = values.astype(np.float32)

    def total(self, rows: Any) -> Any:  # type: ignore[override]
        return super().total(rows[::-1] if self.turned else rows)

    def restore(self, state: Learning) -> None:
        super().restore(state)
        self.turned = True


class NoisyInAnotherOrder(AddsInAnotherOrder):
    """And draws from the process-wide generator, which is registered."""

    def __init__(self) -> None:
        super().__init__()
        np.random.seed(5)
        self.generators = Generators(draws=self.draws, masks=self.masks, numpy_global=True)

    def step(self) -> None:
        super().step()
        self.weights["output"] = self.weights["output"] + np.float32(1e-3 * (np.random.rand() - 0.5))


class LosesItsMomentsAsWell(AddsInAnotherOrder):
    def step(self) -> None:
        if self.turned and self.counter == 3:
            self.first = {name: np.zeros_like(values) for name, values in self.first.items()}
        super().step()


class RefusesAnEmptyHistory(ReferenceTrainer):
    """Takes no state without a history."""

    def restore(self, state: Learning) -> None:
        if not len(state.history):
            raise ValueError("no history")
        super().restore(state)


class Epochs(ReferenceTrainer):
    """Goes through all examples in an order of each epoch's own, five of them; six updates of two cross two epochs."""

    examples = 5

    def __init__(self) -> None:
        super().__init__({**CONFIG, "examples": self.examples})
        self.cursor = Cursor(0, CONFIG["per_update"], self.examples)
        self.order: list[int] = []
        self.seen: list[int] = []

    def step(self) -> None:
        for _ in range(self.cursor.per_update):
            if not self.order:
                self.order = self._shuffled(len(self.seen) // self.examples)
            self.seen.append(self.order.pop(0))
        super().step()
        self.losses[-1] = float(self.seen[-1] + 10 * self.seen[-2])  # so that the history tells what was drawn

    def _shuffled(self, epoch: int) -> list[int]:
        return [int(each) for each in np.random.default_rng([20, epoch]).permutation(self.examples)]

    def restore(self, state: Learning) -> None:
        super().restore(state)
        self.seen = [self._at(draw) for draw in range(state.cursor.draws)]
        self.order = self._shuffled(state.cursor.epoch)[state.cursor.offset :] if state.cursor.offset else []

    def _at(self, draw: int) -> int:
        return self._shuffled(draw // self.examples)[draw % self.examples]


class LosesItsPlaceInTheEpoch(Epochs):
    """Begins the epoch again."""

    def restore(self, state: Learning) -> None:
        super().restore(state)
        self.order = self._shuffled(state.cursor.epoch)


class CountsWhatWasFetched(Epochs):
    """Its loader is two examples ahead, and the cursor says so."""

    def capture(self) -> Learning:
        state = super().capture()
        return replace(state, cursor=replace(state.cursor, draws=state.cursor.draws + 2))


class OtherTokenizer(ReferenceTrainer):
    """As many letters in another order. Only the lifecycle record can tell: its code keeps the vocabulary out of the configuration."""

    vocabulary = CONFIG["vocabulary"][::-1]

    def __init__(self) -> None:
        super().__init__({**CONFIG, "vocabulary": self.vocabulary})
        self.config["vocabulary"] = len(self.vocabulary)


class OneTokenizer(OtherTokenizer):
    vocabulary = CONFIG["vocabulary"]


class WithAnotherRate(ReferenceTrainer):
    def __init__(self) -> None:
        super().__init__({**CONFIG, "rate": 0.03})


class WithAnotherArray(ReferenceTrainer):
    def capture(self) -> Learning:
        state = super().capture()
        return replace(state, arrays={**state.arrays, "average/output": self.weights["output"]})


def make_hidden() -> Any:
    return ForgetsItsMasks()


def fails(trainer: ReferenceTrainer) -> None:
    raise ArithmeticError("the loss ran away")
