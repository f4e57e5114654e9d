"""The lease: one writer for a store at a time.

Owns the file lock. Must not know checkpoints. Invariant: whoever holds it is the only writer, and it ends with its process, so that everything unfinished
which its next holder finds belongs to somebody who is gone. It is the operating system's lock (flock): on a network file system that does not
carry it, two machines must not share a store.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from filelock import FileLock, Timeout

from recovery.checkpoint.errors import StoreBusy

try:
    import fcntl
except ImportError:  # elsewhere than on Unix
    fcntl = None  # type: ignore[assignment]

LOCK: Final = ".lease.lock"

POLL_SECONDS: Final = 0.005


@contextmanager
def held(root: Path, *, wait_seconds: float) -> Iterator[None]:
    """Hold the store's lease. Raises StoreBusy after `wait_seconds`."""
    if fcntl is None:
        with _held_elsewhere(root, wait_seconds):
            yield
        return
    file = os.open(root / LOCK, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o644)
    try:
        _lock(file, root, wait_seconds)
        try:
            yield
        finally:
            # Closing does not let go where a child was forked meanwhile: it has the file open too.
            fcntl.flock(file, fcntl.LOCK_UN)
    finally:
        os.close(file)


def _lock(file: int, root: Path, wait_seconds: float) -> None:
    assert fcntl is not None, "asked where there is one"
    give_up = time.monotonic() + wait_seconds
    while True:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)  # of this opening alone: another thread, too, has to wait
        except BlockingIOError:
            if time.monotonic() >= give_up:
                raise StoreBusy(store=str(root), seconds=wait_seconds) from None
            time.sleep(POLL_SECONDS)
        else:
            return


@contextmanager
def _held_elsewhere(root: Path, wait_seconds: float) -> Iterator[None]:
    lock = FileLock(root / LOCK, thread_local=False)  # one object per use: one that is held already would let a second thread in
    try:
        lock.acquire(timeout=wait_seconds, poll_interval=POLL_SECONDS)
    except (Timeout, RuntimeError):  # RuntimeError: this very thread holds it
        raise StoreBusy(store=str(root), seconds=wait_seconds) from None
    try:
        yield
    finally:
        lock.release()


def is_held(root: Path) -> bool | None:
    """Whether somebody writes the store at this moment. None: it cannot be told here. Makes no file; takes a shared lock for an instant."""
    if fcntl is None:
        return None
    try:
        file = os.open(root / LOCK, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return False
    except OSError:
        return None
    try:
        fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        return None
    finally:
        os.close(file)  # which lets go of it
    return False
