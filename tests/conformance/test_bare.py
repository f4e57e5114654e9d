"""The connection of SQLite's writer, used while it lies in its pool: rolled back where nothing was committed, and made anew where it is gone."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy.exc import DBAPIError

from recovery.ports import Appended, Fenced, Journal
from recovery.storage import open_journal
from recovery.storage.bare import Bare, execute
from recovery.storage.sql import SqlJournal
from recovery.storage.sqlite import SqliteDatabase
from tests.conformance.making import claim_of, member, opened, row_after


@pytest.fixture
def kept(sqlite_url: str) -> Journal:
    return open_journal(sqlite_url)


def database_of(journal: Journal) -> SqliteDatabase:
    assert isinstance(journal, SqlJournal)
    assert isinstance(journal._database, SqliteDatabase)
    return journal._database


def bare_of(journal: Journal) -> Bare:
    return database_of(journal)._bare


def keys(journal: Journal) -> int:
    with database_of(journal).reading() as connection:
        return int(connection.exec_driver_sql("SELECT count(*) FROM key").scalar_one())


def take(name: str) -> Callable[[Any], int]:
    return lambda cursor: execute(cursor, "INSERT INTO key VALUES ('e', 's', ?, 'f', 'r', 's')", (name,))


def test_what_was_not_committed_is_rolled_back(kept: Journal) -> None:
    run = opened(kept)
    bare = bare_of(kept)
    assert not bare.committed(lambda cursor: take("refused")(cursor) != 1)

    def broken(cursor: Any) -> bool:
        take("broken")(cursor)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        bare.committed(broken)
    with pytest.raises(DBAPIError, match="no such table"):
        bare.committed(lambda cursor: bool(take("wrong")(cursor) and execute(cursor, "INSERT INTO no_table VALUES (1)")))
    assert keys(kept) == 0
    assert bare.committed(lambda cursor: take("right")(cursor) == 1)
    assert keys(kept) == 1
    assert kept.append([member(run)]) == [Appended()]  # and Core, which uses the same connection, finds no transaction of ours
    assert opened(kept, "run-2").head == 1
    kept.close()


def test_core_and_the_bare_statements_use_one_connection(kept: Journal) -> None:
    opened(kept)
    database = database_of(kept)
    with database.writing() as connection:
        theirs = connection.connection.driver_connection
    used: list[object] = []
    assert bare_of(kept).committed(lambda cursor: bool(used.append(cursor.connection) or True))
    assert used == [theirs]
    kept.close()


@pytest.mark.parametrize("end", ["close", "interrupted"])
def test_a_connection_that_is_gone_is_made_anew_with_its_settings(kept: Journal, end: str) -> None:
    run = opened(kept)
    assert kept.append([member(run)]) == [Appended()]
    database = database_of(kept)
    getattr(database, end)()
    found: list[int] = []

    def ask(cursor: Any) -> bool:
        found.append(cursor.execute("PRAGMA synchronous").fetchone()[0])
        found.append(cursor.execute("PRAGMA foreign_keys").fetchone()[0])
        found.append(cursor.execute("PRAGMA temp_store").fetchone()[0])  # a large statement writes no file of its own
        return True

    assert bare_of(kept).committed(ask)
    assert found == [2, 1, 2]
    kept.close()


def test_a_connection_whose_rollback_fails_is_never_used_again(kept: Journal) -> None:
    opened(kept)
    bare = bare_of(kept)
    seen: list[Any] = []

    def ends_it(cursor: Any) -> bool:
        seen.append(cursor.connection)
        cursor.connection.set_authorizer(lambda action, *_: 1 if action == TRANSACTION else 0)
        return False

    assert not bare.committed(ends_it)
    assert bare.committed(lambda cursor: bool(seen.append(cursor.connection) or take("after")(cursor)))
    assert seen[0] is not seen[1]
    assert keys(kept) == 1
    kept.close()


def test_a_connection_that_cannot_be_made_fails_as_one_of_core_does(kept: Journal, sqlite_url: str) -> None:
    opened(kept)
    database_of(kept).interrupted()
    Path(sqlite_url.removeprefix("sqlite:///")).unlink()
    with pytest.raises(DBAPIError, match="unable to open"):
        bare_of(kept).committed(take("k1"))
    kept.close()


TRANSACTION = 22  # sqlite3.SQLITE_TRANSACTION


def test_a_child_writes_on_a_connection_of_its_own(kept: Journal) -> None:
    run = opened(kept)
    assert kept.append([member(run, keys=(claim_of("k1"),))]) == [Appended()]
    parents = bare_of(kept)._cursor.connection
    child = os.fork()
    if child == 0:
        status = 1
        try:
            there = kept.find("run-1")
            if there is not None and kept.append([member(there, keys=(claim_of("k2"),))]) == [Appended()]:
                status = 0 if bare_of(kept)._cursor.connection is not parents else 2
        finally:
            os._exit(status)
    _, ended = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(ended) == 0
    [refused] = kept.append([member(run, row_after(run))])
    assert isinstance(refused, Fenced)
    now = kept.find("run-1")
    assert now is not None
    assert kept.append([member(now)]) == [Appended()]
    kept.close()
