"""The network between a worker and the service, which keeps one request or one reply until it is told to let it go.

Owns two sockets and a thread. Knows HTTP only as far as where a message ends.
"""

from __future__ import annotations

import socket
from contextlib import suppress
from threading import Event, Thread
from types import TracebackType
from typing import Self

SECONDS_MAX = 60.0


class Line:
    """Takes one connection. holds: "request" (the service has not seen it) or "reply" (the service has done it)."""

    def __init__(self, service_url: str, holds: str) -> None:
        self._service = ("127.0.0.1", int(service_url.rpartition(":")[2]))
        self._holds = holds
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._holding, self._go_on = Event(), Event()
        self.status = 0
        """Of the service's reply, once it has been delivered."""
        self.replayed = False
        self._thread = Thread(target=self._carry, name="line")

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._listener.getsockname()[1]}"

    def wait_until_holding(self) -> None:
        assert self._holding.wait(SECONDS_MAX), "nothing came"

    def deliver(self) -> None:
        """What was kept arrives, if anybody is there to hear it; returns when the service has replied."""
        self._go_on.set()
        self._thread.join(SECONDS_MAX)
        assert not self._thread.is_alive()

    def _carry(self) -> None:
        try:
            worker, _ = self._listener.accept()
        except OSError:
            return  # closed before anybody came
        with worker, socket.create_connection(self._service) as service:
            request = _message(worker)
            if self._holds == "request":
                self._keep()
            service.sendall(request)
            reply = _message(service)
            self.status = int(reply.split(b" ", 2)[1])
            self.replayed = b"idempotent-replayed: true" in reply.lower()
            if self._holds == "reply":
                self._keep()
            try:
                worker.sendall(reply)
            except OSError:
                return  # whoever asked is dead

    def _keep(self) -> None:
        self._holding.set()
        assert self._go_on.wait(SECONDS_MAX)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._go_on.set()
        with suppress(OSError):  # nobody has to be waiting
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._thread.join(SECONDS_MAX)


def _message(stream: socket.socket) -> bytes:
    """One whole message: its head, and as many bytes as the head says."""
    text = b""
    while b"\r\n\r\n" not in text:
        text += _some(stream)
    head, _, body = text.partition(b"\r\n\r\n")
    lengths = [line.partition(b":")[2] for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:")]
    while len(body) < int(*lengths):
        body += _some(stream)
    return head + b"\r\n\r\n" + body


def _some(stream: socket.socket) -> bytes:
    data = stream.recv(65_536)
    assert data, "it ended in the middle of a message"
    return data
