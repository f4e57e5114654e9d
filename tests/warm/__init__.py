"""Our programs as real processes, without the start of an interpreter: forked from a parent that has imported what they import.

Owns asking for one and waiting for its end. A process forked so differs from a fresh one in nothing that a test may rest on; where it
would (flags of the interpreter, code on its command line, an environment that counts when it starts), a fresh one is started instead.
"""

from __future__ import annotations

import json
import os
import selectors
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from threading import Lock
from types import TracebackType
from typing import BinaryIO, Self, cast

_PARENT = Path(__file__).with_name("parent.py")
_AT_START = ("PYTHON", "LC_", "LANG", "TZ", "TMPDIR", "RECOVERY_SQLITE")
"""How the names begin of what the interpreter, or a module that the parent has imported, reads once."""


class WarmParent:
    """Runs `python ARGUMENTS` again and again. One at a time: who asks meanwhile waits."""

    def __init__(self) -> None:
        self._environment = {name: value for name, value in os.environ.items() if not name.startswith("RECOVERY_")}
        self._requests, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            self._process = subprocess.Popen([sys.executable, str(_PARENT)], stdin=theirs, env=self._environment)
        self._lock = Lock()

    def run(
        self, arguments: Sequence[str], *, directory: Path, environment: Mapping[str, str], timeout: float = 60
    ) -> subprocess.CompletedProcess[str]:
        """`subprocess.run` of a Python program, its output in pipes. Times out after `timeout` seconds."""
        if not self._warms(arguments, environment):
            command = [sys.executable, *arguments]
            return subprocess.run(
                command,
                cwd=directory,
                env=environment,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                timeout=timeout,
                check=False,
            )
        request = {"arguments": list(arguments), "directory": str(directory), "environment": dict(environment)}
        with self._lock:
            return self._answered(request, time.monotonic() + timeout)

    def _warms(self, arguments: Sequence[str], environment: Mapping[str, str]) -> bool:
        ours = arguments[0].endswith(".py") or tuple(arguments[:2]) == ("-m", "recovery")
        return ours and self._at_start(environment) == self._at_start(self._environment)

    @staticmethod
    def _at_start(environment: Mapping[str, str]) -> dict[str, str]:
        return {name: value for name, value in environment.items() if name.startswith(_AT_START)}

    def _answered(self, request: dict[str, object], deadline: float) -> subprocess.CompletedProcess[str]:
        (out, to_out), (err, to_err) = os.pipe(), os.pipe()
        with os.fdopen(out, "rb") as out_pipe, os.fdopen(err, "rb") as err_pipe:
            with Path(os.devnull).open("rb") as nothing, os.fdopen(to_out, "wb"), os.fdopen(to_err, "wb"):
                socket.send_fds(self._requests, [json.dumps(request).encode()], [nothing.fileno(), to_out, to_err])
            pid = self._told()
            try:
                said = _read([out_pipe, err_pipe], deadline)
            except TimeoutError:
                with suppress(ProcessLookupError):  # it has gone, and what it started writes on
                    os.kill(pid, signal.SIGKILL)
                raise
            finally:
                code = self._told()
        return subprocess.CompletedProcess(request["arguments"], code, *said)

    def _told(self) -> int:
        """The next number from the parent: of a process, or of its end."""
        told = self._requests.recv(100)
        assert told, "the warm parent has gone"
        return int(told)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._requests.close()  # the end of its requests
        self._process.wait(60)


def _read(pipes: list[BinaryIO], deadline: float) -> list[str]:
    """All that comes out of each, until nobody can write to it any more."""
    heard = dict.fromkeys(pipes, b"")
    with selectors.DefaultSelector() as selector:
        for pipe in pipes:
            selector.register(pipe, selectors.EVENT_READ)
        while selector.get_map():
            ready = selector.select(max(0, deadline - time.monotonic()))
            if not ready:
                raise TimeoutError(f"still running, after saying {[text.decode() for text in heard.values()]}")
            for key, _ in ready:
                pipe = cast("BinaryIO", key.fileobj)
                more = os.read(key.fd, 1 << 16)
                heard[pipe] += more
                if not more:
                    selector.unregister(pipe)
    return [text.decode().replace("\r\n", "\n") for text in heard.values()]
