"""Bare statements: what SQLite's driver is told on the hot path, without what Core and its pool do anew for each use.

Owns the way to the driver's own cursor, and the way from a driver's error to the one that Core would have raised, so that whoever tells faults apart
sees no difference. Knows no statement but those that begin and end a transaction. Invariants: it is the connection of the pool that Core uses, with the settings
that it was opened with, used while it lies there; and a transaction that was not committed is rolled back.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, TypeVar

import sqlalchemy as sa
from sqlalchemy import event
from sqlalchemy.dialects import sqlite
from sqlalchemy.exc import DBAPIError

from recovery.storage.ahead import Ahead
from recovery.storage.leaving import keep
from recovery.storage.sqlite_library import LIBRARY

T = TypeVar("T")

_DIALECT: Final = sqlite.dialect()


def cursor_of(connection: sa.Connection) -> Any:
    """The driver's own cursor on a connection that is in a transaction."""
    return connection.connection.cursor()


def execute(cursor: Any, text: str, parameters: Sequence[Any] = ()) -> int:
    """How many rows it changed."""
    try:
        cursor.execute(text, parameters)
    except LIBRARY.Error as error:
        raise DBAPIError.instance(text, tuple(parameters), error, LIBRARY.Error, hide_parameters=True, dialect=_DIALECT) from error
    return cursor.rowcount  # type: ignore[no-any-return]


class Bare:
    """The one connection of a pool, for whoever holds the lock under which alone the pool is used: taking it out and putting it back costs more than a statement."""

    def __init__(self, engine: sa.Engine, ahead: Ahead) -> None:
        """After the listeners that set up a connection: one that they refuse is never used."""
        self._engine = engine
        self._ahead = ahead
        self._record: Any = None
        self._cursor: Any = None
        event.listen(engine, "connect", self._connected)
        event.listen(engine, "close", self._closed)

    def committed(self, written: Callable[[Any], T]) -> T:
        """What `written` said, given a cursor in a write transaction. That is durable then; but after False or None all of it is rolled back."""
        cursor = self._cursor or self._connect()
        try:
            execute(cursor, "BEGIN IMMEDIATE")
            said = written(cursor)
            told: object = said  # which pyright does not narrow
            if told is not False and told is not None:
                self._ahead.make()
                execute(cursor, "COMMIT")
            return said
        finally:
            if cursor.connection.in_transaction:
                self._roll_back(cursor)

    @property
    def busy(self) -> bool:
        """Whether it is in a transaction: asked under the lock, so that it is one of this very thread, which something has struck in the middle of it."""
        return self._cursor is not None and self._cursor.connection.in_transaction

    def forked(self) -> None:
        """In a child: what was the parent's is neither used nor let go of."""
        keep((self._record, self._cursor))
        self._record = self._cursor = None
        self._ahead.drop()

    def _connect(self) -> Any:
        self._engine.connect().close()  # back to the pool; a raw one's failure would be the driver's, which nobody tells apart
        assert self._cursor is not None, "it is connected"
        return self._cursor

    def _connected(self, connection: Any, record: Any) -> None:
        self._record, self._cursor = record, connection.cursor()

    def _closed(self, _connection: Any, record: Any) -> None:
        if record is self._record:
            self._record = self._cursor = None
            self._ahead.drop()

    def _roll_back(self, cursor: Any) -> None:
        try:
            cursor.execute("ROLLBACK")
        except LIBRARY.Error:  # raised is what came before it
            self._record.invalidate()  # which closes it, and gives up the file's lock
