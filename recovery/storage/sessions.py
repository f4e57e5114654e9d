"""Sessions: connections to a PostgreSQL server, whoever else uses their sessions.

Owns how a statement or a transaction gets its connection, and what is asserted of the server. Knows no statement of ours. Invariant: a session that is
ours alone is told once, when it begins; one that is shared, with others behind a pooler or with a service that lends its engine, is told nothing: each of our
transactions brings its settings and asserts them, and what was said in it is gone with it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

import sqlalchemy as sa
from sqlalchemy import event
from sqlalchemy.exc import ArgumentError

from recovery.core.errors import StoreUrlError
from recovery.storage.faults import translated
from recovery.storage.leaving import leave
from recovery.storage.place import Tables
from recovery.storage.staying import Staying
from recovery.storage.urls import ENCODED, WHOLE_TEXTS

if TYPE_CHECKING:
    from psycopg.pq.abc import PGresult

# Bounds on silence: a peer that vanished must not hold a caller for the quarter of an hour that TCP would wait.
_PATIENCE: Final = {
    "connect_timeout": 5,
    "tcp_user_timeout": 30_000,
    "keepalives_idle": 30,
    "keepalives_interval": 10,
    "keepalives_count": 3,
}
LOCK_TIMEOUT_MS: Final = 10_000  # a row that is locked for longer is somebody's forgotten transaction

_SETTINGS: Final = {
    "lock_timeout": str(LOCK_TIMEOUT_MS),
    # Every statement here has its index. Without statistics a small table is scanned, and the cached plan outlives its being small.
    "enable_seqscan": "off",
}
_ISOLATION: Final = {"default_transaction_isolation": "read committed"}
"""Under REPEATABLE READ a claimant would not see what was appended before its claim. Of a session: a transaction says its own as it begins."""

# An acknowledged commit survives, and its texts are read as they were written.
_PROVES = "Set it to on: without it a commit proves nothing."
_REQUIRED: Final = {
    "synchronous_commit": ({"on", "local", "remote_write", "remote_apply"}, _PROVES),
    "fsync": ({"on"}, _PROVES),
    "full_page_writes": ({"on"}, _PROVES),
    "server_encoding": ({"UTF8"}, WHOLE_TEXTS),
    "client_encoding": (
        {"UTF8"},
        'Make the engine with connect_args={"client_encoding": "utf8"}: another one does not carry every text.',
    ),
}
_ASSERTED: Final = ", ".join(f"current_setting('{name}')" for name in _REQUIRED)
_TOLD_AND_ASSERTED: Final = sa.text(
    f"SELECT {_ASSERTED}, {', '.join(f'set_config({name!r}, {value!r}, true)' for name, value in _SETTINGS.items())}"  # ours
)


class Sessions:
    """One pool of connections, in the three ways in which they are used. `shared`: others use their sessions, too."""

    def __init__(self, engine: sa.Engine, shown_url: str, tables: Tables, *, shared: bool) -> None:
        self._url = shown_url
        self._own = not shared
        self.shared = shared
        self._pool = engine
        if self._own:
            event.listen(engine, "connect", self._connected)
        # Each of the one engine: an isolation that is said over another one does not replace it.
        self._engine = engine.execution_options(isolation_level="READ COMMITTED")
        self._autocommit = engine.execution_options(isolation_level="AUTOCOMMIT")
        self._staying = Staying(engine, lambda: not self.shared)
        self._repeatable = engine.execution_options(isolation_level="REPEATABLE READ", postgresql_readonly=True)
        for each in (self._engine, self._autocommit, self._repeatable):
            tables.listen(each)

    def _connected(self, connection: Any, _record: object) -> None:
        """Set what is ours to set, and refuse a server whose acknowledged commits do not survive."""
        connection.autocommit = True
        if pooled(connection):
            self.shared = True
            connection.prepare_threshold = None  # another server's session would not know the statement
        else:
            for name, value in (_SETTINGS | _ISOLATION).items():
                connection.execute("SELECT set_config(%s, %s, false)", (name, value))
        self._assert(connection.execute(f"SELECT {_ASSERTED}").fetchone())
        connection.autocommit = False

    def _assert(self, found: Any) -> None:
        for (name, (allowed, advice)), value in zip(_REQUIRED.items(), found, strict=False):
            if value not in allowed:
                raise StoreUrlError(url=self._url, problem=f"its {name} is {value}", advice=advice)

    @contextmanager
    def statement(self) -> Iterator[sa.Connection]:
        """For statements that only read, each its own transaction."""
        with self._autocommit.connect() as connection:
            yield connection

    @contextmanager
    def snapshot(self) -> Iterator[sa.Connection]:
        with self._repeatable.begin() as connection:
            yield connection

    @contextmanager
    def writing(self) -> Iterator[sa.Connection]:
        """For one statement, which is its own transaction: no round trips for BEGIN and COMMIT, unless it must bring its settings."""
        with self._autocommit.connect() as connection:
            if not self.shared:  # known by now: whether a pooler is between is seen when a connection is made
                yield connection
                return
        with self.transaction() as connection:
            yield connection

    def bare(self, text: str, values: Sequence[bytes | None]) -> PGresult | None:
        """libpq's result of one statement that is its own transaction, without what Core and its driver do anew for each. None: this cannot be, or failed; what
        is safe to repeat as it stands is then said through Core, which finds out why. `$1` stands for the first of `values`, which are as the server sends them, a text as its UTF-8."""
        return None if self.shared else self._staying.result(text, values)

    @contextmanager
    def transaction(self) -> Iterator[sa.Connection]:
        with self._engine.begin() as connection:
            if self.shared:
                self._assert(connection.execute(_TOLD_AND_ASSERTED).one())
            yield connection

    def require(self) -> None:
        """Raises StoreUrlError for an engine that was lent and cannot be used."""
        with self._autocommit.connect() as connection:
            driver = connection.connection.driver_connection
            if self.shared and driver is not None and pooled(driver) and driver.prepare_threshold is not None:
                raise StoreUrlError(
                    url=self._url,
                    problem="a pooler is between, and the engine prepares statements, which other sessions of the server do not know",
                    advice='Make the engine with connect_args={"prepare_threshold": None}.',
                )
            if self.shared:  # of a connection that we made it was asked then
                self._assert(connection.exec_driver_sql(f"SELECT {_ASSERTED}").one())

    def give_up(self) -> None:
        """Close the connections that nobody uses, where they are ours."""
        self._staying.close()
        if self._own:
            self._pool.dispose()

    def interrupted(self) -> None:
        self._staying.close()
        self._pool.dispose()  # what is left of the broken call's transaction ended when its connection was let go

    def forked(self) -> None:
        self._staying.forked()
        leave(self._pool)


def pooled(connection: Any) -> bool:
    """Whether a pooler stands between: it says a process id of its own making, and the server another one."""
    return bool(connection.execute("SELECT pg_backend_pid()").fetchone()[0] != connection.info.backend_pid)


def connecting(url: sa.URL, shown_url: str) -> sa.Engine:
    """An engine of our own. Raises StoreUrlError."""
    arguments = {name: value for name, value in _PATIENCE.items() if name not in url.query} | ENCODED
    try:
        return sa.create_engine(url, connect_args=arguments, isolation_level="READ COMMITTED")
    except ArgumentError as error:
        raise translated(error, shown_url) from error
