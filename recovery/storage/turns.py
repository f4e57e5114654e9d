"""Turns: processes that write to one SQLite file take turns, by a lock on a small file beside it.

Owns that file and who has its turn. Knows nothing of SQLite, whose own lock decides what is written; under it alone, whoever asks again at the right moment writes, and another one
starves. Never opens the database file itself: to close it would drop SQLite's locks. Invariants: a turn ends with its process, however that dies, and is never passed on to
a forked child; who waits for longer than asked goes on without, until whoever keeps the turn lets go, and so does everybody where there can be no such file; and
who has had so many in a row gives way to one that waits.

The system gives the lock to whoever asks first when it is free, and who was asleep for it has yet to wake up. So one that comes back at once could have turn after turn. That somebody
waits is said by a second lock, shared, on one byte of the file, another byte for each wait: who gives way sees by it when that very one has got its turn.
"""

from __future__ import annotations

import os
import struct
import sys
import threading
import time
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
IN_A_ROW: Final = 16
"""Turns of one writer while another waits. With fewer, processes change places at every commit, and each change is a switch of the system's; with more one waits for longer."""
GIVING_WAY_SECONDS: Final = 0.0002
GIVING_WAY_TIMES: Final = 25
"""One that has not come by then was stopped, say, and costs nobody such a pause a second time."""

_LINUX: Final = sys.platform == "linux"  # others may have such locks, and say them in another form
_SET: Final = getattr(fcntl, "F_OFD_SETLK", None) if _LINUX else None  # locks of an opened file, as `flock` has
_ASK: Final = getattr(fcntl, "F_OFD_GETLK", None) if _LINUX else None
_LOCK: Final = "hhqqi4x"  # struct flock: what, from where, first byte, how many, nobody
_EVERY_BYTE: Final = (0, 0)
_BYTES: Final = 2**56
"""Of which one each says that it waits."""


class Turns:
    """One writer's place in the queue of a file's writers. Used by one thread at a time."""

    def __init__(self, database: Path, seconds: float, *, giving_way_times: int = GIVING_WAY_TIMES) -> None:
        self._path = f"{database}{SUFFIX}"
        self._seconds = seconds
        self._giving_way_times = giving_way_times
        self._begin()

    def _begin(self) -> None:
        self._mine: int | None = None
        self._waited: int | None = None  # the file of a turn that a thread has waited for
        self._waiting: set[int] = set()  # those whose threads still do, which close them
        self._in_a_row = 0
        self._stopped: set[int] = set()  # the bytes of those that wait and did not come when we gave way to them
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
        if self._in_a_row >= IN_A_ROW:
            self._in_a_row = 0
            self._give_way(self._mine)
        try:
            fcntl.flock(self._mine, fcntl.LOCK_EX | fcntl.LOCK_NB)
            self._in_a_row += 1
        except BlockingIOError:
            self._in_a_row = 0
            self._wait()
        except OSError:  # a file system without such locks
            self._impossible = True
            self.drop()

    def _give_way(self, mine: int) -> None:
        """Let one that waits have its turn first. Bounded: it may have been stopped while it waited."""
        waits = None if self._waiting else _waits_but_for(mine, self._stopped, 0, _BYTES)
        if waits is None:
            return
        for _ in range(self._giving_way_times):
            time.sleep(GIVING_WAY_SECONDS)
            if _waits(mine, waits, 1) is None:
                return
        self._stopped = {byte for byte in self._stopped if _waits(mine, byte, 1) is not None} | {waits}

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
            _say_that_one_waits(file)
            with suppress(OSError):
                lock(file, exclusive)
            _say_that_nobody_waits(file)
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


def _waits(mine: int, first: int, many: int) -> int | None:
    """The byte of somebody who waits, among these."""
    if fcntl is None or _ASK is None:
        return None
    try:
        told = fcntl.fcntl(mine, _ASK, struct.pack(_LOCK, fcntl.F_WRLCK, os.SEEK_SET, first, many, 0))
    except OSError:  # a file system without such locks
        return None
    what, _, byte, _, _ = struct.unpack(_LOCK, told)
    return None if what == fcntl.F_UNLCK else byte


def _waits_but_for(mine: int, stopped: set[int], first: int, end: int) -> int | None:
    """The same, from the first byte up to the end, without those who were stopped: the system names one of all, and that could be the same one again and again."""
    byte = _waits(mine, first, end - first) if first < end else None
    if byte is None or byte not in stopped:
        return byte
    below = _waits_but_for(mine, stopped, first, byte)
    return _waits_but_for(mine, stopped, byte + 1, end) if below is None else below


def _say_that_one_waits(file: int) -> None:
    assert fcntl is not None
    _say(file, fcntl.F_RDLCK, int.from_bytes(os.urandom(7), "big"), 1)  # a byte that nobody else has


def _say_that_nobody_waits(file: int) -> None:
    assert fcntl is not None
    _say(file, fcntl.F_UNLCK, *_EVERY_BYTE)


def _say(file: int, what: int, first: int, many: int) -> None:
    if fcntl is not None and _SET is not None:
        with suppress(OSError):
            fcntl.fcntl(file, _SET, struct.pack(_LOCK, what, os.SEEK_SET, first, many, 0))


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
