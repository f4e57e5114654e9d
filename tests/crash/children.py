"""Workers as real processes: from a nursery that forks them cheaply, or one by one where a test must wait for and signal them.

Owns starting and ending. Every child is ended by its own pid at the latest when its owner here is closed.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from types import TracebackType
from typing import Any, Self

ROOT = Path(__file__).parents[2]
PROGRAM = Path(__file__).with_name("worker.py")
PYTHON = [sys.executable, "-W", "error"]
COMMAND = [*PYTHON, str(PROGRAM)]


def spoilt(way: str) -> list[str]:
    """The worker program, spoilt on purpose: see saboteur.py."""
    return [*PYTHON, str(PROGRAM.with_name("saboteur.py")), way]


def surroundings(more: Mapping[str, str]) -> dict[str, str]:
    """This process's environment with the checkout on the path and `more`; never armed by accident."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("RECOVERY_")}
    return kept | {"PYTHONPATH": str(ROOT)} | dict(more)


@dataclass(frozen=True)
class Ended:
    """A process that has ended. `report`: the JSON line that it printed; empty if it was killed before."""

    pid: int
    returncode: int
    report: dict[str, Any]
    stderr: str

    @property
    def killed(self) -> bool:
        return self.returncode == -signal.SIGKILL

    @property
    def passages(self) -> list[str]:
        return self.report["passages"]


@dataclass(frozen=True)
class Started:
    """A worker of a nursery that may still be at work. Its pid is its own until it has been waited for."""

    pid: int
    stdout: Path
    stderr: Path


class Nursery:
    """A process that has imported everything and forks a worker per request. `program`: the worker's, or a spoilt one."""

    def __init__(self, directory: Path, program: Sequence[str] = COMMAND) -> None:
        self._directory = directory
        self._numbers = count(1)
        self._process = subprocess.Popen(
            [*program, "nursery"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=surroundings({}),
            process_group=0,  # Ctrl-C is for whoever asks it, who then ends it in order
        )

    def worker(self, arguments: Sequence[str], environment: Mapping[str, str]) -> Ended:
        """Fork a worker and wait until it has ended and is reaped."""
        ended = self.wait(self.start(arguments, environment))
        assert ended is not None
        return ended

    def start(self, arguments: Sequence[str], environment: Mapping[str, str], stdout: Path | None = None) -> Started:
        """Fork a worker. stdout: where it prints to, if not into a file of its own."""
        request = self._request("start", arguments, environment, stdout)
        return Started(self._ask(request)["pid"], Path(request["stdout"]), Path(request["stderr"]))

    def wait(self, started: Started, *, stopped: bool = False) -> Ended | None:
        """Return when the worker has ended and is reaped; with `stopped` also, as None, when a signal has stopped it."""
        answer = self._ask({"do": "wait", "pid": started.pid, "stopped": stopped})
        if answer["stopped"]:
            return None
        said, stderr = (_taken(file) for file in (started.stdout, started.stderr))
        return Ended(started.pid, answer["returncode"], json.loads(said) if said else {}, stderr)

    def warm_up(self, arguments: Sequence[str], environment: Mapping[str, str]) -> None:
        """Let the nursery do itself, once, what each worker would otherwise do first."""
        assert self._ask(self._request("warm", arguments, environment, None))["returncode"] == 0

    def _request(self, do: str, arguments: Sequence[str], environment: Mapping[str, str], stdout: Path | None) -> dict[str, Any]:
        path = self._directory / str(next(self._numbers))
        return {
            "do": do,
            "arguments": list(arguments),
            "environment": dict(environment),
            "stdout": str(stdout or path.with_suffix(".out")),
            "stderr": str(path.with_suffix(".err")),
        }

    def _ask(self, request: Mapping[str, Any]) -> dict[str, Any]:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(request) + "\n")
        self._process.stdin.flush()
        answer: dict[str, Any] = json.loads(self._process.stdout.readline())
        return answer

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()  # the end of its requests
        self._process.wait(300)
        self._process.stdout.close()


def _taken(file: Path) -> str:
    """What a worker wrote into a file of its own; one that was killed at once has not even made it."""
    if not file.is_file():
        return ""
    text = file.read_text(errors="replace")
    file.unlink()
    return text


class Forked:
    """One worker from a nursery, for a test that waits for it and signals it."""

    def __init__(self, nursery: Nursery, arguments: Sequence[str], environment: Mapping[str, str]) -> None:
        self._nursery = nursery
        self._started = nursery.start(arguments, environment)
        self._ended: Ended | None = None
        self.pid = self._started.pid

    def wait_until_stopped(self) -> None:
        """Return when the process has been stopped by a signal. Fails if it ends instead."""
        self._ended = self._nursery.wait(self._started, stopped=True)
        assert self._ended is None, f"the worker ended and never stopped: {self._ended}"

    def go_on(self) -> None:
        os.kill(self.pid, signal.SIGCONT)

    def wait(self) -> Ended:
        self._ended = ended = self._nursery.wait(self._started)
        assert ended is not None
        return ended

    def end(self) -> None:
        """Nothing of it is left afterwards, whatever the test did."""
        if self._ended is None:
            os.kill(self.pid, signal.SIGKILL)  # works on a stopped process too
            self.wait()


class Child:
    """One worker in a fresh interpreter, as a user would start it: for programs that are traced or spoilt. As `Forked` otherwise."""

    def __init__(self, arguments: Sequence[str], environment: Mapping[str, str], command: Sequence[str] = COMMAND) -> None:
        self._process = subprocess.Popen(
            [*command, *arguments],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=surroundings(environment),
        )
        self.pid = self._process.pid

    def wait_until_stopped(self) -> None:
        """Return when the process has been stopped by a signal. Fails if it ends instead."""
        _, status = os.waitpid(self.pid, os.WUNTRACED)
        if not os.WIFSTOPPED(status):
            self._process.returncode = os.waitstatus_to_exitcode(status)
            raise AssertionError(f"the worker ended and never stopped: {self.wait()}")

    def go_on(self) -> None:
        os.kill(self.pid, signal.SIGCONT)

    def wait(self) -> Ended:
        stdout, stderr = self._process.communicate(timeout=240)
        return Ended(self.pid, self._process.returncode, json.loads(stdout) if stdout else {}, stderr)

    def end(self) -> None:
        """Nothing of it is left afterwards, whatever the test did."""
        if self._process.poll() is None:
            self._process.kill()  # works on a stopped process too
        self._process.communicate()


@contextmanager
def started(*children: Child | Forked) -> Iterator[tuple[Child | Forked, ...]]:
    try:
        yield children
    finally:
        for child in children:
            child.end()
