"""Opening a journal: what a URL may say, what is created and what is not, and what is said when it cannot be used."""

from __future__ import annotations

import os
import shutil
import sqlite3
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg
import pytest
from filelock import FileLock
from psycopg import sql

from recovery import storage
from recovery.core.errors import (
    ExitCode,
    JournalCorrupt,
    RecoveryError,
    SchemaMismatch,
    StoreDamaged,
    StoreUnavailable,
    StoreUrlError,
)
from recovery.core.ids import Epoch
from recovery.ports import Appended, Evidence, Journal
from recovery.storage.migrate import migrate
from recovery.storage.schema import VERSION
from recovery.testing.pieces import in_one_piece
from tests.conformance.blocking import in_thread, wait_for
from tests.conformance.making import appended, member, opened, owner, row_after, verified
from tests.postgres import PostgresServer

_opened: list[Journal] = []


def open_journal(url: str, *, create: bool = True) -> Journal:
    """`storage.open_journal`, closed after the test."""
    journal = storage.open_journal(url, create=create)
    _opened.append(journal)
    return journal


@pytest.fixture(autouse=True)
def _closed() -> Iterator[None]:
    yield
    while _opened:
        _opened.pop().close()


EVERY_READ: dict[str, Callable[[Journal], object]] = {
    "find": lambda journal: journal.find("run-1"),
    "runs": lambda journal: journal.runs(),
    "stream": lambda journal: in_one_piece(journal, "run-1"),
    "key_owner": lambda journal: journal.key_owner("a", "b", "c"),
    "evidence": lambda journal: journal.evidence("run-1"),
}
EVIDENCE = Evidence(run_id="run-1", step="a#1", epoch=Epoch(0, 1), at_us=1, kind="observation", body="{}")
MODEL = opened(open_journal("memory://"))  # a row to write with, where no database can give one
EVERY_WRITE: dict[str, Callable[[Journal], object]] = {
    "namespace": lambda journal: journal.namespace(),
    "incarnation": lambda journal: journal.incarnation(),
    "open_run": opened,
    "claim": lambda journal: journal.claim(MODEL, owner(), lease_term_us=1, at_us=1),
    "renew": lambda journal: journal.renew("run-1", "token", MODEL.epoch),
    "release": lambda journal: journal.release("run-1", "token", MODEL.epoch),
    "append": lambda journal: journal.append([member(MODEL)]),
    "add_evidence": lambda journal: journal.add_evidence(EVIDENCE),
}
EVERYTHING = EVERY_READ | EVERY_WRITE


def refusal(call: Callable[[], object], kind: type[RecoveryError], code: ExitCode = ExitCode.USAGE) -> str:
    with pytest.raises(kind) as caught:
        call()
    assert caught.value.exit_code is code
    return str(caught.value)


# -- URLs --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("", "it is not a URL"),
        ("recovery.db", "it is not a URL"),
        ("mysql://root@host/db", "'mysql' is not a kind of database known here"),
        ("postgresql+psycopg2://host/db", "'postgresql+psycopg2' is not a kind of database known here"),
        ("postgresql://host:port/db", "it is not a URL"),
        ("postgresql://host:99999/db", "99999 is not a port"),
        ("postgresql://host:0/db", "0 is not a port"),
        ("postgresql://host:-1/db", "-1 is not a port"),
        ("postgresql://[::1/db", "it is not a URL"),
        ("postgresql://host/db%00", "there is a NUL character in it"),
        ("sqlite://", "it names no file"),
        ("sqlite:///", "it names no file"),
        ("sqlite:///:memory:", "it names no file"),
        ("sqlite://recovery.db", "three slashes"),
        ("sqlite:///recovery.db?mode=ro", "three slashes"),
        ("memory://shared", "'memory' is not a kind of database known here"),
    ],
)
def test_a_wrong_url_is_refused_in_one_sentence_with_the_next_step(url: str, said: str) -> None:
    text = refusal(lambda: open_journal(url), StoreUrlError)
    assert said in text
    assert "Nothing was changed. Use " in text
    assert "\n" not in text


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://me:s3cret@127.0.0.1:1/db",
        "postgres://me:s3cret@127.0.0.1:1/db?connect_timeout=1",
        "postgresql+psycopg://127.0.0.1:1/db?user=me&password=s3cret",
        "mysql://me:s3cret@127.0.0.1:1/db",
        "postgresql://me:s3cret@127.0.0.1:port/db",
        "mysql://me:p@s3cret/@127.0.0.1/db",
        "mysql://127.0.0.1/db?Password=s3cret",
        "postgresql://127.0.0.1:1/db?passwd=s3cret",
        "postgres:me:s3cret@127.0.0.1/db",
        "postgresql:/me:s3cret@127.0.0.1/db",
        "me:s3cret/@x@127.0.0.1/db",
        "host=127.0.0.1 user=me password=s3cret",
        "password=s3cret@x host=127.0.0.1",
    ],
)
def test_a_password_is_never_shown(url: str) -> None:
    with pytest.raises((StoreUrlError, StoreUnavailable)) as caught:
        open_journal(url).find("run-1")
    assert "s3cret" not in str(caught.value)
    assert "s3cret" not in repr(caught.value.fields)
    assert "***" in str(caught.value)


def test_the_url_for_people_has_no_password() -> None:
    assert open_journal("postgres://me:s3cret@host/db").url == "postgresql://me:***@host/db"
    assert open_journal("sqlite:///some/file.db").url == "sqlite:///some/file.db"
    assert open_journal("memory://").url == "memory://"


def test_opening_does_nothing_before_its_first_use(tmp_path: Path) -> None:
    open_journal(f"sqlite:///{tmp_path}/a.db")
    open_journal("postgresql://nobody@127.0.0.1:1/nothing")
    assert list(tmp_path.iterdir()) == []


def test_a_relative_path_does_not_move_with_the_working_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    journal = open_journal("sqlite:///here.db")
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    opened(journal)
    assert (tmp_path / "here.db").exists()


@pytest.mark.parametrize("name", ["with space.db", "ümläut.db", "100%.db", "a+b.db"])
def test_a_file_may_have_any_name(tmp_path: Path, name: str) -> None:
    journal = open_journal(f"sqlite:///{tmp_path / name}")
    row = opened(journal)
    journal.close()
    again = open_journal(f"sqlite:///{tmp_path / name}", create=False)
    assert again.find("run-1") == row
    again.close()
    assert (tmp_path / name).is_file()


# -- what is created, and what is not ----------------------------------------------------------------------------------


@pytest.mark.parametrize("read", EVERY_READ)
def test_reading_never_creates_a_database(tmp_path: Path, read: str) -> None:
    assert not EVERY_READ[read](open_journal(f"sqlite:///{tmp_path}/a.db"))
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("use", EVERYTHING)
def test_where_nothing_may_be_created_a_missing_file_is_said_to_be_missing(tmp_path: Path, use: str) -> None:
    text = refusal(lambda: EVERYTHING[use](open_journal(f"sqlite:///{tmp_path}/a.db", create=False)), StoreUrlError)
    assert "there is no database there" in text
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("write", EVERY_WRITE)
def test_the_first_write_creates_the_database(tmp_path: Path, write: str) -> None:
    journal = open_journal(f"sqlite:///{tmp_path}/a.db")
    EVERY_WRITE[write](journal)
    assert (tmp_path / "a.db").stat().st_size > 0
    assert len(journal.namespace()) == 32


@pytest.mark.parametrize("create", [True, False])
def test_an_empty_file_is_migrated_only_by_who_may_create(tmp_path: Path, create: bool) -> None:
    (tmp_path / "a.db").touch()
    journal = open_journal(f"sqlite:///{tmp_path}/a.db", create=create)
    if create:
        opened(journal)
    else:
        assert "holds no journal. Nothing was changed. Run `recover migrate` on it; if" in refusal(journal.runs, SchemaMismatch)
        assert (tmp_path / "a.db").read_bytes() == b""


def test_a_creation_that_died_half_way_leaves_no_database_and_does_not_stop_the_next(tmp_path: Path) -> None:
    (tmp_path / "a.db.new").write_bytes(b"half a database")
    (tmp_path / "a.db.new-wal").write_bytes(b"and its log")
    assert open_journal(f"sqlite:///{tmp_path}/a.db").find("run-1") is None
    journal = open_journal(f"sqlite:///{tmp_path}/a.db")
    opened(journal)
    journal.close()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.db", "a.db-turn", "a.db.lock"]


def test_a_creation_waits_for_the_one_that_is_under_way(tmp_path: Path) -> None:
    journal = open_journal(f"sqlite:///{tmp_path}/a.db")
    with FileLock(tmp_path / "a.db.lock"):
        waiting = in_thread(journal.namespace)
        assert not waiting.done()
        assert not (tmp_path / "a.db").exists()
    assert len(waiting.result(20)) == 32


@pytest.mark.parametrize("use", [*EVERYTHING, "now_us"])
def test_an_unmigrated_server_names_the_command(empty_postgres_url: str, use: str) -> None:
    journal = open_journal(empty_postgres_url)
    text = refusal(lambda: (EVERYTHING | {"now_us": lambda j: j.now_us()})[use](journal), SchemaMismatch)
    assert "is not migrated. Nothing was changed. Run `recover migrate` on it; if" in text
    with psycopg.connect(empty_postgres_url) as connection:
        assert connection.execute("SELECT count(*) FROM pg_tables WHERE schemaname = 'public'").fetchone() == (0,)


def test_a_server_is_usable_as_soon_as_it_is_migrated(empty_postgres_url: str) -> None:
    journal = open_journal(empty_postgres_url)
    refusal(journal.runs, SchemaMismatch)
    migrate(empty_postgres_url)
    opened(journal)


def spoil(url: str, statement: str) -> None:
    if url.startswith("sqlite"):
        connection = sqlite3.connect(url.removeprefix("sqlite:///"))
        connection.execute(statement)
        connection.commit()
        connection.close()
    else:
        with psycopg.connect(url) as server:
            server.execute(statement)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("statement", "said"),
    [
        (
            "UPDATE recovery_version SET version_num = '9999'",
            f"has schema version 9999, this version of recovery reads up to {VERSION}",
        ),
        ("UPDATE meta SET format = 2", "has format 2, this version of recovery reads up to 1"),
    ],
)
@pytest.mark.parametrize("create", [True, False])
def test_a_newer_database_is_refused(empty_store_url: str, statement: str, said: str, create: bool) -> None:
    migrate(empty_store_url)
    spoil(empty_store_url, statement)
    for use in (open_journal(empty_store_url, create=create).runs, open_journal(empty_store_url, create=create).namespace):
        text = refusal(use, SchemaMismatch)
        assert said in text
        assert text.endswith("Install a newer recovery.")
    assert said in refusal(lambda: migrate(empty_store_url), SchemaMismatch)


def test_a_version_that_no_migration_leads_from_is_refused(empty_store_url: str) -> None:
    migrate(empty_store_url)
    spoil(empty_store_url, "UPDATE recovery_version SET version_num = '0000'")
    assert "cannot be migrated" in refusal(lambda: migrate(empty_store_url), SchemaMismatch)
    assert f"this code needs {VERSION}" in refusal(open_journal(empty_store_url, create=False).runs, SchemaMismatch)


@pytest.mark.parametrize("read", ["runs", "reading"])
def test_a_reading_that_failed_leaves_no_old_view_of_the_database_behind(sqlite_url: str, read: str) -> None:
    """Somebody may keep the error, and with it everything that it was raised in."""
    journal = open_journal(sqlite_url)
    for number in range(3):
        appended(journal, member(opened(journal, f"run-{number}")))
    spoil(sqlite_url, "UPDATE run SET next_look_us = -1 WHERE run_id = 'run-0'")
    spoil(
        sqlite_url,
        "UPDATE journal SET kind = CAST('x' AS BLOB) WHERE run = (SELECT number FROM run WHERE run_id = 'run-1') AND seq = 1",
    )
    with pytest.raises(JournalCorrupt) as kept:
        journal.runs() if read == "runs" else journal.stream("run-1", verified)
    assert journal.raise_incarnation(0, 1) == 1
    assert journal.incarnation() == 1
    assert kept.value.run_id in {"run-0", "run-1"}


@pytest.mark.parametrize("table", ["run", "journal", "meta", "stub"])
def test_a_schema_that_has_lost_a_table_is_damaged_and_nothing_says_migrate(empty_store_url: str, table: str) -> None:
    """Its version is current, so that a migration would find nothing to do; only a backup has what is gone."""
    migrate(empty_store_url)
    cascade = " CASCADE" if empty_store_url.startswith("postgresql") else ""
    spoil(empty_store_url, f"DROP TABLE {table}{cascade}")
    journal = open_journal(empty_store_url)
    use = {"meta": journal.namespace, "stub": lambda: journal.stub("run-1"), "journal": lambda: opened(journal)}
    for call in (use.get(table, journal.runs), lambda: migrate(empty_store_url)):
        text = refusal(call, StoreDamaged, ExitCode.CORRUPT)
        assert table in text
        assert text.endswith("restore it from a backup, and declare that with `recover restored`.")
    journal.close()


# -- files that cannot be used -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("create", [True, False])
def test_a_file_that_is_no_database_is_left_alone(tmp_path: Path, create: bool) -> None:
    (tmp_path / "a.db").write_text("a letter to my mother\n" * 100)
    for use in EVERYTHING.values():
        text = refusal(lambda use=use: use(open_journal(f"sqlite:///{tmp_path}/a.db", create=create)), StoreUrlError)
        assert "its file is not an SQLite database" in text
    assert (tmp_path / "a.db").read_text() == "a letter to my mother\n" * 100


def test_a_directory_is_no_database(tmp_path: Path) -> None:
    (tmp_path / "a.db").mkdir()
    assert "Is a directory" in refusal(open_journal(f"sqlite:///{tmp_path}/a.db").namespace, StoreUrlError)
    assert "Is a directory" in refusal(open_journal(f"sqlite:///{tmp_path}/a.db").runs, StoreUrlError)


def _paths(tmp_path: Path) -> dict[str, Path]:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "there").symlink_to("back")
    (tmp_path / "back").symlink_to("there")
    return {
        "it is not a regular file": tmp_path / "pipe",
        "its path is none": tmp_path / "there",
        "File name too long": tmp_path / ("x" * 300),
        "embedded null byte": tmp_path / "a%00b",
        "Is a directory": tmp_path,
    }


@pytest.mark.parametrize(
    "problem", ["it is not a regular file", "its path is none", "File name too long", "embedded null byte", "Is a directory"]
)
def test_what_is_no_file_is_refused_at_once_and_nothing_is_left_beside_it(tmp_path: Path, problem: str) -> None:
    path = _paths(tmp_path)[problem]
    before = sorted(tmp_path.iterdir())
    for use in (lambda: open_journal(f"sqlite:///{path}").find("r"), lambda: migrate(f"sqlite:///{path}")):
        if sys.version_info >= (3, 13) and problem == "its path is none":
            continue  # resolves to itself there, and stat says the rest
        assert problem in refusal(use, StoreUrlError)
    assert sorted(tmp_path.iterdir()) == before


def test_a_question_mark_does_not_name_another_file(tmp_path: Path) -> None:
    said = refusal(lambda: open_journal(f"sqlite:///{tmp_path}/a?b.db"), StoreUrlError)
    assert "three slashes, a path, and no such options" in said
    assert "it may say table_prefix= and network_file_system=." in said


def test_a_missing_directory_is_not_created(tmp_path: Path) -> None:
    assert "there is no directory" in refusal(open_journal(f"sqlite:///{tmp_path}/no/a.db").namespace, StoreUrlError)
    assert list(tmp_path.iterdir()) == []


def test_a_damaged_file_is_said_to_be_damaged(tmp_path: Path) -> None:
    journal = open_journal(f"sqlite:///{tmp_path}/a.db")
    run = opened(journal)
    for _ in range(50):
        run = appended(journal, member(run))
    journal.close()
    content = bytearray((tmp_path / "a.db").read_bytes())
    for offset in range(8192, len(content)):
        content[offset] = 0xFF
    (tmp_path / "a.db").write_bytes(content)
    with pytest.raises(StoreDamaged, match="is damaged \\(its file is not well formed\\)") as damaged:
        in_one_piece(open_journal(f"sqlite:///{tmp_path}/a.db"), "run-1")
    assert damaged.value.exit_code is ExitCode.CORRUPT


@contextmanager
def without_privileges() -> Iterator[None]:
    """Root may read everything; be nobody for a while."""
    root = os.geteuid() == 0
    if root:
        os.seteuid(65534)
    try:
        yield
    finally:
        if root:
            os.seteuid(0)


@pytest.fixture
def public_directory() -> Iterator[Path]:
    """A directory that nobody may enter and read, but not write."""
    path = Path(tempfile.mkdtemp(prefix="recovery-test-"))  # not below pytest's own directory, which nobody else may enter
    path.chmod(0o755)
    yield path
    path.chmod(0o755)
    shutil.rmtree(path)


def test_a_file_that_may_not_be_read_is_said_to_be_so(public_directory: Path) -> None:
    url = f"sqlite:///{public_directory}/a.db"
    migrate(url)
    (public_directory / "a.db").chmod(0)
    with without_privileges():
        assert "Permission denied" in refusal(open_journal(url).runs, StoreUrlError)
        assert "Permission denied" in refusal(open_journal(url).namespace, StoreUrlError)


def test_a_directory_that_may_not_be_written_is_said_to_be_so(public_directory: Path) -> None:
    public_directory.chmod(0o555)
    with without_privileges():
        text = refusal(open_journal(f"sqlite:///{public_directory}/a.db").namespace, StoreUrlError)
    assert "Permission denied" in text
    assert list(public_directory.iterdir()) == []


def test_a_file_that_may_not_be_written_is_said_to_be_so(public_directory: Path) -> None:
    url = f"sqlite:///{public_directory}/a.db"
    journal = open_journal(url)
    run = opened(journal)
    journal.close()
    (public_directory / "a.db").chmod(0o444)
    public_directory.chmod(0o555)
    with without_privileges():
        refusal(lambda: open_journal(url).append([member(run)]), StoreUrlError)


def test_a_copy_that_left_write_ahead_logging_is_put_back_by_its_first_writer(sqlite_url: str, tmp_path: Path) -> None:
    journal = open_journal(sqlite_url)
    run = opened(journal)
    spoil(sqlite_url, f"VACUUM INTO '{tmp_path}/copy.db'")
    journal.close()
    copy = open_journal(f"sqlite:///{tmp_path}/copy.db", create=False)
    assert copy.find("run-1") == run
    assert copy.append([member(run)]) == [Appended()]
    copy.close()
    connection = sqlite3.connect(tmp_path / "copy.db")
    assert connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)
    connection.close()


# -- servers that cannot be used ---------------------------------------------------------------------------------------


def test_a_server_that_does_not_answer_is_unavailable() -> None:
    text = refusal(open_journal("postgresql://me@127.0.0.1:1/db").runs, StoreUnavailable, ExitCode.UNRESOLVED)
    assert "did not answer" in text
    assert "safe to run the same command again" in text


def test_a_database_or_user_that_is_not_there_is_a_wrong_url(postgres_url: str) -> None:
    assert "does not exist" in refusal(open_journal(postgres_url.replace("/test_", "/other_")).runs, StoreUrlError)
    assert "does not exist" in refusal(open_journal(postgres_url.replace("postgres@", "mallory@")).runs, StoreUrlError)


def test_an_option_that_the_driver_does_not_know_is_a_wrong_url(postgres_url: str) -> None:
    assert "colour" in refusal(open_journal(postgres_url + "&colour=blue").runs, StoreUrlError)


@pytest.mark.parametrize(
    "options",
    [
        "port=99999",
        "sslmode=bogus",
        "sslmode=require&sslmode=disable",
        "keepalives=often",
        "ssl_min_protocol_version=x",
        "require_auth=x",
        "connect_timeout=soon",
        "service=nobody's",
        "host=a&host=b&port=1&port=2&port=3",
    ],
)
def test_an_option_with_a_value_that_cannot_be_is_a_wrong_url(options: str) -> None:
    """No server was asked, and waiting does not help."""
    url = f"postgresql://me@127.0.0.1/db?{options}"
    assert "Check the URL." in refusal(lambda: open_journal(url).runs(), StoreUrlError)


def test_a_server_that_acknowledges_before_it_stores_is_refused(postgres_url: str) -> None:
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        name = connection.info.dbname
        connection.execute(sql.SQL("ALTER DATABASE {} SET synchronous_commit = off").format(sql.Identifier(name)))
    text = refusal(open_journal(postgres_url).runs, StoreUrlError)
    assert "its synchronous_commit is off" in text
    assert "Set it to on" in text


def test_a_server_that_does_not_sync_is_refused(postgres_url: str) -> None:
    def switch(statement: str, wanted: str) -> None:
        with psycopg.connect(postgres_url, autocommit=True) as connection:
            connection.execute(statement)  # type: ignore[arg-type]
            connection.execute("SELECT pg_reload_conf()")
            wait_for(lambda: connection.execute("SHOW fsync").fetchone() == (wanted,), f"fsync = {wanted}")

    switch("ALTER SYSTEM SET fsync = off", "off")
    try:
        assert "its fsync is off" in refusal(open_journal(postgres_url).runs, StoreUrlError)
    finally:
        switch("ALTER SYSTEM RESET fsync", "on")
    assert open_journal(postgres_url).runs() == []


@pytest.mark.parametrize("encoding", ["LATIN1", "SJIS", "SQL_ASCII"])
def test_a_text_is_read_as_it_was_written_whatever_encoding_the_database_tells_its_clients(
    postgres_url: str, encoding: str
) -> None:
    """What libpq is told below the driver is UTF-8."""
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        name = sql.Identifier(connection.info.dbname)
        connection.execute(sql.SQL("ALTER DATABASE {} SET client_encoding = {}").format(name, encoding))
    journal = open_journal(f"{postgres_url}&client_encoding={encoding}")
    run = opened(journal)
    appended(journal, member(run, row_after(run, body='{"a":"Zürich 日本 😀"}')))
    assert journal.stream(run.run_id, verified) == run.head + 1


def test_a_database_that_does_not_hold_every_text_is_refused(postgres_server: PostgresServer) -> None:
    """What it cannot hold would be found out behind an effect, by its outcome."""
    name = "of_western_europe"
    created = sql.SQL("CREATE DATABASE {} ENCODING 'LATIN1' LC_COLLATE 'C' LC_CTYPE 'C' TEMPLATE template0")
    postgres_server.execute(created.format(sql.Identifier(name)))
    try:
        for use in (migrate, lambda url: open_journal(url).runs()):
            text = refusal(lambda use=use: use(postgres_server.url(name)), StoreUrlError)
            assert "its server_encoding is LATIN1" in text
            assert "ENCODING 'UTF8'" in text
    finally:
        while _opened:
            _opened.pop().close()
        postgres_server.execute(sql.SQL("DROP DATABASE {}").format(sql.Identifier(name)))


def test_a_read_only_server_is_said_to_be_so(postgres_url: str) -> None:
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        name = sql.Identifier(connection.info.dbname)
        connection.execute(sql.SQL("ALTER DATABASE {} SET default_transaction_read_only = on").format(name))
    journal = open_journal(postgres_url)
    assert journal.runs() == []
    assert "it is read-only" in refusal(lambda: opened(journal), StoreUrlError)


def test_a_user_without_permission_is_said_to_be_so(postgres_url: str) -> None:
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        connection.execute("CREATE ROLE guest LOGIN")
    try:
        text = refusal(open_journal(postgres_url.replace("postgres@", "guest@")).runs, StoreUrlError)
        assert "lacks a permission" in text
    finally:
        while _opened:
            _opened.pop().close()
        with psycopg.connect(postgres_url, autocommit=True) as connection:
            connection.execute("DROP ROLE guest")


def test_a_link_leads_to_the_file_itself(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "a.db").symlink_to(tmp_path / "data" / "a.db")
    opened(open_journal(f"sqlite:///{tmp_path}/a.db"))
    assert (tmp_path / "a.db").is_symlink()
    assert (tmp_path / "data" / "a.db").is_file()


def test_broken_connections_are_replaced(postgres_url: str) -> None:
    journal = open_journal(postgres_url)
    run = opened(journal)
    end = "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()"
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        for call in (lambda: journal.find("run-1"), lambda: journal.append([member(run)])):
            ended = connection.execute(end).fetchone()
            assert ended is not None
            assert ended[0] > 0
            assert call()


# -- cost --------------------------------------------------------------------------------------------------------------


def imported(url: str) -> set[str]:
    code = f"import sys; from recovery.storage import open_journal; open_journal({url!r}).namespace(); print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return set(done.stdout.split())


def test_a_current_database_costs_no_alembic(store_url: str, tmp_path: Path) -> None:
    if store_url.startswith("sqlite"):
        assert "alembic" in imported(f"sqlite:///{tmp_path / 'new.db'}")  # the control: this one creates it
    modules = imported(store_url)
    assert "sqlalchemy" in modules
    assert "alembic" not in modules
    assert ("sqlalchemy.dialects.postgresql" in modules) is store_url.startswith("postgresql")


def test_importing_and_opening_cost_no_driver() -> None:
    code = "import sys; from recovery.storage import open_journal; open_journal('memory://').namespace(); print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert not {"sqlalchemy", "psycopg", "alembic", "filelock", "tenacity"} & set(done.stdout.split())
