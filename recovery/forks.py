"""Forks: what a child process may not take over from its parent.

Owns who is told of a fork, and who is asked to be ready for one. Must not know what they hold. Invariant: whoever has connections, threads or locks begins anew in a child, before any other
use there: a lock that some thread of the parent held stays locked for ever, since that thread was not copied.

Python writes down what is raised where a fork tells of itself, and goes on: an interrupt that came with the fork would end the telling at its first line. So all is told
several times, and each interrupt ends one of them.
"""

from __future__ import annotations

import os
from typing import Final, Protocol
from weakref import WeakSet


class Forkable(Protocol):
    """Something with connections, threads or locks. What it is told once, it may be told again."""

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


_TELLINGS: Final = 8
_TOLD: Final[set[int]] = set()
"""Who in this child has begun anew, by identity."""


def _in_front() -> None:
    for one in list(_ASKED):
        one.parting()


def _in_parent() -> None:
    for one in list(_ASKED):
        one.parted()


def _in_child() -> None:
    for one in list(_WATCHED):
        if id(one) not in _TOLD:
            one.forked()
            _TOLD.add(id(one))


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_in_front, after_in_child=_TOLD.clear)  # which nothing interrupts: it has no line of Python
    for _ in range(_TELLINGS):
        os.register_at_fork(after_in_parent=_in_parent, after_in_child=_in_child)
