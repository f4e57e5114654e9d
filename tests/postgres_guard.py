"""Ends the PostgreSQL servers of test processes that were killed: a server leaves its parent at once, and nothing else would end it.

    python postgres_guard.py DIRECTORY

Owns one sign and what follows from it. Who starts a server holds a lock on `owner` in the server's directory for as long as it lives; who gets
that lock may end the server and remove the directory. The guard waits for it from the start; `sweep` tries it, for guards that were killed
too. Imports next to nothing, and knows nothing of the wheel.
"""

from __future__ import annotations

import fcntl
import os
import select
import shutil
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

PREFIX = "recovery-pg-"
DATA = "data"
OWNER = "owner"
PATIENCE_SECONDS = 60


@contextmanager
def owned(directory: Path) -> Iterator[None]:
    """This process owns what is in the directory, until the end of the block or its own."""
    with (directory / OWNER).open("w") as sign:
        fcntl.flock(sign, fcntl.LOCK_EX)
        yield


def sweep(place: Path) -> None:
    """End and remove what dead owners have left. A directory without a sign is just being made, or is not ours."""
    for directory in place.glob(f"{PREFIX}*"):
        with suppress(FileNotFoundError, BlockingIOError), (directory / OWNER).open() as sign:
            fcntl.flock(sign, fcntl.LOCK_EX | fcntl.LOCK_NB)
            _end(directory)


def watch(directory: Path) -> None:
    """Return when the owner is dead, or has removed the directory itself, and nothing of it is left."""
    with suppress(FileNotFoundError), (directory / OWNER).open() as sign:
        fcntl.flock(sign, fcntl.LOCK_EX)
        _end(directory)


def _end(directory: Path) -> None:
    """The immediate shutdown: the server ends its processes and gives its shared memory back, which SIGKILL would not let it do."""
    with suppress(FileNotFoundError, ProcessLookupError, IndexError):
        number = int((directory / DATA / "postmaster.pid").read_text().splitlines()[0])
        process = os.pidfd_open(number)
        try:
            command = Path(f"/proc/{number}/cmdline").read_text().split("\0")
            if str(directory / DATA) in command:  # else the number is another's by now
                signal.pidfd_send_signal(process, signal.SIGQUIT)
                select.select([process], [], [], PATIENCE_SECONDS)
        finally:
            os.close(process)
    shutil.rmtree(directory, ignore_errors=True)  # who ended the server in order is removing it too


if __name__ == "__main__":
    watch(Path(sys.argv[1]))
