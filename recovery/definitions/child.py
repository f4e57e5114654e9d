"""Children, as a workflow sees them: a workflow bound to its arguments, and the handle of what was started from it.

Owns the two faces of a handle. Knows no engine: whoever made a handle waits for its outcome. Invariant: binding does nothing, and a handle holds
no state of the child, only its name.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Generic, Self, TypeVar

from recovery.core.entries import JSON
from recovery.definitions.body import Body

if TYPE_CHECKING:
    from recovery.definitions.workflow import Workflow

R = TypeVar("R")


@dataclass(frozen=True, slots=True)
class BoundWorkflow(Generic[R]):
    """A workflow with its arguments in stored form: what `run.start` and `run.call_child` take."""

    workflow: Workflow[..., R]
    stored: Mapping[str, JSON]
    _owed: list[Body] = field(default_factory=list, repr=False, compare=False)  # who waits for it to be started

    def start_is_owed(self, body: Body) -> Self:
        """Made by a call inside a workflow: to be said if nobody starts it."""
        self._owed.append(body)
        return self

    def taken(self) -> None:
        """It is being started."""
        self._owed.clear()

    def __del__(self) -> None:
        if self._owed and not self._owed[0].broken_off:
            said = f"workflow {self.workflow.name!r} was bound in a workflow and never started: no child was stored"
            warnings.warn(f"{said}. Use run.start(...) or run.call_child(...)", RuntimeWarning, stacklevel=2)

    @property
    def digest(self) -> str:
        """The digest of the input."""
        return self.workflow.digest(self.stored)

    def decode(self, stored: JSON) -> R:
        """The result that was stored. Raises ValueUnreadable."""
        return self.workflow.decode_result(stored)


@dataclass(frozen=True, slots=True)
class Child(Generic[R]):
    """A child that was started: an ordinary run with a journal of its own."""

    run_id: str
    decode: Callable[[JSON], R] = field(repr=False, compare=False)
    _wait: Callable[[Child[R]], R] = field(repr=False, compare=False)

    def result(self) -> R:
        """The child's outcome, waited for in the branch that started it; `run.await_child` waits in another one. Raises ChildFailed."""
        return self._wait(self)


@dataclass(frozen=True, slots=True)
class AsyncChild(Generic[R]):
    """As Child, in an `async def` workflow."""

    run_id: str
    decode: Callable[[JSON], R] = field(repr=False, compare=False)
    _wait: Callable[[AsyncChild[R]], Coroutine[Any, Any, R]] = field(repr=False, compare=False)

    def result(self) -> Coroutine[Any, Any, R]:
        """As Child.result."""
        return self._wait(self)
