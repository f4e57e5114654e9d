"""The layout of a store: which directory holds what, and the names in them.

Owns paths and names. Must not read content. Invariant: everything of a store lies below its own directory, and a name says what it is.

    CURRENT              a hint: the name and id of the newest checkpoint
    ckpt/SEQUENCE-ID     a checkpoint: a directory of shards, state.json and MANIFEST.json, or one file that holds them
    ckpt/.tmp-SEQUENCE-NONCE    a save under way, or what a crash left of one
    marks/               pins, the restored-from, the verified
    quarantine/          damaged checkpoints, kept for a person
    trash/               retired checkpoints on their way out
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Final

from recovery.checkpoint.errors import SaveFailed
from recovery.checkpoint.files import Disk
from recovery.checkpoint.limits import Limits

NAME: Final = re.compile(r"([0-9]{12,15})-([0-9a-f]{12})")
TEMPORARY: Final = ".tmp-"
SEQUENCE_MAX: Final = 10**15 - 1
"""The last that a name has digits for."""
TEMPORARY_NAME: Final = re.compile(r"\.tmp-([0-9]{12,15})-[0-9a-f]+")


@dataclass(frozen=True)
class Place:
    """A store's directory and how it is read."""

    root: Path
    disk: Disk
    limits: Limits
    streams: int = 1

    @cached_property
    def checkpoints(self) -> Path:
        return self.root / "ckpt"

    @cached_property
    def marks(self) -> Path:
        return self.root / "marks"

    @cached_property
    def quarantine(self) -> Path:
        return self.root / "quarantine"

    @cached_property
    def trash(self) -> Path:
        return self.root / "trash"

    @cached_property
    def current(self) -> Path:
        return self.root / "CURRENT"

    def directories(self) -> tuple[Path, ...]:
        return self.checkpoints, self.marks, self.quarantine, self.trash

    def listed(self) -> list[tuple[str, bool]]:
        """(name, whether it is a directory) of everything among the checkpoints; nothing if there is no store yet."""
        return listed(self.disk, self.checkpoints)


def listed(disk: Disk, path: Path) -> list[tuple[str, bool]]:
    """What a directory holds; nothing if there is none."""
    try:
        return disk.names(path)
    except FileNotFoundError:
        return []


def sequence_after(taken: Iterable[int], *, store: str) -> int:
    """The next one, from 1. Raises SaveFailed when they have run out: what no name can hold would be saved and never found."""
    sequence = max((0, *taken)) + 1
    if sequence > SEQUENCE_MAX:
        problem, advice = f"{SEQUENCE_MAX} is taken, and it is the last", "Save into a store of its own."
        raise SaveFailed(store=store, step="choosing a sequence", problem=problem, fate="Nothing was committed.", advice=advice)
    return sequence


@lru_cache(maxsize=1024)
def sequence_of(name: str) -> int:
    """The sequence that a name claims, a number and no text; -1 for other names."""
    match = NAME.fullmatch(name) or TEMPORARY_NAME.fullmatch(name)
    return int(match[1]) if match else -1
