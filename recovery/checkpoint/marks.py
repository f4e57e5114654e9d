"""Marks: what must not be retired, whatever its age: pinned checkpoints, the one that was restored, those that were verified.

Owns the files below `marks/`. Must not decide. Invariant: a mark is durable before what it speaks of happens (a restore) and survives the process; what
cannot be read as a mark protects nothing and is left alone.
"""

from __future__ import annotations

import errno
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

from recovery.checkpoint.files import created
from recovery.checkpoint.layout import NAME, Place, listed
from recovery.crashpoints import around


class Mark(StrEnum):
    """Why a checkpoint is kept."""

    PINNED = "pinned"  # by a person or a program, until it is unpinned
    RESTORED = "restored"  # the state of the current run came from it
    VERIFIED = "verified"  # read in full and found whole

    def file(self, name: str) -> str:
        return f"{self.value}.{name}"


@dataclass(frozen=True)
class Marks:
    """The names that bear each mark."""

    of: dict[Mark, frozenset[str]] = field(default_factory=dict)

    def names(self, mark: Mark) -> frozenset[str]:
        return self.of.get(mark, frozenset())


def borne(of: Marks, name: str) -> tuple[Mark, ...]:
    """The marks that one checkpoint bears."""
    return tuple(mark for mark in Mark if name in of.names(mark))


def read(place: Place) -> Marks:
    found: dict[Mark, set[str]] = {}
    for mark, name in _entries(place):
        found.setdefault(mark, set()).add(name)
    return Marks({mark: frozenset(names) for mark, names in found.items()})


def put(place: Place, mark: Mark, name: str) -> None:
    """Durable on return; marking twice changes nothing."""
    with around("checkpoint.mark"):
        with suppress(FileExistsError), created(place.disk, place.marks / mark.file(name)):
            pass
        place.disk.sync_directory(
            place.marks
        )  # of one that was there too: who made it may have crashed, or been refused, before it was durable


def move(place: Place, mark: Mark, name: str) -> None:
    """The mark is on `name` alone. The new one is durable before an old one goes: a crash leaves one too many."""
    others = read(place).names(mark) - {name}
    put(place, mark, name)
    for other in others:
        remove(place, mark, other)


def remove(place: Place, mark: Mark, name: str) -> None:
    """Absent on return; a crash may bring it back."""
    with around("checkpoint.mark"):
        try:
            place.disk.unlink(place.marks / mark.file(name))
        except OSError as error:
            if error.errno != errno.ENOENT:
                raise


_MARKS: Final = {mark.value: mark for mark in Mark}


def _entries(place: Place) -> Iterator[tuple[Mark, str]]:
    for file, is_directory in listed(place.disk, place.marks):
        value, _, name = file.partition(".")
        if value in _MARKS and NAME.fullmatch(name) and not is_directory:
            yield _MARKS[value], name
