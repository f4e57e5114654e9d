"""Forks: what a child process may not take over from its parent.

Owns who is told of a fork, and who is asked to be ready for one. Must not know what they hold. Invariant: whoever has connections, threads or locks begins anew in a child, before any other
use there: a lock that some thread of the parent held stays locked for ever, since that thread was not copied.
"""

from __future__ import annotations

import os
from typing import Final, Protocol
from weakref import WeakSet


class Forkable(Protocol):
    """Something with connections, threads or locks."""

    def forked(self) -> None:
        """Called in a child, before any other use there: begin anew, and take no lock that a thread of the parent may hold."""


class Parting(Forkable, Protocol):
    """Something that must not be in use while its process is forked."""

    def parting(self) -> None:
        """Called in the thread that forks, in front of it: have nothing in use until `parted`, or until `forked` in the child. To wait is to hold up the fork."""

    def parted(self) -> None:
        """Called in the parent, in the same thread, behind the fork, or where it failed. Safe to repeat."""


_WATCHED: Final[WeakSet[Forkable]] = WeakSet()
_ASKED: Final[WeakSet[Parting]] = WeakSet()


def watch(one: Forkable) -> None:
    """Tell `one` when it finds itself in a child."""
    _WATCHED.add(one)


def ask(one: Parting) -> None:
    """Have `one` ready at each fork, and tell it as `watch` does."""
    _ASKED.add(one)
    watch(one)


def _in_front() -> None:
    for one in list(_ASKED):
        one.parting()


def _in_parent() -> None:
    for one in list(_ASKED):
        one.parted()


def _in_child() -> None:
    for one in list(_WATCHED):
        one.forked()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_in_front, after_in_parent=_in_parent, after_in_child=_in_child)
    os.register_at_fork(
        after_in_parent=_in_parent
    )  # again: an interrupt that came during the fork strikes the first, and whoever is not told keeps everybody out for ever
