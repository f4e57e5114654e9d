"""The program whose sharded saves are killed: it forks a coordinator and its writers per line of its standard input, and says how each of them ended.

    python tests/crash/sharder.py DIRECTORY

A line is JSON: `kill`, crash points (or "write:N", the N-th write) by process, a writer's number or "coordinator"; `hold`, a writer's number, and `at`, the point at which it stands until
the save has ended and another process has saved; `background`: one process that saves in the background, and nobody else.

The coordinator's deadline passes when every writer has ended or stands, and not before: what is tested does not depend on how busy the machine is.
"""

from __future__ import annotations

import json
import os
import select
import shutil
import signal
import sys
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import numpy as np

from recovery import crashpoints
from recovery.checkpoint.background import BackgroundSaver
from recovery.checkpoint.errors import CheckpointError
from recovery.checkpoint.files import LocalDisk
from recovery.checkpoint.kinds import Kind
from recovery.checkpoint.sharded import Terms, sharded
from recovery.checkpoint.store import CheckpointStore
from tests.unit.checkpoint.making import small

WRITERS = 4
SHAPE = (6, 3)
DEADLINE = timedelta(minutes=5)
COORDINATOR = "coordinator"


class Quick(LocalDisk):
    """Without syncs: what the system was given survives a killed process. `writes`: the one that ends the process, counted from 1."""

    def __init__(self, writes: int = 0) -> None:
        self.left = writes

    def write(self, file: int, data: Any) -> None:
        self.left -= 1
        if self.left == 0:
            super().write(file, memoryview(data).cast("B")[: len(data) // 2])
            os.kill(os.getpid(), signal.SIGKILL)
        super().write(file, data)

    def sync(self, file: int) -> None: ...

    def sync_directory(self, path: Path) -> None: ...


def armed(root: Path, point: str | None, *, packed_bytes: int = 0) -> CheckpointStore:
    """The store of a process that dies at a point."""
    if point is not None and point.startswith("write:"):
        return CheckpointStore(root, packed_bytes=packed_bytes, disk=Quick(int(point.partition(":")[2])))
    if point is not None and point != "told":
        crashpoints._armed = crashpoints._Armed(point)
    return CheckpointStore(root, packed_bytes=packed_bytes, disk=Quick())


def coordinate(root: Path, point: str | None, tell: int, hear: int) -> dict[str, Any]:
    time = [0]

    def pause(_: float) -> None:
        if select.select([hear], [], [], 0.001)[0]:
            time[0] += 2 * DEADLINE // timedelta(microseconds=1)

    clock = {"now_us": lambda: time[0], "pause": pause}
    store = armed(root, point)
    with sharded(store.shop, Terms(Kind.WEIGHTS, WRITERS, DEADLINE, step=2, clock=clock)) as save:
        os.write(tell, f"{save.attempt}\n".encode())
        if point == "told":
            os.kill(os.getpid(), signal.SIGKILL)
    assert save.candidate is not None
    return {"name": save.candidate.name}


def write(root: Path, attempt: str, index: int, point: str | None, hold: str | None, pipes: tuple[int, int]) -> dict[str, Any]:
    """Rows 0-1, 2-3, 4-5 and none of them."""
    store = armed(root, point)

    def stand(passed: str) -> None:
        if passed == hold:
            os.write(pipes[0], b"x")
            os.read(pipes[1], 1)

    rows = np.full(SHAPE, 2.0)[2 * index : 2 * index + 2]
    with crashpoints.hooked(stand), store.writer(attempt, index) as writer:
        writer.put("w", rows, at=(min(2 * index, SHAPE[0]), 0), of=SHAPE)
    return {}


def in_background(root: Path, point: str | None, packed_bytes: int) -> dict[str, Any]:
    with BackgroundSaver(armed(root, point, packed_bytes=packed_bytes)) as saver:
        return {"name": saver.save(small(2), step=2).result(60).name}


def forked(scratch: Path, name: str, work: Callable[[], dict[str, Any]]) -> int:
    """The process id of a child that does the work and leaves a report."""
    pid = os.fork()
    if pid == 0:
        report = scratch / f"{name}.json"
        try:
            report.write_text(json.dumps({"error": "", **work()}))
        except CheckpointError as error:
            report.write_text(
                json.dumps({"error": type(error).__name__, "told": str(error), "missing": error.fields.get("missing")})
            )
        except BaseException as error:  # a forked child tells its parent, whatever it was, and leaves
            report.write_text(json.dumps({"error": repr(error)}))
        finally:
            os._exit(0)
    return pid


def ended(scratch: Path, name: str, pid: int) -> dict[str, Any]:
    _, status = os.waitpid(pid, 0)
    report = scratch / f"{name}.json"
    return {"status": os.waitstatus_to_exitcode(status), **(json.loads(report.read_text()) if report.exists() else {})}


def play(root: Path, order: dict[str, Any]) -> dict[str, Any]:
    kill, hold = order.get("kill", {}), order.get("hold")
    scratch = root.with_name(f"{root.name}-reports")
    scratch.mkdir()
    if order.get("background"):
        pid = forked(scratch, "background", lambda: in_background(root, kill.get("background"), order.get("packed_bytes", 0)))
        return {"background": ended(scratch, "background", pid)}
    told, all_ended, stands, go = os.pipe(), os.pipe(), os.pipe(), os.pipe()

    coordinator = forked(scratch, COORDINATOR, lambda: coordinate(root, kill.get(COORDINATOR), told[1], all_ended[0]))
    os.close(told[1])
    with os.fdopen(told[0]) as lines:
        attempt = lines.readline().strip()
    writers = {
        index: forked(
            scratch,
            str(index),
            lambda index=index: write(
                root, attempt, index, kill.get(str(index)), order.get("at") if index == hold else None, (stands[1], go[0])
            ),
        )
        for index in range(WRITERS if attempt else 0)
    }
    came = {str(index): ended(scratch, str(index), pid) for index, pid in writers.items() if index != hold}
    if hold is not None:
        os.read(stands[0], 1)
    os.write(all_ended[1], b"x")  # and not a close: a writer that stands has this end open, too
    came[COORDINATOR] = ended(scratch, COORDINATOR, coordinator)
    if hold is not None:
        came["another"] = ended(scratch, "another", forked(scratch, "another", lambda: saved_again(root)))
        os.write(go[1], b"x")
        came[str(hold)] = ended(scratch, str(hold), writers[hold])
    for end in (*all_ended, *stands, *go):
        os.close(end)
    return came


def saved_again(root: Path) -> dict[str, Any]:
    return {"name": CheckpointStore(root, disk=Quick()).save(small(3), step=3).name}


def main() -> None:
    base = Path(sys.argv[1])
    template = base / "template"
    CheckpointStore(template, disk=Quick()).save(small(1), step=1)
    for number, line in enumerate(sys.stdin):
        root = base / f"run-{number}"
        shutil.copytree(template, root)
        print(json.dumps({"root": str(root), **play(root, json.loads(line))}), flush=True)


if __name__ == "__main__":
    main()
