"""Where a checkpoint is: from what was typed to a store and a checkpoint in it.

Owns the reading of paths and names. Must not judge content. Invariant: asking about what is not there makes nothing, and a name that could mean two
checkpoints means neither.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from recovery.checkpoint.errors import CheckpointInvalid, NoStore, NotACandidate, NothingToRestore, StoreRefused
from recovery.checkpoint.files import LocalDisk
from recovery.checkpoint.layout import NAME, Place, sequence_of
from recovery.checkpoint.limits import Limits
from recovery.checkpoint.manifest import FILE
from recovery.checkpoint.packing import unpacked
from recovery.checkpoint.reading import Directory
from recovery.checkpoint.retention import Keep
from recovery.checkpoint.scanning import Candidate, Rejected, is_gone, look
from recovery.checkpoint.store import STREAMS, CheckpointStore
from recovery.checkpoint.validating import describe

ID_MIN: Final = 4
"""Characters of an id that are taken for one."""

COMMITS: Final = "commits"
"""Where ObjectCheckpoints keeps its commit records, in whatever holds them: a directory too."""


@dataclass(frozen=True, slots=True)
class Found:
    """A checkpoint and how it is read. store: the one that it lies in, None for a directory of its own. passed: newer ones that are none."""

    place: Place
    candidate: Candidate
    store: CheckpointStore | None = None
    passed: tuple[Rejected, ...] = ()


def store_at(path: Path, *, keep: Keep | None = None) -> CheckpointStore:
    """The store at a path. Raises NoStore."""
    if (store := _store(path, keep)) is not None:
        return store
    if "://" in str(path) or ":/" in str(path):
        problem, advice = (
            "it is a URL",
            "A store on a file system is named by its directory; one behind obstore is asked from Python.",
        )
    elif (path / COMMITS).is_dir():
        problem = "it is laid out as an object store"
        advice = "Ask ObjectCheckpoints from Python; one checkpoint in it can be named here by its directory."
    elif not path.exists():
        problem, advice = "there is nothing of that name", "Name the directory that was given to CheckpointStore."
    elif not path.is_dir() and not _is_checkpoint(path):
        problem, advice = "it is no directory", "Name the directory that was given to CheckpointStore."
    elif _is_checkpoint(path):
        problem = "it is one checkpoint"
        advice = f"Name its store: {path.parent.parent}." if path.parent.name == "ckpt" else "Name the store that it belongs to."
    else:
        problem, advice = "there is no directory ckpt in it", "Name the directory that was given to CheckpointStore."
    raise NoStore(path=str(path), problem=problem, advice=advice)


def _is_checkpoint(path: Path) -> bool:
    """Whether it is laid out as one, in a directory or in a file, whatever its state."""
    return (path / FILE).is_file() or (path.is_file() and (NAME.fullmatch(path.name) is not None or _is_packed(path)))


def _is_packed(path: Path) -> bool:
    try:
        return FILE in {name for name, _ in unpacked(LocalDisk(), path).names(path)}
    except (CheckpointInvalid, OSError):
        return False


def is_store(path: Path) -> bool:
    """Whether there is a store, whatever is in it."""
    return _store(path) is not None


def found_at(path: Path, name: str | None = None) -> Found:
    """One checkpoint: PATH is its directory or file, its store (then by `name`, else the newest), or STORE/NAME.

    Raises NoStore, NotACandidate, NothingToRestore, CheckpointInvalid, LimitExceeded, UnknownFormat.
    """
    if name is None and _is_checkpoint(path):
        return _of_its_own(path)
    if name is None and _store(path) is None and (parent := _store(path.parent)) is not None:
        return _named(parent, path.name)
    store = store_at(path)
    return _newest(store) if name is None else _named(store, name)


def resolved(store: CheckpointStore, name: str, names: list[str]) -> str:
    """The one of `names` that is meant: by all of it, its sequence, or the beginning of its id. Raises NotACandidate."""
    if name in names:
        return name
    number = int(name) if name.isascii() and name.isdecimal() else None
    meant = [
        each
        for each in names
        if (number is not None and NAME.fullmatch(each) and sequence_of(each) == number)
        or (len(name) >= ID_MIN and each.partition("-")[2].startswith(name))
    ]
    if len(meant) == 1:
        return meant[0]
    problem = f"it could be {' or '.join(meant[:3])}" if meant else "there is nothing of that name or number"
    advice = "Say more of it." if meant else f"See `recover checkpoint list {store.path}`."
    raise NotACandidate(name=name, store=str(store.path), problem=problem, advice=advice)


@contextmanager
def refusals(path: Path, *, changing: bool = False) -> Iterator[None]:
    """What the file system refuses, as an error of ours."""
    try:
        yield
    except OSError as error:
        fate = "What was done until then stays, and repeating it is safe." if changing else "Nothing was changed."
        raise StoreRefused(
            store=str(path), where=str(error.filename or path), problem=error.strerror or type(error).__name__, fate=fate
        ) from error


def described(place: Place, path: Path, *, name: str | None) -> Candidate:
    """A checkpoint by its manifest. Raises what `describe` raises: unlike `scan`, which says why it passes one over."""
    return Candidate(path, describe(Directory(place.disk, path, place.limits), place.limits, name=name))


def _store(path: Path, keep: Keep | None = None) -> CheckpointStore | None:
    store = CheckpointStore(path, keep=keep)
    if (
        path / COMMITS
    ).is_dir():  # names mean something else there, and whoever took them for ours would put every one into quarantine
        return None
    return store if store.place.checkpoints.is_dir() else None


def _of_its_own(path: Path) -> Found:
    path = path.resolve()
    if path.parent.name == "ckpt" and (store := _store(path.parent.parent)) is not None:
        return Found(store.place, described(store.place, path, name=path.name), store)
    place = Place(path.parent, LocalDisk(), Limits(), STREAMS)
    return Found(place, described(place, path, name=None))


def _named(store: CheckpointStore, name: str) -> Found:
    name = resolved(store, name, [each for each, _ in store.place.listed()])
    found = look(store.place, name)
    if isinstance(found, Candidate):
        return Found(store.place, found, store)
    if is_gone(store.place, name):
        raise taken(name, store.path)
    if found.damaged:
        described(store.place, store.place.checkpoints / name, name=name)  # says it with its own exit code
    raise NotACandidate(name=name, store=str(store.path), problem=found.problem, advice="Choose another one.")


def _newest(store: CheckpointStore) -> Found:
    passed: list[Rejected] = []
    for each in store.looked():
        if isinstance(each, Candidate):
            return Found(store.place, each, store, tuple(passed))
        passed.append(each)
    raise nothing(store, passed)


def taken(name: str, store: Path) -> NotACandidate:
    """Retention was quicker."""
    return NotACandidate(name=name, store=str(store), problem="it was taken away while it was read", advice="Choose another one.")


def nothing(store: CheckpointStore, passed: list[Rejected]) -> NothingToRestore:
    """There is no checkpoint to speak of."""
    told = "; ".join(f"{each.name}: {each.reason}" for each in passed[:5]) or "it is empty"
    return NothingToRestore(store=str(store.path), kind="learning, weights or other", rejected=told)
