"""Shards: safetensors files written from arrays, and read into arrays, in one pass over the bytes.

Owns the streaming: a piece is looked at (finite), hashed and written while it is in the processor's cache. Must not know manifests. Invariant: no
array is copied whole, and what is read is allocated by numbers that were checked first.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from itertools import groupby
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np
from blake3 import blake3

from recovery.checkpoint import narrow
from recovery.checkpoint.errors import CheckpointInvalid
from recovery.checkpoint.files import Bytes, Disk, Readable, created
from recovery.checkpoint.header import PREFIX, WIDTHS, Placed, header_length, write_header
from recovery.checkpoint.limits import Limits, at_most
from recovery.checkpoint.manifest import FileEntry, digest
from recovery.crashpoints import around

Array = np.ndarray[Any, Any]

PIECE: Final = 1 << 20  # bytes: fits into a core's own cache, so that three looks at it cost one trip to memory

SMALL: Final = 1 << 17  # bytes: copying so many costs less than the calls that it saves

AHEAD: Final = 8 << 20  # bytes after which the device may begin, so that it works while the next ones are hashed

KNOWN_TENSORS: Final = 1024  # of a shard whose header is kept

SAMPLES: Final = 8  # places of a shard that are kept for reading back
SAMPLE_BYTES: Final = 4096

DTYPES: Final[dict[str, np.dtype[Any]]] = {
    code: np.dtype(name).newbyteorder("<")
    for code, name in {
        "U64": "u8", "I64": "i8", "F64": "f8", "C64": "c8", "F32": "f4", "U32": "u4", "I32": "i4", "F16": "f2", "U16": "u2", "I16": "i2",
        "I8": "i1", "U8": "u1", "BOOL": "?",
    }.items()
} | narrow.DTYPES  # fmt: skip

_CODES: Final = {np.dtype(dtype).newbyteorder("<"): code for code, dtype in DTYPES.items()}


def code_of(dtype: np.dtype[Any], *, where: str) -> str:
    """The dtype as safetensors writes it. Raises CheckpointInvalid(reason="dtype")."""
    code = _CODES.get(dtype) or _CODES.get(dtype.newbyteorder("<"))
    if code is None or code not in WIDTHS:
        problem = f"arrays of {dtype} cannot be saved; there are {', '.join(str(dtype) for dtype in _CODES)}"
        raise CheckpointInvalid(where=where, problem=problem, reason="dtype")
    return code


@dataclass(frozen=True, slots=True)
class Written:
    """One shard. header: its beginning, as written. samples: some places in it, as (offset, bytes), for reading back."""

    entry: FileEntry
    header: bytes
    samples: tuple[tuple[int, bytes], ...] = ()


def write_shard(disk: Disk, path: Path, arrays: Mapping[str, Array], limits: Limits) -> Written:
    """Write and sync a new file. Its name is durable only after its directory is. Raises CheckpointInvalid(reason="finite" or "dtype"), LimitExceeded, OSError."""
    with around("checkpoint.shard"), created(disk, path) as file:
        written = _pour(disk, file, path.name, arrays, limits)
        disk.sync(file)
    return written


def begin_shard(disk: Disk, path: Path, arrays: Mapping[str, Array], limits: Limits, unsynced: list[int]) -> Written:
    """Write a new file and let the device begin with it. The file is added to `unsynced` as soon as it is open. Raises what `write_shard` raises."""
    with around("checkpoint.shard"):
        unsynced.append(file := disk.create(path))
        return _pour(disk, file, path.name, arrays, limits)


@dataclass(frozen=True, slots=True)
class Gathered:
    """A small shard in memory: what `write_shard` would write."""

    written: Written
    content: bytes


def gather_shard(name: str, arrays: Mapping[str, Array], limits: Limits) -> Gathered:
    """The bytes of a shard that is to be written with something else. Raises CheckpointInvalid(reason="finite" or "dtype"), LimitExceeded."""
    begun = _begun(name, arrays, limits)
    content = b"".join([begun.header, *[_raw(arrays[each]) for each in begun.order]])
    at = len(begun.header)
    for dtype, names, count in begun.runs:  # one look at the numbers of many small arrays
        if count and not is_finite(np.frombuffer(content, dtype, count, at)):
            for each in names:
                require_finite(arrays[each], where=f"{name}, {each}")
        at += count * dtype.itemsize
    return Gathered(Written(FileEntry(name, begun.size, digest(content)), begun.header), content)


def _raw(array: Array) -> Bytes:
    """The elements in C order, little endian: an array whose memory is just that, or a copy."""
    return array if array.flags.c_contiguous and array.dtype.isnative and sys.byteorder == "little" else _little(array).tobytes()


class _Begun(NamedTuple):
    """A shard before its data: its first bytes, the names in the order of their data, its size in bytes, and the neighbours of one dtype: that, their names and elements."""

    header: bytes
    order: tuple[str, ...]
    size: int
    runs: tuple[tuple[np.dtype[Any], tuple[str, ...], int], ...]


def _begun(name: str, arrays: Mapping[str, Array], limits: Limits) -> _Begun:
    layout = tuple([(each, array.dtype, array.shape) for each, array in arrays.items()])
    found = _known(name, layout) if len(layout) <= KNOWN_TENSORS else _headed(name, layout)
    at_most(len(found.header) - PREFIX, limits.header_bytes, where=name, what="the size of its header in bytes (header_bytes)")
    return found


def _headed(name: str, layout: tuple[tuple[str, np.dtype[Any], tuple[int, ...]], ...]) -> _Begun:
    header, order = write_header({each: (code_of(dtype, where=f"{name}, {each}"), shape) for each, dtype, shape in layout})
    elements = {each: math.prod(shape) for each, _, shape in layout}
    dtypes = {each: dtype.newbyteorder("<") for each, dtype, _ in layout}
    runs = []
    for dtype, same in groupby(order, key=dtypes.__getitem__):
        names = tuple(same)
        runs.append((dtype, names, sum(elements[each] for each in names)))
    size = len(header) + sum(dtype.itemsize * count for dtype, _, count in runs)
    return _Begun(header, tuple(order), size, tuple(runs))


_known = lru_cache(maxsize=8)(_headed)
"""The same for as long as a run saves the same tensors. Shards are few, and those of a save not many more than processors."""


def _pour(disk: Disk, file: int, name: str, arrays: Mapping[str, Array], limits: Limits) -> Written:
    header, order, size, _ = _begun(name, arrays, limits)
    hashed = blake3()
    samples: list[tuple[int, bytes]] = []
    at = started = 0
    disk.reserve(file, size)
    for chunk in _chunks(header, ((each, arrays[each]) for each in order), name):
        hashed.update(chunk)
        disk.write(file, chunk)
        samples += _samples(chunk, at, size)
        at += len(chunk)
        if at - started >= AHEAD:
            disk.start_sync(file, started, at - started)
            started = at
    disk.start_sync(file, started, at - started)
    return Written(FileEntry(name, size, hashed.hexdigest()), header, tuple(samples))


def _chunks(header: bytes, arrays: Iterable[tuple[str, Array]], where: str) -> Iterator[memoryview | bytearray]:
    """A file's bytes in order. Large pieces are views of their arrays; small ones are put together, since each chunk costs calls of its own."""
    together = bytearray(header)
    for name, array in arrays:
        for piece in pieces(array):
            require_finite(piece, where=f"{where}, {name}")
            raw = piece.view(np.uint8).data
            if together and len(together) + len(raw) > SMALL:
                yield together
                together = bytearray()
            if len(raw) > SMALL:
                yield raw
            else:
                together += raw
    if together:
        yield together


def _samples(chunk: memoryview | bytearray, at: int, size: int) -> list[tuple[int, bytes]]:
    """Of places that are spread over the `size` bytes of a file, those in a chunk that begins `at`."""
    step = max(1, -(-size // SAMPLES))
    return [
        (place, bytes(chunk[place - at : place - at + SAMPLE_BYTES]))
        for place in range(-(-at // step) * step, at + len(chunk), step)
    ]


def pieces(array: Array) -> Iterator[Array]:
    """The elements in C order, little endian, as flat contiguous arrays of at most PIECE bytes: views where that is possible."""
    if array.size == 0:
        return
    if array.flags.c_contiguous:
        flat = array.reshape(-1)
        step = max(1, PIECE // array.itemsize)
        for at in range(0, array.size, step):
            yield _little(flat[at : at + step])
        return
    of_one = array.nbytes // len(array)
    if of_one > PIECE and array.ndim > 1:
        for row in array:
            yield from pieces(row)
        return
    step = max(1, PIECE // of_one)
    for at in range(0, len(array), step):
        yield _little(np.ascontiguousarray(array[at : at + step]).reshape(-1))


def _little(piece: Array) -> Array:
    if piece.dtype.isnative and sys.byteorder == "little":
        return piece
    return piece.astype(piece.dtype.newbyteorder("<"), copy=False)


def is_finite(piece: Array) -> bool:
    if narrow.is_narrow(piece):
        return narrow.is_finite(piece)
    return piece.dtype.kind not in "fc" or bool(np.logical_and.reduce(np.isfinite(piece), axis=None))


def require_finite(piece: Array, *, where: str) -> None:
    """Raise CheckpointInvalid(reason="finite") if a number is infinite or none."""
    if not is_finite(piece):
        raise CheckpointInvalid(where=where, problem="it holds a number that is infinite or not a number", reason="finite")


@dataclass(frozen=True, slots=True)
class Read:
    """What was read of one shard. `unfinite`: the first tensor with a number that is not finite, or ""."""

    blake3: str
    unfinite: str


CheckHeader = Callable[[bytes, int], Mapping[str, Placed]]
"""(header text, bytes of data) -> key -> where it is. Raises CheckpointInvalid."""


def read_shard(
    disk: Readable, file: int, size: int, limits: Limits, check: CheckHeader, into: Mapping[str, Array], *, where: str
) -> Read:
    """Read an open file of `size` bytes into the arrays, by key. Raises CheckpointInvalid, LimitExceeded, OSError.

    Nothing is allocated: `check` is shown the header first, and its tensors must be those of `into`.
    """
    return _passed(disk, file, size, limits, check, lambda key, _: _filled(disk, file, into[key], where), where)


def pass_over(
    disk: Readable, file: int, size: int, limits: Limits, check: CheckHeader, tell: Callable[[int], None], *, where: str
) -> Read:
    """`read_shard` into nothing: one piece is held at a time. tell: is given the bytes of each piece."""
    buffer = np.empty(PIECE, np.uint8)

    def through(key: str, placed: Placed) -> Iterator[Array]:  # noqa: ARG001
        dtype = DTYPES[placed.dtype]
        for at in range(placed.begin, placed.end, PIECE):
            piece = buffer[: min(PIECE, placed.end - at)]
            yield from _filled(disk, file, piece.view(dtype), where)
            tell(piece.nbytes)

    return _passed(disk, file, size, limits, check, through, where)


def _passed(
    disk: Readable,
    file: int,
    size: int,
    limits: Limits,
    check: CheckHeader,
    elements: Callable[[str, Placed], Iterator[Array]],
    where: str,
) -> Read:
    """One pass over an open file. elements: reads those of a tensor and gives each piece, flat."""
    hashed = blake3()
    prefix = _exactly(disk, file, PREFIX, where)
    text = _exactly(disk, file, header_length(prefix, size, limits, where=where), where)
    hashed.update(prefix)
    hashed.update(text)
    unfinite = ""
    for key, placed in check(text, size - PREFIX - len(text)).items():
        for piece in elements(key, placed):
            hashed.update(piece.view(np.uint8).data)
            if not unfinite and not is_finite(piece):
                unfinite = key
    if disk.read_into(file, bytearray(1)):
        raise CheckpointInvalid(where=where, problem="it grew while it was read", reason="size")
    return Read(hashed.hexdigest(), unfinite)


def _exactly(disk: Readable, file: int, size: int, where: str) -> bytes:
    buffer = bytearray(size)
    if disk.read_into(file, buffer) != size:
        raise CheckpointInvalid(where=where, problem="it is shorter than it was", reason="size")
    return bytes(buffer)


def _filled(disk: Readable, file: int, target: Array, where: str) -> Iterator[Array]:
    """Read the target's elements; each piece as it was read, flat. A target that is a part of a larger array is filled through a buffer."""
    if target.size == 0:
        return
    if not target.flags.c_contiguous:
        of_one = target.nbytes // len(target)
        step = max(1, PIECE // of_one)
        if of_one > PIECE and target.ndim > 1:
            for row in target:
                yield from _filled(disk, file, row, where)
            return
        for at in range(0, len(target), step):
            part = target[at : at + step]
            buffer = np.empty(part.shape, target.dtype)
            yield from _filled(disk, file, buffer, where)
            part[...] = buffer
        return
    flat = target.reshape(-1)
    step = max(1, PIECE // target.itemsize)
    for at in range(0, target.size, step):
        piece = flat[at : at + step]
        raw = piece.view(np.uint8).data
        if disk.read_into(file, raw) != raw.nbytes:
            raise CheckpointInvalid(where=where, problem="it is shorter than it was", reason="size")
        yield piece
