"""What must hold between the parts of a learning state, as data.

Owns the conditions and the sentences of their refusal. Must not know files or runs. Invariant: a state that breaks none of them can be
continued by its own code; one that breaks one was captured in the middle of an update, or tampered with.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from recovery.checkpoint import generators, narrow
from recovery.checkpoint.errors import CheckpointInvalid
from recovery.checkpoint.fingerprint import digest_of, digest_of_group

if TYPE_CHECKING:
    from recovery.checkpoint.learning import Learning

WEIGHTS: Final = "w"
MOMENTS: Final = ("m", "v")
HISTORY: Final = "history"

Array = np.ndarray[Any, np.dtype[Any]]
Broken = Iterator[tuple[str, str]]


class Invariant(NamedTuple):
    """A condition over a whole learning state."""

    name: str
    says: str
    broken: Callable[[Learning], Broken]
    """Yields where it does not hold, and why."""


def _counted(of: Learning) -> Broken:
    if type(of.counter) is not int or of.counter < 0:
        yield "counter", f"{of.counter!r} is no number of completed updates"


def _drawn(of: Learning) -> Broken:
    cursor = of.cursor
    for name, least in (("draws", 0), ("per_update", 1), ("examples", 0)):
        value = getattr(cursor, name)
        if type(value) is not int or value < least:
            yield f"cursor.{name}", f"{value!r} is less than {least} or no integer"
            return
    if cursor.draws != cursor.per_update * of.counter:
        due = f"{of.counter} updates of {cursor.per_update} examples consume {cursor.per_update * of.counter}"
        yield "cursor.draws", f"{due}, and it says {cursor.draws}: it was not captured between two updates"


def _recorded(of: Learning) -> Broken:
    rows = of.history.shape[0] if of.history.ndim else -1
    if rows != of.counter:
        yield "history", f"it has {max(rows, 0)} rows after {of.counter} updates"


def _named(of: Learning) -> Broken:
    for name in of.arrays:
        group, bar, rest = name.partition("/")
        if not (group and bar and rest):
            yield f"arrays.{name}", "it is not named GROUP/REST"
    if not any(name.startswith(f"{WEIGHTS}/") for name in of.arrays):
        yield "arrays", f"there are no weights ({WEIGHTS}/...)"


def _moments(of: Learning) -> Broken:
    parts: dict[str, dict[str, Array]] = {group: {} for group in (WEIGHTS, *MOMENTS)}
    for name, values in of.arrays.items():
        group, _, rest = name.partition("/")
        if group in parts:
            parts[group][rest] = values
    present = [group for group in MOMENTS if parts[group]]
    for group in present:
        if lacking := sorted(parts[WEIGHTS].keys() ^ parts[group].keys()):
            yield f"arrays.{group}", f"its names are not those of the weights: {', '.join(lacking)}"
            return
        for rest, values in parts[group].items():
            if values.shape != parts[WEIGHTS][rest].shape:
                yield f"arrays.{group}/{rest}", f"{list(values.shape)}, and its weights are {list(parts[WEIGHTS][rest].shape)}"
    if present == ["v"]:
        yield "arrays.m", "there are second moments and no first ones"


def _finite(of: Learning) -> Broken:
    for name, values in {**of.arrays, HISTORY: of.history}.items():
        # NaN spreads through both, and neither makes an array of the state's size beside it.
        if narrow.is_narrow(values):
            found = narrow.is_finite(values)
        else:
            found = values.dtype.kind != "f" or not values.size or bool(np.isfinite([values.min(), values.max()]).all())
        if not found:
            yield name, "it holds a value that is not finite"


def _positive(of: Learning) -> Broken:
    for name, values in of.arrays.items():
        if name.startswith("v/") and is_negative(values):
            yield f"arrays.{name}", "a second moment is negative, and its square root is taken"


def is_negative(values: Array) -> bool:
    """Whether one of the values is less than zero. An array that repeats one element is not walked through."""
    if not values.size:
        return False
    some = values if any(values.strides) else values[(slice(0, 1),) * values.ndim]
    return narrow.has_negative(some) if narrow.is_narrow(some) else bool(np.minimum.reduce(some, axis=None) < 0)


def _generators(of: Learning) -> Broken:
    if not of.generators:
        yield "generators", "there is none: register every generator that the run draws from"
    for name, state in of.generators.items():
        try:
            generators.check(state, where=f"generators.{name}")
        except CheckpointInvalid as error:
            yield error.where, error.problem


def _configured(of: Learning) -> Broken:
    if not of.config:
        yield "config", "it is empty, and an update depends on its configuration"
        return
    try:
        digest_of(dict(of.config))
    except (TypeError, ValueError) as error:
        yield "config", f"it is not JSON ({error})"


def _referenced(of: Learning) -> Broken:
    for group, digest in of.lifecycle.snapshots.items():
        if group in of.groups and digest_of_group(of.arrays, group) != digest:
            yield f"arrays.{group}", "its content is not that of the reference of that name in the lifecycle record"


def _in_stage(of: Learning) -> Broken:
    last = of.lifecycle.stage.last_update
    if last is not None and of.counter > last:
        yield "counter", f"it is {of.counter}, and stage {of.lifecycle.stage.name} ends with update {last}"


INVARIANTS: Final = (
    Invariant("counted", "the counter is a number of completed updates", _counted),
    Invariant("drawn", "draws = examples per update x updates", _drawn),
    Invariant("recorded", "the history has a row for each update", _recorded),
    Invariant("named", "arrays are named GROUP/REST, and there are weights", _named),
    Invariant("moments", "moments have the names and shapes of the weights", _moments),
    Invariant("finite", "every value is finite", _finite),
    Invariant("positive", "second moments are not negative", _positive),
    Invariant("generators", "at least one generator, and every state is one that its generator can be in", _generators),
    Invariant("configured", "the configuration is there and is JSON", _configured),
    Invariant("referenced", "a group that is named among the references is that reference", _referenced),
    Invariant("in stage", "the counter does not pass the stage's last update", _in_stage),
)
"""In the order in which they are checked."""

OF_CONTENT: Final = frozenset({"finite", "positive", "referenced"})
"""The names of those that look at values. What the others need is shapes."""
