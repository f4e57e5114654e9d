"""Sagas: a stretch of a workflow whose effects are undone together if it fails.

Owns the face, once for each colour. Performs nothing: a session does the work. Invariants: what leaves a stretch is raised again when everything in it
is undone; doubt, an interrupt and a cancelled task undo nothing, since the run is not at its end.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from contextlib import AbstractContextManager, nullcontext
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Literal, Protocol, TypeAlias

from recovery.core.entries import Status
from recovery.core.errors import DefinitionError
from recovery.core.ids import check_step_name

When: TypeAlias = Literal["failed", "cancelled"]
"""When a stretch is undone: an exception leaves it, or its run is cancelled inside."""

Reasons: TypeAlias = When | Collection[When] | tuple[When, ...]
"""One of them, or several. A tuple is named beside Collection because mypy reads `("failed",)` as a tuple of any text otherwise."""

BOTH: Final = frozenset({Status.FAILED, Status.CANCELLED})

if TYPE_CHECKING:
    from recovery.definitions.effect import Effect


class Stretches(Protocol):
    """Which stretches of a workflow are open. A session has them."""

    def enter(self, stretch: Any, /) -> None: ...
    def leave(self, stretch: Any, /) -> None: ...
    def is_due(self, stretch: Any, error: BaseException | None, /) -> bool:
        """Whether a stretch that `error` leaves, or nothing, is to be undone. Raises what ends the run instead."""
        ...


class _Saga:
    __slots__ = ("_pure", "_stretch", "_stretches", "_undo")

    def __init__(
        self, stretches: Stretches, stretch: Any, undo: Callable[[Any], Any], pure: AbstractContextManager[Any] | None = None
    ) -> None:
        self._stretches, self._stretch, self._undo = stretches, stretch, undo
        self._pure = nullcontext() if pure is None else pure

    def _open(self) -> None:
        with self._pure:
            self._stretches.enter(self._stretch)

    def _is_due(self, error: BaseException | None) -> bool:
        """Whether the stretch, which is left now, is to be undone. Raises what ends the run instead."""
        with self._pure:
            self._stretches.leave(self._stretch)
            return self._stretches.is_due(self._stretch, error)


class Saga(_Saga):
    """What `with run.saga(name):` enters."""

    __slots__ = ()

    def __enter__(self) -> None:
        self._open()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if self._is_due(error):
            self._undo(self._stretch)


class AsyncSaga(_Saga):
    """What `async with run.saga(name):` enters."""

    __slots__ = ()

    async def __aenter__(self) -> None:
        self._open()

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if self._is_due(error):
            await self._undo(self._stretch)


def reasons(name: str, when: Collection[str]) -> frozenset[Status]:
    """When a stretch is undone. Raises DefinitionError."""
    try:
        found = frozenset(Status(one) for one in ([when] if isinstance(when, str) else when))
    except ValueError:
        found = frozenset()
    if not found or not found <= BOTH:
        said = "what it is undone on is neither `failed` nor `cancelled`"
        raise DefinitionError(what="saga", name=name, problem=said, advice='Say when={"failed"}, {"cancelled"} or both.')
    return found


def kept_names(name: str, keeps: Sequence[Effect[..., Any]]) -> frozenset[str]:
    """The names of the effects that stay when the rest is undone. Raises InvalidName and DefinitionError."""
    check_step_name(name)
    names = [getattr(effect, "name", None) for effect in keeps]
    if not all(isinstance(one, str) for one in names):
        raise DefinitionError(
            what="saga",
            name=name,
            problem="keeps= holds something that is no effect",
            advice="Name effects there: keeps=(send_mail,).",
        )
    return frozenset(str(one) for one in names)
