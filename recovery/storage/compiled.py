"""Compiled statements: what SQLite's driver is told on the hot path, without what Core does anew for each execution.

Owns the way from a Core statement to its text, once, and from a driver's error to the one that Core would have raised, so that whoever tells faults apart
sees no difference. Invariant: it is the same statement, in the same transaction of the same connection.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Final

import sqlalchemy as sa
from sqlalchemy.dialects import sqlite
from sqlalchemy.exc import DBAPIError

from recovery.storage.sqlite_library import LIBRARY

_DIALECT: Final = sqlite.dialect(paramstyle="named")


class Compiled:
    """One statement, all of whose parameters are named and plain."""

    __slots__ = ("text",)

    def __init__(self, statement: sa.ClauseElement) -> None:
        self.text = str(statement.compile(dialect=_DIALECT))

    def first(self, cursor: Any, parameters: Mapping[str, Any]) -> Any:
        """The first row, or None. The statement is carried out to its end."""
        try:
            rows = cursor.execute(self.text, parameters).fetchall()
        except LIBRARY.Error as error:
            raise _as_core_says(error, self.text, parameters) from error
        return rows[0] if rows else None

    def each(self, cursor: Any, parameters: Sequence[Mapping[str, Any]]) -> None:
        try:
            if len(parameters) == 1:
                cursor.execute(self.text, parameters[0])
            else:
                cursor.executemany(self.text, parameters)
        except LIBRARY.Error as error:
            raise _as_core_says(error, self.text, parameters) from error


def cursor_of(connection: sa.Connection) -> Any:
    """The driver's own cursor on a connection that is in a transaction."""
    return connection.connection.cursor()


@contextmanager
def bare(engine: sa.Engine) -> Iterator[Any]:
    """The driver's own cursor in a write transaction, which is rolled back at the end of the block unless it was committed."""
    connection = engine.raw_connection()
    try:
        cursor = connection.cursor()
        _say(cursor, "BEGIN IMMEDIATE")
        yield cursor
    finally:
        connection.close()  # to the pool, which rolls back what is open


def commit(cursor: Any) -> None:
    """Durable on return."""
    _say(cursor, "COMMIT")


def _say(cursor: Any, text: str) -> None:
    try:
        cursor.execute(text)
    except LIBRARY.Error as error:
        raise _as_core_says(error, text, ()) from error


def _as_core_says(error: Any, text: str, parameters: Any) -> BaseException:
    return DBAPIError.instance(  # type: ignore[no-any-return]  # it takes what the driver raised, whatever that is
        text, parameters, error, LIBRARY.Error, hide_parameters=True, dialect=_DIALECT
    )
