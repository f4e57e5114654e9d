"""Comparing two learning states: every field, and where the first difference lies.

Owns the names and the order of fields, and what counts as a divergence under a contract. Must not know processes or files. Invariant: two
states without a divergence under `EXACT` are equal in every bit.

A field is an array by its name, `history`, or a leaf of the state such as `counter` or `generators.draws.state.inc`. They come in the order
in which an update goes from cause to effect, so that the first one that differs is the nearest to the reason.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Final, Self

from recovery.checkpoint.learning import HISTORY, Array, Learning
from recovery.checkpoint.resume.tolerance import EXACT, Contract
from recovery.checkpoint.ulp import first_difference

ORDER: Final = ("config", "config_digest", "lifecycle", "cursor", "counter", "extra", "generators", HISTORY, "m", "v")
"""What comes first. Groups that are not named here follow, and the weights, which everything else leads to, are last."""

_LAST: Final = "w"


@dataclass(frozen=True, slots=True)
class Divergence:
    """A field that differs after an update."""

    step: int  # completed updates
    field: str  # its name
    index: tuple[int, ...]  # of the first element that differs; () for what is no array, or differs as a whole
    expected: str  # there, in the uninterrupted run
    found: str  # there, in the other one
    ulps: int | None  # their distance in units in the last place; None where there is none
    count: int = 1  # elements that differ
    ulps_max: int | None = None  # the largest distance in the array
    also: tuple[str, ...] = ()  # further fields that differ after the same update

    def to_json(self) -> dict[str, Any]:
        return {name: list(value) if isinstance(value, tuple) else value for name, value in asdict(self).items()}

    @classmethod
    def from_json(cls, told: Mapping[str, Any]) -> Self:
        """The reverse of `to_json`."""
        return cls(**{**told, "index": tuple(told["index"]), "also": tuple(told["also"])})


@dataclass(frozen=True, slots=True)
class Moment:
    """A state after an update, as it is compared."""

    tensors: Mapping[str, Array]
    state: Mapping[str, Any]

    @classmethod
    def of(cls, learning: Learning) -> Moment:
        state = learning.state()
        del state[HISTORY]  # it is compared as the array that it is
        if not state["extra"]:
            del state["extra"]
        return cls({**learning.arrays, HISTORY: learning.history}, state)


def fields(moment: Moment) -> list[str]:
    """The names of everything that is compared, from cause to effect."""
    return sorted({*moment.tensors, *(name for name, _ in _leaves(moment.state))}, key=_place)


def divergence(step: int, expected: Moment, found: Moment, contract: Contract = EXACT) -> Divergence | None:
    """The first field that differs by more than the contract allows, with the names of the others; None if there is none."""
    return first_of([*differences(step, expected, found, contract)])


def first_of(every: Sequence[Divergence]) -> Divergence | None:
    """The first of the divergences after one update, with the names of the others; None if there is none."""
    return replace(every[0], also=tuple(each.field for each in every[1:])) if every else None


def differences(step: int, expected: Moment, found: Moment, contract: Contract = EXACT) -> Iterator[Divergence]:
    """Every field that differs, from cause to effect."""
    names = {*expected.tensors, *found.tensors}
    leaves, others = dict(_leaves(expected.state)), dict(_leaves(found.state))
    for field in sorted({*names, *leaves, *others}, key=_place):
        if field in names:
            one, other = expected.tensors.get(field), found.tensors.get(field)
            if one is None or other is None:
                yield Divergence(step, field, (), _there(one is not None), _there(other is not None), None)
            elif not contract.allows(field, one, other) and (differs := first_difference(one, other)):
                yield Divergence(
                    step, field, differs.index, differs.expected, differs.found, differs.ulps, differs.count, differs.ulps_max
                )
        elif (one_leaf := leaves.get(field, _MISSING)) != (other_leaf := others.get(field, _MISSING)):
            yield Divergence(step, field, (), str(one_leaf), str(other_leaf), None)


def _leaves(told: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Dotted names and values with their types, so that 1, 1.0 and True differ. A list is one value."""
    for name, value in told.items():
        if isinstance(value, Mapping) and value:
            yield from _leaves(value, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", _Leaf(type(value), value)


@dataclass(frozen=True, slots=True)
class _Leaf:
    kind: type
    value: Any

    def __str__(self) -> str:
        text = repr(self.value)
        return text if len(text) <= 80 else f"{text[:77]}..."


_MISSING: Final = _Leaf(type(None), "missing")


def _place(field: str) -> tuple[int, str]:
    group = field.replace(".", "/").partition("/")[0]
    if group in ORDER:
        return ORDER.index(group), field
    return len(ORDER) + (group == _LAST), field


def _there(present: bool) -> str:
    return "present" if present else "missing"
