"""Forks: what a child process may not take over from its parent.

Owns who is told of a fork. Must not know what they hold. Invariant: whoever has connections, threads or locks begins anew in a child, before any other use there: a
lock that some thread of the parent held stays locked for ever, since that thread was not copied.
"""

from __future__ import annotations

import os
from typing import Final, Protocol
from weakref import WeakSet


class Forkable(Protocol):
    """Something with connections, threads or locks."""

    def forked(self) -> None:
        """Called in a child, before any other use there: begin anew, and take no lock that a thread of the parent may hold."""


_WATCHED: Final[WeakSet[Forkable]] = WeakSet()


def watch(one: Forkable) -> None:
    """Tell `one` when it finds itself in a child."""
    _WATCHED.add(one)


def _in_child() -> None:
    for one in list(_WATCHED):
        one.forked()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_in_child)
