"""A draft: what is to be saved, taken from a capture before it has a place.

Owns the way from a capture to shards and a manifest, wherever they are written. Must not know directories. Invariant: what cannot be saved is refused
before anything is written.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from recovery.checkpoint.commit import Attempt, Export
from recovery.checkpoint.kinds import Kind, require_stored
from recovery.checkpoint.limits import Limits
from recovery.checkpoint.manifest import FileEntry, JournalPosition, Manifest
from recovery.checkpoint.outline import Outline, outlined
from recovery.checkpoint.shards import Array, Written
from recovery.checkpoint.state import Sealed, sealed
from recovery.checkpoint.validating import Capture

WIDE_BYTES: Final = 8 << 20
"""From here on a save is worth a second stream."""


@dataclass(frozen=True, slots=True)
class Draft:
    """A state to be saved."""

    kind: Kind
    step: int
    journal: JournalPosition | None
    fingerprint: str
    outline: Outline
    arrays: Mapping[str, Array]
    state: Sealed

    @property
    def array_bytes(self) -> int:
        return self.outline.array_bytes

    def write(
        self, attempt: Attempt, limits: Limits, sequence: int, parent: str, *, streams: int
    ) -> tuple[Manifest, Export, list[Written]]:
        """Write shards and state, each durable on return. The manifest is made and not written: it must be validated first."""
        names = self.outline.divided(streams if self.array_bytes >= WIDE_BYTES else 1)
        parts = [{name: self.arrays[name] for name in part} for part in names]
        written = attempt.write_shards(parts, limits, streams=streams)
        manifest = self._manifest(sequence, parent, names, written, attempt.write_state(self.state.data))
        by_name = {each.entry.name: each for each in written}
        return manifest, Export(attempt.path.name, manifest, by_name, self.arrays, self.state), written

    def _manifest(self, sequence: int, parent: str, names: list[list[str]], written: list[Written], state: FileEntry) -> Manifest:
        return Manifest(
            kind=self.kind,
            sequence=sequence,
            step=self.step,
            parent=parent,
            writers=max(1, len(written)),
            files=(*(each.entry for each in written), state),
            tensors=self.outline.table([each.entry.name for each in written], names),
            journal=self.journal,
            fingerprint=self.fingerprint,
        )


def drafted(
    capture: Capture, limits: Limits, *, step: int | None = None, journal: JournalPosition | None = None, fingerprint: str = ""
) -> Draft:
    """The draft of a capture. Raises CheckpointInvalid, LimitExceeded, WrongKind."""
    require_stored(capture.kind)
    value = capture.state()
    state = sealed(value, limits)
    arrays = dict(capture.arrays)
    outline = outlined(arrays, limits)
    return Draft(capture.kind, step_of(value) if step is None else step, journal, fingerprint, outline, arrays, state)


def step_of(state: Any) -> int:
    """The updates that a state says it has done; 0 if it does not count them."""
    counter = state.get("counter", 0) if isinstance(state, Mapping) else 0
    return counter if type(counter) is int and counter >= 0 else 0
