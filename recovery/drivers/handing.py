"""Handing back: a run that is at work is let go before its end, where it would begin something, or where its coroutine is closed.

Owns the exceptions that do it, and where the first may be raised. Invariant: never between a durable attempt and its first byte, nor where what has happened
is being written down: whoever takes the run next finds nothing that this raised a doubt about.
"""

from __future__ import annotations

from typing import Any

from recovery.core.entries import Attempt, Decision, Intent
from recovery.core.operations import Append, Decide, Op, Poll, Sleep


class HandedBack(BaseException):
    """As with an interrupt, the run stays open, and whoever takes it next goes on. No error: `except Exception` does not keep it."""


class Closed(BaseException):
    """A GeneratorExit on its way through a procedure. Thrown in as itself, Python would close every coroutine below the outermost one, and
    those that give something up on their way out could not."""

    def __init__(self, error: GeneratorExit) -> None:
        super().__init__(error)
        self.error = error


def begins(operation: Op[Any]) -> bool:
    """Whether an operation begins something of which nothing is durable yet."""
    if isinstance(operation, Append):  # a decision in front of an intent is the workflow's own: a replay comes to it again
        *before, last = operation.entries
        return isinstance(last, Intent | Attempt) and all(isinstance(entry, Intent | Attempt | Decision) for entry in before)
    return isinstance(operation, Decide | Poll | Sleep)
