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


class Nursery:
    """A process that has imported everything and forks a worker per request."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._numbers = count(1)
        self._process = subprocess.Popen(
            [*COMMAND, "nursery"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=surroundings({})
        )

    def worker(self, arguments: Sequence[str], environment: Mapping[str, str], *, fork: bool = True) -> Ended:
        """Fork a worker and wait until it has ended and is reaped. Without `fork` the nursery does the work itself."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        number = next(self._numbers)
        stdout, stderr = self._directory / f"{number}.out", self._directory / f"{number}.err"
        request = {
            "arguments": list(arguments),
            "environment": dict(environment),
            "stdout": str(stdout),
            "stderr": str(stderr),
            "fork": fork,
        }
        self._process.stdin.write(json.dumps(request) + "\n")
        self._process.stdin.flush()
        ended = json.loads(self._process.stdout.readline())
        if not fork:
            return Ended(ended["pid"], ended["returncode"], {}, "")
        said = stdout.read_text()
        return Ended(ended["pid"], ended["returncode"], json.loads(said) if said else {}, stderr.read_text())

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()  # the end of its requests
        self._process.wait(30)
        self._process.stdout.close()


class Child:
    """One worker started by itself, as a user would."""

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
        stdout, stderr = self._process.communicate(timeout=60)
        return Ended(self.pid, self._process.returncode, json.loads(stdout) if stdout else {}, stderr)

    def end(self) -> None:
        """Nothing of it is left afterwards, whatever the test did."""
        if self._process.poll() is None:
            self._process.kill()  # works on a stopped process too
        self._process.communicate()


@contextmanager
def started(*children: Child) -> Iterator[tuple[Child, ...]]:
    try:
        yield children
    finally:
        for child in children:
            child.end()
