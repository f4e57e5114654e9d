"""The floor: the same bytes through the same number of threads with nothing added, written and synced, or read into fresh memory.

Invariant: no digest, no header, no look at a number, no reading back.
"""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np

CHUNK = 8 << 20  # bytes of one call; larger ones are no faster


def write(directory: Path, parts: Sequence[Sequence[np.ndarray]]) -> Path:
    """One file for each part, at once. Space is reserved first, which is the faster way here."""

    def one(index: int) -> None:
        opened = os.open(directory / str(index), os.O_WRONLY | os.O_CREAT | os.O_EXCL)
        os.posix_fallocate(opened, 0, sum(array.nbytes for array in parts[index]))
        for array in parts[index]:
            flat = array.reshape(-1).view(np.uint8).data
            for at in range(0, len(flat), CHUNK):
                left = flat[at : at + CHUNK]
                while left:
                    left = left[os.write(opened, left) :]
        os.fsync(opened)
        os.close(opened)

    directory.mkdir(exist_ok=True)
    with ThreadPoolExecutor(len(parts)) as pool:
        list(pool.map(one, range(len(parts))))
    return directory


REST_BYTES = 8000
"""Of a small checkpoint, beside its arrays."""


def write_in_two_syncs(directory: Path, arrays: Sequence[np.ndarray]) -> Path:
    """The steps of a small commit with nothing in them: one file, its sync, a rename, and the sync of the directory."""
    aside, final = directory / "aside", directory / "final"
    content = b"".join([*arrays, b"-" * REST_BYTES])
    opened = os.open(aside, os.O_WRONLY | os.O_CREAT | os.O_EXCL)
    os.write(opened, content)
    os.fsync(opened)
    os.close(opened)
    aside.rename(final)
    sync(directory)
    return final


def sync_all(root: Path) -> float:
    """Seconds that it took to sync every file and directory below, the root itself, and the name of the root. To find and to open them costs nothing here."""
    paths = [root.parent, root] if root.is_file() else [root.parent]
    for directory, _, files in os.walk(root):
        paths += [Path(directory), *(Path(directory, name) for name in files)]
    found = [os.open(path, os.O_RDONLY) for path in reversed(paths)]
    began = time.perf_counter()
    for opened in found:
        os.fsync(opened)
    took = time.perf_counter() - began
    for opened in found:
        os.close(opened)
    return took


def sync(path: Path) -> None:
    """A file or directory, by name."""
    opened = os.open(path, os.O_RDONLY)
    try:
        os.fsync(opened)
    finally:
        os.close(opened)


def read(directory: Path, parts: Sequence[Sequence[np.ndarray]]) -> list[list[np.ndarray]]:
    """What `write` wrote, into fresh memory of the same shapes."""

    def one(index: int) -> list[np.ndarray]:
        fresh = [np.empty_like(array) for array in parts[index]]
        opened = os.open(directory / str(index), os.O_RDONLY)
        for array in fresh:
            left = array.reshape(-1).view(np.uint8).data
            while left:
                left = left[os.readv(opened, [left[:CHUNK]]) :]
        os.close(opened)
        return fresh

    with ThreadPoolExecutor(len(parts)) as pool:
        return list(pool.map(one, range(len(parts))))
