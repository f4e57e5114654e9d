"""What lost power may leave of a disk: the legal states after any prefix of a record.

Owns the model; pure. Must not know what programs stored. Invariant: what was synced is in every state, and every state is one that POSIX allows to a
file system whose renames are atomic. It is more than ext4, XFS or btrfs would leave, which keep the order of names:

- a write is as many pieces as it touches pages of 4096 bytes; a resize is one. Each that was not synced survives or does not, whatever became of
  those before and after it. A piece that survives may be torn at a sector of 512 bytes, its head or its tail alone being there;
- where the end of a file is lost, the file ends there, or is as long as it was and holds zeros;
- a name that is made, moved or removed is one change, all of it or nothing; none follows another. It is durable once a directory that it touches was
  synced. A file's own sync makes its content durable and not its name;
- content that a *refused* sync was asked for may be there or not, for ever: the kernel has marked it clean, so that a later sync says nothing about it. Names are in
  a log that is written again or ends the file system's writing, so that a later sync of a directory counts;
- what is written again over a piece covers it; bytes that no call wrote are never touched.

Files that carry no promise over a power cut (SQLite's shared memory, locks) are no pieces: each state holds them as they stand, as garbage, or not at all.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from hashlib import blake2b
from itertools import combinations
from typing import Final

from tests.power.record import ROOT, Change, Made, Moved, Refused, Resized, Synced, Unnamed, Wrote

PAGE: Final = 4096
SECTOR: Final = 512
EXHAUSTIVE: Final = 8
"""Up to so many pieces every subset is laid out."""
SAMPLES: Final = 4
"""Seeded subsets after a call, where there are more."""

VOLATILE: Final = ("-shm", ".lock")


@dataclass(slots=True)
class Piece:
    """One thing that survives or not. settled: synced. doubtful: content that a refused sync was asked for."""

    serial: int
    settled: bool = False
    doubtful: bool = False


@dataclass(slots=True)
class Part(Piece):
    """Bytes of a file within one page; or, with `data` None, its new size."""

    at: int = 0
    data: bytes | None = None


@dataclass(slots=True)
class Naming(Piece):
    """(directory, name) -> the node that it names from now on, or None."""

    changes: tuple[tuple[int, str, int | None], ...] = ()


@dataclass
class _File:
    base: bytes = b""
    parts: list[Part] = field(default_factory=list)
    size: int = 0  # as the running system sees it
    folded: int = 0  # counts what went into the base


Tree = dict[str, bytes | None]
"""Path -> content; None for a directory."""


@dataclass(frozen=True)
class Choice:
    """Which unsynced pieces survive. torn: of this one its head (True) or its tail alone. zeros: lost ends are zeros."""

    survive: frozenset[int]
    torn: tuple[int, bool] | None = None
    zeros: bool = False


class Disk:
    """Plays a record, and lays out what would be left now."""

    def __init__(self) -> None:
        self._serial = 0
        self._files: dict[int, _File] = {}
        self._directories = {ROOT}
        self._names: dict[tuple[int, str], int] = {}
        self._namings: list[Naming] = []
        self._made: dict[tuple[int, frozenset[int], tuple[int, bool] | None, bool, int], tuple[bytes, bytes]] = {}

    # -- playing -------------------------------------------------------------------------------------------------------

    def play(self, change: Change) -> None:
        match change:
            case Made(node, directory, name, is_directory):
                if is_directory:
                    self._directories.add(node)
                else:
                    self._files[node] = _File()
                self._name((directory, name, node))
            case Moved(node, directory, name, to_directory, to_name):
                self._name((directory, name, None), (to_directory, to_name, node))
            case Unnamed(directory, name):
                self._name((directory, name, None))
            case Wrote(node, at, data):
                self._write(self._files[node], at, data)
            case Resized(node, size):
                file = self._files[node]
                file.parts.append(Part(self._next(), at=size))
                file.size = size
            case Synced(node):
                self._sync(node)
            case Refused("sync", node) if node not in self._directories:
                for part in self._files[node].parts:
                    part.doubtful = not part.settled

    def _next(self) -> int:
        self._serial += 1
        return self._serial

    def _name(self, *changes: tuple[int, str, int | None]) -> None:
        self._namings.append(Naming(self._next(), changes=changes))

    def _write(self, file: _File, at: int, data: bytes) -> None:
        done = 0
        while done < len(data):
            room = PAGE - (at + done) % PAGE
            file.parts.append(Part(self._next(), at=at + done, data=data[done : done + room]))
            done += room
        file.size = max(file.size, at + len(data))

    def _pieces_of(self, node: int) -> Iterable[Piece]:
        if node in self._directories:
            return [each for each in self._namings if any(directory == node for directory, _, _ in each.changes)]
        return self._files[node].parts

    def _sync(self, node: int) -> None:
        for piece in self._pieces_of(node):
            piece.settled = piece.settled or not piece.doubtful
        if node in self._directories:
            while self._namings and self._namings[0].settled:
                _rename(self._names, self._namings.pop(0))
            return
        file = self._files[node]
        settled = 0
        while settled < len(file.parts) and file.parts[settled].settled:
            settled += 1
        if settled:
            content = bytearray(file.base)
            for part in file.parts[:settled]:
                _apply(content, part)
            del file.parts[:settled]
            file.base, file.folded = bytes(content), file.folded + settled

    # -- choosing ------------------------------------------------------------------------------------------------------

    def open(self) -> list[Piece]:
        """What may survive or not, oldest first: of files that have, had or may get a name, and that are no volatile ones."""
        names = [each for each in self._namings if not each.settled and not _is_volatile(each)]
        parts = [part for node in self._namable() for part in self._files[node].parts if not part.settled]
        return sorted([*names, *parts], key=lambda piece: piece.serial)

    def _namable(self) -> set[int]:
        """Files that some choice of names leads to."""
        named = [(name, node) for (_, name), node in self._names.items()]
        named += [(name, node) for each in self._namings for _, name, node in each.changes if node is not None]
        return {node for name, node in named if node in self._files and not _volatile(name)}

    def choices(self, seed: int, *, settled_down: bool) -> Iterator[Choice]:
        """settled_down: this call is followed by one of another kind, so that whole bursts are looked at with each piece torn among all others."""
        pieces = self.open()
        serials = [piece.serial for piece in pieces]
        survivors = list(_subsets(serials, seed))
        torn = [piece for piece in pieces if isinstance(piece, Part) and piece.data is not None and len(piece.data) > 1]
        for zeros in (False, True):
            for survive in survivors:
                yield Choice(survive, None, zeros)
        for piece in torn:
            before = frozenset(serial for serial in serials if serial <= piece.serial)
            for head in (True, False):
                yield Choice(before, (piece.serial, head))
                if settled_down or len(serials) <= EXHAUSTIVE:
                    yield Choice(frozenset(serials), (piece.serial, head))

    # -- laying out ----------------------------------------------------------------------------------------------------

    def tree(self, choice: Choice) -> tuple[Tree, bytes]:
        """What is on the disk, and its digest (of all but what is volatile)."""
        names = dict(self._names)
        for naming in self._namings:
            if naming.settled or naming.serial in choice.survive or _is_volatile(naming):
                _rename(names, naming)
        inside: dict[int, list[tuple[str, int]]] = {}
        for (directory, name), node in names.items():
            inside.setdefault(directory, []).append((name, node))
        tree: Tree = {}
        digest = blake2b(digest_size=16)
        self._descend(ROOT, "", inside, choice, tree, digest)
        return tree, digest.digest()

    def _descend(
        self, node: int, path: str, inside: dict[int, list[tuple[str, int]]], choice: Choice, tree: Tree, digest: blake2b
    ) -> None:
        for name, inner in sorted(inside.get(node, ())):
            place = f"{path}{name}"
            if inner in self._directories:
                tree[place] = None
                digest.update(f"{place}/\0".encode())
                self._descend(inner, f"{place}/", inside, choice, tree, digest)
            elif _volatile(name):
                if (stands := self._volatile(self._files[inner], choice)) is not None:
                    tree[place] = stands
            else:
                tree[place], own = self._content(inner, choice)
                digest.update(f"{place}\0".encode() + own)

    def _volatile(self, file: _File, choice: Choice) -> bytes | None:
        way = len(choice.survive) % 3
        if way == 2:
            return None
        return b"\xa5" * file.size if way else _written(file, file.parts, None)

    def _content(self, node: int, choice: Choice) -> tuple[bytes, bytes]:
        file = self._files[node]
        kept = [part for part in file.parts if part.settled or part.serial in choice.survive]
        serials = frozenset(part.serial for part in kept)
        torn = choice.torn if choice.torn is not None and choice.torn[0] in serials else None
        size = file.size if choice.zeros else -1
        key = (node, serials, torn, choice.zeros, file.folded if size < 0 else file.folded * 2**40 + size)
        if key not in self._made:
            content = _written(file, kept, torn)
            content += bytes(max(0, size - len(content)))
            self._made[key] = content, blake2b(content, digest_size=16).digest()
        return self._made[key]

    def forget(self) -> None:
        """Give up what was laid out, once it grows large."""
        if sum(len(content) for content, _ in self._made.values()) > 1 << 28:
            self._made.clear()


def _volatile(name: str) -> bool:
    return name.endswith(VOLATILE)


def _is_volatile(naming: Naming) -> bool:
    return all(_volatile(name) for _, name, _ in naming.changes)


def _rename(names: dict[tuple[int, str], int], naming: Naming) -> None:
    for directory, name, node in naming.changes:
        if node is None:
            names.pop((directory, name), None)
        else:
            names[directory, name] = node


def _apply(content: bytearray, part: Part, torn: bool | None = None) -> None:
    """torn: only its head (True) or tail (False) is there, cut at the sector nearest to its middle."""
    if part.data is None:
        del content[part.at :]
        content.extend(bytes(part.at - len(content)))
        return
    at, data = part.at, part.data
    if torn is not None:
        cut = -(-(at + len(data) // 2) // SECTOR) * SECTOR - at
        cut = cut if 0 < cut < len(data) else len(data) // 2
        at, data = (at, data[:cut]) if torn else (at + cut, data[cut:])
    content.extend(bytes(max(0, at - len(content))))
    content[at : at + len(data)] = data


def _written(file: _File, parts: Iterable[Part], torn: tuple[int, bool] | None) -> bytes:
    content = bytearray(file.base)
    for part in parts:
        _apply(content, part, torn[1] if torn is not None and torn[0] == part.serial else None)
    return bytes(content)


def _subsets(serials: list[int], seed: int) -> Iterator[frozenset[int]]:
    """All of them, up to `EXHAUSTIVE`; above that all prefixes, single losses, single survivors, and seeded samples."""
    if len(serials) <= EXHAUSTIVE:
        for count in range(len(serials) + 1):
            yield from map(frozenset, combinations(serials, count))
        return
    everything = frozenset(serials)
    for count in range(len(serials) + 1):
        yield frozenset(serials[:count])
    for serial in serials:
        yield everything - {serial}
        yield frozenset({serial})
    chance = random.Random(seed)
    for _ in range(SAMPLES):
        yield frozenset(serial for serial in serials if chance.random() < 0.5)
