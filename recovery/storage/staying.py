"""Staying: one connection to a server that stays with whoever commits, and the server's own statements on it.

Owns when it is taken out of the pool and put back, and how a statement is said on it: by the library below the driver, whose cursor reads the text and
every value anew each time. Knows no statement. Invariants: it is used by one caller at a time, and any other one takes one of the pool's; each statement on
it is its own transaction, prepared when it is said for the first time; one that failed, or was broken off, is used for nothing more.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import psycopg
import sqlalchemy as sa
from psycopg import generators
from psycopg.pq import ExecStatus

from recovery.storage.leaving import keep

if TYPE_CHECKING:
    from psycopg.pq.abc import PGresult

_PREPARED: Final = "recovery: prepared"
_BINARY: Final = (1,)  # libpq's number of the format: of what is said as text it sends what stands in front of a zero


class _One(NamedTuple):
    fairy: Any  # the pool's hand on it
    driver: Any
    life: object  # of the pool, in which it was taken out
    prepared: dict[str, bytes]  # the names of its statements, which it keeps wherever it is


class Staying:
    """For a pool whose connections are set up by its listeners. usable: whether what they found allows this, asked once there is a connection."""

    def __init__(self, pool: sa.Engine, usable: Callable[[], bool]) -> None:
        self._pool = pool
        self._usable = usable
        self._idle: list[_One] = []
        self._life = object()

    def result(self, text: str, values: Sequence[bytes | None]) -> PGresult | None:
        """What libpq has of one statement that gives rows. None: it failed, or its answer was lost."""
        one = self._taken()
        if one is None:
            return None
        try:
            found = _said(one, text, values)
        except psycopg.Error:
            found = None
        except BaseException:  # an interruption: what it left of the connection is nobody's; raised again
            one.fairy.invalidate()
            raise
        if found is None or one.life is not self._life:  # the latter: its pool was disposed of, and would keep it open
            one.fairy.invalidate()
        elif self._idle:
            _give_back(one)
        else:
            self._idle.append(one)
        return found

    def close(self) -> None:
        """Give back what nobody uses, and have the rest given back after its use."""
        self._life = object()
        while self._idle:
            _give_back(self._idle.pop())

    def forked(self) -> None:
        """In a child: what was the parent's is neither used nor let go of."""
        keep(self._idle)
        self._idle = []

    def _taken(self) -> _One | None:
        try:
            return self._idle.pop()
        except IndexError:
            pass
        try:
            fairy = self._pool.raw_connection()
        except psycopg.Error:
            return None
        if not self._usable():
            fairy.close()
            return None
        driver: Any = fairy.driver_connection
        driver.autocommit = True
        return _One(fairy, driver, self._life, fairy.info.setdefault(_PREPARED, {}))


def numbered(text: str) -> tuple[str, tuple[str, ...]]:
    """A statement that says `:name` for a value, on one line as the server takes it, and the names in the order of their numbers."""
    lines = (line for line in text.splitlines() if not line.strip().startswith("--"))
    numbers: dict[str, int] = {}

    def numeral(found: re.Match[str]) -> str:
        return f"${numbers.setdefault(found[1], len(numbers) + 1)}"

    return re.sub(r":([a-z_0-9]+)\b", numeral, " ".join(" ".join(lines).split())), tuple(numbers)


def _said(one: _One, text: str, values: Sequence[bytes | None]) -> PGresult | None:
    server = one.driver.pgconn
    name = one.prepared.get(text)
    if name is None:
        name = b"recovery_%d" % len(one.prepared)
        server.send_prepare(name, text.encode())
        [made] = one.driver.wait(generators.execute(server))
        if made.status != ExecStatus.COMMAND_OK:
            return None
        one.prepared[text] = name
    if threading.current_thread() is threading.main_thread():  # which alone a signal interrupts: its wait can be broken off
        server.send_query_prepared(name, values, _BINARY * len(values))
        found: PGresult = one.driver.wait(generators.execute(server))[-1]
    else:  # libpq waits by itself, and lets go of the interpreter once: each time it is waited for anew, beside a loop that is busy
        found = server.exec_prepared(name, values, _BINARY * len(values))
    return found if found.status == ExecStatus.TUPLES_OK else None


def _give_back(one: _One) -> None:
    try:
        one.driver.autocommit = False
    except psycopg.Error:
        one.fairy.invalidate()
    one.fairy.close()  # to the pool
