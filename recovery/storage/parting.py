"""Parting: a process is forked while it has no connection to an SQLite file, or its child leaves that file alone.

SQLite keeps what a process has locked in that process's memory. A child inherits that memory and none of the locks: it would take a file for locked that nobody locks any more, and
for its own what is not, so that others remove the log that it writes to, with all that was acknowledged in it (https://www.sqlite.org/howtocorrupt.html, 2.6).

Owns who reads from a file at this moment, and which files were open when this process was forked. Knows no statement. Invariants: while `shut` nobody
begins to read; and of an inherited file no connection is made.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from recovery.core.errors import StoreUrlError
from recovery.forks import watch

_DESCRIPTORS_MAX: Final = 65_536
"""So many are asked about where the system has no list of them."""


class Readers:
    """Those who read from one file. Safe for several threads."""

    def __init__(self) -> None:
        self.forked()

    def forked(self) -> None:
        self._lock = threading.Lock()
        # It is entered by its lock, which an interrupt leaves taken or not; to enter a condition takes lines of its own, between which one can strike.
        self._changed = threading.Condition(self._lock)
        self._inside: dict[int, int] = {}  # how many reads a thread is in
        self._shut = False

    @contextmanager
    def inside(self) -> Iterator[None]:
        """While it reads. Waits while nobody may begin; who is inside already may go on."""
        me = threading.get_ident()
        with self._lock:
            while self._shut and me not in self._inside:
                self._changed.wait()
            self._inside[me] = self._inside.get(me, 0) + 1
        try:
            yield
        finally:
            with self._lock:
                self._left(me, self._inside.get(me, 0) - 1)

    def interrupted(self) -> None:
        """Whatever this thread was in is broken off."""
        with self._lock:
            self._left(threading.get_ident(), 0)

    def _left(self, thread: int, still: int) -> None:
        if still > 0:
            self._inside[thread] = still
            return
        self._inside.pop(thread, None)
        self._changed.notify_all()

    def shut(self, seconds: float) -> bool:
        """Let nobody begin any more, until `open`. Whether all have ended within so long; at once False where this very thread is inside."""
        with self._lock:
            self._shut = True
            return threading.get_ident() not in self._inside and self._changed.wait_for(lambda: not self._inside, seconds)

    def open(self) -> None:
        with self._lock:
            self._shut = False
            self._changed.notify_all()


class _Inherited:
    """The files that were open when this process was forked."""

    def __init__(self) -> None:
        self.files: frozenset[tuple[int, int]] = frozenset()
        watch(self)

    def forked(self) -> None:
        self.files = frozenset(_open_files())


_INHERITED: Final = _Inherited()


def refuse_inherited(path: Path, shown_url: str) -> None:
    """Raises StoreUrlError for a file to which the parent had a connection when this process was forked, whoever made it."""
    if not _INHERITED.files:
        return
    with suppress(FileNotFoundError):
        found = path.stat()
        if (found.st_dev, found.st_ino) in _INHERITED.files:
            raise StoreUrlError(
                url=shown_url,
                problem="this process was forked while its parent had the file open, and SQLite's locks on it do not hold in a child",
                advice="Fork when nothing has it open, or start this process afresh (spawn, exec).",
            )


def _open_files() -> Iterator[tuple[int, int]]:
    try:
        numbers = [int(name) for name in os.listdir("/dev/fd")]  # noqa: PTH208  # in a child as little as possible is done
    except OSError:
        numbers = list(range(min(os.sysconf("SC_OPEN_MAX"), _DESCRIPTORS_MAX)))
    for number in numbers:
        with suppress(OSError):  # that of the listing itself
            found = os.fstat(number)
            yield found.st_dev, found.st_ino
