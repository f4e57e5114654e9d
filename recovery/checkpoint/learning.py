"""A complete learning state, and weights, which are none.

Owns what belongs to S in S(t+1) = F(S(t), D(t)): weights, moments, counter, generators, cursor, history, configuration, lifecycle; and
what must hold between them. Must not know files. Invariant: a `Learning` that passes `check` lacks nothing that the next update needs.

Arrays are named GROUP/REST. Three groups have a meaning here: `w` are the weights, `m` and `v` the first and second moments of an Adam-like
optimizer, named like the weights that they belong to. Any other group is carried along and must be there again.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import InitVar, dataclass, field, replace
from types import MappingProxyType
from typing import Any, Final, NamedTuple, Self

import numpy as np

from recovery.checkpoint.errors import CheckpointInvalid, WrongKind
from recovery.checkpoint.fingerprint import digest_of, digest_of_array
from recovery.checkpoint.generators import plain
from recovery.checkpoint.invariants import HISTORY as HISTORY
from recovery.checkpoint.invariants import INVARIANTS as INVARIANTS
from recovery.checkpoint.invariants import MOMENTS, OF_CONTENT
from recovery.checkpoint.invariants import WEIGHTS as WEIGHTS
from recovery.checkpoint.kinds import RULES, Kind
from recovery.checkpoint.lifecycle import Exposure, Lifecycle
from recovery.checkpoint.ulp import identical

Array = np.ndarray[Any, np.dtype[Any]]


@dataclass(frozen=True, slots=True)
class Cursor:
    """Where in its data a run stands.

    Invariant: draws = per_update * updates: it counts what was consumed by completed updates, never what a loader has fetched ahead.
    """

    draws: int  # examples consumed since the beginning of the run
    per_update: int  # examples of one update
    examples: int = 0  # of one epoch; 0: the run draws without epochs

    @property
    def epoch(self) -> int:
        """Completed epochs."""
        return self.draws // self.examples if self.examples else 0

    @property
    def offset(self) -> int:
        """Examples consumed of the current epoch."""
        return self.draws % self.examples if self.examples else self.draws

    def advanced(self) -> Self:
        """After one more update."""
        return type(self)(self.draws + self.per_update, self.per_update, self.examples)

    def to_json(self) -> dict[str, int]:
        return {"draws": self.draws, "per_update": self.per_update, "examples": self.examples}


@dataclass(frozen=True, slots=True, eq=False)
class Learning:
    """A complete learning state between two updates. Two are compared by `digest`.

    Invariant: the arrays are copies of its own and cannot be written to: an update that goes on meanwhile does not change them. With
    copy=False they are the caller's, for a save that ends before the next update begins.
    """

    arrays: Mapping[str, Array]  # GROUP/REST -> values
    counter: int  # completed updates
    cursor: Cursor
    generators: Mapping[str, Mapping[str, Any]]  # name -> state, as `generators.capture` reads it
    history: Array  # one row of float64 for each update, such as its loss; at most some million values
    config: Mapping[str, Any]  # everything an update depends on that no update changes; JSON
    lifecycle: Lifecycle
    extra: Mapping[str, Any] = field(default_factory=dict)  # plain values that updates change: of schedules, scalers, loaders; JSON
    copy: InitVar[bool] = True

    def __post_init__(self, copy: bool) -> None:
        object.__setattr__(self, "arrays", MappingProxyType({name: _own(values, copy) for name, values in self.arrays.items()}))
        object.__setattr__(self, "history", _own(np.array(self.history, dtype=np.float64), copy=False))
        object.__setattr__(self, "generators", MappingProxyType(plain(self.generators)))
        object.__setattr__(self, "config", MappingProxyType(plain(self.config)))
        object.__setattr__(self, "extra", MappingProxyType(plain(self.extra)))

    def __repr__(self) -> str:
        return f"<Learning after {self.counter} updates: {_sized(self.arrays)}>"

    @property
    def groups(self) -> tuple[str, ...]:
        """The groups of its arrays, in the order of their first one."""
        return tuple(dict.fromkeys(name.partition("/")[0] for name in self.arrays))

    @property
    def digest(self) -> str:
        """64 hex characters over everything in it. Equal digests mean equal states, bit for bit."""
        arrays = {name: digest_of_array(values) for name, values in self.arrays.items()}
        return digest_of({"arrays": arrays, "state": self.state()})

    @property
    def kind(self) -> Kind:
        """A learning state: it resumes."""
        return Kind.LEARNING

    def state(self) -> dict[str, Any]:
        """Everything but the arrays, as JSON with exact integers and floats."""
        return {
            "counter": self.counter,
            "cursor": self.cursor.to_json(),
            "generators": {name: dict(state) for name, state in self.generators.items()},
            "history": {"shape": list(self.history.shape), "values": self.history.reshape(-1).tolist()},
            "config": dict(self.config),
            "config_digest": digest_of(dict(self.config)),
            "lifecycle": self.lifecycle.to_json(),
            "extra": dict(self.extra),
        }

    @classmethod
    def from_parts(cls, arrays: Mapping[str, Array], state: Any, *, finite: bool = True, content: bool = True) -> Self:
        """A learning state from its arrays and what `state` said, checked. Raises CheckpointInvalid.

        The arrays are taken over, not copied. finite: False where every array has been found finite already. content: False where the values of the
        arrays are not there, only their types and shapes.
        """
        if not isinstance(state, Mapping):
            raise CheckpointInvalid(reason="fields", where="state", problem="it is no mapping")
        if missing := [name for name in _STATE if name not in state]:
            raise CheckpointInvalid(
                reason="fields",
                where="state",
                problem=f"{', '.join(missing)} is missing, and no update can be repeated without it",
            )
        if unknown := sorted(state.keys() - set(_STATE)):
            raise CheckpointInvalid(reason="fields", where="state", problem=f"{', '.join(unknown)} is not known")
        for name in ("cursor", "generators", "history", "config", "extra"):
            if not isinstance(state[name], Mapping):
                raise CheckpointInvalid(reason="fields", where=name, problem="it is no mapping")
        if digest_of(dict(state["config"])) != state["config_digest"]:
            raise CheckpointInvalid(reason="digest", where="config_digest", problem="it is not that of the configuration beside it")
        made = cls(
            arrays=arrays,
            counter=state["counter"],
            cursor=_cursor(state["cursor"]),
            generators=state["generators"],
            history=_history(state["history"]),
            config=state["config"],
            lifecycle=Lifecycle.from_json(state["lifecycle"]),
            extra=state["extra"],
            copy=False,
        )
        made.check(finite=finite, content=content)
        return made

    def check(self, *, finite: bool = True, content: bool = True) -> None:
        """Raises CheckpointInvalid with the first of `INVARIANTS` that does not hold. finite: whether to look at every value for that; content: at any value."""
        for invariant in INVARIANTS:
            if (invariant.name == "finite" and not finite) or (invariant.name in OF_CONTENT and not content):
                continue
            for where, problem in invariant.broken(self):
                raise CheckpointInvalid(reason="invariant", where=where, problem=problem)

    def fitted(self, current: Learning, seen: Exposure | None = None) -> Learning:
        """This state, to take the place of `current`: what a run restores. Raises CheckpointInvalid unless it fits.

        Its exposure is that of both, and what was `seen` besides (`exposure_from(journal)`): an older state takes no look back.
        """
        self.check_fits(current)
        lifecycle = self.lifecycle.merge(current.lifecycle)
        return replace(self, lifecycle=lifecycle.merge(seen) if seen else lifecycle, copy=False)

    def check_fits(self, current: Learning) -> None:
        """Raises CheckpointInvalid unless this state can take the place of `current`, in the same run with the same code.

        The same arrays by name, type and shape, and by content where the stage does not update them; generators of the same names; the same
        configuration; the same tokenizer, data, model, references and stage. Exposure is not compared: `fitted` merges it.
        """
        self.lifecycle.check_fits(current.lifecycle)
        _same_names("arrays", set(self.arrays), set(current.arrays))
        for name, values in current.arrays.items():
            found = self.arrays[name]
            if (found.dtype, found.shape) != (values.dtype, values.shape):
                problem = f"{found.dtype} {list(found.shape)}, and the run has {values.dtype} {list(values.shape)}"
                raise CheckpointInvalid(reason="schema", where=f"arrays.{name}", problem=problem)
            if self.lifecycle.stage.freezes(name.partition("/")[0]) and not identical(values, found):
                problem = f"stage {self.lifecycle.stage.name} does not update it, and it is not the one that the run has"
                raise CheckpointInvalid(reason="schema", where=f"arrays.{name}", problem=problem)
        _same_names("generators", set(self.generators), set(current.generators))
        if self.cursor.per_update != current.cursor.per_update or self.cursor.examples != current.cursor.examples:
            raise CheckpointInvalid(
                reason="schema", where="cursor", problem=f"it counts by {self.cursor}, and the run by {current.cursor}"
            )
        if digest_of(dict(self.config)) != digest_of(dict(current.config)):
            raise CheckpointInvalid(reason="schema", where="config", problem=_config_difference(self.config, current.config))


@dataclass(frozen=True, slots=True, eq=False)
class Weights:
    """What a model computes with, and nothing of how it learns. Good for inference, evaluation and as a start of another run.

    Invariant: it is never taken for a continuation; `missing_for_continuation` says what that would need.
    """

    arrays: Mapping[str, Array]  # GROUP/REST -> values; the weights' group
    config: Mapping[str, Any] = field(default_factory=dict)  # of the model
    lifecycle: Lifecycle | None = None

    def __post_init__(self) -> None:
        object.__setattr__(
            self, "arrays", MappingProxyType({name: _own(values, copy=True) for name, values in self.arrays.items()})
        )
        object.__setattr__(self, "config", MappingProxyType(plain(self.config)))

    def __repr__(self) -> str:
        return f"<Weights: {_sized(self.arrays)}>"

    @property
    def kind(self) -> Kind:
        """Weights: they can be used, and not resumed."""
        return Kind.WEIGHTS

    @classmethod
    def from_parts(cls, arrays: Mapping[str, Array], state: Any) -> Self:
        """Weights from their arrays and what `state` said. Raises CheckpointInvalid."""
        if not isinstance(state, Mapping) or state.keys() != {"config", "lifecycle"} or not isinstance(state["config"], Mapping):
            raise CheckpointInvalid(reason="fields", where="state", problem="it is not a configuration and a lifecycle record")
        record = state["lifecycle"]
        return cls(arrays, state["config"], None if record is None else Lifecycle.from_json(record))

    def state(self) -> dict[str, Any]:
        """Everything but the arrays, as JSON."""
        return {"config": dict(self.config), "lifecycle": self.lifecycle.to_json() if self.lifecycle else None}

    @classmethod
    def of(cls, learning: Learning) -> Self:
        """The weights of a learning state."""
        arrays = {name: values for name, values in learning.arrays.items() if name.startswith(f"{WEIGHTS}/")}
        return cls(arrays, learning.config, learning.lifecycle)


def hold(arrays: Mapping[str, Array], state: Any) -> None:
    """Raises CheckpointInvalid unless finite arrays and a state are those of a learning state that lacks nothing. Copies no array."""
    Learning.from_parts(arrays, state, finite=False)


def hold_in_parts(outline: Mapping[str, Array], state: Any, read: Callable[[str], Array]) -> None:
    """`hold` with as few arrays at once as the invariants allow: one, or a group that the lifecycle record knows as a reference.

    outline: arrays of the right types and shapes, whatever their values. read: one array by name.
    """
    whole = Learning.from_parts(outline, state, content=False)
    for group in whole.groups:
        names = [name for name in outline if name.partition("/")[0] == group]
        parts = [names] if group in whole.lifecycle.snapshots else [[name] for name in names] if group == MOMENTS[-1] else []
        for part in parts:
            held = replace(whole, arrays={name: read(name) for name in part}, copy=False)
            for invariant in INVARIANTS:
                if invariant.name in OF_CONTENT and invariant.name != "finite":
                    for where, problem in invariant.broken(held):
                        raise CheckpointInvalid(reason="invariant", where=where, problem=problem)


class Taken(NamedTuple):
    """An explicit part of a state's arrays, with the report of what was left."""

    weights: Weights
    left: tuple[str, ...]  # names that are in the state and were not taken


def take(state: Learning | Weights, names: Iterable[str]) -> Taken:
    """Some arrays by name, to begin another run with. Raises CheckpointInvalid if one is not there: nothing is left out in silence."""
    wanted = list(dict.fromkeys(names))
    if missing := [name for name in wanted if name not in state.arrays]:
        raise CheckpointInvalid(reason="schema", where="arrays", problem=f"there is no {', '.join(missing)} to take")
    weights = Weights({name: state.arrays[name] for name in wanted}, state.config, state.lifecycle)
    return Taken(weights, tuple(name for name in state.arrays if name not in wanted))


def continued(saved: Learning | Weights, *, name: str) -> Learning:
    """A learning state, to go on from. Raises WrongKind, with the list of what is missing, for weights: `name` is what they are called."""
    if isinstance(saved, Learning):
        return saved
    lacking = ", ".join(missing_for_continuation(saved))
    use = f"{RULES[Kind.WEIGHTS].use.partition(';')[0]}; to continue training it lacks {lacking}"
    raise WrongKind(name=name, found=saved.kind.value, wanted=Kind.LEARNING.value, use=use)


def missing_for_continuation(weights: Weights) -> tuple[str, ...]:
    """What the next update needs and weights do not have, in words. Never empty."""
    groups = {name.partition("/")[0] for name in weights.arrays}
    missing = [
        *(words for group, words in (("m", "first moments (m/...)"), ("v", "second moments (v/...)")) if group not in groups),
        "optimizer counter",
        "states of the random generators",
        "draw cursor",
        "history",
        *([] if weights.config else ["configuration"]),
        *([] if weights.lifecycle else ["lifecycle record"]),
    ]
    return tuple(missing)


_STATE: Final = ("counter", "cursor", "generators", "history", "config", "config_digest", "lifecycle", "extra")


def _sized(arrays: Mapping[str, Array]) -> str:
    """What arrays are told by: how many, and how large."""
    return f"{len(arrays)} arrays, {sum(values.nbytes for values in arrays.values())} bytes"


def _own(values: Any, copy: bool) -> Array:
    if not copy and type(values) is np.ndarray and not values.flags.writeable:
        return values
    if isinstance(values, np.ma.MaskedArray):
        raise CheckpointInvalid(reason="dtype", where="arrays", problem="one is masked, and the mask would be lost")
    owned: Array = np.array(values, copy=True, order="C") if copy else np.asarray(values).view()
    owned.setflags(write=False)
    return owned


def _cursor(told: Mapping[str, Any]) -> Cursor:
    if told.keys() != {"draws", "per_update", "examples"}:
        raise CheckpointInvalid(
            reason="schema",
            where="cursor",
            problem=f"it has {', '.join(sorted(told)) or 'nothing'}, not draws, per_update, examples",
        )
    return Cursor(told["draws"], told["per_update"], told["examples"])


def _history(told: Mapping[str, Any]) -> Array:
    values, shape = told.get("values"), told.get("shape")
    if told.keys() != {"shape", "values"} or not isinstance(values, list) or not isinstance(shape, list):
        raise CheckpointInvalid(reason="fields", where="history", problem="it is not a shape and its values")
    if not all(type(value) is float for value in values) or not all(type(size) is int and size >= 0 for size in shape):
        raise CheckpointInvalid(reason="fields", where="history", problem="its values are not floats, or its shape no sizes")
    if not 1 <= len(shape) <= 2 or math.prod(shape) != len(values):
        raise CheckpointInvalid(reason="fields", where="history", problem=f"{len(values)} values have not the shape {shape}")
    return np.array(values, dtype=np.float64).reshape(shape)


def _same_names(where: str, found: set[str], expected: set[str]) -> None:
    told = [
        f"{words} {', '.join(sorted(names))}"
        for words, names in (("without", expected - found), ("with the unknown", found - expected))
        if names
    ]
    if told:
        raise CheckpointInvalid(reason="schema", where=where, problem=f"{' and '.join(told)}; exactly the run's are taken")


def _config_difference(found: Mapping[str, Any], expected: Mapping[str, Any]) -> str:
    missing = object()
    differ = sorted(n for n in {*found, *expected} if found.get(n, missing) != expected.get(n, missing)) or ["1 and 1.0"]
    told = [f"{name}: {found.get(name, 'missing')!r}, here {expected.get(name, 'missing')!r}" for name in differ]
    return f"another configuration than the run's ({'; '.join(told)})"
