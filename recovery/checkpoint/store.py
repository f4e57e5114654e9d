"""The store: a directory of checkpoints with one writer.

Owns the sequence of a save and of a load. Must not know what a state means. Invariant: whatever fails, the checkpoints that were there before are there
afterwards, and what is returned was validated in full.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

from recovery import logs
from recovery.checkpoint import lease, marks
from recovery.checkpoint.choosing import Choosing
from recovery.checkpoint.draft import Draft, drafted
from recovery.checkpoint.errors import NotACandidate, NothingToRestore, StoreRefused
from recovery.checkpoint.files import Disk, LocalDisk
from recovery.checkpoint.kinds import Kind, require
from recovery.checkpoint.layout import NAME, Place
from recovery.checkpoint.limits import Limits
from recovery.checkpoint.manifest import JournalPosition
from recovery.checkpoint.marks import Mark
from recovery.checkpoint.parts import Parts
from recovery.checkpoint.readback import ReadBack
from recovery.checkpoint.reading import Directory
from recovery.checkpoint.retention import Keep, Plan, carry_out, plan
from recovery.checkpoint.saving import Known, Record, begun, finish
from recovery.checkpoint.scanning import Candidate, Rejected, look, scan
from recovery.checkpoint.sharded import Sharded, Shop, Terms, sharded
from recovery.checkpoint.validating import Capture, Checkpoint, validate
from recovery.checkpoint.writer import ShardWriter

PACKED_BYTES: Final = 256 << 10
"""Arrays and state of so many bytes cost less in one file than the syncs of several."""

STREAMS: Final = min(2, os.cpu_count() or 1)

READ_ONLY: Final = frozenset({errno.EROFS, errno.EACCES, errno.EPERM})
"""How a file system says that a store may be read and not written."""

_log: Final = logs.logger("checkpoint")


class CheckpointStore(Choosing):
    """Checkpoints under `path`. Making one touches nothing; the first save makes the directories.

    limits: what is read at most. keep: what retention leaves. read_back: what a save reads again after its commit. wait: how long a save waits for
    another writer. streams: files written and read at once; by default two, or one where there is one processor.
    packed_bytes: a state of up to so many bytes is saved as one file of one shard, which takes two syncs instead of five; 0: none is.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        limits: Limits | None = None,
        keep: Keep | None = None,
        read_back: ReadBack | str = ReadBack.SAMPLE,
        wait: timedelta = timedelta(seconds=10),
        streams: int | None = None,
        packed_bytes: int = PACKED_BYTES,
        disk: Disk | None = None,
    ) -> None:
        self.path = Path(path)
        self.keep = keep or Keep()
        self.read_back = ReadBack(read_back)
        self.wait = wait
        self.place = Place(self.path, disk or LocalDisk(), limits or Limits(), STREAMS if streams is None else streams)
        self.packed_bytes = packed_bytes
        self.known = Known({})

    @property
    def where(self) -> str:
        """Its path, as reports and errors name it."""
        return str(self.path)

    @property
    def shop(self) -> Shop:
        """What it lends to a sharded save."""
        return Shop(self.place, self.known, self.keep, self.read_back, self.wait.total_seconds())

    # -- saving ----------------------------------------------------------------------------------------------------

    def save(
        self,
        capture: Capture,
        *,
        step: int | None = None,
        journal: JournalPosition | None = None,
        fingerprint: str = "",
        record: Record | None = None,
    ) -> Candidate:
        """Save a state; durable on return.

        step: updates done; by default the state's own `counter`. record: called once the checkpoint exists, to tell a journal.

        Raises CheckpointInvalid or SpaceMissing (nothing was committed), StoreBusy, SaveFailed (it says what exists).
        """
        return self.write(drafted(capture, self.place.limits, step=step, journal=journal, fingerprint=fingerprint), record=record)

    def write(self, draft: Draft, *, record: Record | None = None) -> Candidate:
        """Save a state that was taken before. Raises what `save` raises."""
        needed = draft.array_bytes + len(draft.state.data)
        wait, packed = self.wait.total_seconds(), needed <= self.packed_bytes
        with begun(self.place, self.known, needed_bytes=needed, wait_seconds=wait, packed=packed) as session:
            streams = 1 if packed else self.place.streams  # what is put together in memory is one shard, whatever its size
            manifest, export, written = draft.write(
                session.attempt, self.place.limits, session.sequence, session.parent, streams=streams
            )
            return finish(
                self.place, self.known, session, manifest, export, written, keep=self.keep, policy=self.read_back, record=record
            )

    @contextmanager
    def sharded(
        self,
        *,
        kind: Kind | str,
        writers: int,
        deadline: timedelta,
        state: Any = MappingProxyType({}),
        step: int | None = None,
        journal: JournalPosition | None = None,
        fingerprint: str = "",
        record: Record | None = None,
        needed_bytes: int = 0,
    ) -> Iterator[Sharded]:
        """Save one checkpoint from several processes: `writers` of them hand in their shards, and leaving the block waits for them and commits.

        deadline: from entering the block; a writer that has not come by then is named, and the attempt is abandoned. state: what is no array. needed_bytes: of all
        arrays, to see a full disk before anybody writes. The others: as for `save`.

        Raises what `save` raises, WritersMissing, RankFailed, and what a writer has failed of.
        """
        terms = Terms(Kind(kind), writers, deadline, state, step, journal, fingerprint, record, needed_bytes)
        with sharded(self.shop, terms) as save:
            yield save

    def writer(self, attempt: str | os.PathLike[str], index: int) -> ShardWriter:
        """Writer `index`, from 0, of a save that another process coordinates: `attempt` is what its `Sharded.attempt` says. Raises WriterRefused."""
        return ShardWriter(self.place, attempt, index, read_back=self.read_back)

    # -- looking ---------------------------------------------------------------------------------------------------

    def scan(self) -> list[Candidate | Rejected]:
        """Every directory in the store, newest first: candidates, and the others with the reason why they are none."""
        return list(self.looked())

    def looked(self) -> Iterator[Candidate | Rejected]:
        """`scan`, one by one."""
        return scan(self.place)

    def names(self) -> set[str]:
        """Of everything among the checkpoints."""
        return {name for name, _ in self.place.listed()}

    def inspect(self, name: str) -> Candidate:
        """One checkpoint by name, from its manifest alone; no tensor is read. Raises NotACandidate."""
        if not NAME.fullmatch(name):
            raise NotACandidate(
                name=name, store=str(self.path), problem="its name is not that of a checkpoint", advice="See `scan()`."
            )
        found = look(self.place, name)
        if isinstance(found, Rejected):
            raise NotACandidate(name=name, store=str(self.path), problem=found.problem, advice="Choose another one.")
        return found

    # -- loading ---------------------------------------------------------------------------------------------------

    def load(self, candidate: Candidate, *, kind: Kind | str | None = None, schema: str | None = None) -> Checkpoint:
        """Read and verify everything. Raises CheckpointInvalid, LimitExceeded, WrongKind, StoreRefused; nothing was replaced then."""
        evidence = Directory(self.place.disk, candidate.path, self.place.limits, streams=self.place.streams)
        wanted = Kind(kind) if kind is not None else None
        with self._refusals("Nothing was loaded or replaced."):
            return validate(evidence, self.place.limits, kind=wanted, name=candidate.name, schema=schema)

    def parts(self, candidate: Candidate, *, kind: Kind | str | None = None) -> Parts:
        """For a process that needs only some of a checkpoint, however many wrote it: `state`, `load_slice`, `load_slices`. Raises WrongKind."""
        if kind is not None:
            require(candidate.kind, Kind(kind), name=candidate.name)
        return Parts(self.place, candidate)

    def mark_restored(self, candidate: Candidate) -> None:
        """Durable on return, so that retention never takes it away from under the run.

        A store that may only be read stays without the mark, since nothing here could retire from it either. Raises StoreRefused for everything else.
        """
        try:
            with self._writing():
                self.inspect(candidate.name)  # it may have been retired since
                marks.move(self.place, Mark.RESTORED, candidate.name)
        except StoreRefused as refused:
            if not (isinstance(refused.__cause__, OSError) and refused.__cause__.errno in READ_ONLY):
                raise
            _log.warning("restored from a store that may only be read: not marked", store=str(self.path), name=candidate.name)

    # -- keeping ---------------------------------------------------------------------------------------------------

    def verify(self, name: str) -> Checkpoint:
        """Read one checkpoint in full and mark it as verified. Raises what `load` raises."""
        checkpoint = self.load(self.inspect(name))
        self.mark_verified(name)
        return checkpoint

    def mark_verified(self, name: str, *, whole: bool = True) -> None:
        """Say that a checkpoint was read in full and found whole: retention keeps the last of these. Not whole: the mark is taken away.

        Raises NotACandidate, StoreBusy, StoreRefused."""
        with self._writing():
            if whole:
                self.inspect(name)
                marks.put(self.place, Mark.VERIFIED, name)
            else:
                marks.remove(self.place, Mark.VERIFIED, name)

    def pin(self, name: str) -> None:
        """Keep it until it is unpinned. Durable on return. Raises NotACandidate, StoreBusy, StoreRefused."""
        with self._writing():
            self.inspect(name)
            marks.put(self.place, Mark.PINNED, name)

    def unpin(self, name: str) -> None:
        """Leave it to retention. Raises StoreBusy, StoreRefused."""
        with self._writing():
            marks.remove(self.place, Mark.PINNED, name)

    def gc(self, *, dry_run: bool = False) -> Plan:
        """Retire what need not be kept, put what is damaged into quarantine, sweep what crashed saves left. `dry_run`: only say so.

        Raises StoreBusy, StoreRefused."""
        if dry_run:
            return self._plan()
        with self._writing():
            planned = self._plan()
            carry_out(self.place, planned)
            return planned

    def _plan(self) -> Plan:
        return plan(scan(self.place), marks.read(self.place), self.keep)

    @contextmanager
    def _writing(self) -> Iterator[None]:
        """Hold the lease of a store that exists. What the system refuses inside is raised as StoreRefused."""
        if not self.place.checkpoints.is_dir():
            raise NothingToRestore(store=str(self.path), kind="", rejected="there is no store")
        with (
            self._refusals("What was done until then stays, and repeating it is safe."),
            lease.held(self.path, wait_seconds=self.wait.total_seconds()),
        ):
            yield

    @contextmanager
    def _refusals(self, fate: str) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            where, problem = str(error.filename or self.path), error.strerror or type(error).__name__
            raise StoreRefused(store=str(self.path), where=where, problem=problem, fate=fate) from error
