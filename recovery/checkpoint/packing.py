"""Packing: the files of a small checkpoint in one, so that two syncs commit it.

Owns that file: safetensors, its tensors the checkpoint's files as bytes. Must not know what is in them. Invariant: it is read through the calls that read a
directory, so that one validator judges both; its header has one form for the same names and sizes, and every other byte belongs to one of the files.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from recovery.checkpoint.errors import CheckpointInvalid, LimitExceeded
from recovery.checkpoint.files import Bytes, Readable
from recovery.checkpoint.header import PREFIX, Placed, header_length, read_header, write_header
from recovery.checkpoint.limits import Limits

BYTES: Final = "U8"
"""The dtype of a file."""

LIMITS: Final = Limits(header_bytes=4096, tensors=8, rank=1, depth=3)
"""Of the header of a packed checkpoint, which names a manifest, a state and a shard."""


def packed_header(sizes: Mapping[str, int]) -> tuple[bytes, list[str]]:
    """(the first bytes of the file, the names in the order of their content) for name -> bytes."""
    return write_header({name: (BYTES, (size,)) for name, size in sizes.items()})


def unpacked(disk: Readable, path: Path) -> Readable:
    """What reads the files of the checkpoint at `path`, as `path / name`: the disk itself, unless it is packed."""
    return Packed(disk, path) if disk.is_file(path) else disk


@dataclass(slots=True)
class _Part:
    """An open file of a packed checkpoint: where it begins and ends in the whole, and where the next read begins."""

    begin: int
    end: int
    at: int


class Packed:
    """A packed checkpoint as the directory of its files. What is no such file is CheckpointInvalid(reason="header" or as a header says)."""

    def __init__(self, disk: Readable, path: Path) -> None:
        self._disk, self._path = disk, path
        self._parts: dict[int, _Part] = {}

    def open(self, path: Path) -> tuple[int, int]:
        file, size = self._disk.open(self._path)
        try:
            begin, placed = self._index(file, size)
            if path.parent != self._path or path.name not in placed:
                raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(path))
        except BaseException:  # whatever ended it, the file is closed; raised again
            self._disk.close(file)
            raise
        part = placed[path.name]
        self._parts[file] = _Part(begin + part.begin, begin + part.end, begin + part.begin)
        return file, part.end - part.begin

    def close(self, file: int) -> None:
        del self._parts[file]
        self._disk.close(file)

    def read_into(self, file: int, buffer: Bytes) -> int:
        part = self._parts[file]
        count = self.read_at(file, buffer, part.at - part.begin)
        part.at += count
        return count

    def read_at(self, file: int, buffer: Bytes, at: int) -> int:
        part = self._parts[file]
        wanted = memoryview(buffer).cast("B")[: max(0, part.end - part.begin - at)]
        return self._disk.read_at(file, wanted, part.begin + at)

    def forget_cache(self, file: int) -> None:
        self._disk.forget_cache(file)

    def is_file(self, path: Path) -> bool:
        return path in {self._path / name for name, _ in self.names(self._path)}

    def names(self, path: Path) -> list[tuple[str, bool]]:
        if path != self._path:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(path))
        file, size = self._disk.open(path)
        try:
            return sorted((name, False) for name in self._index(file, size)[1])
        finally:
            self._disk.close(file)

    def _index(self, file: int, size: int) -> tuple[int, Mapping[str, Placed]]:
        """(where content begins, the files in it), out of a header that nobody has verified."""
        where = f"{self._path.name}, its header"
        try:
            prefix = bytearray(PREFIX)
            count = self._disk.read_at(file, prefix, 0)
            text = bytearray(header_length(bytes(prefix[:count]), size, LIMITS, where=where))
            count = self._disk.read_at(file, text, PREFIX)
            placed = read_header(bytes(text[:count]), size - PREFIX - len(text), LIMITS, where=where)
        except LimitExceeded as error:  # none that was written is as large
            raise CheckpointInvalid(where=where, problem=str(error), reason="header") from error
        if packed_header({name: part.end - part.begin for name, part in placed.items()})[0] != bytes(prefix) + text:
            raise CheckpointInvalid(where=where, problem="it is not that of a packed checkpoint", reason="header")
        return PREFIX + len(text), placed
