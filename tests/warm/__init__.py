"""Our programs as real processes, without the start of an interpreter: forked from a parent that has imported what they import.

Owns asking for one and waiting for its end. A process forked so differs from a fresh one in nothing that a test may rest on; where it
would (flags of the interpreter, code on its command line, an environment that counts when it starts), a fresh one is started instead.
"""

from __future__ import annotations

import os
import selectors
import shlex
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import BinaryIO, Self, cast

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
        self, arguments: Sequence[str], *, directory: Path, environment: Mapping[str, str], timeout: float = 240
    ) -> subprocess.CompletedProcess[str]:
        """`subprocess.run` of a Python program, its output in pipes.

        Raises: subprocess.TimeoutExpired after `timeout` seconds; the program has been killed.
        """
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as asking:
            asking.connect(self.door)
            (out, to_out), (err, to_err) = os.pipe(), os.pipe()
            with os.fdopen(out, "rb") as out_pipe, os.fdopen(err, "rb") as err_pipe:
                with Path(os.devnull).open("rb") as nothing, os.fdopen(to_out, "wb"), os.fdopen(to_err, "wb"):
                    socket.send_fds(asking, [_request(arguments, directory, environment)], [nothing.fileno(), to_out, to_err])
                if int(asking.recv(100)) < 0:
                    return _fresh(arguments, directory=directory, environment=environment, timeout=timeout)
                asking.settimeout(timeout)
                said = _read([out_pipe, err_pipe], arguments, timeout)
            return subprocess.CompletedProcess(arguments, int(asking.recv(100)), *said)

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


def _request(arguments: Sequence[str], directory: Path, environment: Mapping[str, str]) -> bytes:
    variables = [f"{name}={value}" for name, value in environment.items()]
    return os.fsencode("\0".join([str(directory), str(len(arguments)), *arguments, *variables]))


def _fresh(
    arguments: Sequence[str], *, directory: Path, environment: Mapping[str, str], timeout: float
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *arguments],
        cwd=directory,
        env=environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=timeout,
        check=False,
    )


def _read(pipes: list[BinaryIO], arguments: Sequence[str], timeout: float) -> list[str]:
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
                pipe = cast("BinaryIO", key.fileobj)
                more = os.read(key.fd, 1 << 16)
                heard[pipe] += more
                if not more:
                    selector.unregister(pipe)
    return [text.decode().replace("\r\n", "\n") for text in heard.values()]
