"""Trainers of torch that are verified: one that is right, and two with a fault. Importable by another process, which computes as this one does."""

from __future__ import annotations

from typing import Any

import torch

from recovery.checkpoint import Learning
from tests.torch.jobs import Training

torch.set_num_threads(1)
torch.use_deterministic_algorithms(True)


class Whole(Training):
    """Everything is captured."""

    def capture(self) -> Learning:
        return self.job.capture()

    def restore(self, state: Learning) -> None:
        self.job.restore(state)


class ForgetsTorchsGenerator(Whole):
    """Dropout draws from a generator that is not registered."""

    def __init__(self) -> None:
        super().__init__()
        self.job.generators = {"sampler": self.sampler.generator}


class ForgetsItsSchedule(Whole):
    """The schedule has a counter of its own, which begins anew."""

    def __init__(self) -> None:
        super().__init__()
        self.job.parts = {}


def make() -> Any:
    return Whole()


def make_forgetting_its_generator() -> Any:
    return ForgetsTorchsGenerator()


def make_forgetting_its_schedule() -> Any:
    return ForgetsItsSchedule()


def step(trainer: Whole) -> None:
    trainer.step()


def step_reordered(trainer: Whole) -> None:
    """The same sums in another order after update 3, as other threads or ranks would make them."""
    if trainer.job.counter < 3:
        trainer.step()
        return
    model, plain = trainer.model, trainer.model.first.forward

    def reordered(x: torch.Tensor) -> torch.Tensor:
        """One product after the other, from the last: a processor's own product of matrices may come to the same bits from either end."""
        last, *others = reversed((x.unsqueeze(1) * model.first.weight).unbind(2))
        return sum(others, last) + model.first.bias

    model.first.forward = reordered
    trainer.step()
    model.first.forward = plain
