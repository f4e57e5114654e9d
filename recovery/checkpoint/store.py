"""The store: a directory of checkpoints with one writer.

Owns the sequence of a save and of a load. Must not know what a state means. Invariant: whatever fails, the checkpoints that were there before are there
afterwards, and what is returned was validated in full.
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any, Final

import numpy as np

from recovery.checkpoint import lease
from recovery.checkpoint import state as states
from recovery.checkpoint.commit import Attempt, Export, balanced
from recovery.checkpoint.errors import CheckpointError, CheckpointInvalid, NotACandidate, NothingToRestore, SaveFailed
from recovery.checkpoint.files import Disk, LocalDisk
from recovery.checkpoint.header import require_tensor_name
from recovery.checkpoint.kinds import Kind, require_stored
from recovery.checkpoint.limits import Limits
from recovery.checkpoint.manifest import JournalPosition, Manifest, Slice, TensorEntry
from recovery.checkpoint.reading import Directory
from recovery.checkpoint.scanning import CHECKPOINTS, NAME, Candidate, Rejected, listed, look, scan, sequence_of
from recovery.checkpoint.shards import Array, Written, code_of
from recovery.checkpoint.validating import Capture, Checkpoint, validate

WIDE_BYTES: Final = 8 << 20
"""From here on a save is worth a second stream."""

STREAMS: Final = min(2, os.cpu_count() or 1)


class CheckpointStore:
    """Checkpoints under `path`. Making one touches nothing; the first save makes the directories.

    limits: what is read at most. wait: how long a save waits for another writer. streams: files written and read at once.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        limits: Limits | None = None,
        wait: timedelta = timedelta(seconds=10),
        streams: int = STREAMS,
        disk: Disk | None = None,
    ) -> None:
        self.path = Path(path)
        self.limits = limits or Limits()
        self.disk: Disk = disk or LocalDisk()
        self._wait_seconds = wait.total_seconds()
        self._streams = streams

    # -- saving ----------------------------------------------------------------------------------------------------

    def save(
        self, capture: Capture, *, step: int | None = None, journal: JournalPosition | None = None, fingerprint: str = ""
    ) -> Candidate:
        """Save a state; durable on return. `step`: updates done; by default the state's own `counter`.

        Raises CheckpointInvalid (nothing was committed), StoreBusy, SaveFailed.
        """
        require_stored(capture.kind)
        value = capture.state()
        state = states.to_bytes(value, self.limits)
        arrays = _named(capture.arrays)
        draft = _Draft(capture.kind, _step(value) if step is None else step, journal, fingerprint, arrays, state)
        self._prepare()
        with lease.held(self.path, wait_seconds=self._wait_seconds):
            return self._commit(draft)

    def _commit(self, draft: _Draft) -> Candidate:
        parent = self._newest()
        sequence = 1 + max((sequence_of(name) for name, _ in listed(self.disk, self.path)), default=0)
        attempt = Attempt(self.disk, self.path / CHECKPOINTS, max(1, sequence), secrets.token_hex(8))
        with self._refusals(attempt):
            attempt.begin()
            wide = sum(array.nbytes for array in draft.arrays.values()) >= WIDE_BYTES
            parts = balanced(draft.arrays, self._streams if wide else 1)
            written = attempt.write_shards(parts, streams=self._streams)
            entry = attempt.write_state(draft.state)
            manifest = draft.manifest(max(1, sequence), parent, parts, written, entry)
            export = Export(
                attempt.path.name, manifest.to_bytes(), {each.entry.name: each for each in written}, draft.arrays, draft.state
            )
            validate(export, self.limits)
            attempt.write_manifest(manifest)
            path = attempt.commit(manifest)
        return Candidate(path, manifest)

    def _newest(self) -> str:
        """The id of the newest candidate, or "" if there is none."""
        return next((each.id for each in scan(self.disk, self.path, self.limits) if isinstance(each, Candidate)), "")

    @contextmanager
    def _refusals(self, attempt: Attempt) -> Iterator[None]:
        """Leave nothing of an attempt that was not committed, and say what the system refused."""
        try:
            yield
        except BaseException as error:
            try:
                attempt.abandon()
            except OSError as also:
                error.add_note(f"what was written could not be removed: {also}; the next save sweeps it")
            if isinstance(error, OSError):
                fate = "The new checkpoint may exist." if attempt.committed else "Nothing was committed."
                problem = error.strerror or type(error).__name__
                advice = "Look at the disk, then save again."
                raise SaveFailed(store=str(self.path), step=attempt.path.name, problem=problem, fate=fate, advice=advice) from error
            raise

    def _prepare(self) -> None:
        (self.path / CHECKPOINTS).mkdir(parents=True, exist_ok=True)

    # -- looking ---------------------------------------------------------------------------------------------------

    def scan(self) -> list[Candidate | Rejected]:
        """Every directory in the store, newest first: candidates, and the others with the reason why they are none."""
        return list(scan(self.disk, self.path, self.limits))

    def latest(self, kind: Kind | str = Kind.LEARNING) -> Candidate:
        """The newest candidate of a kind, with what was passed over. Raises NothingToRestore."""
        wanted = Kind(kind)
        rejected: list[Rejected] = []
        for each in scan(self.disk, self.path, self.limits):
            if isinstance(each, Rejected):
                rejected.append(each)
            elif each.kind is wanted:
                return Candidate(each.path, each.manifest, tuple(rejected))
            else:
                rejected.append(Rejected(each.name, "kind", f"it is of the kind {each.kind}", damaged=False))
        raise NothingToRestore(store=str(self.path), kind=wanted.value, rejected=_told(rejected))

    def inspect(self, name: str) -> Candidate:
        """One checkpoint by name, from its manifest alone; no tensor is read. Raises NotACandidate."""
        if not NAME.fullmatch(name):
            raise NotACandidate(
                name=name, store=str(self.path), problem="its name is not that of a checkpoint", advice="See `scan()`."
            )
        found = look(self.disk, self.path, name, self.limits)
        if isinstance(found, Rejected):
            raise NotACandidate(name=name, store=str(self.path), problem=found.problem, advice="Choose another one.")
        return found

    # -- loading ---------------------------------------------------------------------------------------------------

    def load(self, candidate: Candidate, *, kind: Kind | str | None = None, schema: str | None = None) -> Checkpoint:
        """Read and verify everything. Raises CheckpointInvalid, LimitExceeded, WrongKind; nothing was replaced then."""
        evidence = Directory(self.disk, candidate.path, self.limits, streams=self._streams)
        wanted = Kind(kind) if kind is not None else None
        return validate(evidence, self.limits, kind=wanted, name=candidate.name, schema=schema)

    def load_latest(self, kind: Kind | str = Kind.LEARNING) -> tuple[Checkpoint, tuple[Rejected, ...]]:
        """The newest checkpoint of a kind that is whole, and what was passed over. Raises NothingToRestore."""
        rejected: list[Rejected] = []
        wanted = Kind(kind)
        for each in scan(self.disk, self.path, self.limits):
            if isinstance(each, Rejected):
                rejected.append(each)
                continue
            try:
                return self.load(each, kind=wanted), tuple(rejected)
            except CheckpointError as error:
                damaged = isinstance(error, CheckpointInvalid)
                rejected.append(Rejected(each.name, error.fields.get("reason", type(error).__name__), str(error), damaged=damaged))
        raise NothingToRestore(store=str(self.path), kind=wanted.value, rejected=_told(rejected))


@dataclass(frozen=True, slots=True)
class _Draft:
    """What is to be saved, before it has a place."""

    kind: Kind
    step: int
    journal: JournalPosition | None
    fingerprint: str
    arrays: Mapping[str, Array]
    state: bytes

    def manifest(self, sequence: int, parent: str, parts: list[dict[str, Array]], written: list[Written], state: Any) -> Manifest:
        tensors = {
            name: TensorEntry(
                code_of(array, where=name), array.shape, (Slice(each.entry.name, name, (0,) * array.ndim, array.shape),)
            )
            for part, each in zip(parts, written, strict=True)
            for name, array in part.items()
        }
        return Manifest(
            kind=self.kind,
            sequence=sequence,
            step=self.step,
            parent=parent,
            writers=max(1, len(written)),
            files=(*(each.entry for each in written), state),
            tensors=dict(sorted(tensors.items())),
            journal=self.journal,
            fingerprint=self.fingerprint,
        )


def _named(arrays: Mapping[str, Any]) -> dict[str, Array]:
    """The arrays, each under a name that a tensor may have. Raises CheckpointInvalid."""
    for name, array in arrays.items():
        require_tensor_name(name, where="the state")
        if not isinstance(array, np.ndarray):
            raise CheckpointInvalid(
                where=f"the state, {name}", problem=f"it is a {type(array).__name__} and no array", reason="dtype"
            )
        code_of(array, where=f"the state, {name}")
    return dict(arrays)


def _step(state: Any) -> int:
    counter = state.get("counter", 0) if isinstance(state, Mapping) else 0
    return counter if type(counter) is int and counter >= 0 else 0


def _told(rejected: list[Rejected]) -> str:
    return "; ".join(f"{each.name}: {each.reason}" for each in rejected[:5]) or "it is empty"


Swap = Callable[[Checkpoint], None]
