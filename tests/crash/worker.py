"""The worker program: one run or recovery in one process. Prints a report as one JSON line; its exit status is the command's.

    python tests/crash/worker.py run|recover SHAPE RUN_ID --db URL [--colour async] [...]
    python tests/crash/worker.py order ARGUMENTS OF recover
    python tests/crash/worker.py serve ARGUMENTS OF recovery.examples.inventory
    python tests/crash/worker.py nursery

RECOVERY_CRASH_AT makes it kill itself, as everywhere. RECOVERY_STOP_AT=POINT[:N] makes it stop itself (SIGSTOP), like a machine that freezes;
POINT may be `any`: the N-th point that it passes. RECOVERY_KILL_AFTER=N kills it at that one. With `Nus` either strikes after N microseconds of its
processor time, wherever it then is. RECOVERY_FULL_AT=POINT:FILE lets no file grow beyond the size that FILE has there. As a nursery it imports everything once and then forks a worker for each start that is asked for on
its standard input, since importing costs more than a run.
"""

from __future__ import annotations

import argparse
import asyncio
import ctypes
import dataclasses
import gc
import importlib
import json
import math
import os
import resource
import signal
import sys
import time
import traceback
from contextlib import redirect_stdout
from datetime import timedelta
from pathlib import Path
from typing import Any, NoReturn

from recovery import AsyncEngine, Engine, cli, crashpoints
from recovery.clocks import DatabaseClock, SystemClock
from recovery.core.errors import RecoveryError
from recovery.core.policy import Budget, Lease, Riding
from recovery.storage import open_journal
from tests.crash.approvals import APPROVALS
from tests.crash.families import FAMILIES
from tests.crash.mixed import MIXED
from tests.crash.sagas import SAGAS
from tests.crash.silence import silent
from tests.crash.workflows import WORKFLOWS

STOP = "RECOVERY_STOP_AT"
KILL = "RECOVERY_KILL_AFTER"
FULL = "RECOVERY_FULL_AT"
ANY = "any"
UNITS = 2
SHAPES = {colour: WORKFLOWS[colour] | MIXED[colour] | FAMILIES[colour] | APPROVALS[colour] | SAGAS[colour] for colour in WORKFLOWS}


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
    """Every point passed, in order; stops or kills the process where it was told to, and says there where that is."""

    def __init__(self, stop_at: str = "", kill_after: str = "", full_at: str = "") -> None:
        self.points: list[str] = []
        self._stop_at, _, occurrence = stop_at.partition(":")
        self._occurrence = int(occurrence or 1)
        self._full_at, _, self._full = full_at.partition(":")
        self._kill_at = int(kill_after) if kill_after and not kill_after.endswith("us") else 0

    def __call__(self, point: str) -> None:
        self.points.append(point)
        if (
            self._stop_at in {point, ANY}
            and (len(self.points) if self._stop_at == ANY else self.points.count(point)) == self._occurrence
        ):
            _end_at(point, signal.SIGSTOP)
        if point == self._full_at:
            written = len(Path(self._full).read_bytes().rstrip(b"\0"))  # behind that is room that was made ahead
            resource.setrlimit(resource.RLIMIT_FSIZE, (written, resource.getrlimit(resource.RLIMIT_FSIZE)[1]))
        if len(self.points) == self._kill_at:
            _end_at(point, signal.SIGKILL)


def _end_at(point: str, number: signal.Signals) -> None:
    os.write(2, f"{PLACE}{point}\n".encode())
    os.kill(os.getpid(), number)


PLACE = "at point "
"""What a process writes before it stops or kills itself at a place that it did not choose."""


class _Moment(ctypes.Structure):
    _fields_ = (("s", ctypes.c_long), ("ns", ctypes.c_long))


class _Due(ctypes.Structure):
    _fields_ = (("every", _Moment), ("first", _Moment))


class _Notice(ctypes.Structure):
    """`struct sigevent` as Linux lays it out; notify 0 is SIGEV_SIGNAL."""

    _fields_ = (("value", ctypes.c_void_p), ("signal", ctypes.c_int), ("notify", ctypes.c_int), ("rest", ctypes.c_int * 12))


def signal_after(said: str, number: signal.Signals) -> None:
    """The kernel signals this process once it has used so much processor time (`Nus`): between any two instructions, and in any system call."""
    library, timer = ctypes.CDLL(None, use_errno=True), ctypes.c_void_p()
    notice, microseconds = _Notice(None, number, 0), int(said.removesuffix("us"))
    if library.timer_create(time.CLOCK_PROCESS_CPUTIME_ID, ctypes.byref(notice), ctypes.byref(timer)):
        raise OSError(ctypes.get_errno(), "timer_create")
    due = _Due(_Moment(0, 0), _Moment(*divmod(max(1, microseconds) * 1000, 1_000_000_000)))
    if library.timer_settime(timer, 0, ctypes.byref(due), None):
        raise OSError(ctypes.get_errno(), "timer_settime")


def main(arguments: list[str]) -> int:
    programs = {"order": ordered, "serve": served, "import": imported, "nursery": nursery}
    return programs[arguments[0]](arguments[1:]) if arguments[0] in programs else worked(arguments)


def imported(modules: list[str]) -> int:
    """For a nursery: what its children then need not import."""
    for module in modules:
        importlib.import_module(module)
    return 0


def served(arguments: list[str]) -> int:
    """The inventory service, which ends by a signal."""
    gc.enable()
    from recovery.examples.inventory import __main__ as inventory  # only a nursery of services pays for it

    sys.argv = ["inventory", *arguments]
    inventory.main()
    return 0


def ordered(arguments: list[str]) -> int:
    """A person's command, as typed."""
    try:
        cli.assembled()(arguments)
    except SystemExit as ended:
        return int(ended.code or 0)
    raise AssertionError("a command ends with its exit code")


def worked(arguments: list[str]) -> int:
    asked = _parser().parse_args(arguments)
    stop, kill = os.environ.get(STOP, ""), os.environ.get(KILL, "")
    passages = Passages(stop, kill, os.environ.get(FULL, ""))
    for said, number in ((stop, signal.SIGSTOP), (kill, signal.SIGKILL)):
        if said.endswith("us"):
            signal_after(said, number)
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
    # Where it is not waited for, longer than a machine holds a process up: else now and then a worker finds it over, and writes no verdict that it waits.
    backoff = timedelta(seconds=1) if asked.hurried else timedelta(milliseconds=1)
    journal = open_journal(asked.db)
    clock = DatabaseClock(journal) if asked.db.startswith("postgresql") else SystemClock()
    return {
        "database": journal,
        "clock": Hurried(clock) if asked.hurried else clock,
        # Whoever is to be stopped renews nothing: stopped inside a renewal, it would keep SQLite's one write lock.
        "lease": silent(lease) if os.environ.get(STOP) else Lease(term=lease, renew_every=lease / 3),
        "wait_for_owner": timedelta(seconds=asked.wait),
        "budget": Budget(attempts=20, backoff=backoff, max_wait=None if asked.patient else timedelta(minutes=1)),
        "workflows": SHAPES[asked.colour].values(),
        "riding": Riding(limit=timedelta(hours=1))
        if asked.riding
        else None,  # strict, each outcome has a place of its own to die at; where outcomes ride there are fewer, and no others
    }


def _sync(asked: argparse.Namespace) -> dict[str, Any]:
    with Engine(**_settings(asked)) as engine:
        if asked.command == "recover":
            return _shown(engine.recover(asked.run_id))
        return _value(engine.run(asked.run_id, SHAPES["sync"][asked.shape], _given(asked)))


async def _async(asked: argparse.Namespace) -> dict[str, Any]:
    async with AsyncEngine(**_settings(asked)) as engine:
        if asked.command == "recover":
            return _shown(await engine.recover(asked.run_id))
        return _value(await engine.run(asked.run_id, SHAPES["async"][asked.shape], _given(asked)))


def _given(asked: argparse.Namespace) -> Any:
    return asked.steps.split(",") if asked.steps else UNITS


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
    parser.add_argument("--steps", default="", help="what the shape `mixed` does: kinds of effects, separated by commas")
    parser.add_argument("--riding", action="store_true", help="let outcomes ride")
    parser.add_argument("--hurried", action="store_true", help="move the clock on where a worker would wait")
    parser.add_argument("--patient", action="store_true", help="wait for every time that a verdict names")
    return parser


# -- the nursery -------------------------------------------------------------------------------------------------------


def nursery(_: list[str]) -> NoReturn:
    """Do what each line of standard input asks: "start" a worker, "wait" until one has ended (or been stopped), be one's own "warm"-up."""
    gc.disable()  # a collection touches every object, and so copies every page that a worker shares with its nursery
    cli.assembled()
    for line in sys.stdin:
        request = json.loads(line)
        if request["do"] == "warm":
            answer = _warm(request)
        elif request["do"] == "start":
            pid = os.fork()
            if pid == 0:
                _born(request)
            answer = {"pid": pid}
        else:
            pid, status = os.waitpid(request["pid"], os.WUNTRACED if request["stopped"] else 0)
            stopped = os.WIFSTOPPED(status)
            answer = {"pid": pid, "stopped": stopped, "returncode": None if stopped else os.waitstatus_to_exitcode(status)}
        print(json.dumps(answer), flush=True)
    os._exit(0)  # there is nothing to tidy up, and without a collector the interpreter takes long over what it would


def _warm(request: dict[str, Any]) -> dict[str, Any]:
    """Run in the nursery itself, which then has done what is only done once. Everything is closed before the next fork."""
    os.environ.update(request["environment"])
    with Path(request["stdout"]).open("w") as said, redirect_stdout(said):
        return {"pid": os.getpid(), "returncode": main(request["arguments"])}


def _born(request: dict[str, Any]) -> None:
    """The worker's own process: its streams, its environment (armed by importing again), its program. It does not outlive its nursery."""
    code = 70
    try:
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
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


PR_SET_PDEATHSIG = 1

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
