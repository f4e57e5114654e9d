"""Holding a key: bounded waiting for it, on PostgreSQL and on SQLite.

Owns the dialects' differences. Knows nothing of outcomes. Invariant: inside ``held`` no other transaction can decide the key,
from before its row is read until the caller's transaction ends; a caller that dies lets go, since the database rolls it back.

PostgreSQL. The key's row is inserted first, ``ON CONFLICT DO NOTHING``: the unique index makes the second transaction wait for the end
of the first. If that one committed, the next statement's snapshot (READ COMMITTED) shows its row; if it rolled back, the insert
succeeds. A plain SELECT would have missed an open transaction. Nothing is locked that a rollback to a savepoint would not give
back. Under REPEATABLE READ the insert fails where the row is newer than the snapshot; that is an InFlight too. The server notices at
once that a killed client is gone; for a host that vanished set ``idle_in_transaction_session_timeout``, or its keys stay in flight.

SQLite. Writers are serial, so holding a key is holding the database. The driver in its default mode opens a transaction only before an
INSERT, and a SAVEPOINT outside of one would commit on its release: so BEGIN IMMEDIATE is sent here if the driver has not begun.
A transaction begun DEFERRED that has already read cannot wait for a writer: SQLite refuses it at once, and that is an InFlight as well.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from time import time_ns
from typing import Any, Final

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.exc import DBAPIError

from recovery.receipts.records import Kind
from recovery.receipts.refusals import InFlight, TransactionUnfit

_POSTGRESQL_BUSY: Final = {
    "55P03": "another transaction holds it",  # lock_not_available: the caller's own lock_timeout
    "57014": "another transaction holds it",  # query_canceled: our statement_timeout, or somebody who cancelled the wait
    "40P01": "two transactions wait for each other's keys",  # deadlock_detected
    "40001": "it was decided after this transaction's snapshot was taken",  # serialization_failure
}
_CLOCK_SQL: Final = "(extract(epoch FROM clock_timestamp()) * 1000000)::bigint"
_SQLITE_BUSY: Final = {5: "another transaction writes to the database", 6: "another connection locks the table"}
_SQLITE_BUSY_SNAPSHOT: Final = 517


@dataclass(frozen=True, slots=True)
class Held:
    """A key held by this transaction. ``row`` is what was there before, None if nothing was.

    now_us: the environment's clock, read after the waiting was over.
    let_go: give the key up at once, leaving no trace; nothing may follow in the body.
    """

    row: sa.Row[Any] | None
    now_us: int
    let_go: Callable[[], None]


@contextmanager
def held(
    connection: sa.Connection, table: sa.Table, *, scope: str, key: str, block: timedelta, clock_us: Callable[[], int] | None
) -> Iterator[Held]:
    """Hold a key, in a savepoint that is rolled back if the body raises. Raises InFlight after ``block``, TransactionUnfit.

    If there was no row, an open one is inserted: the body decides it, or it raises."""
    names = {"scope": scope, "key": key}
    with _busy_means_in_flight(names, block):
        if connection.dialect.name == "sqlite":
            with _sqlite_wait(connection, block):
                _begin_immediate(connection, key)
        elif connection.dialect.name == "postgresql":
            _refuse_autocommit(connection, key)
        else:
            advice = "Keep receipts in PostgreSQL or SQLite."
            raise TransactionUnfit(key=key, problem=f"{connection.dialect.name} is not supported", advice=advice)
    with connection.begin_nested() as savepoint:
        with _busy_means_in_flight(names, block):
            if connection.dialect.name == "sqlite":
                with _sqlite_wait(connection, block):
                    row = _insert_or_read(connection, table, sqlite.insert(table), names)
                now_us = read_clock(connection, clock_us)
            else:
                before = _set_statement_timeout(connection, str(_milliseconds(block)))
                row = _insert_or_read(connection, table, postgresql.insert(table), names)
                now_us = _restore_statement_timeout(connection, before)
                now_us = clock_us() if clock_us is not None else now_us
        yield Held(row, now_us, savepoint.rollback)


def _insert_or_read(connection: sa.Connection, table: sa.Table, insert: Any, names: dict[str, str]) -> sa.Row[Any] | None:
    inserted = connection.execute(
        insert.values(kind=Kind.OPEN, at_us=0, **names).on_conflict_do_nothing().returning(table.c.key)
    ).one_or_none()
    if inserted is not None:
        return None
    mine = sa.select(table).where(table.c.scope == names["scope"], table.c.key == names["key"])
    row = connection.execute(mine).one()
    if row.kind == Kind.FENCED:
        # A committed row that may still be decided. The insert waits for whoever has written to it, but not for one that has only read it,
        # as we have: both would then decide it. FOR UPDATE waits for that one too, and reads what it committed.
        row = connection.execute(mine.with_for_update()).one()
    return row


def _milliseconds(block: timedelta) -> int:
    """Within what both databases take; 0 would mean "for ever" to PostgreSQL."""
    return min(max(1, block // timedelta(milliseconds=1)), 2**31 - 1)


# -- PostgreSQL --------------------------------------------------------------------------------------------------------


def _refuse_autocommit(connection: sa.Connection, key: str) -> None:
    if getattr(connection.connection.driver_connection, "autocommit", False):
        raise TransactionUnfit(key=key, problem="the connection commits every statement", advice="Use a transaction of yours.")


def _set_statement_timeout(connection: sa.Connection, milliseconds: str) -> str:
    """Bound the whole statement: lock_timeout starts anew with each holder that dies while we wait. A rollback to the savepoint undoes it."""
    before: str = connection.execute(
        sa.text(  # OFFSET keeps the subquery whole, so the old value is read before the new one is set
            "SELECT value, set_config('statement_timeout', :new, true) "
            "FROM (SELECT current_setting('statement_timeout') AS value OFFSET 0) AS earlier"
        ),
        {"new": milliseconds},
    ).scalar_one()
    return before


def _restore_statement_timeout(connection: sa.Connection, value: str) -> int:
    """Set it back, and read the database's clock: behind the wait, and in the same round trip."""
    restored = sa.text(f"SELECT set_config('statement_timeout', :value, true), {_CLOCK_SQL} AS now_us")
    now_us: int = connection.execute(restored, {"value": value}).one().now_us
    return now_us


def read_clock(connection: sa.Connection, clock_us: Callable[[], int] | None) -> int:
    """The environment's clock, in microseconds since the Unix epoch: the given one, else the database server's, else this host's."""
    if clock_us is not None:
        return clock_us()
    if connection.dialect.name == "postgresql":
        now_us: int = connection.execute(sa.text(f"SELECT {_CLOCK_SQL}")).scalar_one()
        return now_us
    return time_ns() // 1000


# -- SQLite ------------------------------------------------------------------------------------------------------------


def _begin_immediate(connection: sa.Connection, key: str) -> None:
    driver: Any = connection.connection.driver_connection
    if getattr(driver, "autocommit", None) is True:  # Python 3.12: its commit() then does nothing
        raise TransactionUnfit(key=key, problem="the connection commits every statement", advice="Use a transaction of yours.")
    if not driver.in_transaction:
        connection.exec_driver_sql("BEGIN IMMEDIATE")


@contextmanager
def _sqlite_wait(connection: sa.Connection, block: timedelta) -> Iterator[None]:
    before = connection.exec_driver_sql("PRAGMA busy_timeout").scalar_one()
    connection.exec_driver_sql(f"PRAGMA busy_timeout = {_milliseconds(block)}")
    try:
        yield
    finally:
        connection.exec_driver_sql(f"PRAGMA busy_timeout = {before}")


# -- both --------------------------------------------------------------------------------------------------------------


@contextmanager
def _busy_means_in_flight(names: dict[str, str], block: timedelta) -> Iterator[None]:
    try:
        yield
    except DBAPIError as error:
        problem = _busy(error.orig)
        if problem is None:
            raise
        raise InFlight(**names, problem=problem, retry_after=max(block, timedelta(seconds=1))) from error


def _busy(error: object) -> str | None:
    state = getattr(error, "sqlstate", None) or getattr(error, "pgcode", None)
    if isinstance(state, str):
        return _POSTGRESQL_BUSY.get(state)
    code = getattr(error, "sqlite_errorcode", None)
    if code == _SQLITE_BUSY_SNAPSHOT:
        return "this transaction read before it was held, and somebody has written since"
    return _SQLITE_BUSY.get(code & 0xFF) if isinstance(code, int) else None
