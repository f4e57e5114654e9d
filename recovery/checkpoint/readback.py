"""Reading back: whether what was just written is there, asked of the disk and not of memory.

Owns the three policies. Invariant: nothing is allocated in the size of the state. A read right after a write is mostly answered by the operating system's
cache; `FULL` asks it first to forget the files, which is a hint.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path

import safetensors
from blake3 import blake3

from recovery.checkpoint.errors import CheckpointInvalid
from recovery.checkpoint.files import Disk, opened
from recovery.checkpoint.manifest import FILE, STATE, Manifest
from recovery.checkpoint.reading import in_streams
from recovery.checkpoint.shards import PIECE, Written


class ReadBack(StrEnum):
    """What a save reads again after it has committed."""

    FULL = "full"  # every byte, from the device where the system agrees
    SAMPLE = "sample"  # manifest, state, every header, and some places of every shard
    NONE = "none"  # nothing


def read_back(disk: Disk, path: Path, manifest: Manifest, written: Sequence[Written], policy: ReadBack, *, streams: int) -> None:
    """Raise CheckpointInvalid(reason="read back") if something is not as it was written."""
    if policy is ReadBack.NONE:
        return
    _require_same(disk, path / FILE, manifest.to_bytes())
    if policy is ReadBack.FULL:
        in_streams(streams, lambda entry: _require_digest(disk, path / entry.name, entry.blake3, forget=True), manifest.files)
        return
    (state,) = [entry for entry in manifest.files if entry.name == STATE]
    _require_digest(disk, path / STATE, state.blake3)
    for each in written:
        require_samples(disk, path / each.entry.name, each, set(manifest.inside(each.entry.name)))


def read_back_packed(disk: Disk, path: Path, content: bytes, policy: ReadBack) -> None:
    """`read_back` of a packed checkpoint. All of it is compared, since it is small; `FULL` asks the device."""
    if policy is not ReadBack.NONE:
        _require_same(disk, path, content, forget=policy is ReadBack.FULL)


def _require_digest(disk: Disk, path: Path, expected: str, *, forget: bool = False) -> None:
    hashed = blake3()
    with opened(disk, path) as (file, size):
        buffer = memoryview(bytearray(min(PIECE, size + 1)))  # of an empty file, too, its end is found by reading on
        if forget:
            disk.forget_cache(file)
        while count := disk.read_into(file, buffer):
            hashed.update(buffer[:count])
    if hashed.hexdigest() != expected:
        raise _differs(path)


def _require_same(disk: Disk, path: Path, expected: bytes, *, forget: bool = False) -> None:
    with opened(disk, path) as (file, size):
        if forget:
            disk.forget_cache(file)
        buffer = bytearray(size if size == len(expected) else 0)
        if disk.read_into(file, buffer) != len(expected) or buffer != expected:
            raise _differs(path)


def require_samples(disk: Disk, path: Path, written: Written, keys: set[str]) -> None:
    """The header, and that the safetensors library finds the same tensors by it; then some places, compared with what was in memory."""
    with opened(disk, path) as (file, size):
        if size != written.entry.size:
            raise _differs(path)
        for at, expected in ((0, written.header), *written.samples):
            buffer = bytearray(len(expected))
            if disk.read_at(file, buffer, at) != len(expected) or buffer != expected:
                raise _differs(path)
    with safetensors.safe_open(path, "numpy", backend="pread") as library:
        if set(library.keys()) != keys:
            raise _differs(path)


def _differs(path: Path) -> CheckpointInvalid:
    problem = "what was read back is not what was written"
    return CheckpointInvalid(where=f"{path.parent.name}, {path.name}", problem=problem, reason="read back")
