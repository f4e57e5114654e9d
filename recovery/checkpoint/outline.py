"""The outline of a state: the names, dtypes and shapes of its arrays, and what follows from them alone.

Owns what of a save is the same for as long as a run saves the same arrays: whether they may be saved at all, how they are divided among shards, and the table of the
manifest. Must not look at values. Invariant: an outline exists only within the limits that it was made for; what is kept is small, and of few tensors.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any, Final

import numpy as np

from recovery.checkpoint.commit import shard_name
from recovery.checkpoint.errors import CheckpointInvalid
from recovery.checkpoint.header import bytes_of, require_tensor_name
from recovery.checkpoint.limits import Limits, at_most
from recovery.checkpoint.manifest import Slice, Table, TensorEntry
from recovery.checkpoint.shards import code_of
from recovery.core.wording import of_type

ENTRY_BYTES_MAX: Final = 4096
"""No tensor takes more of a manifest: its name twice, its shape twice, an offset and a file."""

REST_BYTES: Final = 1024
"""Of a manifest without its tensors, roughly."""

KNOWN_TENSORS: Final = 1024
KNOWN_OUTLINES: Final = 4
"""Of so many tensors at most, the outlines of so many saves are kept."""

Layout = tuple[tuple[str, np.dtype[Any], tuple[int, ...]], ...]
"""Name, dtype and shape of each array."""


class Outline:
    """Of arrays that may be saved. array_bytes: of all of them."""

    def __init__(self, shapes: Mapping[str, tuple[str, tuple[int, ...]]]) -> None:
        self._shapes = shapes
        self._sizes = {name: bytes_of(dtype, shape, where="the state") for name, (dtype, shape) in shapes.items()}
        self._divided: dict[int, list[list[str]]] = {}
        self._tables: dict[tuple[str, ...], Table] = {}
        self.array_bytes = sum(self._sizes.values())

    def divided(self, parts: int) -> list[list[str]]:
        """`balanced` of them."""
        if (found := self._divided.get(parts)) is None:
            found = self._divided[parts] = balanced(self._sizes, parts)
        return found

    def table(self, shards: Sequence[str], parts: Sequence[Iterable[str]]) -> Table:
        """The tensors of a manifest, none of them cut. shards: the names of the files that hold what `divided` gave, in its order."""
        if (found := self._tables.get(key := tuple(shards))) is None:
            placed = sorted((name, shard) for shard, part in zip(shards, parts, strict=True) for name in part)
            found = self._tables[key] = Table({name: self._whole(name, shard) for name, shard in placed})
        return found

    def _whole(self, name: str, shard: str) -> TensorEntry:
        dtype, shape = self._shapes[name]
        return TensorEntry(dtype, shape, (Slice(shard, name, (0,) * len(shape), shape),))


def outlined(arrays: Mapping[str, Any], limits: Limits) -> Outline:
    """The outline of arrays, each under a name that a tensor may have. Raises CheckpointInvalid, LimitExceeded."""
    at_most(len(arrays), limits.tensors, where="the state", what="the number of its tensors (tensors)")
    if not {np.ndarray}.issuperset(map(type, arrays.values())):  # or there is one that is masked, or no array
        for name, array in arrays.items():
            _require_array(name, array)
    layout = tuple((name, array.dtype, array.shape) for name, array in arrays.items())
    return _known(layout, limits) if len(layout) <= KNOWN_TENSORS else _made(layout, limits)


def balanced(sizes: Mapping[str, int], parts: int) -> list[list[str]]:
    """The names in up to `parts` groups of like size, the same for the same sizes in bytes. None of the groups is empty."""
    groups: list[list[str]] = [[] for _ in range(max(1, min(parts, len(sizes))))]
    taken = [0] * len(groups)
    for name in sorted(sizes, key=lambda each: (-sizes[each], each)):
        least = taken.index(min(taken))
        groups[least].append(name)
        taken[least] += max(1, sizes[name])
    return groups if sizes else []


def _require_array(name: str, array: Any) -> None:
    where = f"the state, {name}"
    if not isinstance(array, np.ndarray):
        raise CheckpointInvalid(where=where, problem=f"it is {of_type(array)} and no array", reason="dtype")
    if isinstance(array, np.ma.MaskedArray):
        raise CheckpointInvalid(where=where, problem="it is masked, and the mask would be lost", reason="dtype")


@lru_cache(maxsize=KNOWN_OUTLINES)
def _known(layout: Layout, limits: Limits) -> Outline:
    """The same for as long as a run saves the same arrays. One that is refused is not kept."""
    return _made(layout, limits)


def _made(layout: Layout, limits: Limits) -> Outline:
    for name, _, shape in layout:
        require_tensor_name(name, where="the state")
        at_most(len(shape), limits.rank, where=f"the state, {name}", what="its rank (rank)")
    made = Outline({name: (code_of(dtype, where=f"the state, {name}"), shape) for name, dtype, shape in layout})
    at_most(made.array_bytes, limits.total_bytes, where="the state", what="its size in bytes (total_bytes)")
    _require_manifest(made, [name for name, _, _ in layout], limits)
    return made


def _require_manifest(made: Outline, names: Sequence[str], limits: Limits) -> None:
    """Raise LimitExceeded if a manifest that lists the arrays could not be read. Of few it can, and they are not counted."""
    if len(names) * ENTRY_BYTES_MAX + REST_BYTES > limits.manifest_bytes:
        size = len(made.table([shard_name(0, 1)], [names]).text) + REST_BYTES
        at_most(size, limits.manifest_bytes, where="the state", what="the size of its manifest in bytes (manifest_bytes)")
