"""Starting and stopping the inventory service as a process of its own.

Owns one child process. Invariant: it is ended by its own pid and never outlives its starter, however that one dies.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from queue import Empty, Queue
from threading import Thread
from typing import IO, Any

import httpx

from recovery.examples.inventory.client import certified
from recovery.examples.inventory.pause import ANY


class ServiceFailed(Exception):
    """The service did not start, or did not end. Its own words are on standard error."""


@dataclass(frozen=True, slots=True)
class Inventory:
    """A running service."""

    process: subprocess.Popen[str]
    port: int

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def stock(self, sku: str) -> int:
        return int(self._get(f"/stock/{sku}")["units"])

    def executions(self, key: str) -> int:
        """How often the effect under a key was really executed: counted by the effect itself, not by receipts."""
        return int(self._get(f"/executions/{key}")["times"])

    def wait_until_paused(self, key: str = ANY, timeout: timedelta = timedelta(seconds=30)) -> None:
        """Return when the request with this key, or any, is held where ``pause`` said. Raises httpx.TimeoutException."""
        with self._plain(timeout) as client:
            client.get(f"{self.url}/paused/{key}").raise_for_status()

    def resume(self) -> None:
        """Let held requests go, and hold none from now on."""
        with self._plain() as client:
            client.post(f"{self.url}/resume").raise_for_status()

    def kill(self) -> None:
        """SIGKILL, and wait until it is gone."""
        self.process.kill()
        self.process.wait(10)

    def _get(self, path: str) -> dict[str, Any]:
        with self._plain() as client:
            response = client.get(f"{self.url}{path}").raise_for_status()
        found: dict[str, Any] = response.json()
        return found

    def _plain(self, timeout: timedelta = timedelta(seconds=30)) -> httpx.Client:
        return httpx.Client(timeout=timeout.total_seconds(), trust_env=False, verify=certified(self.url))


@contextmanager
def serve(
    db: str,
    stock: Mapping[str, int],
    *,
    pause: str = "",
    block: timedelta = timedelta(seconds=5),
    port: int = 0,
    timeout: timedelta = timedelta(seconds=30),
) -> Iterator[Inventory]:
    """Start the service on ``db`` (a SQLAlchemy URL), yield it when it answers, end it. ``pause``: see pause.py.

    Raises ServiceFailed if it does not answer or end within ``timeout``."""
    command = [sys.executable, "-m", "recovery.examples.inventory", "--db", db, "--port", str(port), "--end-with-stdin"]
    command += ["--block-seconds", str(block.total_seconds()), "--pause", pause]
    command += [f"--stock={sku}={units}" for sku, units in stock.items()]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)  # noqa: S603
    try:
        yield Inventory(process, _port(process, timeout))
    finally:
        _end(process, timeout)


def _port(process: subprocess.Popen[str], timeout: timedelta) -> int:
    lines: Queue[str] = Queue()

    def read(stdout: IO[str]) -> None:
        lines.put(stdout.readline())

    assert process.stdout is not None
    Thread(target=read, args=(process.stdout,), daemon=True).start()
    try:
        line = lines.get(timeout=timeout.total_seconds())
    except Empty:
        raise ServiceFailed(
            f"The inventory service did not answer within {timeout}. Look at its messages on standard error."
        ) from None
    if not line:
        raise ServiceFailed("The inventory service ended before it answered. Look at its messages on standard error.")
    return int(json.loads(line)["port"])


def _end(process: subprocess.Popen[str], timeout: timedelta) -> None:
    process.terminate()
    try:
        process.wait(timeout.total_seconds())
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait(10)
        raise ServiceFailed(f"The inventory service did not end within {timeout} of SIGTERM, and was killed.") from None
    finally:
        for stream in (process.stdin, process.stdout):
            if stream is not None:
                stream.close()
