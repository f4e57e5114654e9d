"""Bare statements: what SQLite's driver is told on the hot path, without what Core does anew for each execution.

Owns the driver's own cursor in a transaction, and the way from a driver's error to the one that Core would have raised, so that whoever tells faults apart
sees no difference. Knows no statement. Invariant: it is a connection of the same pool, and a transaction that was not committed is rolled back.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final

import sqlalchemy as sa
from sqlalchemy.dialects import sqlite
from sqlalchemy.exc import DBAPIError

from recovery.storage.sqlite_library import LIBRARY

_DIALECT: Final = sqlite.dialect()


def cursor_of(connection: sa.Connection) -> Any:
    """The driver's own cursor on a connection that is in a transaction."""
    return connection.connection.cursor()


@contextmanager
def bare(engine: sa.Engine) -> Iterator[Any]:
    """The driver's own cursor in a write transaction, which is rolled back at the end of the block unless it was committed."""
    connection = engine.raw_connection()
    try:
        cursor = connection.cursor()
        execute(cursor, "BEGIN IMMEDIATE")
        yield cursor
    finally:
        connection.close()  # to the pool, which rolls back what is open


def commit(cursor: Any) -> None:
    """Durable on return."""
    execute(cursor, "COMMIT")


def execute(cursor: Any, text: str, parameters: Sequence[Any] = ()) -> int:
    """How many rows it changed."""
    try:
        cursor.execute(text, parameters)
    except LIBRARY.Error as error:
        raise DBAPIError.instance(text, tuple(parameters), error, LIBRARY.Error, hide_parameters=True, dialect=_DIALECT) from error
    return cursor.rowcount  # type: ignore[no-any-return]
