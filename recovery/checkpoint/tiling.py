"""Tiling: whether slices cover a tensor's shape exactly, without a gap and without an overlap.

Owns the arithmetic, in exact integers: a product of dimensions is never wrapped. Must not know files. Invariant: what is accepted gives every
element of the tensor exactly one place it is read from.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from recovery.checkpoint.errors import CheckpointInvalid

Box = tuple[tuple[int, ...], tuple[int, ...]]
"""(offset, shape): where a slice begins in the tensor, and how far it reaches, for each axis."""


def require_tiling(shape: Sequence[int], boxes: Sequence[Box], *, where: str) -> None:
    """Raise CheckpointInvalid(reason="tiling") unless the boxes tile `shape`. Empty boxes are allowed: a worker may have no rows."""
    if len(boxes) == 1 and boxes[0] == ((0,) * len(shape), tuple(shape)):
        return  # the tensor in one piece, which most are
    covered = 0
    for offset, extent in boxes:
        if len(offset) != len(shape) or len(extent) != len(shape):
            raise _wrong(where, f"a slice has rank {len(extent)} and the tensor {len(shape)}")
        if any(at + size > whole for at, size, whole in zip(offset, extent, shape, strict=True)):
            raise _wrong(where, f"the slice at {list(offset)} of {list(extent)} reaches out of {list(shape)}")
        covered += prod(extent)
    if not boxes:
        raise _wrong(where, "it has no slice")
    if covered != prod(shape):
        raise _wrong(where, f"its slices hold {covered} elements and its shape {prod(shape)}")
    met = overlap([box for box in boxes if prod(box[1])])
    if met is not None:
        raise _wrong(where, f"the slices at {list(met[0][0])} and {list(met[1][0])} overlap")


def overlap(boxes: Sequence[Box]) -> tuple[Box, Box] | None:
    """Two boxes that share an element, or None. Sweeps along the axis on which the boxes begin at most places."""
    if len(boxes) < 2 or not boxes[0][0]:
        return (boxes[0], boxes[1]) if len(boxes) > 1 else None  # rank 0: all of them are the one element
    axis = max(range(len(boxes[0][0])), key=lambda each: len({offset[each] for offset, _ in boxes}))
    active: list[Box] = []
    for box in sorted(boxes, key=lambda each: each[0][axis]):
        begin = box[0][axis]
        active = [other for other in active if other[0][axis] + other[1][axis] > begin]
        for other in active:
            if _meet(box, other):
                return other, box
        active.append(box)
    return None


def _meet(one: Box, other: Box) -> bool:
    return all(a < b + q and b < a + p for a, p, b, q in zip(one[0], one[1], other[0], other[1], strict=True))


def _wrong(where: str, problem: str) -> CheckpointInvalid:
    return CheckpointInvalid(where=where, problem=problem, reason="tiling")
