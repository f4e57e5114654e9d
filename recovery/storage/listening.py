"""Listening: hears from a PostgreSQL server that a run of this journal has become due, in whatever process.

Owns the channel, the one connection that listens, and its thread. Knows no run. Invariants: what is heard is a reason to look and nothing more, so that whoever hears nothing, or
everything twice, does the same a little later; after each connection that was lost comes a look, since nobody heard what was said in between.

Behind a pooler in transaction mode a session is lent for a transaction: what it listens to is heard by whoever has it next. There, and over a service's own
engine, whose pool is not ours to take a connection from for good, nobody listens.
"""

from __future__ import annotations

import os
import selectors
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final

import sqlalchemy as sa
from sqlalchemy.exc import SQLAlchemyError
from tenacity import RetryCallState, Retrying, wait_random_exponential

from recovery.logs import logger
from recovery.storage.bell import Wake
from recovery.storage.place import Place
from recovery.storage.sessions import connecting, pooled
from recovery.storage.urls import Address
from recovery.threads import Signal, Thread

_CHANNEL: Final = "'recovery_' || to_hex(hashtextextended(coalesce(nullif(%s, ''), current_schema()) || '.' || %s, 0))"
"""One for each place: as long as a name may be, whatever the schema is called, and the same whether it is named or found first."""

_NOTIFY: Final = sa.text(
    f"SELECT pg_notify({_CHANNEL % (':schema', ':prefix')}, '')"  # noqa: S608  # ours; what varies is bound
    " WHERE CAST(:looks_us AS bigint) IS NULL OR :looks_us <= extract(epoch FROM clock_timestamp()) * 1000000"
)

PAUSE_SECONDS_MAX: Final = 15.0
_pause: Final = wait_random_exponential(multiplier=0.1, max=PAUSE_SECONDS_MAX)


def notify(connection: sa.Connection, place: Place, looks_us: int | None = None) -> None:
    """Tell all who listen to this place, when the transaction of `connection` commits. looks_us: of a run that is not due before, nobody is told."""
    connection.execute(_NOTIFY, {"schema": place.schema, "prefix": place.prefix, "looks_us": looks_us})


class Listener:
    """Listens in a thread of its own until `close`. `wake` is called in that thread."""

    def __init__(self, address: Address, wake: Wake) -> None:
        self._address = address
        self._wake = wake
        self._ended = Signal()
        self._process = os.getpid()
        self._ours, self._theirs = socket.socketpair()
        self._thread = Thread(self._listen, name="recovery-listener")
        self._thread.start()

    def close(self) -> None:
        """Safe to repeat."""
        if not self._ended.is_set:
            self._ended.set()
            if (
                self._process == os.getpid()
            ):  # a forked child has our sockets, too: closing alone would tell nobody, and what the child closes must not
                self._ours.shutdown(socket.SHUT_RDWR)
            self._ours.close()
            self._thread.join()
            self._theirs.close()

    def _listen(self) -> None:
        failures = 0
        engine = connecting(self._address.url, self._address.shown)
        while not self._ended.is_set:
            try:
                with _connected(engine) as connection:
                    if pooled(connection):
                        logger(__name__).info(
                            "a pooler is between: what is due is found by looking now and then", database=self._address.shown
                        )
                        return
                    self._begin(connection)
                    failures = 0
                    self._hear(connection)
            except (SQLAlchemyError, OSError, _driver_error()) as error:
                failures += 1
                logger(__name__).info("nobody is heard; listening again", problem=type(error).__name__, failures=failures)
                state = RetryCallState(Retrying(), None, (), {})
                state.attempt_number = failures
                self._ended.wait(_pause(state))

    def _begin(self, connection: Any) -> None:
        place = self._address.place
        [(channel,)] = connection.execute(f"SELECT {_CHANNEL}", (place.schema, place.prefix)).fetchall()  # ours
        connection.execute(f'LISTEN "{channel}"')
        self._wake()

    def _hear(self, connection: Any) -> None:
        """Until the connection is lost, or nobody wants to hear any more."""
        with selectors.DefaultSelector() as either:  # plain `select` refuses the files of a process that has more than a thousand
            either.register(connection.fileno(), selectors.EVENT_READ)
            either.register(self._theirs, selectors.EVENT_READ)
            while True:
                said = either.select()
                if self._ended.is_set:
                    return
                if said and list(connection.notifies(timeout=0)):
                    self._wake()


@contextmanager
def _connected(engine: sa.Engine) -> Iterator[Any]:
    """A connection of its own, outside any pool."""
    lent = engine.raw_connection()
    connection: Any = lent.driver_connection
    lent.detach()
    try:
        connection.autocommit = True
        yield connection
    finally:
        connection.close()


def _driver_error() -> type[Exception]:
    import psycopg  # here: opening a journal imports no driver

    return psycopg.Error


def listening(address: Address, wake: Wake) -> Callable[[], None]:
    """Hear what other processes say about this place, until what is returned is called."""
    if address.lent is not None:
        logger(__name__).info(
            "an engine of a service's own listens to nothing: what is due is found by looking now and then", database=address.shown
        )
        return lambda: None
    return Listener(address, wake).close
