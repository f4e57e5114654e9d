"""Scanning: which directories and files of a store are checkpoints, and why the others are none.

Owns the choice of candidates. Must change nothing. Invariant: one is a candidate only by its own committed manifest, its name and the sizes of its
files; `CURRENT`, modification times and names alone prove nothing. The order is that of commits (the sequence), as a number.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from recovery.checkpoint.errors import CheckpointError, CheckpointInvalid, StoreRefused
from recovery.checkpoint.kinds import Kind
from recovery.checkpoint.layout import NAME, TEMPORARY_NAME, Place, sequence_of
from recovery.checkpoint.manifest import Manifest
from recovery.checkpoint.reading import Directory
from recovery.checkpoint.validating import describe

WHOLE: Final = frozenset({"unfit", "invariant"})
"""Reasons that say something about what a checkpoint is to be used for, and not that its bytes were changed."""


@dataclass(frozen=True, slots=True)
class Rejected:
    """A directory or file that cannot be chosen. `reason`: a word; `damaged`: it was a checkpoint and is broken, so that it belongs into quarantine."""

    name: str
    reason: str
    problem: str
    damaged: bool


@dataclass(frozen=True, slots=True)
class Candidate:
    """A checkpoint by its manifest. Its bytes are verified when it is loaded. `rejected`: what was passed over on the way to it."""

    path: Path
    manifest: Manifest
    rejected: tuple[Rejected, ...] = ()

    def __repr__(self) -> str:
        """What it is and not all that is in it: a manifest can list thousands of tensors."""
        told = (
            f"{self.kind.value}, step {self.manifest.step}, {len(self.manifest.tensors)} tensors, {self.manifest.total_bytes} bytes"
        )
        return f"<Candidate {self.name}: {told}{f', {len(self.rejected)} passed over' if self.rejected else ''}>"

    @property
    def name(self) -> str:
        """Of its directory, which every command and `CheckpointStore.inspect` take."""
        return self.path.name

    @property
    def id(self) -> str:
        """The digest of its manifest."""
        return self.manifest.id

    @property
    def kind(self) -> Kind:
        """What kind of state it is."""
        return self.manifest.kind


def scan(place: Place) -> Iterator[Candidate | Rejected]:
    """Everything among the checkpoints, newest first. Without the lease, what retention takes away meanwhile may be there or not, and is not damaged."""
    for name, is_directory in newest_first(place.listed()):
        found = sorted_out(place, name, is_directory)
        if not (isinstance(found, Rejected) and is_gone(place, name)):
            yield found


def sorted_out(place: Place, name: str, is_directory: bool) -> Candidate | Rejected:
    """One name among the checkpoints. A link is none, whatever it leads to."""
    if is_directory or place.disk.is_file(place.checkpoints / name):
        return look(place, name)
    return Rejected(name, "name", "it is neither a directory nor a file", damaged=False)


def is_gone(place: Place, name: str) -> bool:
    """Whether it is no longer among the checkpoints: retention moves a directory away whole before it deletes anything in it."""
    try:
        return name not in {each for each, _ in place.listed()}
    except OSError:
        return False


def newest_first(names: list[tuple[str, bool]]) -> list[tuple[str, bool]]:
    return sorted(names, key=lambda each: (-sequence_of(each[0]), each[0]))


def look(place: Place, name: str) -> Candidate | Rejected:
    """One directory or file, judged by what can be read without its content."""
    if TEMPORARY_NAME.fullmatch(name):
        return Rejected(name, "unfinished", "its save was not committed", damaged=False)
    if not NAME.fullmatch(name):
        return Rejected(name, "name", "its name is not that of a checkpoint", damaged=False)
    path = place.checkpoints / name
    try:
        return Candidate(path, describe(Directory(place.disk, path, place.limits), place.limits, name=name))
    except (CheckpointError, OSError) as error:
        return rejected(name, error)


def rejected(name: str, error: CheckpointError | OSError) -> Rejected:
    """Why a checkpoint was passed over. Only what is proven damaged says so: a disk that does not answer proves nothing, and a state may be whole
    and not fit."""
    if isinstance(error, CheckpointInvalid):
        return Rejected(name, error.reason, f"{error.where}: {error.problem}", damaged=error.reason not in WHOLE)
    if isinstance(error, StoreRefused):
        return Rejected(name, "unreadable", error.fields["problem"], damaged=False)
    if isinstance(error, CheckpointError):
        return Rejected(name, type(error).__name__, str(error), damaged=False)
    return Rejected(name, "unreadable", error.strerror or type(error).__name__, damaged=False)
