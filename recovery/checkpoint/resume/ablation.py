"""Ablation: drop one field of a learning state at a time, and see that it is missed.

Owns which fields there are and what dropping one means. Must not know processes. Invariant: every field is dropped twice over: left out of
the document, where the import must refuse it; and replaced by what a new run has, past every check, where the run must diverge or the field
is told to be one that its updates do not read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any, Final, Self

import numpy as np

from recovery.checkpoint.errors import CheckpointError
from recovery.checkpoint.learning import HISTORY, WEIGHTS, Array, Learning
from recovery.checkpoint.resume.comparing import Divergence, Moment, differences, first_of
from recovery.checkpoint.resume.tolerance import Contract
from recovery.checkpoint.resume.tracing import Trace
from recovery.checkpoint.resume.trainers import Make, Step
from recovery.checkpoint.ulp import distance

Beat = Callable[[], None]

WEIGHTS_ONLY: Final = "weights only"
FRESH_MOMENTS: Final = "all but the moments"


@dataclass(frozen=True, slots=True)
class Dropped:
    """What came of a state without one field."""

    field: str  # a group of arrays, `counter`, `generators.NAME`, `cursor`, `history`, `config`, `lifecycle` or `extra`
    refused: str  # why the import refused the state without it; "" where it did not
    diverged: Divergence | None  # the first divergence when it was replaced by a new run's, past every check
    weights: Divergence | None  # the first divergence of a weight

    @property
    def noticed(self) -> bool:
        """Whether such a state can do no silent harm."""
        return bool(self.refused) or self.diverged is not None

    @classmethod
    def from_json(cls, told: Mapping[str, Any]) -> Self:
        """What `dataclasses.asdict` made of one."""
        diverged, weights = (told[name] and Divergence.from_json(told[name]) for name in ("diverged", "weights"))
        return cls(told["field"], told["refused"], diverged, weights)


@dataclass(frozen=True, slots=True)
class Point:
    """A run beside the exact one, after an update."""

    step: int  # completed updates, counted along the uninterrupted run
    loss: float | None  # first value of the history's last row
    apart: float  # largest difference of a weight
    ulps: int  # the distance of that weight, in units in the last place


@dataclass(frozen=True, slots=True)
class Trajectory:
    """How a run went on from a state."""

    name: str  # what it was restored from
    points: tuple[Point, ...]

    @classmethod
    def from_json(cls, told: Mapping[str, Any]) -> Self:
        """What `dataclasses.asdict` made of one."""
        return cls(told["name"], tuple(Point(**each) for each in told["points"]))


def fields(state: Learning) -> Iterator[str]:
    """Everything that can be dropped: weights, moments, other groups, the rest."""
    yield from sorted(state.groups, key=lambda group: (("w", "m", "v", group).index(group), group))
    yield "counter"
    yield from (f"generators.{name}" for name in state.generators)
    yield from ("cursor", HISTORY, "config", "lifecycle", *(["extra"] if state.extra else []))


def dropped(state: Learning, fresh: Learning, name: str) -> Learning:
    """The state with one field as a new run has it. Not checked: it is what a careless restore would make."""
    if name in state.groups:
        arrays = {key: (fresh.arrays.get(key, values) if _group(key) == name else values) for key, values in state.arrays.items()}
        return replace(state, arrays=arrays)
    if name.startswith("generators."):
        one = name.partition(".")[2]
        return replace(state, generators={**state.generators, one: fresh.generators[one]})
    changed: dict[str, Any] = {name: getattr(fresh, name)}
    return replace(state, **changed)


def refusal(state: Learning, fresh: Learning, name: str) -> str:
    """Why an import refuses the state without that field; "" if it takes it."""
    arrays, rest = dict(state.arrays), state.state()
    if name in state.groups:
        arrays = {key: values for key, values in arrays.items() if _group(key) != name}
    elif name.startswith("generators."):
        rest["generators"] = {key: told for key, told in rest["generators"].items() if f"generators.{key}" != name}
    else:
        del rest[name]
    try:
        Learning.from_parts(arrays, rest).check_fits(fresh)
    except CheckpointError as error:
        return f"{error.where}: {error.problem}"
    return ""


def ablate(
    make: Make, step: Step, state: Learning, updates: int, exact: Trace, contract: Contract, beat: Beat
) -> Iterator[Dropped]:
    """Drop each field in turn, and go on for so many updates beside the exact trace."""
    for name in fields(state):
        fresh = make().capture()
        first = moved = None
        refused = refusal(state, fresh, name)
        try:
            for number, found in _continued(make, step, dropped(state, fresh, name), state.counter, updates, beat):
                every = list(differences(number, exact.read(number), found, contract))
                first = first or first_of(every)
                moved = moved or next((each for each in every if _group(each.field) == WEIGHTS), None)
        except Exception as error:  # noqa: BLE001  # the trainer is the user's, and may well refuse such a state
            refused = refused or f"the trainer raises {type(error).__name__}: {error}"
        yield Dropped(name, refused, first, moved)


def trajectories(make: Make, step: Step, state: Learning, updates: int, exact: Trace, beat: Beat) -> Iterator[Trajectory]:
    """The runs that one gets from less than the state: from its weights alone, and from everything but its moments."""
    fresh = make().capture()
    weights = {key: values for key, values in state.arrays.items() if _group(key) == WEIGHTS}
    moments = {key: values for key, values in fresh.arrays.items() if _group(key) in {"m", "v"}}
    starts = {
        WEIGHTS_ONLY: replace(fresh, arrays={**fresh.arrays, **weights}),
        FRESH_MOMENTS: replace(state, arrays={**state.arrays, **moments}),
    }
    for name, start in starts.items():
        points: list[Point] = []
        with suppress(Exception):  # a trainer may refuse such a state; then there is no more of this line
            for number, found in _continued(make, step, start, state.counter, updates, beat):
                points.append(point(number, exact.read(number), found))
        yield Trajectory(name, tuple(points))


def point(step: int, expected: Moment, found: Moment) -> Point:
    """How far apart the weights are after an update."""
    apart, ulps = 0.0, 0
    for name, one in expected.tensors.items():
        other = found.tensors.get(name)
        if _group(name) != WEIGHTS or other is None or one.shape != other.shape or one.dtype.kind != "f" or not one.size:
            continue
        gaps = np.abs(one.astype(np.float64) - other.astype(np.float64)).reshape(-1)
        furthest = int(gaps.argmax())
        if gaps[furthest] > apart:
            apart, ulps = float(gaps[furthest]), int(distance(one, other).reshape(-1)[furthest])
    return Point(step, last_loss(found.tensors), apart, ulps)


def last_loss(tensors: Mapping[str, Array]) -> float | None:
    """The first value of the history's last row."""
    history = tensors.get(HISTORY)
    if history is None or not history.size:
        return None
    return float(history[-1].reshape(-1)[0])


def _continued(make: Make, step: Step, start: Learning, at: int, updates: int, beat: Beat) -> Iterator[tuple[int, Moment]]:
    trainer = make()
    trainer.restore(start)
    for number in range(at + 1, at + updates + 1):
        step(trainer)
        yield number, Moment.of(trainer.capture())
        beat()


def _group(name: str) -> str:
    return name.partition("/")[0]
