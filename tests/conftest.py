"""Databases for tests: one real PostgreSQL server per pytest process, a clean database per test.

A server that cannot start fails the tests that want it; nothing is ever skipped.
"""

from __future__ import annotations

import gc
import os
import shutil
import signal
import sqlite3
from collections.abc import Generator, Iterator
from contextlib import closing
from functools import cache
from pathlib import Path
from typing import LiteralString

import psycopg
import pytest
import typer.main
import typer.testing
from psycopg import sql

from recovery.ports import Journal
from recovery.storage import open_journal
from recovery.storage.migrate import migrate
from recovery.storage.schema import VERSION_TABLE, metadata
from tests.postgres import IN_MEMORY, PostgresServer, room_in_memory, serving
from tests.warm import WarmParent

pytest_plugins = ["pytester", "tests.strays"]


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--rewrite", action="store_true", help="histories: write what is told now into the files")


def pytest_configure() -> None:
    # A suite that a script has started in the background ignores these, and so would each program that a test starts and ends by them.
    for number, usual in ((signal.SIGINT, signal.default_int_handler), (signal.SIGQUIT, signal.SIG_DFL)):
        if signal.getsignal(number) is signal.SIG_IGN:
            signal.signal(number, usual)
    # What a test writes outlives its processes there, which is all that a test can see; waiting for a disk costs more than most of what is written.
    if room_in_memory():
        os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", str(IN_MEMORY))


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Ten thousand tests live until the end: a garbage collector that looks at all of them, again and again, finds nothing."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """Whoever runs everything is told what everything was not."""
    if config.args_source is pytest.Config.ArgsSource.TESTPATHS and "not torch and not power" in config.getoption("markexpr"):
        for left_out in (
            "torch (tests/torch) were left out: they need torch. `make test-torch` installs it and runs them.",
            "typing (tests/typing) were left out: `make lint` runs them.",
            "power (tests/power) were left out: they mount a file system, and take a minute. `make power` runs them.",
        ):
            terminalreporter.write_line(f"The tests marked {left_out}")


@pytest.fixture(scope="session", autouse=True)
def _assembled_once() -> Iterator[None]:
    """typer builds the whole tree of commands anew whenever it is called, which costs more than most commands do."""
    assembled = cache(typer.main.get_command)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(typer.main, "get_command", assembled)  # of `app(...)`
        patch.setattr(typer.testing, "_get_command", assembled)  # of `CliRunner.invoke`
        yield


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[PostgresServer]:
    """The server of this pytest process (each xdist worker has its own)."""
    with serving() as server:
        yield server


@pytest.fixture
def empty_postgres_url(postgres_server: PostgresServer) -> Iterator[str]:
    """A database of this test's own, without any table."""
    database = postgres_server.take("empty", lambda _url: None)
    yield postgres_server.url(database)
    postgres_server.give_back("empty", database, _empty)


def _empty(connection: psycopg.Connection) -> None:
    made = connection.execute("SELECT nspname FROM pg_namespace WHERE nspname !~ '^(pg_|information_schema$)'").fetchall()
    for (name,) in made:
        connection.execute(sql.SQL("DROP SCHEMA {} CASCADE").format(sql.Identifier(name)))
    connection.execute("CREATE SCHEMA public")


@pytest.fixture
def postgres_url(postgres_server: PostgresServer) -> Iterator[str]:
    """A migrated database of this test's own, with nothing in it and a fresh namespace. Spoil its schema in an empty one instead."""
    database = postgres_server.take("migrated", migrate)
    yield postgres_server.url(database)
    postgres_server.give_back("migrated", database, _fresh)


_TABLES: LiteralString = """SELECT relname, pg_relation_size(oid) / current_setting('block_size')::int, reltuples >= 0 FROM pg_class
    WHERE relnamespace = 'public'::regnamespace AND relkind = 'r'"""
_COUNTED: LiteralString = "SELECT seqrelid::regclass::text FROM pg_sequence WHERE pg_sequence_last_value(seqrelid) IS NOT NULL"
_FEW_PAGES = 4
"""Tables of so many are emptied row by row: to truncate them and their indexes costs more than most tests do."""


def _fresh(connection: psycopg.Connection) -> None:
    """Empty our tables, drop all others, and be born again: the namespace is what makes two databases two."""
    found = {name: (pages, analysed) for name, pages, analysed in connection.execute(_TABLES)}
    for name in set(found) - set(metadata.tables) - {VERSION_TABLE}:
        connection.execute(sql.SQL("DROP TABLE {} CASCADE").format(sql.Identifier(name)))
    written = [table.name for table in reversed(metadata.sorted_tables) if table.name != "meta" and found[table.name][0]]
    if any(pages > _FEW_PAGES or analysed for pages, analysed in map(found.__getitem__, written)):
        everything = sql.SQL(", ").join(sql.Identifier(name) for name in metadata.tables if name != "meta")
        connection.execute(sql.SQL("TRUNCATE {}").format(everything))
        written = []
    emptied = [sql.SQL("DELETE FROM {}").format(sql.Identifier(name)) for name in written]
    counted = [sql.SQL("ALTER SEQUENCE {} RESTART").format(sql.Identifier(name)) for (name,) in connection.execute(_COUNTED)]
    if emptied or counted:
        connection.execute(sql.SQL("; ").join([*emptied, *counted]))
    changed = connection.execute("UPDATE meta SET namespace = md5(random()::text), incarnation = 0, format = 1")
    assert changed.rowcount == 1


@pytest.fixture
def sqlite_url(tmp_path: Path) -> str:
    """A database file that does not exist yet."""
    return f"sqlite:///{tmp_path / 'recovery.db'}"


@pytest.fixture(scope="session")
def sqlite_template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A migrated database file, to be copied."""
    path = tmp_path_factory.mktemp("template") / "recovery.db"
    migrate(f"sqlite:///{path}")
    return path


@pytest.fixture
def migrated_sqlite_url(sqlite_url: str, sqlite_template: Path) -> str:
    """A migrated database file of this test's own, with nothing in it and a fresh namespace: what `migrate` makes, at a tenth of its price."""
    path = Path(sqlite_url.removeprefix("sqlite:///"))
    shutil.copyfile(sqlite_template, path)
    with closing(sqlite3.connect(path)) as born, born:
        assert born.execute("UPDATE meta SET namespace = lower(hex(randomblob(16)))").rowcount == 1
    return sqlite_url


@pytest.fixture(scope="session")
def warm_parent() -> Iterator[WarmParent]:
    """Where a test's programs come from that are to be real processes, and need no fresh interpreter."""
    with WarmParent({name: value for name, value in os.environ.items() if not name.startswith("RECOVERY_")}) as parent:
        yield parent


@pytest.fixture(params=["sqlite", "postgresql"])
def empty_store_url(request: pytest.FixtureRequest) -> str:
    """An empty database of either kind: what a service's own tables are made in."""
    return request.getfixturevalue("sqlite_url" if request.param == "sqlite" else "empty_postgres_url")


@pytest.fixture(params=["sqlite", "postgresql"])
def store_url(request: pytest.FixtureRequest) -> str:
    """A journal's database of either kind, migrated."""
    return request.getfixturevalue("migrated_sqlite_url" if request.param == "sqlite" else "postgres_url")


@pytest.fixture(params=["memory", "sqlite", "postgresql"])
def journal(request: pytest.FixtureRequest) -> Iterator[Journal]:
    """An empty journal of each kind."""
    fixtures = {"sqlite": "migrated_sqlite_url", "postgresql": "postgres_url"}
    opened = open_journal(request.getfixturevalue(fixtures[request.param]) if request.param in fixtures else "memory://")
    yield opened
    opened.close()
