"""Bodies: that a workflow's function runs, and whether it came to its end.

Owns the mark by which an effect, or a child, that is bound inside is missed if nobody performs it. Invariant: of a body that was left by an error nothing is
missed, be it the workflow's own or that it is stopped, waits or is only rehearsed: it did not come to what it would have performed.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from typing import Final


class Body:
    """One execution of a workflow's function."""

    __slots__ = ("broken_off",)

    def __init__(self) -> None:
        self.broken_off = False


IN_WORKFLOW: Final[ContextVar[Body | None]] = ContextVar("recovery_in_workflow", default=None)
"""The workflow's function that runs in this context."""


@contextmanager
def inside() -> Iterator[None]:
    """A workflow's function runs in this block."""
    body = Body()
    token = IN_WORKFLOW.set(body)
    try:
        yield
    except BaseException:
        body.broken_off = True
        raise
    finally:
        with suppress(ValueError):  # closed from another context than it ran in, where nothing was set
            IN_WORKFLOW.reset(token)
