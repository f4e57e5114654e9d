"""Staying: one connection to a server that stays with whoever commits, with its cursor.

Owns when it is taken out of the pool and put back: to do that for each statement costs more than to say it. Knows no statement. Invariants: it is used by one
caller at a time, and any other one takes one of the pool's; each statement on it is its own transaction; one that failed, or was broken off, is used for
nothing more.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import psycopg
import sqlalchemy as sa

from recovery.storage.leaving import keep


class _One(NamedTuple):
    fairy: Any  # the pool's hand on it
    cursor: Any
    life: object  # of the pool, in which it was taken out


class Staying:
    """For a pool whose connections are set up by its listeners. usable: whether what they found allows this, asked once there is a connection."""

    def __init__(self, pool: sa.Engine, usable: Callable[[], bool]) -> None:
        self._pool = pool
        self._usable = usable
        self._idle: list[_One] = []
        self._life = object()

    def rows(self, text: str, parameters: Any) -> list[tuple[Any, ...]] | None:
        """Of one statement. None: it failed, or its answer was lost."""
        one = self._taken()
        if one is None:
            return None
        try:
            rows: list[tuple[Any, ...]] = one.cursor.execute(text, parameters).fetchall()
        except psycopg.Error:
            one.fairy.invalidate()
            return None
        except BaseException:  # an interruption: what it left of the connection is nobody's; raised again
            one.fairy.invalidate()
            raise
        if one.life is not self._life:  # its pool was disposed of, and would keep it open
            one.fairy.invalidate()
        elif self._idle:
            _give_back(one)
        else:
            self._idle.append(one)
        return rows

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
        return _One(fairy, driver.cursor(), self._life)


def _give_back(one: _One) -> None:
    try:
        one.cursor.close()
        one.cursor.connection.autocommit = False
    except psycopg.Error:
        one.fairy.invalidate()
    one.fairy.close()  # to the pool
