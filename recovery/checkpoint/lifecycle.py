"""The lifecycle record: what a training state belongs to, and what has been seen that cannot be unseen.

Owns the digests of tokenizer, data and model, the reference snapshots, the stage's contract and the exposure of final test sets. Must not
know files, arrays or journals. Invariant: exposure only grows: no restore, merge or older checkpoint takes a look back, since whoever has
looked at a test set has looked, whichever weights are loaded afterwards.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any, Final, NamedTuple, Protocol, Self

from recovery.checkpoint.errors import CheckpointInvalid

_DIGEST: Final = re.compile(r"[0-9a-f]{64}")
_NAME: Final = re.compile(r"[A-Za-z0-9._:/-]{1,128}")
_TEXT_MAX: Final = 255  # characters; as many as an idempotency key may have

DIGESTS: Final = ("tokenizer", "data", "model")
"""What is compared by content. A tokenizer with as many words in another order has the same size and another digest."""


@dataclass(frozen=True, slots=True)
class Stage:
    """The contract of a training stage.

    Invariant: groups of arrays that are not in `updates` are the same, byte for byte, in every checkpoint of the stage.
    """

    name: str  # of the stage: pretrain, tune, ...
    reads: tuple[str, ...] = ()  # names of the splits that it may draw from
    updates: tuple[str, ...] | None = None  # groups of arrays that it may change; None: all
    last_update: int | None = None  # the counter never exceeds it; None: open

    def freezes(self, group: str) -> bool:
        """Whether a group of arrays stays as it is throughout the stage."""
        return self.updates is not None and group not in self.updates

    def to_json(self) -> dict[str, Any]:
        updates = None if self.updates is None else list(self.updates)
        return {"name": self.name, "reads": list(self.reads), "updates": updates, "last_update": self.last_update}

    @classmethod
    def from_json(cls, told: Mapping[str, Any]) -> Self:
        """Raises CheckpointInvalid."""
        _keys(told, {"name", "reads", "updates", "last_update"}, "lifecycle.stage")
        last, updates = told["last_update"], told["updates"]
        if last is not None and (type(last) is not int or last < 0):
            raise CheckpointInvalid(
                reason="lifecycle", where="lifecycle.stage.last_update", problem=f"{last!r} is no number of updates"
            )
        return cls(
            name=_name(told["name"], "lifecycle.stage.name"),
            reads=_names(told["reads"], "lifecycle.stage.reads"),
            updates=None if updates is None else _names(updates, "lifecycle.stage.updates"),
            last_update=last,
        )


class Look(NamedTuple):
    """One use of a final test set."""

    test_set: str
    key: str
    """Names the look for ever: the idempotency key of the effect that evaluated, so that one look is counted once."""


@dataclass(frozen=True, slots=True)
class Exposure:
    """Looks at final test sets. Two records of it are merged by union; nothing removes from it."""

    looks: frozenset[Look] = frozenset()

    def seen(self, test_set: str, key: str) -> Self:
        """With one more look."""
        return replace(self, looks=self.looks | {Look(_text(test_set, "test set"), _text(key, "key of a look"))})

    def merge(self, other: Exposure) -> Self:
        """Everything that either knows of: commutative, associative, idempotent."""
        return replace(self, looks=self.looks | other.looks)

    def covers(self, other: Exposure) -> bool:
        """Whether everything that `other` knows of is known here."""
        return self.looks >= other.looks

    def count(self, test_set: str) -> int:
        """How often a test set was looked at."""
        return sum(look.test_set == test_set for look in self.looks)

    def to_json(self) -> dict[str, list[str]]:
        told: dict[str, list[str]] = {}
        for look in sorted(self.looks):
            told.setdefault(look.test_set, []).append(look.key)
        return told

    @classmethod
    def from_json(cls, told: Any) -> Self:
        """Raises CheckpointInvalid."""
        if not isinstance(told, Mapping):
            raise CheckpointInvalid(
                reason="lifecycle", where="lifecycle.exposure", problem="it is no mapping from test sets to looks"
            )
        where = "lifecycle.exposure"
        return cls(frozenset(Look(_text(name, where), key) for name, keys in told.items() for key in _listed(keys, where, _text)))


class ExposureRecord(Protocol):
    """Where looks are recorded beside the checkpoints: a journal whose effects evaluate on final test sets."""

    def looks(self) -> Iterable[Look]:
        """Every look that is settled or may have happened; a look in doubt counts. Safe to repeat."""
        ...


def exposure_from(journal: ExposureRecord | None) -> Exposure:
    """What a journal knows of exposure; nothing without one."""
    exposure = Exposure()
    for look in () if journal is None else journal.looks():
        exposure = exposure.seen(*look)
    return exposure


@dataclass(frozen=True, slots=True)
class Lifecycle:
    """What the state belongs to. Digests are 64 hex characters of BLAKE3 over what they name.

    Invariant: `merge` never loses a look; two records with different digests are never merged.
    """

    tokenizer: str  # digest of the whole mapping from text to numbers, order included; "" where there is none
    data: str  # digest of the training data, or of the list that names it
    model: str  # digest of the model's definition: architecture and its sizes, not its weights
    stage: Stage
    snapshots: Mapping[str, str] = field(
        default_factory=dict
    )  # name -> digest of a reference; of a group of arrays: `digest_of_group`
    exposure: Exposure = Exposure()

    def __post_init__(self) -> None:
        for name in DIGESTS:
            _digest(getattr(self, name), f"lifecycle.{name}", empty=True)
        for name, digest in self.snapshots.items():
            _digest(digest, f"lifecycle.snapshots.{_name(name, 'lifecycle.snapshots')}", empty=False)
        object.__setattr__(self, "snapshots", MappingProxyType(dict(self.snapshots)))

    def merge(self, other: Lifecycle | Exposure) -> Self:
        """This record with every look that the other knows of. Raises CheckpointInvalid where the two belong to different things."""
        if isinstance(other, Exposure):
            return replace(self, exposure=self.exposure.merge(other))
        self.check_fits(other)
        return replace(self, exposure=self.exposure.merge(other.exposure))

    def check_fits(self, current: Lifecycle) -> None:
        """Raises CheckpointInvalid unless this record belongs to what `current` belongs to; exposure is merged, not compared."""
        for name in DIGESTS:
            if (found := getattr(self, name)) != (expected := getattr(current, name)):
                problem = f"it was made with the {name} {_short(found)}, and the one here is {_short(expected)}; sizes do not count"
                raise CheckpointInvalid(reason="lifecycle", where=f"lifecycle.{name}", problem=problem)
        if self.snapshots != current.snapshots:
            differ = sorted(n for n in {*self.snapshots, *current.snapshots} if self.snapshots.get(n) != current.snapshots.get(n))
            raise CheckpointInvalid(
                reason="lifecycle", where="lifecycle.snapshots", problem=f"other references than here: {', '.join(differ)}"
            )
        if self.stage != current.stage:
            problem = f"it is of stage {self.stage.to_json()}, and the run is in {current.stage.to_json()}"
            raise CheckpointInvalid(reason="lifecycle", where="lifecycle.stage", problem=problem)

    def to_json(self) -> dict[str, Any]:
        return {
            **{name: getattr(self, name) for name in DIGESTS},
            "stage": self.stage.to_json(),
            "snapshots": dict(self.snapshots),
            "exposure": self.exposure.to_json(),
        }

    @classmethod
    def from_json(cls, told: Mapping[str, Any]) -> Self:
        """Raises CheckpointInvalid for a missing or unknown key and for what is no digest, name or look."""
        _keys(told, {*DIGESTS, "stage", "snapshots", "exposure"}, "lifecycle")
        if not isinstance(told["snapshots"], Mapping):
            raise CheckpointInvalid(
                reason="lifecycle", where="lifecycle.snapshots", problem="it is no mapping from names to digests"
            )
        digests = {name: told[name] for name in DIGESTS}
        stage, exposure = Stage.from_json(told["stage"]), Exposure.from_json(told["exposure"])
        return cls(**digests, stage=stage, snapshots=told["snapshots"], exposure=exposure)


def _keys(told: Any, expected: set[str], where: str) -> None:
    if not isinstance(told, Mapping):
        raise CheckpointInvalid(reason="lifecycle", where=where, problem="it is missing, or no mapping")
    if missing := sorted(expected - told.keys()):
        raise CheckpointInvalid(reason="lifecycle", where=where, problem=f"{', '.join(missing)} is missing")
    if unknown := sorted(told.keys() - expected):
        raise CheckpointInvalid(reason="lifecycle", where=where, problem=f"{', '.join(unknown)} is not known")


def _digest(value: Any, where: str, *, empty: bool) -> None:
    if not isinstance(value, str) or not (_DIGEST.fullmatch(value) or (empty and value == "")):
        raise CheckpointInvalid(reason="lifecycle", where=where, problem=f"{value!r} is no digest of 64 hex characters")


def _name(value: Any, where: str) -> str:
    if not isinstance(value, str) or not _NAME.fullmatch(value):
        raise CheckpointInvalid(
            reason="lifecycle", where=where, problem=f"{value!r} is no name of 1 to 128 characters out of A-Z a-z 0-9 . _ : / -"
        )
    return value


def _text(value: Any, where: str) -> str:
    """What a journal calls a test set or keys an effect by: other rules than those of names here, and a look under any of them counts."""
    if not isinstance(value, str) or not 1 <= len(value) <= _TEXT_MAX or not value.isprintable():
        problem = f"{str(value)[:_TEXT_MAX]!r} is no text of 1 to {_TEXT_MAX} printable characters"
        raise CheckpointInvalid(reason="lifecycle", where=where, problem=problem)
    return value


def _names(value: Any, where: str) -> tuple[str, ...]:
    return _listed(value, where, _name)


def _listed(value: Any, where: str, one: Callable[[Any, str], str]) -> tuple[str, ...]:
    if not isinstance(value, list | tuple):
        raise CheckpointInvalid(reason="lifecycle", where=where, problem="it is no list of names")
    return tuple(one(each, where) for each in value)


def _short(digest: str) -> str:
    return digest[:12] or "none"
