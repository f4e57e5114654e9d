"""Forks: a child process must not speak on its parent's connections.

Owns what happens to open databases after a fork. Knows nothing of statements. Invariant: in a child, no connection of the parent is used
or closed: two processes on one server connection would read each other's answers, and SQLite's locks do not pass to a child.
"""

from __future__ import annotations

import os
from typing import Final, Protocol
from weakref import WeakSet

import sqlalchemy as sa


class Forkable(Protocol):
    """A database with connections."""

    def forked(self) -> None:
        """Called in a child, before any other use there: begin anew, and take no lock that a thread of the parent may hold."""


_WATCHED: Final[WeakSet[Forkable]] = WeakSet()
_LEFT: Final[list[sa.Pool]] = []
"""The parent's pools, kept for the life of the child: collecting a connection would close it, under its parent."""


def watch(database: Forkable) -> None:
    """Tell `database` when it finds itself in a child."""
    _WATCHED.add(database)


def leave(engine: sa.Engine) -> None:
    """Begin `engine` anew, and leave the connections that it has as they are."""
    _LEFT.append(engine.pool)
    engine.dispose(close=False)


def _in_child() -> None:
    for database in list(_WATCHED):
        database.forked()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_in_child)
