"""Bodies: that a workflow's function runs, and whether it came to its end.

Owns the mark by which an effect, or a child, that is bound inside is missed if nobody performs it. Invariant: of a body that was left by an error nothing is
missed, be it the workflow's own or that it is stopped, waits or is only rehearsed: it did not come to what it would have performed.
"""

from __future__ import annotations

from contextlib import suppress
from contextvars import ContextVar
from typing import Final


class Body:
    """One execution of a workflow's function."""

    __slots__ = ("broken_off",)

    def __init__(self) -> None:
        self.broken_off = False


IN_WORKFLOW: Final[ContextVar[Body | None]] = ContextVar("recovery_in_workflow", default=None)
"""The workflow's function that runs in this context."""


class inside:  # noqa: N801  # read as a word
    """A workflow's function runs in this block."""

    __slots__ = ("_body", "_token")

    def __enter__(self) -> None:
        self._body = Body()
        self._token = IN_WORKFLOW.set(self._body)

    def __exit__(self, raised: type[BaseException] | None, *_: object) -> None:
        self._body.broken_off = raised is not None
        with suppress(ValueError):  # closed from another context than it ran in, where nothing was set
            IN_WORKFLOW.reset(self._token)
