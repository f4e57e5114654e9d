"""Our programs as real processes, without the start of an interpreter: forked from a parent that has imported what they import.

Owns asking for one and waiting for its end. A process forked so differs from a fresh one in nothing that a test may rest on; where it
would (flags of the interpreter, an environment that counts when it starts), a fresh one is started instead, by whoever says so.
"""

from __future__ import annotations

import os
import selectors
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self, TextIO, TypeAlias, cast

import pytest

from tests.warm.parent import DOOR

_HERE = Path(__file__).parent


class WarmParent:
    """Forks our programs. `environment`: of the parent; programs whose own says otherwise where it counts get a fresh interpreter."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        self.directory = Path(tempfile.mkdtemp(prefix="warm-"))
        self.door = str(self.directory / "door")
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listening:
            listening.bind(self.door)
            listening.listen(100)
            command = [sys.executable, str(_HERE / "parent.py"), str(listening.fileno())]
            self._process = subprocess.Popen(
                command, stdin=subprocess.PIPE, env=dict(environment), pass_fds=[listening.fileno()], cwd=self.directory
            )

    def run(
        self,
        arguments: Sequence[str],
        *,
        directory: Path,
        environment: Mapping[str, str],
        fresh: bool = False,
        timeout: float = 240,
    ) -> subprocess.CompletedProcess[str]:
        """`subprocess.run` of a Python program, its output in pipes.

        Raises: subprocess.TimeoutExpired after `timeout` seconds; the program has been killed.
        """
        with ended_after(self.start(arguments, directory=directory, environment=environment, fresh=fresh)) as program:
            said = program.communicate(timeout=timeout)
            return subprocess.CompletedProcess(arguments, program.wait(timeout), *said)

    def start(
        self,
        arguments: Sequence[str],
        *,
        directory: Path,
        environment: Mapping[str, str],
        fresh: bool = False,
        stdin: int | None = None,
        stdout: int | None = None,
    ) -> Program:
        """`subprocess.Popen` of a Python program, its output in pipes, and no input. `stdin`, `stdout`: descriptors in place of these.

        `fresh`: in an interpreter of its own. Raises: NeedsFresh where only that would do, so that none is started by accident.
        """
        if fresh:
            return subprocess.Popen(
                [sys.executable, *arguments],
                cwd=directory,
                env=environment,
                stdin=subprocess.DEVNULL if stdin is None else stdin,
                stdout=subprocess.PIPE if stdout is None else stdout,
                stderr=subprocess.PIPE,
                text=True,
            )
        asking = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        asking.connect(self.door)
        (out, to_out), (err, to_err) = os.pipe(), os.pipe()
        with Path(os.devnull).open("rb") as nothing:
            streams = [nothing.fileno() if stdin is None else stdin, to_out if stdout is None else stdout, to_err]
            socket.send_fds(asking, [_request(arguments, directory, environment)], streams)
        os.close(to_out)
        os.close(to_err)
        started = Started(int(asking.recv(100)), asking, arguments, os.fdopen(out), os.fdopen(err))
        if started.pid < 0:
            started.close()
            raise NeedsFresh(f"only a fresh interpreter can run {shlex.join(arguments)} so; let the test say that it wants one")
        return started

    @contextmanager
    def starting(self) -> Iterator[None]:
        """Within the block, Python programs that this process starts as `sys.executable` are forked instead."""
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(sys, "executable", str(self.stand_ins() / "python"))
            patch.setenv(DOOR, self.door)
            yield

    def stand_ins(self) -> Path:
        """A directory for a shell's path, whose `python` and `recover` are run by the parent that WARM_PARENT names."""
        directory = self.directory / "bin"
        directory.mkdir(exist_ok=True)
        for name in ("python", "recover"):
            program = directory / name
            program.write_text(f"#!{sys.executable} -IS\n{(_HERE / 'standin.py').read_text()}")
            program.chmod(0o755)
        return directory

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._process.communicate(timeout=240)  # the end of its input
        shutil.rmtree(self.directory)


class NeedsFresh(Exception):
    """A program's environment counts when an interpreter starts, or its flags do."""


@dataclass
class Started:
    """A program that a warm parent has forked; whoever started it has of it what `subprocess.Popen` gives. Killed with who asked for it."""

    pid: int
    _asking: socket.socket
    args: Sequence[str]
    stdout: TextIO
    stderr: TextIO
    returncode: int | None = None

    def poll(self) -> int | None:
        with suppress(subprocess.TimeoutExpired):
            self.wait(0)
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        if self.returncode is None:
            self._asking.settimeout(timeout)
            try:
                self.returncode = int(self._asking.recv(100))
            except (BlockingIOError, TimeoutError):
                raise subprocess.TimeoutExpired(shlex.join(self.args), timeout or 0) from None
        return self.returncode

    def communicate(self, *, timeout: float = 240) -> tuple[str, str]:
        out, err = _read([self.stdout, self.stderr], self.args, timeout)
        self.wait(timeout)
        self.close()
        return out, err

    def send_signal(self, number: int) -> None:
        with suppress(OSError):  # it has ended
            self._asking.send(b"%d" % number)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)

    def close(self) -> None:
        for each in (self.stdout, self.stderr, self._asking):
            each.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.wait()
        self.close()


Program: TypeAlias = subprocess.Popen[str] | Started


@contextmanager
def ended_after(program: Program) -> Iterator[Program]:
    """The program, killed at the end of the block if it still runs."""
    with program:
        try:
            yield program
        finally:
            program.kill()


def _request(arguments: Sequence[str], directory: Path, environment: Mapping[str, str]) -> bytes:
    variables = [f"{name}={value}" for name, value in environment.items()]
    return os.fsencode("\0".join([str(directory), str(len(arguments)), *arguments, *variables]))


def _read(pipes: list[TextIO], arguments: Sequence[str], timeout: float) -> list[str]:
    """All that comes out of each, until nobody can write to it any more."""
    deadline = time.monotonic() + timeout
    heard = dict.fromkeys(pipes, b"")
    with selectors.DefaultSelector() as selector:
        for pipe in pipes:
            selector.register(pipe, selectors.EVENT_READ)
        while selector.get_map():
            ready = selector.select(max(0, deadline - time.monotonic()))
            if not ready:
                raise subprocess.TimeoutExpired(shlex.join(arguments), timeout, *heard.values())
            for key, _ in ready:
                pipe = cast("TextIO", key.fileobj)
                more = os.read(key.fd, 1 << 16)
                heard[pipe] += more
                if not more:
                    selector.unregister(pipe)
    return [text.decode().replace("\r\n", "\n") for text in heard.values()]
