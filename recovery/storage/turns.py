"""Turns: processes that write to one SQLite file take turns, by a lock on a small file beside it.

Owns that file and who has its turn. Knows nothing of SQLite, whose own lock decides what is written; under it alone, whoever asks again at the right moment writes, and another one
starves. Never opens the database file itself: to close it would drop SQLite's locks. Invariants: a turn ends with its process, however that dies, and is never passed on to
a forked child; who waits for longer than asked goes on without, until whoever keeps the turn lets go, and so does everybody where there can be no such file.
"""

from __future__ import annotations

import os
import threading
from contextlib import suppress
from pathlib import Path
from typing import Final

from recovery.core.host_errors import ThreadUnavailable
from recovery.threads import Signal, Thread

try:
    import fcntl
except ImportError:  # Windows, where SQLite's own lock has to do
    fcntl = None  # type: ignore[assignment]

SUFFIX: Final = "-turn"


class Turns:
    """One writer's place in the queue of a file's writers. Used by one thread at a time."""

    def __init__(self, database: Path, seconds: float) -> None:
        self._path = f"{database}{SUFFIX}"
        self._seconds = seconds
        self._begin()

    def _begin(self) -> None:
        self._mine: int | None = None
        self._waited: int | None = None  # the file of a turn that a thread has waited for
        self._waiting: set[int] = set()  # those whose threads still do, which close them
        self._impossible = fcntl is None

    def __enter__(self) -> None:
        """One's turn begins, if there can be turns and nobody keeps one for too long."""
        try:
            self._take()
        except BaseException:  # an interruption may come when it was taken; raised again
            self.__exit__()
            raise

    def __exit__(self, *_: object) -> None:
        if self._waited is not None:
            _given_back(self._waited)
            self._waited = None
        elif self._mine is not None:
            _let_go(self._mine)

    def drop(self) -> None:
        """Give up everything, wherever a broken call has left it. Safe to repeat."""
        files, self._mine, self._waited = (self._mine, self._waited), None, None
        for file in files:
            if file is not None:
                _given_back(file)

    def forked(self) -> None:
        """In a child: what it has inherited is closed and not let go of, since that would end the parent's turn."""
        files = {self._mine, self._waited, *self._waiting}
        self._begin()
        for file in files - {None}:
            with suppress(OSError):
                os.close(file)  # type: ignore[arg-type]  # None is not among them

    def _take(self) -> None:
        if self._mine is None:
            self._mine = self._opened()
        if self._mine is None:
            return
        assert fcntl is not None, "no file is opened where there are no locks"
        try:
            fcntl.flock(self._mine, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            self._wait()
        except OSError:  # a file system without such locks
            self._impossible = True
            self.drop()

    def _wait(self) -> None:
        """A lock cannot be waited for with a bound, so that a thread does it: one that nobody waits for any more lets go of what it gets. While that one waits
        still, the turn's keeper is stopped, say: nobody waits for it once more at each write, with a thread and a file each."""
        if self._waiting:
            return
        file = self._opened()
        if file is None:
            return
        assert fcntl is not None
        lock, exclusive = fcntl.flock, fcntl.LOCK_EX
        deciding, over = threading.Lock(), Signal()
        has = given_up = False

        def wait() -> None:
            nonlocal has
            with suppress(OSError):
                lock(file, exclusive)
            with deciding:
                has = True
                self._waiting.discard(file)
                if given_up:
                    _given_back(file)
            over.set()

        self._waiting.add(file)
        try:
            Thread(wait, name="recovery-turn").start()
        except ThreadUnavailable:  # there are too many, or the interpreter ends, and begins none any more
            self._waiting.discard(file)
            os.close(file)
            return
        try:
            over.wait(self._seconds)
        finally:  # an interruption comes here, too, and then `turn` gives back what was got
            with deciding:
                given_up = not has
                if has:
                    self._waited = file

    def _opened(self) -> int | None:
        if self._impossible:
            return None
        try:
            return os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError:  # the directory is not ours to write to, or the disk is full
            self._impossible = True
            return None


def _given_back(file: int) -> None:
    _let_go(file)
    with suppress(OSError):
        os.close(file)


def _let_go(file: int) -> None:
    """Said, and not left to closing it: a child may have inherited the file."""
    assert fcntl is not None
    try:
        fcntl.flock(file, fcntl.LOCK_UN)
    except OSError:
        return
