"""Scanning: which directories of a store are checkpoints, and why the others are none.

Owns the choice of candidates. Must change nothing. Invariant: a directory is a candidate only by its own committed manifest, its name and the sizes of its
files; `CURRENT`, modification times and names alone prove nothing. The order is that of commits (the sequence), as a number.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from recovery.checkpoint.errors import CheckpointError, CheckpointInvalid
from recovery.checkpoint.files import Disk
from recovery.checkpoint.kinds import Kind
from recovery.checkpoint.limits import Limits
from recovery.checkpoint.manifest import Manifest
from recovery.checkpoint.reading import Directory
from recovery.checkpoint.validating import describe

CHECKPOINTS: Final = "ckpt"
NAME: Final = re.compile(r"([0-9]{12,15})-([0-9a-f]{12})")
TEMPORARY_NAME: Final = re.compile(r"\.tmp-([0-9]{12,15})-[0-9a-f]+")


@dataclass(frozen=True, slots=True)
class Rejected:
    """A directory that cannot be chosen. `damaged`: it was one and is broken, so that it belongs into quarantine."""

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

    @property
    def name(self) -> str:
        return self.path.name

    @property
    def id(self) -> str:
        return self.manifest.id

    @property
    def kind(self) -> Kind:
        return self.manifest.kind


def scan(disk: Disk, root: Path, limits: Limits) -> Iterator[Candidate | Rejected]:
    """Everything in the store's directory of checkpoints, newest first."""
    for name, is_directory in sorted(listed(disk, root), key=lambda each: (-sequence_of(each[0]), each[0])):
        yield look(disk, root, name, limits) if is_directory else Rejected(name, "name", "it is no directory", damaged=False)


def look(disk: Disk, root: Path, name: str, limits: Limits) -> Candidate | Rejected:
    """One directory, judged by what can be read without its content."""
    if TEMPORARY_NAME.fullmatch(name):
        return Rejected(name, "unfinished", "its save was not committed", damaged=False)
    if not NAME.fullmatch(name):
        return Rejected(name, "name", "its name is not that of a checkpoint", damaged=False)
    path = root / CHECKPOINTS / name
    try:
        return Candidate(path, describe(Directory(disk, path, limits), limits, name=name))
    except CheckpointInvalid as error:
        return Rejected(name, error.reason, f"{error.where}: {error.problem}", damaged=True)
    except CheckpointError as error:
        return Rejected(name, type(error).__name__, str(error), damaged=False)
    except OSError as error:
        return Rejected(name, "unreadable", error.strerror or type(error).__name__, damaged=False)


def listed(disk: Disk, root: Path) -> list[tuple[str, bool]]:
    """(name, whether it is a directory) of everything beside each other in the store; none if there is no store yet."""
    try:
        return disk.names(root / CHECKPOINTS)
    except FileNotFoundError:
        return []


def sequence_of(name: str) -> int:
    """The sequence that a name claims; -1 for other names."""
    match = NAME.fullmatch(name) or TEMPORARY_NAME.fullmatch(name)
    return int(match[1]) if match else -1
