"""Shelves: empty journals for plays, one after the other, of every kind of store.

Owns where the journals of plays live and that nothing of them stays. Must not know scenarios. Invariant: a journal that is handed out holds
no runs, and no database that was there before is changed beyond a schema that is dropped again.
"""

from __future__ import annotations

import os
import secrets
import tempfile
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, closing, contextmanager
from pathlib import Path
from typing import TypeAlias

import sqlalchemy as sa
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.pool import NullPool

from recovery.ports import Journal
from recovery.storage import open_journal
from recovery.storage.faults import translated
from recovery.storage.migrate import migrate
from recovery.storage.schema import metadata
from recovery.storage.urls import parsed, refused, shown

Shelf: TypeAlias = Callable[[], AbstractContextManager[Journal]]
"""Each call gives an empty journal, until the next call."""

_KEPT = "meta"  # the journal knows its namespace already


@contextmanager
def shelf(store: str) -> Iterator[Shelf]:
    """Journals of a store: "memory", "sqlite", or a PostgreSQL URL. Raises StoreUrlError, StoreUnavailable."""
    if store == "memory":
        yield _memory
    elif store == "sqlite":
        with _file() as journals:
            yield journals
    elif store.startswith("postgres"):
        with _schema(store) as journals:
            yield journals
    else:
        raise refused(store, "it is no store for scenarios", "Say memory, sqlite, or a PostgreSQL URL.")


@contextmanager
def _memory() -> Iterator[Journal]:
    yield open_journal("memory://")


@contextmanager
def _file() -> Iterator[Shelf]:
    """One file for all plays, emptied before each. It need not survive anything, so it lies in memory where there is a place for that."""
    shared = Path("/dev/shm")  # noqa: S108  # only its presence is used; the directory's own name is fresh
    with tempfile.TemporaryDirectory(prefix="recovery-replay-", dir=shared if os.access(shared, os.W_OK) else None) as directory:
        place = f"sqlite:///{Path(directory) / 'plays.db'}"
        migrate(place)
        with _emptied(place, sa.create_engine(place), place) as journals:
            yield journals


@contextmanager
def _schema(url: str) -> Iterator[Shelf]:
    """A schema of its own in that database, emptied before each play and dropped at the end."""
    name = f"recovery_replay_{secrets.token_hex(6)}"
    engine = sa.create_engine(parsed(url).url, poolclass=NullPool)
    own = parsed(url).url.update_query_dict({"options": f"-csearch_path={name}"})
    place = own.render_as_string(hide_password=False)
    _execute(engine, url, f'CREATE SCHEMA "{name}"')
    try:
        migrate(place)
        with _emptied(place, sa.create_engine(own), url) as journals:
            yield journals
    finally:
        _execute(engine, url, f'DROP SCHEMA "{name}" CASCADE')


@contextmanager
def _emptied(place: str, engine: sa.Engine, url: str) -> Iterator[Shelf]:
    """One journal for all plays. `engine` reaches the same tables, and keeps its connection: making one per play costs more than emptying."""
    tables = [f'"{table}"' for table in metadata.tables if table != _KEPT]
    truncate = [f"TRUNCATE {', '.join(tables)} RESTART IDENTITY CASCADE"]
    statements = truncate if engine.dialect.name == "postgresql" else [f"DELETE FROM {table}" for table in tables]  # noqa: S608
    statements.append(f'UPDATE "{_KEPT}" SET incarnation = 0')  # noqa: S608  # a play may have declared a restore

    @contextmanager
    def emptied() -> Iterator[Journal]:
        _execute(engine, url, *statements)
        yield journal

    with closing(open_journal(place)) as journal:
        try:
            yield emptied
        finally:
            engine.dispose()


def _execute(engine: sa.Engine, url: str, *statements: str) -> None:
    """Statements whose names are ours, in one transaction. Raises StoreUnavailable, StoreUrlError."""
    try:
        with engine.begin() as connection:
            for statement in statements:
                connection.execute(sa.text(statement))
    except SQLAlchemyError as error:
        raise translated(error, shown(url)) from error
