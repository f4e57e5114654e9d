"""The house that plays are given in: a journal of each kind, the service with its database, a PostgreSQL server, and where workers come from.

Owns starting, killing and restarting them. Knows no play. Invariant: each process is ended by its own pid, and none outlives the house.
"""

from __future__ import annotations

import json
import os
import select
import signal
import socket
import sqlite3
from collections.abc import Mapping
from contextlib import ExitStack, closing
from dataclasses import dataclass
from functools import cached_property
from itertools import count
from pathlib import Path
from threading import Lock
from types import TracebackType
from typing import Self

import httpx

from recovery.examples.inventory.client import certified
from recovery.examples.inventory.pause import ANY
from recovery.ports import Journal
from recovery.storage import open_journal
from recovery.storage.migrate import migrate
from tests.crash.children import Nursery, Started
from tests.crash.workflows import SERVICE, SKU
from tests.postgres import PostgresServer, serving

PLENTY = 1_000_000_000
MODULES = (
    "recovery.examples.inventory.__main__",
    "uvicorn.loops.auto",
    "uvicorn.protocols.http.auto",
    "uvicorn.protocols.websockets.auto",
    "uvicorn.lifespan.off",
    "uvicorn.lifespan.on",
    "sqlalchemy.dialects.sqlite.pysqlite",
)
"""What the service imports only when it starts."""
WAIT_SECONDS = 60

_one_server_at_a_time = Lock()
"""What starts servers locks against other processes, and not against other threads."""


class Service:
    """The inventory service on its database and one port, as a child of a nursery: killed and started again in milliseconds."""

    def __init__(self, directory: Path, nursery: Nursery) -> None:
        self.file = directory / "inventory.db"
        self._nursery = nursery
        self._pipe = directory / "inventory.port"
        os.mkfifo(self._pipe)
        # Bound and never listening: while the service is down its port is refused, and nobody else is given it.
        self._place = socket.socket()
        self._place.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self._place.bind(("127.0.0.1", 0))
        self._started: Started | None = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._place.getsockname()[1]}"

    def start(self, pause: str = "") -> None:
        """Return when it answers."""
        arguments = ["serve", "--db", f"sqlite:///{self.file}", "--port", self.url.rpartition(":")[2], "--pause", pause]
        pipe = os.open(self._pipe, os.O_RDWR)
        try:
            self._started = self._nursery.start([*arguments, f"--stock={SKU}={PLENTY}"], {}, self._pipe)
            assert select.select([pipe], [], [], WAIT_SECONDS)[0], "the service did not start"
            assert f":{json.loads(os.read(pipe, 4096))['port']}" in self.url
        finally:
            os.close(pipe)

    def kill(self) -> None:
        """SIGKILL, and it is gone."""
        assert self._started is not None
        os.kill(self._started.pid, signal.SIGKILL)
        ended = self._nursery.wait(self._started)
        assert ended is not None
        assert ended.killed, ended
        self._started = None

    def wait_until_paused(self) -> None:
        """Whichever request came first: of branches, any may."""
        with httpx.Client(timeout=WAIT_SECONDS, trust_env=False, verify=certified(self.url)) as client:
            client.get(f"{self.url}/paused/{ANY}").raise_for_status()

    def close(self) -> None:
        if self._started is not None:
            self.kill()
        self._place.close()

    @cached_property
    def books(self) -> sqlite3.Connection:
        """Its database, read only: which no worker reaches."""
        return sqlite3.connect(f"file:{self.file}?mode=ro", uri=True, check_same_thread=False)


@dataclass(frozen=True)
class Place:
    """A database for journals."""

    url: str
    journal: Journal


class House:
    """For one thread. server: where journals on PostgreSQL are; without one, a server of its own is started when it is first needed.
    warm: whether the nursery works once itself, so that its workers have less to do."""

    def __init__(self, directory: Path, nursery: Nursery, server: PostgresServer | None = None, *, warm: bool = True) -> None:
        self._stack = ExitStack()
        self._directory = directory
        self._warm = warm
        self.nursery = nursery
        self.server = server
        self.nursery.warm_up(["import", *MODULES], {})
        self.service = self._stack.enter_context(closing(Service(directory, self.nursery)))
        self.service.start()
        self._places: dict[str, Place] = {}
        self._numbers = count(1)

    def place(self, database: str) -> Place:
        """Made when it is first asked for."""
        if database not in self._places:
            url = f"sqlite:///{self._directory / 'journal.db'}" if database == "sqlite" else self._postgresql()
            migrate(url)
            self._places[database] = Place(url, self._stack.enter_context(closing(open_journal(url))))
            for colour in ("sync", "async") if self._warm else ():
                steps = "keyed-lost,asked-lost,closed-lost,probed,refused"
                said = ["run", "mixed", f"warm-{colour}", "--steps", steps, "--db", url, "--colour", colour, "--hurried"]
                self.nursery.warm_up(said, self.environment)
        return self._places[database]

    @property
    def environment(self) -> Mapping[str, str]:
        return {SERVICE: self.service.url}

    def number(self) -> int:
        """Makes a run's name its own, whatever else was played here."""
        return next(self._numbers)

    def restart_server(self) -> None:
        """SIGKILL to every process of the server, and start it again."""
        assert self.server is not None
        self.server.kill()
        with _one_server_at_a_time:
            self.server.start_again()

    def _postgresql(self) -> str:
        if self.server is None:
            with _one_server_at_a_time:
                self.server = self._stack.enter_context(serving())
        return self.server.url(self.server.take("soak", lambda _url: None))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._stack.close()
