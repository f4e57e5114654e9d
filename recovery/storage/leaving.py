"""Leaving: a child process does not speak on its parent's connections.

Owns what was left. Knows nothing of statements. Invariant: in a child, no connection of the parent is used or closed: two processes on one server
connection would read each other's answers, and SQLite's locks do not pass to a child.
"""

from __future__ import annotations

from typing import Final

import sqlalchemy as sa

_LEFT: Final[list[object]] = []
"""The parent's pools and cursors, kept for the life of the child: collecting a connection would close it, under its parent."""


def leave(engine: sa.Engine) -> None:
    """Begin `engine` anew, and leave the connections that it has as they are."""
    _LEFT.append(engine.pool)
    engine.dispose(close=False)


def keep(left: object) -> None:
    """Something of the parent's that the child must not even collect."""
    _LEFT.append(left)
