"""Where a demonstration keeps its files: a directory of its own, which goes with it; what a killed one left, the next one removes.

Owns the temporary directories of demonstrations. Invariant: nothing is removed but a directory of this user that names a process which is
proven dead.
"""

from __future__ import annotations

import json
import os
import shutil
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Final

from recovery.ports import Owner
from recovery.processes import identify, proven_dead

PREFIX: Final = "recovery-demo-"
OWNER: Final = "owner.json"


@contextmanager
def stage() -> Iterator[Path]:
    """A new directory, removed at the end. First those go whose demonstrations did not live to remove them."""
    for directory in Path(tempfile.gettempdir()).glob(f"{PREFIX}*"):
        if _is_ours(directory) and _is_left(directory):
            shutil.rmtree(directory, ignore_errors=True)
    with tempfile.TemporaryDirectory(prefix=PREFIX) as name:
        directory = Path(name)
        (directory / OWNER).write_text(json.dumps(asdict(identify(""))), encoding="utf-8")
        yield directory


def _is_ours(directory: Path) -> bool:
    """A directory itself, and this user's: others may put what they like into a shared place, links included."""
    try:
        found = directory.lstat()
    except OSError:
        return False
    return stat.S_ISDIR(found.st_mode) and found.st_uid == os.getuid()


def _is_left(directory: Path) -> bool:
    try:
        return proven_dead(Owner(**json.loads((directory / OWNER).read_text(encoding="utf-8"))))
    except (OSError, ValueError, TypeError):
        return False
