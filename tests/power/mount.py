"""Mounting the recording file system for the time of a `with`, and talking to it.

Owns the process that serves it and the mount's end. Invariant: on leaving, nothing is mounted there and the process has ended, whatever happened.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from tests.power import record

ROOT: Final = Path(__file__).parents[2]


def why_not() -> str:
    """Why nothing can be mounted here; "" if it can."""
    if not os.access("/dev/fuse", os.R_OK | os.W_OK):
        return "there is no /dev/fuse here that may be opened"
    if shutil.which("fusermount3") is None:
        return "fusermount3 is not installed (Debian: fuse3)"
    return ""


def said(root: Path, what: dict[str, Any]) -> None:
    """Put a word into the record: it stands behind every change that was made before this call, and before every later one."""
    os.setxattr(root, "user.said", json.dumps(what).encode())


@dataclass(frozen=True)
class Mounted:
    path: Path
    _record: Path

    def changes(self) -> list[record.Change]:
        """Everything so far."""
        return record.read(self._record)

    def refuse(self, calls: Collection[str], at: int, error: int, *, lasting: bool = False) -> None:
        """The `at`-th call from now on of one of these kinds fails: open, create, write, truncate, rename, unlink, sync. 0: none, but they are counted."""
        told = {"calls": sorted(calls), "at": at, "errno": error, "lasting": lasting}
        os.setxattr(self.path, "user.refuse", json.dumps(told).encode())

    def passed(self) -> int:
        """Calls of the armed kinds since they were armed."""
        return int(os.getxattr(self.path, "user.passed"))


@contextmanager
def mounted(directory: Path) -> Iterator[Mounted]:
    """`directory` must exist and be empty; what is beside it is ours as well."""
    place, kept = directory / "disk", directory / "record"
    place.mkdir()
    serving = subprocess.Popen([sys.executable, "-m", "tests.power.filesystem", str(place), str(kept)], cwd=ROOT)
    try:
        _wait(place, serving)
        yield Mounted(place, kept)
    finally:
        subprocess.run(["fusermount3", "-u", "-z", str(place)], check=False, capture_output=True)
        try:
            serving.wait(60)
        finally:
            serving.kill()
            serving.wait()


def _wait(place: Path, serving: subprocess.Popen[bytes]) -> None:
    """Until it is mounted; the question is answered by the directory below until then."""
    outside = place.parent.stat().st_dev
    while place.stat().st_dev == outside:
        if serving.poll() is not None:
            raise RuntimeError(f"the file system could not be mounted: its process ended with {serving.returncode}")
        os.sched_yield()
