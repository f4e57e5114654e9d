"""Tensors: elements of one tensor at a time, out of the shards of a checkpoint whose bytes were verified before.

Owns where the elements of a tensor lie. Must not judge them. Invariant: nothing is read outside of what the manifest lists, and never more than was asked for
is held; the files of a checkpoint do not change, so that what was verified is what is read.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from functools import cached_property
from math import prod
from pathlib import Path
from types import TracebackType
from typing import Final, Self

import numpy as np

from recovery.checkpoint.errors import CheckpointInvalid
from recovery.checkpoint.files import Readable, opened
from recovery.checkpoint.header import PREFIX, Placed, header_length
from recovery.checkpoint.limits import Limits
from recovery.checkpoint.manifest import Manifest, Slice
from recovery.checkpoint.packing import unpacked
from recovery.checkpoint.reading import Regular
from recovery.checkpoint.shards import DTYPES, Array
from recovery.checkpoint.validating import check_of

BLOCK: Final = 1 << 20
"""Bytes that are read at once, unless one row of a tensor that lies in several slices is larger."""


class Tensors:
    """The tensors of one checkpoint. A context: shards stay open from their first use until its end."""

    def __init__(self, disk: Readable, path: Path, manifest: Manifest, limits: Limits) -> None:
        self._around, self._path, self._limits = disk, path, limits
        self.manifest = manifest
        self._open = ExitStack()
        self._files: dict[str, tuple[int, int, dict[str, Placed]]] = {}

    @cached_property
    def _disk(self) -> Readable:
        return unpacked(self._around, self._path)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._open.close()
        self._files.clear()

    def whole(self, name: str) -> Array:
        """A tensor. Raises CheckpointInvalid, LimitExceeded, OSError."""
        tensor = self.manifest.tensors[name]
        array = np.empty(tensor.shape, DTYPES[tensor.dtype])
        for part in tensor.slices:
            at = tuple(slice(begin, begin + size) for begin, size in zip(part.offset, part.shape, strict=True)) or ...
            array[at] = self._elements(part, tensor.dtype, 0, prod(part.shape)).reshape(part.shape)
        return array

    def in_one(self, name: str) -> bool:
        """Whether all its elements lie one after the other, so that `flat` may begin anywhere."""
        return len(self.manifest.tensors[name].slices) <= 1

    def flat(self, name: str, begin: int, end: int) -> Array:
        """Elements of a tensor in C order, of one that lies in one slice; where it lies in several, `begin` and `end` are at rows."""
        tensor = self.manifest.tensors[name]
        if self.in_one(name):
            return np.concatenate([self._elements(part, tensor.dtype, begin, end) for part in tensor.slices])
        row = prod(tensor.shape[1:])
        return self._rows(name, begin // row, end // row).reshape(-1)

    def _rows(self, name: str, begin: int, end: int) -> Array:
        tensor = self.manifest.tensors[name]
        array = np.empty((end - begin, *tensor.shape[1:]), DTYPES[tensor.dtype])
        for part in tensor.slices:
            first, last = max(begin, part.offset[0]), min(end, part.offset[0] + part.shape[0])
            of_one = prod(part.shape[1:])
            if first >= last or not of_one:
                continue
            found = self._elements(part, tensor.dtype, (first - part.offset[0]) * of_one, (last - part.offset[0]) * of_one)
            rest = [slice(at, at + size) for at, size in zip(part.offset[1:], part.shape[1:], strict=True)]
            array[(slice(first - begin, last - begin), *rest)] = found.reshape(last - first, *part.shape[1:])
        return array

    def _elements(self, part: Slice, dtype: str, begin: int, end: int) -> Array:
        """Those of a slice, flat."""
        array = np.empty(end - begin, DTYPES[dtype])
        if not array.size:
            return array
        file, data, placed = self._shard(part.file)
        where = f"{self._path.name}, {part.file}"
        with Regular(where):
            raw = array.view(np.uint8).data
            if self._disk.read_at(file, raw, data + placed[part.key].begin + begin * array.itemsize) != raw.nbytes:
                raise CheckpointInvalid(where=where, problem="it is shorter than it was", reason="size")
        return array

    def _shard(self, name: str) -> tuple[int, int, dict[str, Placed]]:
        """(the open file, where its data begin, its tensors)."""
        if name not in self._files:
            where = f"{self._path.name}, {name}"
            entry = next(entry for entry in self.manifest.shards() if entry.name == name)
            with Regular(where):
                file, size = self._open.enter_context(opened(self._disk, self._path / name))
            if size != entry.size:
                raise CheckpointInvalid(where=where, problem=f"it has {size} bytes of {entry.size}", reason="size")
            prefix = bytearray(PREFIX)
            self._disk.read_at(file, prefix, 0)
            text = bytearray(header_length(bytes(prefix), size, self._limits, where=where))
            self._disk.read_at(file, text, PREFIX)
            check = check_of(self.manifest, entry, self._limits, self._path.name)
            self._files[name] = file, PREFIX + len(text), dict(check(bytes(text), size - PREFIX - len(text)))
        return self._files[name]


def blocks(shape: tuple[int, ...], itemsize: int, *, rows: bool) -> Iterator[tuple[int, int]]:
    """(begin, end) of consecutive elements in C order that cover a tensor; at most BLOCK bytes each. rows: only whole ones, at least one."""
    total = prod(shape)
    row = prod(shape[1:]) if rows else 1
    step = max(1, BLOCK // itemsize // row) * row if row else 1
    for begin in range(0, total, step):
        yield begin, min(total, begin + step)
