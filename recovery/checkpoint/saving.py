"""Saving: one save from its lease to the last step of retention.

Owns the order of the steps around a commit, and what is said when one fails. Must not know where a state comes from. Invariant: until the rename nothing that was
there has changed; the hint, the marks and the trash follow the commit and never go before it.

`begun` holds the lease and gives an attempt with a sequence of its own; `finish` takes it from written shards to a committed, read back, current
checkpoint. Whoever writes shards elsewhere (other processes) uses the same two.
"""

from __future__ import annotations

import errno
import secrets
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from recovery import logs
from recovery.checkpoint import lease, marks
from recovery.checkpoint.commit import Attempt, PackedAttempt
from recovery.checkpoint.errors import CheckpointInvalid, SaveFailed, SpaceMissing
from recovery.checkpoint.files import created
from recovery.checkpoint.layout import SEQUENCE_MAX, Place, sequence_after, sequence_of
from recovery.checkpoint.limits import MIB
from recovery.checkpoint.manifest import Manifest
from recovery.checkpoint.readback import ReadBack, read_back, read_back_packed
from recovery.checkpoint.retention import Keep, empty_trash, plan, put_into_quarantine, retire, sweep
from recovery.checkpoint.scanning import Candidate, Rejected, newest_first, rejected, sorted_out
from recovery.checkpoint.shards import Written
from recovery.checkpoint.validating import Evidence, validate
from recovery.crashpoints import around

_log: Final = logs.logger("checkpoint")

MARGIN_BYTES: Final = MIB  # manifest, directories and rounding to blocks

LARGE_BYTES: Final = 8 * MIB
"""What is retired is worth a sync of its own from here on."""

ASIDE: Final = ".CURRENT-"
"""How the name of a hint begins that is to replace the one that is there."""

WAITING: Final = 8
"""So many retired checkpoints may wait to be deleted, if they are small."""

FULL: Final = {errno.ENOSPC, errno.EDQUOT}

_FATES: Final = {
    (False, False): "Nothing was committed, and what was written is removed.",
    (True, False): "The new checkpoint exists, and may not survive a power cut.",
    (True, True): "The new checkpoint exists.",
}
"""By (committed, durable)."""

Record = Callable[[Manifest], None]
"""Tells a journal that a checkpoint is committed; durable on return. Repeating it must be safe: a crash before it is repaired by telling again."""


@dataclass
class Known:
    """What earlier saves of this process found. A committed checkpoint does not change, so only what is new is looked at."""

    looked: dict[str, Candidate]
    prepared: bool = False
    trash: Counter[str] | None = None
    """What this process has put into the trash and not deleted: how many `directories`, and their `bytes`. None: what is there is not known."""

    def refresh(self, place: Place) -> list[Candidate | Rejected]:
        """Everything among the checkpoints, newest first."""
        found = [
            self.looked.get(name) or sorted_out(place, name, is_directory) for name, is_directory in newest_first(place.listed())
        ]
        self.looked = {each.name: each for each in found if isinstance(each, Candidate)}
        return found


@dataclass(frozen=True)
class Session:
    """A save under way. parent: the id of the newest checkpoint, or "". found: what stood among the checkpoints when it began; nobody else changes that."""

    attempt: Attempt
    sequence: int
    parent: str
    found: Sequence[Candidate | Rejected]


def prepare(place: Place) -> None:
    """Make the directories that are missing, those above the store included. Durable on return, and so are those that were there: who made
    them may have crashed, or been refused, before they were."""
    for directory in place.directories():
        if not directory.is_dir():
            with around("checkpoint.prepare"):
                _make(place, directory)
    with around("checkpoint.prepare"):
        with suppress(PermissionError):  # whoever may not read the directory above cannot sync it
            place.disk.sync_directory(place.root.parent)
        place.disk.sync_directory(place.root)


def _make(place: Place, directory: Path) -> None:
    if not directory.parent.is_dir():
        _make(place, directory.parent)
    try:
        place.disk.make_directory(directory)
    except FileExistsError:
        if not directory.is_dir():
            raise
    place.disk.sync_directory(directory.parent)


@contextmanager
def begun(place: Place, known: Known, *, needed_bytes: int, wait_seconds: float, packed: bool = False) -> Iterator[Session]:
    """Hold the lease and an attempt's directory; packed: its file. Leaves nothing of an attempt that is not committed.

    Raises StoreBusy, SpaceMissing, SaveFailed.
    """
    with ExitStack() as ours:
        with _unbegun(place):
            if not (known.prepared and place.checkpoints.is_dir()):
                prepare(place)
                known.prepared = True
            ours.enter_context(lease.held(place.root, wait_seconds=wait_seconds))
            found = known.refresh(place)
            _sweep(place, found)
            require_space(place, needed_bytes)
        sequence = sequence_after(_taken(found), store=str(place.root))
        attempt = (PackedAttempt if packed else Attempt)(place.disk, place.checkpoints, sequence, secrets.token_hex(8))
        with _refusals(place, attempt):
            attempt.begin()
            parent = next((each.id for each in found if isinstance(each, Candidate)), "")
            yield Session(attempt, sequence, parent, found)


def finish(
    place: Place,
    known: Known,
    session: Session,
    manifest: Manifest,
    evidence: Evidence,
    written: Sequence[Written],
    *,
    keep: Keep,
    policy: ReadBack,
    record: Record | None = None,
) -> Candidate:
    """Validate, commit, tell the journal, read back, hint, retire: in this order. Raises CheckpointInvalid before the commit, SaveFailed after it."""
    session.attempt.write_ahead(manifest, place.limits)
    validate(evidence, place.limits)
    session.attempt.write_manifest(manifest)
    path = session.attempt.commit(manifest)
    candidate = Candidate(path, manifest)
    if record is not None:
        with around("checkpoint.record"):
            record(manifest)
    try:
        if isinstance(session.attempt, PackedAttempt):
            read_back_packed(place.disk, path, session.attempt.content, policy)
        else:
            read_back(place.disk, path, manifest, written, policy, streams=place.streams)
    except CheckpointInvalid as error:
        put_into_quarantine(place, rejected(path.name, error))
        raise _failed(place, "reading back", error.problem, "The new checkpoint was put into quarantine.") from error
    if policy is ReadBack.FULL:
        marks.put(place, marks.Mark.VERIFIED, path.name)
    point(place, manifest)
    known.looked[path.name] = candidate
    _make_room(place, known, [candidate, *session.found], keep)
    return candidate


def _make_room(place: Place, known: Known, found: Sequence[Candidate | Rejected], keep: Keep) -> None:
    """Right after a commit. Small ones wait in the trash for a later commit, whose sync is theirs too, and go several at a time, since each deletion may
    have to wait for the file system's own log; what is large is deleted at once."""
    if known.trash is None or known.trash["directories"] >= WAITING:
        _clear(place)
        known.trash = Counter()
    planned = plan(found, marks.read(place), keep)
    size = sum(known.looked[name].manifest.total_bytes for name in planned.retired)
    retire(place, planned.retired)
    known.trash.update(directories=len(planned.retired), bytes=size)
    if known.trash["bytes"] >= LARGE_BYTES:
        empty_trash(place)
        known.trash = Counter()


def point(place: Place, manifest: Manifest) -> None:
    """Make `CURRENT` say which one is the newest. It is not synced: nothing is decided by it, and a flush is not cheap. Nor is a save failed by
    it, whose checkpoint exists: what refuses is told in the log, and the old hint stays. One of the same length is written over, at a sixth of the cost of a replacement."""
    with around("checkpoint.current"):
        said = b'{"id":"%b","name":"%b"}' % (manifest.id.encode(), manifest.name.encode())  # canonical: neither holds a quote
        with suppress(OSError):  # then it is replaced
            file, size = place.disk.reopen(place.current)
            try:
                if size == len(said):
                    place.disk.write(file, said)
                    return
            finally:
                place.disk.close(file)
        aside = place.root / f"{ASIDE}{secrets.token_hex(8)}"
        try:
            with created(place.disk, aside) as file:
                place.disk.reserve(file, len(said))  # what has its place on the device need not go there before the replacement
                place.disk.write(file, said)
            place.disk.replace(aside, place.current)
        except OSError as error:
            _log.warning("the hint CURRENT was not written", store=str(place.root), problem=error.strerror or str(error))
            with suppress(OSError):
                place.disk.unlink(aside)


def require_space(place: Place, needed_bytes: int) -> None:
    """Raise SpaceMissing before anything is written. What is in the trash is deleted first if that is what it takes."""
    needed = needed_bytes + MARGIN_BYTES
    if place.disk.free_bytes(place.root) >= needed:
        return
    empty_trash(place)
    if (free := place.disk.free_bytes(place.root)) < needed:
        _log.error("no room for a checkpoint", store=str(place.root), needed=needed, free=free)
        raise SpaceMissing(store=str(place.root), needed=needed, free=free)


def _taken(found: list[Candidate | Rejected]) -> Iterator[int]:
    """The sequences that are taken. The last of all under a name that is no checkpoint is somebody's mistake, and must not end the store."""
    for each in found:
        sequence = sequence_of(each.name)
        if sequence < SEQUENCE_MAX or isinstance(each, Candidate):
            yield sequence


def _sweep(place: Place, found: list[Candidate | Rejected]) -> None:
    """Remove what crashed saves left, and put aside what is damaged. The lease is ours, so nobody works on it any more."""
    if not (odd := [each for each in found if isinstance(each, Rejected)]):
        return
    planned = plan(odd, marks.Marks(), Keep())
    for each in planned.damaged:
        put_into_quarantine(place, each)
    sweep(place, planned.unfinished)


def _clear(place: Place) -> None:
    """Delete what has left the candidates, and replacements of the hint that were not carried out. For the holder of the lease, right after a commit."""
    empty_trash(place, synced=True)
    for name, _ in place.disk.names(place.root):
        if name.startswith(ASIDE):
            with around("checkpoint.remove"):
                place.disk.unlink(place.root / name)


@contextmanager
def _unbegun(place: Place) -> Iterator[None]:
    """Say what the system refused before there was an attempt."""
    try:
        yield
    except OSError as error:
        step, problem = Path(str(error.filename or place.root)).name, error.strerror or str(error)
        raise _failed(place, step, problem, "Nothing was committed.", "Look at the store's directory, then save again.") from error


@contextmanager
def _refusals(place: Place, attempt: Attempt) -> Iterator[None]:
    """Remove an attempt that was not committed, raise the alarm, and say what the system refused."""
    try:
        yield
    except BaseException as error:  # an interrupt, too, leaves no attempt behind; raised again
        fate = _FATES[attempt.committed, attempt.durable]
        try:
            attempt.abandon()
        except OSError as also:
            fate = "Nothing was committed; what was written could not be removed, and the next save sweeps it."
            error.add_note(f"What was written could not be removed ({also}); the next save sweeps it.")
        if isinstance(error, OSError):
            advice = "Make room, then save again." if error.errno in FULL else "Look at the disk, then save again."
            raise _failed(
                place, Path(str(error.filename or attempt.path)).name, error.strerror or str(error), fate, advice
            ) from error
        raise


def _failed(place: Place, step: str, problem: str, fate: str, advice: str = "Look at the disk, then save again.") -> SaveFailed:
    _log.error("saving a checkpoint failed", store=str(place.root), step=step, problem=problem)
    return SaveFailed(store=str(place.root), step=step, problem=problem, fate=fate, advice=advice)
