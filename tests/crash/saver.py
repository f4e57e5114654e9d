"""The program whose saves are killed: it forks a child per line of its standard input and says how each ended.

    python tests/crash/saver.py DIRECTORY

A line is POINT or POINT:N; "-" kills nobody and prints the points that were passed. The child saves step 2 (or prepares a new store), pins, restores, lets
retention work and quarantines: everything that makes something durable. Importing numpy once costs less than doing so for each point.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import shutil
import sys
from pathlib import Path

from recovery import crashpoints
from recovery.checkpoint.errors import SaveFailed
from recovery.checkpoint.files import Bytes, LocalDisk
from recovery.checkpoint.retention import Keep
from recovery.checkpoint.store import CheckpointStore
from tests.unit.checkpoint.making import small, spread


class Nothing:
    def swap(self, new: object) -> None: ...


def prepare(root: Path) -> None:
    """A store with steps 0 and 1, and one that is damaged between them."""
    store = CheckpointStore(root, disk=Quick())
    spread(root, disk=Quick()).save(small(0))
    damaged = store.save(small(9))
    store.save(small(1))
    damaged.path.write_bytes(b"")


def work(root: Path) -> None:
    """Each bracket of a save at least once, in both layouts."""
    CheckpointStore(root.with_name(f"{root.name}-new"), disk=Quick()).save(small(5))
    store = CheckpointStore(root, keep=Keep(last=1), disk=Quick())
    newest = store.latest("weights")
    store.pin(newest.name)
    store.restore(newest, build=lambda checkpoint: checkpoint, into=Nothing())
    store.unpin(newest.name)
    spread(root, keep=Keep(last=1), disk=Quick()).save(small(2), record=lambda _: None)
    store.save(small(3))
    store.gc()
    for full in (CheckpointStore(root, disk=Full()), spread(root, disk=Full())):
        with contextlib.suppress(SaveFailed):
            full.save(small(4))


class Quick(LocalDisk):
    """Without syncs: what the system was given survives a killed process. Power cuts are the business of other tests."""

    def sync(self, file: int) -> None: ...

    def sync_directory(self, path: Path) -> None: ...


class Full(Quick):
    def write(self, file: int, data: Bytes) -> None:
        raise OSError(errno.ENOSPC, "no space")


def child(root: Path, point: str, told: int) -> None:
    passed: list[str] = []
    if point != "-":
        crashpoints._armed = crashpoints._Armed(point)
    with crashpoints.hooked(passed.append):
        work(root)
    os.write(told, json.dumps(passed).encode())


def main() -> None:
    base = Path(sys.argv[1])
    template = base / "template"
    prepare(template)
    for number, line in enumerate(sys.stdin):
        root = base / f"run-{number}"
        shutil.copytree(template, root)
        reading, writing = os.pipe()
        pid = os.fork()
        if pid == 0:
            child(root, line.strip(), writing)
            os._exit(0)
        os.close(writing)
        with os.fdopen(reading, "rb") as told:
            passed = told.read()
        _, status = os.waitpid(pid, 0)
        report = {"root": str(root), "status": os.waitstatus_to_exitcode(status), "passed": json.loads(passed or b"[]")}
        print(json.dumps(report), flush=True)


if __name__ == "__main__":
    main()
