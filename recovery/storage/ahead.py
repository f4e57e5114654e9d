"""Ahead: room in SQLite's log before it is needed, so that a commit syncs what it wrote and not that its file has grown.

Owns the zeros behind the log's end. Knows nothing of what stands in the log, and never touches the database's own file, since to close that would drop
SQLite's locks; on the log there are none. Invariants: `make` is called by whoever has SQLite's write lock, under which alone the log grows or is cut, so that
what it writes lies behind all that anybody has written; and the room is a convenience: where there can be none, SQLite goes on without. Zeros are the end of
the log to SQLite: no frame has the page number 0.
"""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from typing import Final

LEAST: Final = 64 * 1024
"""Bytes: as much again as there is, so that a short-lived process writes little in vain, but at least and at most so much."""
MOST: Final = 1024 * 1024
_BLOCK: Final = 4096
_TAIL: Final = 32
"""Bytes at the end of the log that are the end of a page, if SQLite has come so far: pages are filled from there."""


class Ahead:
    """What one connection sees to, while it lives: nobody removes a log that a connection has opened."""

    def __init__(self, database: Path, enough: int) -> None:
        """enough: bytes at which the log begins anew from its beginning, where it grows no more."""
        self._path = f"{database}-wal"
        self._enough = enough
        self._forget()

    def _forget(self) -> None:
        self._file: int | None = None
        self._end = 0  # of the room
        self._over = not hasattr(os, "pwrite")

    def make(self) -> None:
        """Make room if the log has come to the end of what there was."""
        if self._over:
            return
        try:
            if self._file is None:
                self._file = os.open(self._path, os.O_RDWR | os.O_CLOEXEC)
                if not _open_elsewhere(self._file):  # of a database that has taken the place of ours: not our log to write
                    self._over = True
                    return
            size = os.lseek(self._file, 0, os.SEEK_END)
            if size not in {0, self._end}:  # less: somebody has cut it
                self._end = size
                if any(os.pread(self._file, _TAIL, size - _TAIL)):  # else it is another process that has made room
                    self._make(self._file, size)
        except OSError:  # a full disk, say: SQLite is told by itself if it needs what is not there
            self._over = True

    def _make(self, file: int, size: int) -> None:
        end = min(size + min(max(size, LEAST), MOST), self._enough)
        end -= end % -_BLOCK
        self._end, self._over = max(size, end), end <= size
        if not self._over:
            os.pwrite(file, bytes(end - size), size)

    def drop(self) -> None:
        """The connection is closed, or is the parent's and this the child."""
        file = self._file
        self._forget()
        if file is not None:
            with suppress(OSError):
                os.close(file)


def _open_elsewhere(file: int) -> bool:
    """Whether this process has the same file open once more, as it has SQLite's log. Raises OSError."""
    ours = os.fstat(file)
    for name in Path("/dev/fd").iterdir():
        if (other := int(name.name)) != file:
            with suppress(OSError):  # that of the listing itself
                if os.path.samestat(os.fstat(other), ours):
                    return True
    return False
