"""Contrasting: two checkpoints of any kind, field by field.

Owns what counts as a difference between two saved states, and where the first one lies. Must not verify: its caller did. Invariant: two checkpoints without a
difference have the same kind, the same state document and the same tensors, in every bit; where they stand in their stores is no part of that.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import Any, Final

import numpy as np

from recovery.checkpoint import narrow
from recovery.checkpoint.manifest import Manifest, TensorEntry
from recovery.checkpoint.shards import DTYPES, Array
from recovery.checkpoint.tensors import Tensors, blocks
from recovery.checkpoint.ulp import Difference, first_difference, numbers

LIFECYCLE: Final = "lifecycle"
FEW: Final = 4
"""Two lists of as many numbers each, and no more than this, are told whole."""

Tell = Callable[[int], None]


@dataclass(frozen=True, slots=True)
class Leaf:
    """A place in the state document at which two differ. a, b: the values there; None where nothing stands there, and for two long lists of numbers.

    lengths, difference: of two long lists of numbers; the latter says where what both have begins to differ, and is None where that is equal.
    """

    path: str
    change: str  # changed, added or missing: in the second
    a: Any = None
    b: Any = None
    ulps: int | None = None  # of two floats
    lengths: tuple[int, int] | None = None
    difference: Difference | None = None

    @property
    def of_lifecycle(self) -> bool:
        return self.path.partition(".")[0] == LIFECYCLE


@dataclass(frozen=True, slots=True)
class Tensor:
    """A tensor that is not the same in both. a, b: dtype and shape, None where it is not there. difference: where both are alike but for their values."""

    name: str
    change: str  # changed, reshaped, added or missing: in the second
    a: TensorEntry | None
    b: TensorEntry | None
    difference: Difference | None = None


@dataclass(frozen=True, slots=True)
class Contrast:
    """What two checkpoints differ in. kinds: the two, where they differ. fields, tensors: how many were compared."""

    kinds: tuple[str, str] | None
    state: tuple[Leaf, ...]
    different: tuple[Tensor, ...]
    fields: int
    tensors: int

    @property
    def equal(self) -> bool:
        return not (self.kinds or self.state or self.different)


def contrast(a: Tensors, b: Tensors, states: tuple[Any, Any], tell: Tell) -> Contrast:
    """Compare two checkpoints in memory of a few blocks. tell: bytes of both that were read. Raises CheckpointInvalid, LimitExceeded, OSError."""
    one, other = a.manifest, b.manifest
    leaves = [list(leaf) for leaf in (_flat(states[0]), _flat(states[1]))]
    return Contrast(
        kinds=None if one.kind is other.kind else (one.kind.value, other.kind.value),
        state=tuple(_leaves(dict(leaves[0]), dict(leaves[1]))),
        different=tuple(_tensors(a, b, tell)),
        fields=len({path for each in leaves for path, _ in each}),
        tensors=len({*one.tensors, *other.tensors}),
    )


def work_bytes(one: Manifest, other: Manifest) -> int:
    """What `contrast` will tell in all."""
    return sum(2 * _bytes(one.tensors[name]) for name in one.tensors if _alike(one, other, name))


def _tensors(a: Tensors, b: Tensors, tell: Tell) -> Iterator[Tensor]:
    one, other = a.manifest, b.manifest
    for name in sorted({*one.tensors, *other.tensors}):
        left, right = one.tensors.get(name), other.tensors.get(name)
        if left is None or right is None:
            yield Tensor(name, "added" if left is None else "missing", left, right)
        elif not _alike(one, other, name):
            yield Tensor(name, "reshaped", left, right)
        elif not _same_bytes(one, other, name) and (found := _values(a, b, name, tell)) is not None:
            yield Tensor(name, "changed", left, right, found)
        elif _same_bytes(one, other, name):
            tell(2 * _bytes(left))


def _values(a: Tensors, b: Tensors, name: str, tell: Tell) -> Difference | None:
    """The first element that differs and how many do, block by block."""
    tensor = a.manifest.tensors[name]
    itemsize = DTYPES[tensor.dtype].itemsize
    found: Difference | None = None
    for begin, end in blocks(tensor.shape, itemsize, rows=not (a.in_one(name) and b.in_one(name))):
        here = _first(a.flat(name, begin, end), b.flat(name, begin, end))
        tell(2 * (end - begin) * itemsize)
        if here is None:
            continue
        if found is None:
            index = np.unravel_index(begin + here.index[0], tensor.shape) if tensor.shape else ()
            found = replace(here, index=tuple(int(part) for part in index))
        else:
            most = [each for each in (found.ulps_max, here.ulps_max) if each is not None]
            found = replace(found, count=found.count + here.count, ulps_max=max(most, default=None))
    return found


def _first(one: Array, other: Array) -> Difference | None:
    """`first_difference`, of narrow floats too: a bfloat16 is the upper half of a float32, and the others are shown as the words that they are."""
    if not narrow.is_narrow(one):
        return first_difference(one, other)
    words = one.view(f"<u{one.dtype.itemsize}"), other.view(f"<u{one.dtype.itemsize}")
    if one.dtype != narrow.DTYPES["BF16"]:
        found = first_difference(*words)
        return found and replace(found, expected=f"{int(found.expected):#04x}", found=f"{int(found.found):#04x}")
    wide = [(each.astype("<u4") << 16).view("<f4") for each in words]
    found = first_difference(*wide)
    ulps = [None if each is None else each >> 16 for each in ((found.ulps, found.ulps_max) if found else ())]
    return found and replace(found, ulps=ulps[0], ulps_max=ulps[1])


def _alike(one: Manifest, other: Manifest, name: str) -> bool:
    left, right = one.tensors.get(name), other.tensors.get(name)
    return left is not None and right is not None and (left.dtype, left.shape) == (right.dtype, right.shape)


def _same_bytes(one: Manifest, other: Manifest, name: str) -> bool:
    """Whether it lies in the same way in files of the same digests: then nothing needs to be read to know that it is equal."""
    if one.tensors[name].slices != other.tensors[name].slices:
        return False
    digests = [{entry.name: entry.blake3 for entry in manifest.files} for manifest in (one, other)]
    return all(digests[0][part.file] == digests[1][part.file] for part in one.tensors[name].slices)


def _bytes(tensor: TensorEntry) -> int:
    return prod(tensor.shape) * DTYPES[tensor.dtype].itemsize


def _flat(value: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """Dotted paths and leaves. A list of numbers is one leaf; a list of other things is not."""
    if isinstance(value, Mapping) and value:
        for name, inner in value.items():
            yield from _flat(inner, f"{path}.{name}" if path else name)
    elif isinstance(value, list) and value and not _numeric(value):
        for index, inner in enumerate(value):
            yield from _flat(inner, f"{path}[{index}]")
    else:
        yield path or "$", value


def _numeric(value: Sequence[Any]) -> bool:
    return all(type(item) is float for item in value) or all(type(item) is int for item in value)


def _leaves(one: Mapping[str, Any], other: Mapping[str, Any]) -> Iterator[Leaf]:
    for path in [*one, *(path for path in other if path not in one)]:
        if path not in other:
            yield Leaf(path, "missing", a=one[path])
        elif path not in one:
            yield Leaf(path, "added", b=other[path])
        elif not _identical(one[path], other[path]):
            yield _changed(path, one[path], other[path])


def _identical(one: Any, other: Any) -> bool:
    """In type and in every bit: 1, 1.0 and True differ, and so do 0.0 and -0.0."""
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(_identical, one, other))
    return type(one) is type(other) and repr(one) == repr(other)


def _changed(path: str, one: Any, other: Any) -> Leaf:
    if isinstance(one, list) and isinstance(other, list):
        left, right = numbers(one), numbers(other)
        few = len(one) == len(other) <= FEW
        if left is not None and right is not None and left.dtype == right.dtype and not few:
            common = min(len(one), len(other))
            found = first_difference(left[:common], right[:common])
            return Leaf(path, "changed", lengths=(len(one), len(other)), difference=found)
    if type(one) is float and type(other) is float:
        found = first_difference(np.array(one), np.array(other))
        return Leaf(path, "changed", one, other, ulps=found.ulps if found else None)
    return Leaf(path, "changed", one, other)
