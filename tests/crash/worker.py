"""The worker program: one run or recovery in one process. Prints a report as one JSON line; its exit status is the command's.

    python tests/crash/worker.py run|recover SHAPE RUN_ID --db URL [--colour async] [...]
    python tests/crash/worker.py order ARGUMENTS OF recover
    python tests/crash/worker.py nursery

RECOVERY_CRASH_AT makes it kill itself, as everywhere. RECOVERY_STOP_AT=POINT[:N] makes it stop itself (SIGSTOP), like a machine that freezes.
As a nursery it imports everything once and then forks a worker per line of its standard input, since importing costs more than a run.
"""

from __future__ import annotations

import argparse
import asyncio
import dataclasses
import gc
import importlib
import json
import math
import os
import signal
import sys
import traceback
from contextlib import redirect_stdout
from datetime import timedelta
from pathlib import Path
from typing import Any

from recovery import AsyncEngine, Engine, cli, crashpoints
from recovery.clocks import DatabaseClock, SystemClock
from recovery.core.errors import RecoveryError
from recovery.core.policy import Budget, Lease
from recovery.storage import open_journal
from tests.crash.silence import silent
from tests.crash.workflows import WORKFLOWS

STOP = "RECOVERY_STOP_AT"
UNITS = 2


class Hurried:
    """The real clock, moved on instead of waited for. What was waited for holds at once here: whoever was killed can do nothing more."""

    def __init__(self, real: Any) -> None:
        self._real = real
        self._ahead_us = 0

    def wall_us(self) -> int:
        return self._real.wall_us() + self._ahead_us

    def boot_us(self) -> int:
        return self._real.boot_us() + self._ahead_us

    def asks(self) -> bool:
        return self._real.asks()

    def skip(self, seconds: float) -> bool:
        self._ahead_us += math.ceil(seconds * 1e6)
        return True

    def raise_mark(self, at_us: int) -> None:
        """What an earlier worker in a hurry wrote down lies ahead of the real clock."""
        self._real.raise_mark(at_us - self._ahead_us)


class Passages:
    """Every point passed, in order; stops the process where it was told to."""

    def __init__(self, stop_at: str) -> None:
        self.points: list[str] = []
        self._stop_at, _, occurrence = stop_at.partition(":")
        self._occurrence = int(occurrence or 1)

    def __call__(self, point: str) -> None:
        self.points.append(point)
        if point == self._stop_at and self.points.count(point) == self._occurrence:
            os.kill(os.getpid(), signal.SIGSTOP)


def main(arguments: list[str]) -> int:
    return ordered(arguments[1:]) if arguments[0] == "order" else worked(arguments)


def ordered(arguments: list[str]) -> int:
    """A person's command, as typed."""
    try:
        cli.app(arguments)
    except SystemExit as ended:
        return int(ended.code or 0)
    raise AssertionError("a command ends with its exit code")


def worked(arguments: list[str]) -> int:
    asked = _parser().parse_args(arguments)
    passages = Passages(os.environ.get(STOP, ""))
    report: dict[str, Any] = {"pid": os.getpid(), "passages": passages.points}
    code = 0
    with crashpoints.hooked(passages):
        try:
            report |= asyncio.run(_async(asked)) if asked.colour == "async" else _sync(asked)
            code = report["exit"]
        except RecoveryError as error:
            report |= {"error": type(error).__name__, "message": str(error)}
            code = int(error.exit_code)
    print(json.dumps(report), flush=True)
    return code


def _settings(asked: argparse.Namespace) -> dict[str, Any]:
    lease = timedelta(seconds=asked.lease)
    journal = open_journal(asked.db)
    clock = DatabaseClock(journal) if asked.db.startswith("postgresql") else SystemClock()
    return {
        "database": journal,
        "clock": Hurried(clock) if asked.hurried else clock,
        # Whoever is to be stopped renews nothing: stopped inside a renewal, it would keep SQLite's one write lock.
        "lease": silent(lease) if os.environ.get(STOP) else Lease(term=lease, renew_every=lease / 3),
        "wait_for_owner": timedelta(seconds=asked.wait),
        "budget": Budget(attempts=20, backoff=timedelta(milliseconds=1)),
        "workflows": WORKFLOWS[asked.colour].values(),
    }


def _sync(asked: argparse.Namespace) -> dict[str, Any]:
    with Engine(**_settings(asked)) as engine:
        if asked.command == "recover":
            return _shown(engine.recover(asked.run_id))
        return _value(engine.run(asked.run_id, WORKFLOWS["sync"][asked.shape], UNITS))


async def _async(asked: argparse.Namespace) -> dict[str, Any]:
    async with AsyncEngine(**_settings(asked)) as engine:
        if asked.command == "recover":
            return _shown(await engine.recover(asked.run_id))
        return _value(await engine.run(asked.run_id, WORKFLOWS["async"][asked.shape], UNITS))


def _value(value: Any) -> dict[str, Any]:
    return {"status": "completed", "value": dataclasses.asdict(value), "exit": 0}


def _shown(recovered: Any) -> dict[str, Any]:
    value = None if recovered.value is None else dataclasses.asdict(recovered.value)
    error = type(recovered.error).__name__ if recovered.error else ""
    return {"status": recovered.status.value, "value": value, "error": error, "exit": int(recovered.exit_code)}


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("command", choices=["run", "recover"])
    parser.add_argument("shape")
    parser.add_argument("run_id")
    parser.add_argument("--db", required=True)
    parser.add_argument("--colour", choices=["sync", "async"], default="sync")
    parser.add_argument("--lease", type=float, default=3600.0, help="seconds")
    parser.add_argument("--wait", type=float, default=0.0, help="seconds for an owner to finish")
    parser.add_argument("--hurried", action="store_true", help="move the clock on where a worker would wait")
    return parser


# -- the nursery -------------------------------------------------------------------------------------------------------


def nursery() -> None:
    """Fork a worker per request line; answer with its {returncode} when it has ended."""
    gc.disable()  # a collection touches every object, and so copies every page that a worker shares with its nursery
    for line in sys.stdin:
        request = json.loads(line)
        if not request["fork"]:
            _warm(request)
            continue
        pid = os.fork()
        if pid == 0:
            _born(request)
        _, status = os.waitpid(pid, 0)
        print(json.dumps({"pid": pid, "returncode": os.waitstatus_to_exitcode(status)}), flush=True)


def _warm(request: dict[str, Any]) -> None:
    """Run in the nursery itself, which then has done what is only done once. Everything is closed before the next fork."""
    os.environ.update(request["environment"])
    with Path(request["stdout"]).open("w") as said, redirect_stdout(said):
        code = main(request["arguments"])
    print(json.dumps({"pid": os.getpid(), "returncode": code}), flush=True)


def _born(request: dict[str, Any]) -> None:
    """The worker's own process: its streams, its environment (armed by importing again), its program."""
    code = 70
    try:
        for stream, path in ((0, os.devnull), (1, request["stdout"]), (2, request["stderr"])):
            opened = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
            os.dup2(opened, stream)
        os.environ.update(request["environment"])
        importlib.reload(crashpoints)
        code = main(request["arguments"])
    except BaseException:  # a forked child prints it and leaves with its code
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


if __name__ == "__main__":
    if sys.argv[1:] == ["nursery"]:
        nursery()
    else:
        sys.exit(main(sys.argv[1:]))
