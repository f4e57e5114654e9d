"""A sync goes through the drive's memory where the system has a call for that."""

from __future__ import annotations

import errno
import fcntl
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from recovery import syncing
from recovery.storage import open_journal
from recovery.storage.sql import SqlJournal
from recovery.storage.sqlite import SqliteDatabase


@pytest.fixture
def file(tmp_path: Path) -> Iterator[int]:
    opened = os.open(tmp_path / "a", os.O_CREAT | os.O_WRONLY)
    yield opened
    os.close(opened)


def test_the_command_is_given_where_there_is_one_and_the_plain_sync_where_it_is_not_known(
    file: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert syncing.asked(file, fcntl.F_GETFD)
    assert not syncing.asked(file, 1 << 20)  # as a file system answers that has no F_FULLFSYNC
    plain: list[int] = []
    monkeypatch.setattr(os, "fsync", plain.append)
    monkeypatch.setattr(syncing, "_FULL", fcntl.F_GETFD)
    syncing.sync(file)
    assert plain == []
    monkeypatch.setattr(syncing, "_FULL", 1 << 20)
    syncing.sync(file)
    assert plain == [file]


def test_a_refusal_is_not_taken_for_a_missing_call(tmp_path: Path) -> None:
    closed = os.open(tmp_path, os.O_RDONLY)
    os.close(closed)
    with pytest.raises(OSError, match="Bad file descriptor") as caught:
        syncing.asked(closed, fcntl.F_GETFD)
    assert caught.value.errno == errno.EBADF


def test_sqlite_is_told_to_sync_in_full_wherever_its_system_can(sqlite_url: str) -> None:
    journal = open_journal(sqlite_url)
    journal.namespace()
    assert isinstance(journal, SqlJournal)
    database = journal._database
    assert isinstance(database, SqliteDatabase)
    with database.writing() as connection:
        said = [connection.exec_driver_sql(f"PRAGMA {name}").scalar() for name in ("fullfsync", "checkpoint_fullfsync")]
    journal.close()
    assert said == [1, 1]
