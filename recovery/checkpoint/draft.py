"""A draft: what is to be saved, taken from a capture before it has a place.

Owns the way from a capture to shards and a manifest, wherever they are written. Must not know directories. Invariant: what cannot be saved is refused
before anything is written.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from recovery.checkpoint import state as states
from recovery.checkpoint.commit import Attempt, Export, balanced, shard_name
from recovery.checkpoint.errors import CheckpointInvalid
from recovery.checkpoint.header import require_tensor_name
from recovery.checkpoint.kinds import Kind, require_stored
from recovery.checkpoint.limits import Limits, at_most
from recovery.checkpoint.manifest import FileEntry, JournalPosition, Manifest, Slice, Table, TensorEntry
from recovery.checkpoint.shards import Array, Written, code_of
from recovery.checkpoint.strict import canonical
from recovery.checkpoint.validating import Capture

ENTRY_BYTES_MAX: Final = 4096
"""No tensor takes more of a manifest: its name twice, its shape twice, an offset and a file."""

REST_BYTES: Final = 1024
"""Of a manifest without its tensors, roughly."""

KNOWN_TENSORS: Final = 1024
KNOWN_TABLES: Final = 4
"""Of so many tensors at most, the tables of so many saves are kept."""

Layout = tuple[tuple[str, tuple[tuple[str, np.dtype[Any], tuple[int, ...]], ...]], ...]
"""Shard -> name -> dtype and shape."""

WIDE_BYTES: Final = 8 << 20
"""From here on a save is worth a second stream."""


@dataclass(frozen=True, slots=True)
class Draft:
    """A state to be saved."""

    kind: Kind
    step: int
    journal: JournalPosition | None
    fingerprint: str
    arrays: Mapping[str, Array]
    state: bytes

    @property
    def array_bytes(self) -> int:
        return sum(array.nbytes for array in self.arrays.values())

    def write(
        self, attempt: Attempt, limits: Limits, sequence: int, parent: str, *, streams: int
    ) -> tuple[Manifest, Export, list[Written]]:
        """Write shards and state, each durable on return. The manifest is made and not written: it must be validated first."""
        parts = balanced(self.arrays, streams if self.array_bytes >= WIDE_BYTES else 1)
        written = attempt.write_shards(parts, limits, streams=streams)
        manifest = self._manifest(sequence, parent, parts, written, attempt.write_state(self.state))
        by_name = {each.entry.name: each for each in written}
        return manifest, Export(attempt.path.name, manifest, by_name, self.arrays, self.state), written

    def _manifest(
        self, sequence: int, parent: str, parts: list[dict[str, Array]], written: list[Written], state: FileEntry
    ) -> Manifest:
        return Manifest(
            kind=self.kind,
            sequence=sequence,
            step=self.step,
            parent=parent,
            writers=max(1, len(written)),
            files=(*(each.entry for each in written), state),
            tensors=_table({each.entry.name: part for part, each in zip(parts, written, strict=True)}),
            journal=self.journal,
            fingerprint=self.fingerprint,
        )


def drafted(
    capture: Capture, limits: Limits, *, step: int | None = None, journal: JournalPosition | None = None, fingerprint: str = ""
) -> Draft:
    """The draft of a capture. Raises CheckpointInvalid, LimitExceeded, WrongKind."""
    require_stored(capture.kind)
    value = capture.state()
    state = states.to_bytes(value, limits)
    return Draft(
        capture.kind, step_of(value) if step is None else step, journal, fingerprint, _named(capture.arrays, limits), state
    )


def _named(arrays: Mapping[str, Any], limits: Limits) -> dict[str, Array]:
    """The arrays, each under a name that a tensor may have. Raises CheckpointInvalid, LimitExceeded."""
    at_most(len(arrays), limits.tensors, where="the state", what="the number of its tensors (tensors)")
    for name, array in arrays.items():
        require_tensor_name(name, where="the state")
        if not isinstance(array, np.ndarray):
            raise CheckpointInvalid(
                where=f"the state, {name}", problem=f"it is a {type(array).__name__} and no array", reason="dtype"
            )
        if isinstance(array, np.ma.MaskedArray):
            raise CheckpointInvalid(where=f"the state, {name}", problem="it is masked, and the mask would be lost", reason="dtype")
        code_of(array, where=f"the state, {name}")
        at_most(array.ndim, limits.rank, where=f"the state, {name}", what="its rank (rank)")
    _require_manifest(arrays, limits)
    return dict(arrays)


def _require_manifest(arrays: Mapping[str, Array], limits: Limits) -> None:
    """Raise LimitExceeded if a manifest that lists the arrays could not be read. Of few it can, and they are not counted."""
    at_most(
        sum(array.nbytes for array in arrays.values()),
        limits.total_bytes,
        where="the state",
        what="its size in bytes (total_bytes)",
    )
    if len(arrays) * ENTRY_BYTES_MAX + REST_BYTES > limits.manifest_bytes:
        entries = _whole({shard_name(0, 1): arrays})
        size = len(canonical({name: entry.document() for name, entry in entries.items()})) + REST_BYTES
        at_most(size, limits.manifest_bytes, where="the state", what="the size of its manifest in bytes (manifest_bytes)")


def _table(parts: Mapping[str, Mapping[str, Array]]) -> Mapping[str, TensorEntry]:
    """`_whole`; of few tensors the one that the last saves of the same had, if they did."""
    if sum(map(len, parts.values())) > KNOWN_TENSORS:
        return _whole(parts)
    layout = tuple(
        (shard, tuple((name, array.dtype, array.shape) for name, array in part.items())) for shard, part in parts.items()
    )
    if (known := _tables.get(layout)) is None:
        known = Table(_whole(parts))
        if len(_tables) >= KNOWN_TABLES:
            _tables.clear()
        _tables[layout] = known
    return known


_tables: Final[dict[Layout, Table]] = {}


def _whole(parts: Mapping[str, Mapping[str, Array]]) -> dict[str, TensorEntry]:
    """The entries of tensors that are not cut, sorted by name; for shard -> what is in it."""
    return {
        name: TensorEntry(code_of(array, where=name), array.shape, (Slice(shard, name, (0,) * array.ndim, array.shape),))
        for shard, name, array in sorted(
            ((shard, name, array) for shard, part in parts.items() for name, array in part.items()), key=lambda each: each[1]
        )
    }


def step_of(state: Any) -> int:
    """The updates that a state says it has done; 0 if it does not count them."""
    counter = state.get("counter", 0) if isinstance(state, Mapping) else 0
    return counter if type(counter) is int and counter >= 0 else 0
