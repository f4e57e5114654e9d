"""The lease: one writer for a store at a time.

Owns the file lock. Must not know checkpoints. Invariant: whoever holds it is the only writer, and it ends with its process, so that everything unfinished
which its next holder finds belongs to somebody who is gone. It is the operating system's lock (flock): on a network file system that does not
carry it, two machines must not share a store.
"""

from __future__ import annotations

import contextlib
import json
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from filelock import FileLock, Timeout

from recovery.checkpoint.errors import StoreBusy

LOCK: Final = ".lease.lock"
OWNER: Final = ".lease.json"
"""Who holds it, for the error of those who do not. Never read to decide anything."""


@contextmanager
def held(root: Path, *, wait_seconds: float) -> Iterator[None]:
    """Hold the store's lease. Raises StoreBusy after `wait_seconds`."""
    lock = FileLock(
        root / LOCK, thread_local=False
    )  # one object per use: an object that is held already would let a second thread in
    try:
        lock.acquire(timeout=wait_seconds, poll_interval=0.005)
    except (Timeout, RuntimeError):  # RuntimeError: this very thread holds it
        raise StoreBusy(store=str(root), owner=_owner(root)) from None
    try:
        with contextlib.suppress(OSError):
            (root / OWNER).write_text(json.dumps({"pid": os.getpid(), "host": socket.gethostname()}), encoding="utf-8")
        yield
    finally:
        lock.release()


def _owner(root: Path) -> str:
    try:
        said = json.loads((root / OWNER).read_text(encoding="utf-8"))
        return f"process {int(said['pid'])} on {str(said['host'])[:64]}"
    except (OSError, ValueError, KeyError, TypeError):
        return "another writer"
