"""Leaving: a child process does not speak on its parent's connections.

Owns the pools that were left. Knows nothing of statements. Invariant: in a child, no connection of the parent is used or closed: two processes on one server
connection would read each other's answers, and SQLite's locks do not pass to a child.
"""

from __future__ import annotations

from typing import Final

import sqlalchemy as sa

_LEFT: Final[list[sa.Pool]] = []
"""The parent's pools, kept for the life of the child: collecting a connection would close it, under its parent."""


def leave(engine: sa.Engine) -> None:
    """Begin `engine` anew, and leave the connections that it has as they are."""
    _LEFT.append(engine.pool)
    engine.dispose(close=False)
