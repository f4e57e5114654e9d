"""The lease: one writer for a store at a time.

Owns the file lock. Must not know checkpoints. Invariant: whoever holds it is the only writer, and it ends with its process, so that everything unfinished
which its next holder finds belongs to somebody who is gone. It is the operating system's lock (flock): on a network file system that does not
carry it, two machines must not share a store.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from filelock import FileLock, Timeout

from recovery.checkpoint.errors import StoreBusy

LOCK: Final = ".lease.lock"


@contextmanager
def held(root: Path, *, wait_seconds: float) -> Iterator[None]:
    """Hold the store's lease. Raises StoreBusy after `wait_seconds`."""
    lock = FileLock(
        root / LOCK, thread_local=False
    )  # one object per use: an object that is held already would let a second thread in
    try:
        lock.acquire(timeout=wait_seconds, poll_interval=0.005)
    except (Timeout, RuntimeError):  # RuntimeError: this very thread holds it
        raise StoreBusy(store=str(root), seconds=wait_seconds) from None
    try:
        yield
    finally:
        lock.release()


def is_held(root: Path) -> bool | None:
    """Whether somebody writes the store at this moment. None: it cannot be told here. Makes no file; takes a shared lock for an instant."""
    try:
        import fcntl
    except ImportError:
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
