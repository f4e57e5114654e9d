"""Migrate: bring a database to the schema version of this code.

Owns the only use of alembic; imported when there is something to migrate. Invariant: a migration is one transaction, and two processes
never migrate one database at a time: a file lock on SQLite, an advisory lock on PostgreSQL. A fresh SQLite file is built beside its
place and renamed into it, so that nobody ever sees a half-made database. Nor do two threads migrate at a time, whatever their databases:
what a migration script calls is one for the whole process.
"""

from __future__ import annotations

import os
import threading
from pathlib import Path
from typing import Final

import sqlalchemy as sa
from alembic import command
from alembic.config import Config
from alembic.util import CommandError
from filelock import FileLock, Timeout
from sqlalchemy import event
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.pool import NullPool
from sqlalchemy.schema import CreateSchema

import recovery
from recovery.core.errors import SchemaMismatch, StoreDamaged, StoreUnavailable
from recovery.storage.faults import first_line, is_passing, passing, translated
from recovery.storage.filesystems import refuse_network
from recovery.storage.names import sync_names
from recovery.storage.place import Place, tables_at
from recovery.storage.schema import metadata
from recovery.storage.sqlite_library import LIBRARY
from recovery.storage.urls import ENCODED, WHOLE_TEXTS, Address, is_file, parsed, refused, sqlite_path
from recovery.storage.version import schema_version

LOCK_SECONDS_MAX: Final = 60.0
_ADVISORY_LOCK: Final = 0x7265636F76657279  # "recovery" in ASCII: one number for all databases of a server is bad luck at worst

_one_by_one = threading.Lock()
"""alembic's `op` and `context` stand for one migration in a process. A second thread's would create its tables in the first one's database."""


def _begin_again() -> None:
    """In a forked child: the thread that had the lock was not copied."""
    global _one_by_one  # one for the process, as what it guards
    _one_by_one = threading.Lock()


os.register_at_fork(after_in_child=_begin_again)


def migrate(url: str | Address) -> tuple[str | None, str]:
    """Migrate to the newest version, creating an SQLite file that does not exist. Durable on return; safe to repeat.

    Returns (version before, version now); before is None for an empty database. Raises SchemaMismatch (the database is newer than this
    code), StoreDamaged (it says a version whose tables it does not have), StoreUrlError, StoreUnavailable. PostgreSQL's database itself must exist.
    """
    if isinstance(url, str) and url.startswith("memory:"):
        raise refused(url, "a journal in memory has nothing to migrate")
    address = parsed(url) if isinstance(url, str) else url
    if address.url.get_backend_name() == "sqlite":
        path = sqlite_path(address.url)
        if not address.network_accepted:
            refuse_network(path, address.shown)
        return migrate_file(path, address.shown, address.place)
    try:
        return _migrate_server(address)
    except SQLAlchemyError as error:
        raise _blamed(error, address.shown) from error


def migrate_file(path: Path, shown_url: str, place: Place) -> tuple[str | None, str]:
    """`migrate` for a file whose path is known already. Waits for another process that migrates it, for at most a minute."""
    try:
        if not path.parent.is_dir():  # the lock would create it
            raise refused(shown_url, f"there is no directory {path.parent}", "Create it, or check the path.")
        is_file(path, shown_url)  # before a lock is left beside it
        with FileLock(f"{path}.lock", timeout=LOCK_SECONDS_MAX):
            upgraded = _upgrade_file if is_file(path, shown_url) else _create_file
            return upgraded(path, shown_url, place)
    except SQLAlchemyError as error:
        raise _blamed(error, shown_url) from error
    except Timeout as error:
        raise StoreUnavailable(url=shown_url, problem=f"another process holds {path}.lock", fate="Nothing was changed") from error
    except OSError as error:
        if is_passing(error):
            raise passing(error, shown_url, fate="No run was changed") from error
        raise refused(shown_url, error.strerror or str(error), "Check the path and its permissions.") from error


def scripts() -> Path:
    """Where the migrations are: inside an installed package, or beside it in a checkout."""
    package = Path(recovery.__file__).parent
    for directory in (package / "migrations", package.parent / "migrations"):
        if (directory / "env.py").is_file():
            return directory
    raise SchemaMismatch(
        url=str(package), problem="has no migrations: the installation is incomplete", advice="Install recovery again."
    )


def upgrade(connection: sa.Connection, shown_url: str, place: Place, to: str = "head") -> tuple[str | None, str]:
    """Run the missing migrations on a connection, in its transaction."""
    tables = tables_at(place)
    before = schema_version(connection, shown_url, tables)
    config = Config()
    config.set_main_option("script_location", str(scripts()).replace("%", "%%"))
    config.attributes["connection"] = connection
    config.attributes["place"] = place
    try:
        with _one_by_one:
            command.upgrade(config, to)
    except CommandError as error:
        raise SchemaMismatch(
            url=shown_url, problem=f"cannot be migrated ({error})", advice="Restore a backup, or use a new database."
        ) from error
    if to == "head":
        _check_whole(connection, shown_url, place)
    return before, schema_version(connection, shown_url, tables) or ""


def _check_whole(connection: sa.Connection, shown_url: str, place: Place) -> None:
    """A version is only a number: where tables are gone that it promises, "nothing to do" would send people round in circles."""
    there = sa.inspect(connection).get_table_names(place.schema or None)
    missing = sorted({place.named(table) for table in metadata.tables} - set(there))
    if missing:
        raise StoreDamaged(url=shown_url, problem=f"a part of its schema is gone: no table {', '.join(missing)}")


def _blamed(error: SQLAlchemyError, shown_url: str) -> Exception:
    problem = first_line(getattr(error, "orig", error))
    if "already exists" in problem:
        return refused(
            shown_url, f"another program's tables have names that ours need ({problem})", "Use a database or a schema of its own."
        )
    return translated(error, shown_url)


def _migrate_server(address: Address) -> tuple[str | None, str]:
    unprepared = {"prepare_threshold": None}  # behind a pooler, others would meet the statements that we leave in a session
    engine = address.lent or sa.create_engine(address.url, poolclass=NullPool, connect_args=unprepared | ENCODED)
    schema = address.place.schema
    with engine.begin() as connection:
        encoding = connection.execute(sa.text("SHOW server_encoding")).scalar_one()
        if encoding != "UTF8":
            raise refused(address.shown, f"its server_encoding is {encoding}", WHOLE_TEXTS)
        connection.execute(sa.select(sa.func.pg_advisory_xact_lock(_ADVISORY_LOCK)))
        if schema:
            if not sa.inspect(connection).has_schema(schema):
                connection.execute(CreateSchema(schema))
            # What the scripts make without a schema is made there. For this transaction only: a pooler gives the session to somebody else.
            connection.execute(sa.select(sa.func.set_config("search_path", f'"{schema}"', True)))
        return upgrade(connection, address.shown, address.place)


def _create_file(path: Path, shown_url: str, place: Place) -> tuple[str | None, str]:
    building = path.with_name(f"{path.name}.new")  # under the lock, so one name will do; a crash leaves it to the next creation
    for leftover in (building, building.with_name(f"{building.name}-wal"), building.with_name(f"{building.name}-shm")):
        leftover.unlink(missing_ok=True)
    versions = _upgrade_file(building, shown_url, place)
    _require_no_log(building, shown_url)
    building.rename(path)
    sync_names(
        path.parent
    )  # or a power cut forgets the name of a file whose content is safe; if it is refused, the next writer syncs it
    return versions


def _require_no_log(path: Path, shown_url: str) -> None:
    """Closing it has copied its log into it. SQLite says nothing when the disk refuses that, and the file alone would be an empty database under its final name."""
    log = path.with_name(f"{path.name}-wal")
    if log.exists() and log.stat().st_size:
        problem = f"its log could not be copied into {path}: is the disk full?"
        raise StoreUnavailable(url=shown_url, problem=problem, fate="No run was changed")


def _upgrade_file(path: Path, shown_url: str, place: Place) -> tuple[str | None, str]:
    engine = sa.create_engine(sa.URL.create("sqlite+pysqlite", database=str(path)), module=LIBRARY, poolclass=NullPool)

    @event.listens_for(engine, "connect")
    def _(connection: sa.engine.interfaces.DBAPIConnection, _record: object) -> None:
        connection.isolation_level = None  # the driver would otherwise commit before each DDL statement
        cursor = connection.cursor()
        for pragma in (
            "busy_timeout = 10000",
            "journal_mode = WAL",
            "synchronous = FULL",
            "fullfsync = ON",
            "checkpoint_fullfsync = ON",
        ):
            cursor.execute(f"PRAGMA {pragma}").fetchall()
        cursor.close()

    @event.listens_for(engine, "begin")
    def _(connection: sa.Connection) -> None:
        connection.exec_driver_sql("BEGIN IMMEDIATE")

    with engine.begin() as connection:
        return upgrade(connection, shown_url, place)
