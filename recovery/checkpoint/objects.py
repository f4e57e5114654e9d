"""Checkpoints in an object store: the same format and the same validator, with a commit that needs neither a rename nor a lease.

Owns the commit record. Must not know how an object store is reached (obstore does). Invariant: a checkpoint exists if and only if its commit record
does; the record is put with create-only semantics after everything that it speaks of, so of two writers of one sequence exactly one wins.

    commits/SEQUENCE.json      which directory is the checkpoint of this sequence, and its id
    ckpt/SEQUENCE-NONCE/       shards, state.json, MANIFEST.json
    marks/                     pins, the restored-from, the verified
"""

from __future__ import annotations

import errno
import re
import secrets
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Final

from recovery import logs
from recovery.checkpoint import marks, strict
from recovery.checkpoint.bucket import BucketDisk
from recovery.checkpoint.choosing import Choosing
from recovery.checkpoint.commit import Attempt
from recovery.checkpoint.draft import drafted
from recovery.checkpoint.errors import CheckpointError, CheckpointInvalid, CommitLost, SaveFailed
from recovery.checkpoint.files import read_bounded, remove_tree
from recovery.checkpoint.kinds import Kind
from recovery.checkpoint.layout import NAME, Place, listed, sequence_after, sequence_of
from recovery.checkpoint.limits import Limits
from recovery.checkpoint.manifest import JournalPosition, Manifest
from recovery.checkpoint.marks import Mark
from recovery.checkpoint.reading import Directory
from recovery.checkpoint.retention import Keep, Plan, plan
from recovery.checkpoint.scanning import Candidate, Rejected, rejected
from recovery.checkpoint.validating import Capture, Checkpoint, describe, validate
from recovery.crashpoints import around

if TYPE_CHECKING:
    from obstore.store import ObjectStore

_log: Final = logs.logger("checkpoint")

RECORD_BYTES: Final = 4096
GRACE: Final = timedelta(days=1)
"""How long an uncommitted directory may belong to a save that is still under way."""

_RECORD: Final = re.compile(r"([0-9]{12,15})\.json")
_KEYS: Final = frozenset({"format", "sequence", "directory", "id"})
_FORMAT: Final = 1


class _Upload(Attempt):
    """A save that writes into its final place: what is not committed is not there, whatever its name."""

    def __init__(self, disk: BucketDisk, place: Place, sequence: int) -> None:
        super().__init__(disk, place.checkpoints, sequence, "")
        self._bucket = disk
        self.path = place.checkpoints / f"{sequence:012d}-{secrets.token_hex(6)}"
        self._record = _commits(place) / f"{sequence:012d}.json"
        self.uncertain = False

    def commit(self, manifest: Manifest, *, name: str = "") -> Path:  # noqa: ARG002
        """Put the commit record. Raises FileExistsError if another writer's is there; our own, put by a request whose answer was lost, is no other's."""
        document = {"format": _FORMAT, "sequence": manifest.sequence, "directory": self.path.name, "id": manifest.id}
        data = strict.canonical(document)
        if self._overtaken():
            raise FileExistsError(errno.EEXIST, "later ones are committed already", str(self._record))
        with around("checkpoint.commit"):
            self.uncertain = True
            try:
                self._bucket.create_only(self._record, data)
            except FileExistsError:
                if read_bounded(self._bucket, self._record, RECORD_BYTES)[0] != data:
                    self.uncertain = False
                    raise
            self.uncertain, self.committed, self.durable = False, True, True
        return self.path

    def _overtaken(self) -> bool:
        """Whether this or a later sequence is committed. Of a save that took long, the record that another one put may be retired and gone by now, so that
        creating ours would succeed."""
        return any(sequence_of_record(name) >= sequence_of(self.path.name) for name in _records(self._bucket, self._record.parent))

    def abandon(self) -> None:
        """Remove what was uploaded, unless it was committed or a record may have been put: then nobody but `gc` may, if there is none in a day."""
        if not (self.uncertain or self.committed):
            with around("checkpoint.abandon"):
                remove_tree(self._disk, self.path)  # nothing can be renamed there, and nobody else writes into it


class ObjectCheckpoints(Choosing):
    """Checkpoints under `prefix` of an object store, such as `obstore.store.S3Store`. Any number of readers; one writer wins each sequence.

    keep: what `gc` leaves. limits: what is read at most. streams: shards uploaded and downloaded at once.
    """

    def __init__(
        self, store: ObjectStore, prefix: str = "", *, limits: Limits | None = None, keep: Keep | None = None, streams: int = 4
    ) -> None:
        self._bucket = BucketDisk(store)
        self.keep = keep or Keep()
        self.place = Place(Path(prefix), self._bucket, limits or Limits(), streams)

    @property
    def where(self) -> str:
        return f"the object store under {self.place.root.as_posix()!r}"

    def save(
        self,
        capture: Capture,
        *,
        step: int | None = None,
        journal: JournalPosition | None = None,
        fingerprint: str = "",
        record: Callable[[Manifest], None] | None = None,
    ) -> Candidate:
        """Save a state; durable on return.

        step: updates done; by default the state's own `counter`. record: called once the checkpoint exists, to tell a journal; repeating it is safe.

        Raises CheckpointInvalid (nothing was committed), CommitLost (another writer was quicker), SaveFailed.
        """
        draft = drafted(capture, self.place.limits, step=step, journal=journal, fingerprint=fingerprint)
        with self._refusals() as begun:
            newest = next(self.looked(), None)
            sequence = sequence_after(map(sequence_of_record, _records(self._bucket, _commits(self.place))), store=self.where)
            parent = newest.id if isinstance(newest, Candidate) else ""
            attempt = _Upload(self._bucket, self.place, sequence)
            begun.append(attempt)
            manifest, export, _ = draft.write(attempt, self.place.limits, sequence, parent, streams=self.place.streams)
            validate(export, self.place.limits)
            attempt.write_manifest(manifest)
            path = attempt.commit(manifest)
        if record is not None:
            with around("checkpoint.record"):
                record(manifest)
        return Candidate(path, manifest)

    def looked(self) -> Iterator[Candidate | Rejected]:
        """Everything that was committed, newest first, and why some of it is no candidate."""
        for name in sorted(_records(self._bucket, _commits(self.place)), key=sequence_of_record, reverse=True):
            yield self._look(name)

    def scan(self) -> list[Candidate | Rejected]:
        """`looked`, as a list."""
        return list(self.looked())

    def names(self) -> set[str]:
        """Of commit records, and of directories that have one."""
        records = set(_records(self._bucket, _commits(self.place)))
        directories = (name for name, _ in listed(self._bucket, self.place.checkpoints))
        return records | {name for name in directories if f"{sequence_of(name):012d}.json" in records}

    def load(self, candidate: Candidate, *, kind: Kind | str | None = None, schema: str | None = None) -> Checkpoint:
        """Download and verify everything. Raises CheckpointInvalid, LimitExceeded, WrongKind; nothing was replaced then."""
        evidence = Directory(self._bucket, candidate.path, self.place.limits, streams=self.place.streams)
        found = validate(evidence, self.place.limits, kind=None if kind is None else Kind(kind), schema=schema)
        _require_id(found.manifest, candidate.id, candidate.name)
        return found

    def mark_restored(self, candidate: Candidate) -> None:
        """Durable on return, so that `gc` never takes it away from under the run."""
        marks.move(self.place, Mark.RESTORED, candidate.name)

    def pin(self, candidate: Candidate) -> None:
        """Keep it until it is unpinned."""
        marks.put(self.place, Mark.PINNED, candidate.name)

    def unpin(self, candidate: Candidate) -> None:
        """Leave it to retention."""
        marks.remove(self.place, Mark.PINNED, candidate.name)

    def gc(self, *, dry_run: bool = False, grace: timedelta = GRACE) -> Plan:
        """Retire what need not be kept, and remove uncommitted directories older than `grace`, by the store's clock. Damaged ones are left for a person."""
        there = [name for name, _ in listed(self._bucket, self.place.checkpoints) if NAME.fullmatch(name)]
        found = self.scan()  # after the listing: what is committed between the two is no loose directory
        planned = plan(found, marks.read(self.place), self.keep)
        committed = {each.name for each in found if isinstance(each, Candidate)}
        unclear = {
            sequence_of_record(each.name) for each in found if isinstance(each, Rejected)
        }  # any directory of it may be what its record says
        loose = [name for name in there if name not in committed and sequence_of(name) not in unclear]
        abandoned = self._abandoned(loose, grace) if loose else ()
        planned = Plan(planned.kept, planned.retired, planned.damaged, tuple(abandoned))
        if not dry_run:
            for name in planned.retired:
                with around("checkpoint.retire"):  # first its record, so that it is never a candidate without its files
                    self._bucket.unlink(_commits(self.place) / f"{sequence_of(name):012d}.json")
            for name in (*planned.retired, *planned.unfinished):
                with around("checkpoint.remove"):
                    remove_tree(self._bucket, self.place.checkpoints / name)
        return planned

    def _abandoned(self, names: list[str], grace: timedelta) -> list[str]:
        """Those whose youngest object is older than `grace`. The present is when the store says that an object was written just now."""
        now_path = self.place.root / "now"
        with around("checkpoint.mark"):
            file = self._bucket.create(now_path)
            self._bucket.close(file)
        now = self._bucket.changed_at(now_path)
        return [name for name in names if now - self._youngest(name) > grace.total_seconds()]

    def _youngest(self, name: str) -> float:
        directory = self.place.checkpoints / name
        return max((self._bucket.changed_at(directory / file) for file, _ in listed(self._bucket, directory)), default=0.0)

    def _look(self, name: str) -> Candidate | Rejected:
        try:
            directory, identity = self._read_record(name)
            path = self.place.checkpoints / directory
            manifest = describe(Directory(self._bucket, path, self.place.limits), self.place.limits)
            _require_id(manifest, identity, directory)
            return Candidate(path, manifest)
        except (CheckpointError, OSError) as error:
            return rejected(name, error)

    def _read_record(self, name: str) -> tuple[str, str]:
        """(directory, id) of a commit record. Raises CheckpointInvalid, LimitExceeded, OSError."""
        data, _ = read_bounded(self._bucket, _commits(self.place) / name, RECORD_BYTES)
        found = strict.is_object(strict.read(data, bytes_max=RECORD_BYTES, depth_max=2, where=name), _KEYS, where=name)
        directory, identity = found["directory"], found["id"]
        fits = isinstance(directory, str) and NAME.fullmatch(directory) and isinstance(identity, str)
        if found["format"] != _FORMAT or not fits or {found["sequence"], sequence_of(directory)} != {sequence_of_record(name)}:
            raise CheckpointInvalid(where=name, problem="it is no commit record of this sequence", reason="record")
        return directory, identity

    @contextmanager
    def _refusals(self) -> Iterator[list[_Upload]]:
        """Leave nothing of an attempt that was not committed, and say what happened."""
        begun: list[_Upload] = []
        try:
            yield begun
        except BaseException as error:  # an interrupt, too, leaves no upload behind; raised again
            for attempt in begun:
                try:
                    attempt.abandon()
                except OSError as also:
                    error.add_note(f"What was uploaded could not be removed ({also}); `gc` sweeps it.")
            if isinstance(error, FileExistsError) and begun:
                raise CommitLost(store=self.where, sequence=sequence_of(begun[0].path.name)) from error
            if isinstance(error, OSError):
                _log.error("saving a checkpoint failed", store=self.where, problem=error.strerror)
                unknown = any(attempt.uncertain for attempt in begun)
                fate = "Whether it was committed is not known; `latest` tells." if unknown else "Nothing was committed."
                step = Path(str(error.filename or "listing")).name
                advice = "Look at the object store, then save again."
                problem = error.strerror or str(error)
                raise SaveFailed(store=self.where, step=step, problem=problem, fate=fate, advice=advice) from error
            raise


def _commits(place: Place) -> Path:
    return place.root / "commits"


def _records(bucket: BucketDisk, commits: Path) -> list[str]:
    return [name for name, _ in listed(bucket, commits) if _RECORD.fullmatch(name)]


def sequence_of_record(name: str) -> int:
    match = _RECORD.fullmatch(name)
    return int(match[1]) if match else -1


def _require_id(manifest: Manifest, identity: str, name: str) -> None:
    if manifest.id != identity:
        raise CheckpointInvalid(where=name, problem="its manifest is not the one that was committed", reason="identity")
