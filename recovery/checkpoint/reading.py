"""Reading: the facts about a checkpoint in a directory or a file, from a disk that nobody has verified.

Owns how many bytes are read when. Invariant: files are read with read(2) into fresh memory and never mapped, since a file that is truncated under a
mapping ends the process; no link is followed; nothing outside it is opened.
"""

from __future__ import annotations

import contextvars
import errno
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property
from pathlib import Path
from typing import Any, Final, TypeVar

import numpy as np

from recovery.checkpoint import state as states
from recovery.checkpoint.admitting import admit
from recovery.checkpoint.errors import CheckpointInvalid
from recovery.checkpoint.files import Readable, opened, read_bounded
from recovery.checkpoint.limits import Limits, at_most
from recovery.checkpoint.manifest import FILE, FileEntry, Manifest
from recovery.checkpoint.packing import unpacked
from recovery.checkpoint.shards import DTYPES, Array, Read, read_shard
from recovery.checkpoint.validating import CheckShard, Parts

_SAID: Final = {
    errno.ENOENT: "it is missing",
    errno.ELOOP: "it is a link",
    errno.EMLINK: "it is a link",
    errno.EINVAL: "it is no regular file",
    errno.ENXIO: "it is no regular file",
}

T = TypeVar("T")
S = TypeVar("S")


class Directory:
    """`Evidence` of a directory, or of a packed checkpoint. streams: how many files are read at once."""

    def __init__(self, disk: Readable, path: Path, limits: Limits, *, streams: int = 1) -> None:
        self._around, self._path, self._limits, self._streams = disk, path, limits, streams
        self.where = path.name

    @cached_property
    def _disk(self) -> Readable:
        return unpacked(self._around, self._path)

    def manifest(self, limits: Limits) -> Manifest:
        with self._regular(FILE):
            data, size = read_bounded(self._disk, self._path / FILE, limits.manifest_bytes)
        at_most(size, limits.manifest_bytes, where=f"{self.where}, {FILE}", what="its size in bytes")
        return admit(data, limits, where=self.where)

    def names(self) -> set[str]:
        return {name for name, _ in self._disk.names(self._path)}

    def size(self, name: str) -> int:
        with self._regular(name), opened(self._disk, self._path / name) as (_, size):
            return size

    def arrays(self, shapes: Mapping[str, tuple[str, tuple[int, ...]]]) -> Mapping[str, Array]:
        return {name: np.empty(shape, DTYPES[dtype]) for name, (dtype, shape) in shapes.items()}

    def shards(self, work: Mapping[FileEntry, tuple[CheckShard, Parts]]) -> Mapping[str, Read]:
        def read(item: tuple[FileEntry, tuple[CheckShard, Parts]]) -> tuple[str, Read]:
            entry, (check, parts) = item
            with self._regular(entry.name), opened(self._disk, self._path / entry.name) as (file, size):
                where = f"{self.where}, {entry.name}"
                if size != entry.size:
                    raise CheckpointInvalid(where=where, problem=f"it has {size} bytes of {entry.size}", reason="size")
                return entry.name, read_shard(self._disk, file, size, self._limits, check, parts(), where=where)

        return dict(in_streams(self._streams, read, work.items()))

    def state(self, entry: FileEntry) -> bytes:
        at_most(entry.size, self._limits.state_bytes, where=f"{self.where}, {entry.name}", what="its size in bytes")
        with self._regular(entry.name):
            return read_bounded(self._disk, self._path / entry.name, entry.size)[0]

    def value(self, state: bytes, limits: Limits) -> Any:
        return states.from_bytes(state, limits)

    def _regular(self, name: str) -> Regular:
        return Regular(f"{self.where}, {name}")


class Regular:
    """Says what a file is instead, where it is no regular file of this directory. Other refusals of the system pass."""

    def __init__(self, where: str) -> None:
        self._where = where

    def __enter__(self) -> None: ...

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        if isinstance(error, OSError) and error.errno in _SAID:
            raise CheckpointInvalid(where=self._where, problem=_SAID[error.errno], reason="files") from error


def in_streams(streams: int, do: Callable[[S], T], items: Iterable[S]) -> list[T]:
    """`do` for each item, in up to `streams` threads, in order. The first error is raised once none of them runs any more."""
    work = list(items)
    if streams <= 1 or len(work) <= 1:
        return [do(item) for item in work]
    with ThreadPoolExecutor(min(streams, len(work)), thread_name_prefix="checkpoint") as pool:
        running = [pool.submit(contextvars.copy_context().run, do, item) for item in work]
    return [each.result() for each in running]
