"""The disk: every step that makes something durable, and every read of what is not verified, as a port.

Owns the system calls and their flags. Must not know checkpoints. Invariant: nothing is opened through a link, nothing is overwritten but a hint, and the result of
every call is looked at; the caller decides what is synced when, so that a recording disk sees the protocol as it is.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import os
import shutil
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any, Final, Protocol

from recovery.syncing import sync

Bytes = bytes | bytearray | memoryview | Any
"""Anything with a contiguous buffer; numpy arrays included, which no common type describes."""

_CREATE: Final = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_CLOEXEC", 0)
_REOPEN: Final = os.O_WRONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_NONBLOCK", 0)
_READ: Final = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_NONBLOCK", 0)
_DIRECTORY: Final = os.O_RDONLY | getattr(os, "O_DIRECTORY", 0) | getattr(os, "O_CLOEXEC", 0)

NO_RESERVE: Final = frozenset({errno.EOPNOTSUPP, errno.ENOSYS, errno.EINVAL})
"""What file systems say that cannot reserve space. They are written to all the same."""


_WRITE: Final = 2
"""SYNC_FILE_RANGE_WRITE of sync_file_range(2): begin to write what is dirty, and wait for nothing."""


@cache
def _sync_file_range() -> Callable[[int, int, int, int], int] | None:
    """The system call, which the standard library does not have; None elsewhere than on Linux.

    `posix_fadvise(DONTNEED)` begins to write too, and then throws what is written out of memory, for which it has every processor do a piece of work:
    milliseconds where they are busy.
    """
    try:
        found = ctypes.CDLL(None).sync_file_range
    except (AttributeError, OSError, TypeError):
        return None
    found.argtypes = (ctypes.c_int, ctypes.c_int64, ctypes.c_int64, ctypes.c_uint)
    found.restype = ctypes.c_int
    return found


class Readable(Protocol):
    """What is read. Each method raises OSError when the system refuses. Descriptors are plain numbers and end with `close`."""

    def open(self, path: Path) -> tuple[int, int]:
        """(file, size) of a regular file, through no link. OSError(ELOOP) for a link, OSError(EINVAL) for what is no regular file."""
        ...

    def is_file(self, path: Path) -> bool:
        """Whether it is a regular file, and no link to one. Not where files lie under a prefix that is none itself."""
        ...

    def read_into(self, file: int, buffer: Bytes) -> int:
        """Fill `buffer` from where the file stands; how many bytes there were, less only at its end."""
        ...

    def read_at(self, file: int, buffer: Bytes, at: int) -> int:
        """`read_into` from byte `at`; where the file stands does not change."""
        ...

    def close(self, file: int) -> None: ...

    def forget_cache(self, file: int) -> None:
        """Ask that what is read next comes from the device. A hint."""

    def names(self, path: Path) -> list[tuple[str, bool]]:
        """(name, whether it is a directory and no link), sorted by name."""
        ...


class Disk(Readable, Protocol):
    """What is read and written. Each method raises OSError when the system refuses."""

    def make_directory(self, path: Path) -> None:
        """A new directory; FileExistsError if there is one. Durable after its parent's `sync_directory`."""

    def create(self, path: Path) -> int:
        """A new file for writing, with the mode that the umask leaves of 0666; FileExistsError if there is one."""
        ...

    def reopen(self, path: Path) -> tuple[int, int]:
        """(file, size) of a regular file that is there, for writing over it from its beginning; through no link. For hints alone: nothing else is overwritten."""
        ...

    def reserve(self, file: int, size: int) -> None:
        """Claim the space before it is written, so that a full disk is met at the beginning."""

    def write(self, file: int, data: Bytes) -> None:
        """All of `data`. Durable after `sync`."""

    def start_sync(self, file: int, at: int, size: int) -> None:
        """A hint: let the device begin with these bytes while the next ones are made ready. Nothing is durable by it."""

    def sync(self, file: int) -> None:
        """The file's content is durable on return; its name is after its directory's `sync_directory`."""

    def rename(self, source: Path, target: Path) -> None:
        """Atomic within one file system; refuses a target that is a non-empty directory. Durable after `sync_directory` of both parents."""

    def replace(self, source: Path, target: Path) -> None:
        """`rename` over a file."""

    def sync_directory(self, path: Path) -> None:
        """The names in it are durable on return."""

    def unlink(self, path: Path) -> None: ...

    def remove_directory(self, path: Path) -> None: ...

    def free_bytes(self, path: Path) -> int: ...


class LocalDisk:
    """The operating system's file system."""

    def make_directory(self, path: Path) -> None:
        path.mkdir()

    def create(self, path: Path) -> int:
        return os.open(path, _CREATE, 0o666)

    def reopen(self, path: Path) -> tuple[int, int]:
        file = os.open(path, _REOPEN)
        return file, os.fstat(file).st_size

    def reserve(self, file: int, size: int) -> None:
        if size and hasattr(os, "posix_fallocate"):
            try:
                os.posix_fallocate(file, 0, size)
            except OSError as error:
                if error.errno not in NO_RESERVE:
                    raise

    def write(self, file: int, data: Bytes) -> None:
        left = memoryview(data).cast("B")
        while left:
            left = left[os.write(file, left) :]

    def start_sync(self, file: int, at: int, size: int) -> None:
        if (begin := _sync_file_range()) is not None:
            begin(file, at, size, _WRITE)

    def sync(self, file: int) -> None:
        sync(file)

    def close(self, file: int) -> None:
        os.close(file)

    def rename(self, source: Path, target: Path) -> None:
        os.rename(source, target)  # noqa: PTH104  # the path's own makes a third path, to return it

    def replace(self, source: Path, target: Path) -> None:
        source.replace(target)

    def sync_directory(self, path: Path) -> None:
        if os.name == "nt":
            return  # a directory cannot be opened there; its names are durable with the volume's log
        opened = os.open(path, _DIRECTORY)
        try:
            sync(opened)
        finally:
            os.close(opened)

    def unlink(self, path: Path) -> None:
        path.unlink()

    def remove_directory(self, path: Path) -> None:
        path.rmdir()

    def open(self, path: Path) -> tuple[int, int]:
        opened = os.open(path, _READ)
        found = os.fstat(opened)
        if not stat.S_ISREG(found.st_mode):
            os.close(opened)
            raise OSError(errno.EINVAL, "not a regular file", str(path))
        return opened, found.st_size

    def is_file(self, path: Path) -> bool:
        try:
            return stat.S_ISREG(path.lstat().st_mode)
        except (FileNotFoundError, NotADirectoryError):
            return False

    def read_into(self, file: int, buffer: Bytes) -> int:
        left = memoryview(buffer).cast("B")
        whole = len(left)
        while left:
            count = os.readv(file, [left])
            if count == 0:
                break
            left = left[count:]
        return whole - len(left)

    def read_at(self, file: int, buffer: Bytes, at: int) -> int:
        left = memoryview(buffer).cast("B")
        whole = len(left)
        while left:
            count = os.preadv(file, [left], at + whole - len(left))
            if count == 0:
                break
            left = left[count:]
        return whole - len(left)

    def forget_cache(self, file: int) -> None:
        if hasattr(os, "posix_fadvise"):
            os.posix_fadvise(file, 0, 0, os.POSIX_FADV_DONTNEED)

    def names(self, path: Path) -> list[tuple[str, bool]]:
        with os.scandir(path) as entries:
            return sorted((entry.name, entry.is_dir(follow_symlinks=False)) for entry in entries)

    def free_bytes(self, path: Path) -> int:
        return shutil.disk_usage(path).free


@contextmanager
def created(disk: Disk, path: Path) -> Iterator[int]:
    """A new file that is closed at the end. An error while closing is an error of the write."""
    file = disk.create(path)
    try:
        yield file
    except BaseException:  # whatever ended the writing, the descriptor is closed; raised again
        with contextlib.suppress(OSError):  # the first error is the one to tell
            disk.close(file)
        raise
    disk.close(file)


@contextmanager
def opened(disk: Readable, path: Path) -> Iterator[tuple[int, int]]:
    """(file, size) of a regular file that is closed at the end."""
    file, size = disk.open(path)
    try:
        yield file, size
    finally:
        disk.close(file)


def read_bounded(disk: Readable, path: Path, most: int) -> tuple[bytes, int]:
    """(at most `most` + 1 bytes, the file's size)."""
    with opened(disk, path) as (file, size):
        buffer = bytearray(min(size, most + 1))
        return bytes(memoryview(buffer)[: disk.read_into(file, buffer)]), size


def remove_tree(disk: Disk, path: Path) -> None:
    """Delete a directory and all below it. What is missing already is no error. Links are removed, not followed."""
    try:
        inside = disk.names(path)
    except FileNotFoundError:
        return
    for name, is_directory in inside:
        if is_directory:
            remove_tree(disk, path / name)
        else:
            disk.unlink(path / name)
    disk.remove_directory(path)


def shut_and_remove(disk: Disk, path: Path) -> None:
    """`remove_tree`, under another name: a process that would still write into it finds no way in, and cannot add a file while it is removed."""
    doomed = path.with_name(f"{path.name}0")
    with contextlib.suppress(FileNotFoundError):
        disk.rename(path, doomed)
        remove_tree(disk, doomed)
