"""Examining: whether a checkpoint is whole, told in full and found out in little memory.

Owns the same checks as the validator, in its order, over files that are passed over piece by piece. Must not change anything, nor give a state to anybody.
Invariant: it finds a checkpoint whole if and only if `validate` does; what it says is damaged stays damaged however often it is asked.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from recovery.checkpoint import learning
from recovery.checkpoint import state as states
from recovery.checkpoint.errors import CheckpointError, CheckpointInvalid
from recovery.checkpoint.files import opened
from recovery.checkpoint.kinds import Kind
from recovery.checkpoint.layout import Place
from recovery.checkpoint.manifest import STATE, FileEntry, Manifest, digest
from recovery.checkpoint.packing import unpacked
from recovery.checkpoint.reading import Directory, Regular, in_streams
from recovery.checkpoint.scanning import Candidate
from recovery.checkpoint.shards import DTYPES, Array, pass_over
from recovery.checkpoint.tensors import Tensors
from recovery.checkpoint.validating import check_of, require_digest

Tell = Callable[[int], None]
"""Is given the number of bytes that were read since it was last told."""

Hold = Callable[[Mapping[str, Array], Any, Callable[[str], Array]], None]


def _anything(_outline: Mapping[str, Array], _state: Any, _read: Callable[[str], Array]) -> None:
    """A kind whose arrays and state may be anything that is whole and finite."""


HOLD: Final[dict[Kind, Hold]] = {Kind.LEARNING: learning.hold_in_parts, Kind.WEIGHTS: _anything, Kind.INFERENCE_KV: _anything}
"""What `validating.INVARIANTS` demands of each kind, from parts."""


@dataclass(frozen=True, slots=True)
class Damage:
    """What is wrong and where. reason: a word of a fixed list; `where` is a place inside the checkpoint."""

    where: str
    reason: str
    problem: str


@dataclass(frozen=True, slots=True)
class Examined:
    """What an examination found. gone: it was taken away meanwhile. unread: why a part of it could not be judged, or ""."""

    candidate: Candidate
    damage: tuple[Damage, ...] = ()
    unread: str = ""
    gone: bool = False

    @property
    def whole(self) -> bool:
        return not (self.damage or self.unread or self.gone)


def examine(place: Place, candidate: Candidate, tell: Tell) -> Examined:
    """Read every byte of a candidate. Every file is judged, whatever was found in another one; invariants only where all files are whole."""
    looked = _Look(place, candidate, tell)
    found = in_streams(place.streams, looked.judged, [*candidate.manifest.shards(), _state_of(candidate.manifest)])
    damage = [each for each in found if isinstance(each, Damage)]
    unread = next((each for each in found if isinstance(each, str) and each), "")
    if not damage and not unread:
        try:
            looked.hold()
        except CheckpointInvalid as error:
            damage.append(_damage(error))
        except CheckpointError as error:
            unread = str(error)
        except OSError as error:
            unread = error.strerror or type(error).__name__
    gone = bool(damage or unread) and not candidate.path.exists()
    return Examined(candidate, () if gone else tuple(damage), "" if gone else unread, gone)


class _Look:
    """One examination."""

    def __init__(self, place: Place, candidate: Candidate, tell: Tell) -> None:
        self._place, self._path, self._manifest, self._tell = place, candidate.path, candidate.manifest, tell
        self._state = b""

    def judged(self, entry: FileEntry) -> Damage | str:
        """What is wrong with a file; a text is why it could not be read, "" that it is whole."""
        try:
            if entry.name == STATE:
                self._read_state(entry)
            else:
                self._pass(entry)
        except CheckpointInvalid as error:
            return _damage(error)
        except CheckpointError as error:
            return str(error)
        except OSError as error:
            return error.strerror or type(error).__name__
        return ""

    def hold(self) -> None:
        """The invariants of its kind. Raises CheckpointInvalid, LimitExceeded, OSError."""
        tensors = self._manifest.tensors
        outline = {name: np.broadcast_to(np.zeros((), DTYPES[each.dtype]), each.shape) for name, each in tensors.items()}
        state = states.from_bytes(self._state, self._place.limits)
        with Tensors(self._place.disk, self._path, self._manifest, self._place.limits) as inside:
            HOLD[self._manifest.kind](outline, state, inside.whole)

    def _read_state(self, entry: FileEntry) -> None:
        self._state = Directory(self._place.disk, self._path, self._place.limits).state(entry)
        require_digest(entry, digest(self._state), self._path.name)
        self._tell(entry.size)

    def _pass(self, entry: FileEntry) -> None:
        where = f"{self._path.name}, {entry.name}"
        with Regular(where), opened(disk := unpacked(self._place.disk, self._path), self._path / entry.name) as (file, size):
            if size != entry.size:
                raise CheckpointInvalid(where=where, problem=f"it has {size} bytes of {entry.size}", reason="size")
            check = check_of(self._manifest, entry, self._place.limits, self._path.name)
            read = pass_over(disk, file, size, self._place.limits, check, self._tell, where=where)
        require_digest(entry, read.blake3, self._path.name)
        if read.unfinite:
            at = f"{self._path.name}, {self._manifest.inside(entry.name)[read.unfinite][0]}"
            raise CheckpointInvalid(where=at, problem="it holds a number that is infinite or not a number", reason="finite")


def _state_of(manifest: Manifest) -> FileEntry:
    return next(entry for entry in manifest.files if entry.name == STATE)


def _damage(error: CheckpointInvalid) -> Damage:
    return Damage(error.where, error.reason, error.problem)
