"""The parts of a verification, each of which can be a process: a run from its beginning, a run that is resumed.

Owns what is done and in what order. Must not know how processes are started, or what comes of a comparison. Invariant: a resumed part has
nothing but the checkpoint's directory and the names of two functions.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Protocol

from recovery.checkpoint.generators import watching
from recovery.checkpoint.learning import Learning
from recovery.checkpoint.resume.comparing import Divergence, Moment, divergence
from recovery.checkpoint.resume.tracing import Trace
from recovery.checkpoint.resume.trainers import Make, Step, Trainer

Beat = Callable[[], None]
"""Called after each update, for whoever shows progress."""


class Shelf(Protocol):
    """Where a part saves its last state and the next one finds it: a checkpoint store."""

    def save(self, state: Learning) -> object:
        """Durable when it returns."""

    def load(self) -> Learning:
        """The newest state, verified. Raises CheckpointError."""
        ...


@dataclass(slots=True)
class Told:
    """What a part has to say besides its trace. Plain values."""

    unregistered: list[str] = field(default_factory=list)  # process-wide generators that were drawn from and are not registered
    round_trip: Divergence | None = None  # where restoring twice, with nothing in between, changed something

    def to_json(self) -> dict[str, Any]:
        return {"unregistered": self.unregistered, "round_trip": self.round_trip and self.round_trip.to_json()}


def run(make: Make, step: Step, updates: int, trace: Trace, *, save: Shelf | None, beat: Beat) -> Told:
    """So many updates from the beginning; saved at the end where there is somewhere to save to."""
    told, trainer = Told(), make()
    for number in range(1, updates + 1):
        _update(trainer, step, told)
        trace.write(number, trainer.capture())
        beat()
    if save is not None:
        save.save(trainer.capture())
    return told


def resume(make: Make, step: Step, updates: int, trace: Trace, *, load: Shelf, save: Shelf | None, beat: Beat) -> Told:
    """So many updates from the newest checkpoint. Raises CheckpointError where it is not one of this run."""
    told, trainer, state = Told(), make(), load.load()
    trainer.restore(state.fitted(trainer.capture()))
    begin = trainer.capture()
    trace.write(state.counter, begin)
    for number in range(state.counter + 1, state.counter + updates + 1):
        _update(trainer, step, told)
        trace.write(number, trainer.capture())
        beat()
    if save is not None:
        save.save(trainer.capture())
    told.round_trip = _round_trip(make, state)  # last: it makes another trainer, and the run must not notice
    return told


def _update(trainer: Trainer, step: Step, told: Told) -> None:
    with watching(trainer.capture().generators, trainer) as drawn:
        step(trainer)
    told.unregistered += [name for name in drawn if name not in told.unregistered]


def _round_trip(make: Make, state: Learning) -> Divergence | None:
    """Restored, captured, and that restored into the same trainer again: a second resume must not differ from the first."""
    trainer = make()
    trainer.restore(state)
    trainer.restore(trainer.capture())
    return divergence(state.counter, Moment.of(state), Moment.of(trainer.capture()))
