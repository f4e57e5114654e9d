"""Syncing: a file or directory is on the disk, and not in the disk's own memory.

Owns the one difference between systems: on macOS `fsync` leaves it to the drive when to write, and only F_FULLFSYNC asks it to (fsync(2) there).
Must not know what is synced. Invariant: a refusal is raised, unless it says that this file system has no such call.
"""

from __future__ import annotations

import errno
import os
import sys
from typing import Final

_FULL: Final = 51 if sys.platform == "darwin" else None  # F_FULLFSYNC of <sys/fcntl.h>

_NO_SUCH_CALL: Final = {errno.EINVAL, errno.ENOTSUP, errno.ENOTTY}


def sync(file: int) -> None:
    """Durable on return. Raises OSError."""
    if _FULL is None or not asked(file, _FULL):
        os.fsync(file)


def asked(file: int, command: int) -> bool:
    """Give the drive a command about a file. False: its file system knows none such. Raises OSError."""
    import fcntl  # Windows has none, and never comes here

    try:
        fcntl.fcntl(file, command)
    except OSError as error:
        if error.errno in _NO_SUCH_CALL:
            return False
        raise
    return True
