"""Room in SQLite's log before it is needed: written behind all that anybody wrote, by several writers at once, and done without where there is none."""

from __future__ import annotations

import errno
import os
import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import pytest

from recovery.ports import Appended, Journal
from recovery.storage import ahead, open_journal
from recovery.storage.ahead import LEAST, MOST, Ahead
from recovery.storage.sql import SqlJournal
from recovery.storage.sqlite import SqliteDatabase
from recovery.testing.pieces import in_one_piece
from tests.conformance.blocking import together
from tests.conformance.making import member, opened, row_after


@pytest.fixture
def path(sqlite_url: str) -> Path:
    return Path(sqlite_url.removeprefix("sqlite:///"))


def log_of(path: Path) -> Path:
    return path.with_name(f"{path.name}-wal")


def appends(journal: Journal, run_id: str, count: int) -> None:
    """One after the other, each a commit."""
    for _ in range(count):
        run = journal.find(run_id)
        assert run is not None
        assert journal.append([member(run, row_after(run, body=f'{{"a":"{"a" * 900}"}}'))]) == [Appended()]


def room_of(journal: Journal) -> Ahead:
    assert isinstance(journal, SqlJournal)
    assert isinstance(journal._database, SqliteDatabase)
    return journal._database._bare._ahead


def test_the_log_grows_in_pieces_that_many_commits_use(path: Path) -> None:
    journal = open_journal(f"sqlite:///{path}")
    opened(journal)
    sizes = set()
    for _ in range(60):
        appends(journal, "run-1", 1)
        sizes.add(log_of(path).stat().st_size)
    assert max(sizes) >= 2 * LEAST
    assert 1 < len(sizes) < 12
    journal.close()


def test_what_was_acknowledged_is_in_the_log_in_front_of_the_room(path: Path, tmp_path: Path) -> None:
    """Two writers, each with room of its own in one log; the files as a crash would leave them, without what is in memory, are read by SQLite's own recovery."""
    writers = [open_journal(f"sqlite:///{path}") for _ in range(2)]
    for number, journal in enumerate(writers):
        opened(journal, f"run-{number}")
    together([partial(appends, journal, f"run-{number}", 80) for number, journal in enumerate(writers)])
    assert all(room_of(journal)._end for journal in writers)
    copied = tmp_path / "copied.db"
    shutil.copy(path, copied)
    shutil.copy(log_of(path), log_of(copied))
    found = open_journal(f"sqlite:///{copied}", create=False)
    for number in range(2):
        loaded = in_one_piece(found, f"run-{number}")
        assert loaded is not None
        assert len(loaded[1]) == 81
    for journal in (*writers, found):
        journal.close()


def test_without_room_everything_goes_on(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    journal = open_journal(f"sqlite:///{path}")
    opened(journal)

    def full(*_: object) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patched:
        patched.setattr(ahead.os, "pwrite", full)
        appends(journal, "run-1", 3)
    assert room_of(journal)._over
    journal.close()
    assert not log_of(path).exists()
    journal = open_journal(f"sqlite:///{path}")
    appends(journal, "run-1", 3)
    assert not room_of(journal)._over
    journal.close()


@contextmanager
def log_with(log: Path, content: bytes) -> Iterator[Path]:
    """A log that this process has open, as SQLite has."""
    log.write_bytes(content)
    with log.open("rb"):
        yield log


def test_room_ends_where_the_log_begins_anew(tmp_path: Path) -> None:
    with log_with(tmp_path / "a.db-wal", b"x" * 100) as log:
        room = Ahead(tmp_path / "a.db", 2 * LEAST)
        room.make()
        assert log.stat().st_size == LEAST + 4096 - LEAST % 4096
        room.make()
        assert log.read_bytes() == b"x" * 100 + bytes(log.stat().st_size - 100)
        with log.open("ab") as file:
            file.write(b"y" * LEAST)
        size = log.stat().st_size
        room.make()
        assert log.stat().st_size == size
        room.drop()
    with log_with(tmp_path / "b.db-wal", b"x" * 5 * MOST) as grown:
        big = Ahead(tmp_path / "b.db", 100 * MOST)
        big.make()
        assert grown.stat().st_size == 6 * MOST
        big.drop()


def test_room_that_another_process_has_made_will_do(tmp_path: Path) -> None:
    with log_with(tmp_path / "a.db-wal", b"x" * 10_000) as log:
        one, other = Ahead(tmp_path / "a.db", 100 * MOST), Ahead(tmp_path / "a.db", 100 * MOST)
        one.make()
        size = log.stat().st_size
        for room in (other, one, other):
            room.make()
        assert log.stat().st_size == size
        with log.open("ab") as file:
            file.write(b"x" * 10)
        other.make()
        assert log.stat().st_size > size + 10
        one.drop()
        other.drop()


def test_an_empty_log_and_none_are_left_alone(tmp_path: Path) -> None:
    room = Ahead(tmp_path / "a.db", MOST)
    room.make()
    assert not (tmp_path / "a.db-wal").exists()
    room.drop()
    with log_with(tmp_path / "a.db-wal", b"") as empty:
        room.make()
        assert empty.stat().st_size == 0
        room.drop()


def test_the_log_of_a_database_that_has_taken_the_place_of_ours_is_left_alone(path: Path, tmp_path: Path) -> None:
    """Whoever replaces the file under a running process gets no zeros into a log whose lock we do not hold."""
    journal = open_journal(f"sqlite:///{path}")
    opened(journal)
    room_of(journal).drop()  # as before its first look
    log_of(path).unlink()
    log_of(path).write_bytes(b"x" * 10_000)
    appends(journal, "run-1", 3)
    assert log_of(path).read_bytes() == b"x" * 10_000
    assert room_of(journal)._over
    log_of(path).unlink()
    journal.close()


def test_a_log_that_was_cut_gets_room_again(path: Path) -> None:
    journal = open_journal(f"sqlite:///{path}")
    opened(journal)
    appends(journal, "run-1", 3)
    log = log_of(path)
    assert log.stat().st_size > LEAST
    with sqlite3.connect(path) as other:
        assert other.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()[0] == 0
    other.close()
    assert log.stat().st_size == 0
    appends(journal, "run-1", 3)
    assert log.stat().st_size > LEAST
    journal.close()
