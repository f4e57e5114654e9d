"""A bucket as a disk: the reads and writes of a checkpoint, on any store that obstore reaches.

Owns the translation of files to objects. Must not know checkpoints. Invariant: an object is durable once its file was closed without an error, which is
where an upload ends; there are no directories, so making, syncing and removing one does nothing; nothing is renamed.
"""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import obstore
from obstore.exceptions import AlreadyExistsError, BaseError, NotFoundError

from recovery.checkpoint.files import Bytes

if TYPE_CHECKING:
    from obstore.store import ObjectStore

CHUNK: Final = 8 << 20
"""Bytes of one part of an upload, and of one piece of a download."""


@contextmanager
def _told(path: Path) -> Iterator[None]:
    """The store's errors as the system's. Their texts can hold addresses and stay in the chain, for a debugger."""
    try:
        yield
    except NotFoundError as error:
        raise FileNotFoundError(errno.ENOENT, "there is no such object", str(path)) from error
    except AlreadyExistsError as error:
        raise FileExistsError(errno.EEXIST, "there is such an object already", str(path)) from error
    except BaseError as error:
        raise OSError(errno.EIO, f"the object store refused or did not answer ({type(error).__name__})", str(path)) from error


class _Download:
    """An object that is read from its beginning. Nothing is asked for before the first read."""

    def __init__(self, store: ObjectStore, path: Path) -> None:
        self._store, self.path = store, path
        self._chunks: Iterator[bytes] | None = None
        self._left = memoryview(b"")

    def read_into(self, buffer: memoryview) -> int:
        if self._chunks is None:
            self._chunks = iter(obstore.get(self._store, self.path.as_posix()).stream(min_chunk_size=CHUNK))
        whole = len(buffer)
        while buffer:
            if not self._left:
                chunk = next(self._chunks, None)
                if chunk is None:
                    break
                self._left = memoryview(chunk)
            size = min(len(buffer), len(self._left))
            buffer[:size] = self._left[:size]
            buffer, self._left = buffer[size:], self._left[size:]
        return whole - len(buffer)


class BucketDisk:
    """A `Disk` over an object store. Safe for several threads; paths are keys."""

    def __init__(self, store: ObjectStore) -> None:
        self._store = store
        self._numbers = count(1)
        self._downloads: dict[int, _Download] = {}
        self._uploads: dict[int, tuple[Path, Any]] = {}

    def create_only(self, path: Path, data: bytes) -> None:
        """An object that nobody else has made; FileExistsError otherwise. Atomic and durable on return."""
        with _told(path):
            obstore.put(self._store, path.as_posix(), data, mode="create", use_multipart=False)

    def make_directory(self, path: Path) -> None: ...

    def create(self, path: Path) -> int:
        number = next(self._numbers)
        with _told(path):
            self._uploads[number] = path, obstore.open_writer(self._store, path.as_posix(), buffer_size=CHUNK, max_concurrency=4)
        return number

    def reopen(self, path: Path) -> tuple[int, int]:
        """No object is written over."""
        raise OSError(errno.ENOTSUP, os.strerror(errno.ENOTSUP), str(path))

    def reserve(self, file: int, size: int) -> None: ...

    def write(self, file: int, data: Bytes) -> None:
        path, upload = self._uploads[file]
        with _told(path):
            upload.write(data)

    def start_sync(self, file: int, at: int, size: int) -> None: ...

    def sync(self, file: int) -> None: ...

    def close(self, file: int) -> None:
        self._downloads.pop(file, None)
        if file in self._uploads:
            path, upload = self._uploads.pop(file)
            with _told(path):
                upload.close()

    def rename(self, source: Path, target: Path) -> None:
        raise OSError(errno.EOPNOTSUPP, "objects are not renamed", str(source), None, str(target))

    def replace(self, source: Path, target: Path) -> None:
        self.rename(source, target)

    def sync_directory(self, path: Path) -> None: ...

    def unlink(self, path: Path) -> None:
        with _told(path):
            obstore.delete(self._store, path.as_posix())

    def remove_directory(self, path: Path) -> None: ...

    def open(self, path: Path) -> tuple[int, int]:
        with _told(path):
            size = obstore.head(self._store, path.as_posix())["size"]
        number = next(self._numbers)
        self._downloads[number] = _Download(self._store, path)
        return number, size

    def read_into(self, file: int, buffer: Bytes) -> int:
        download = self._downloads[file]
        with _told(download.path):
            return download.read_into(memoryview(buffer).cast("B"))

    def read_at(self, file: int, buffer: Bytes, at: int) -> int:
        path = self._downloads[file].path
        into = memoryview(buffer).cast("B")
        with _told(path):
            size = obstore.head(self._store, path.as_posix())["size"]
            length = max(0, min(len(into), size - at))
            if length:
                into[:length] = memoryview(obstore.get_range(self._store, path.as_posix(), start=at, length=length))
        return length

    def is_file(self, path: Path) -> bool:  # noqa: ARG002
        """Never: nothing is packed there, where a sync costs nothing."""
        return False

    def forget_cache(self, file: int) -> None: ...

    def names(self, path: Path) -> list[tuple[str, bool]]:
        with _told(path):
            found = obstore.list_with_delimiter(self._store, f"{path.as_posix()}/")
        names = [(Path(prefix).name, True) for prefix in found["common_prefixes"]]
        return sorted([*names, *((Path(each["path"]).name, False) for each in found["objects"])])

    def changed_at(self, path: Path) -> float:
        """When an object was written, by the store's own clock: seconds since the Unix epoch."""
        with _told(path):
            return obstore.head(self._store, path.as_posix())["last_modified"].timestamp()

    def free_bytes(self, path: Path) -> int:  # noqa: ARG002
        return sys.maxsize
