"""Run and AsyncRun: what a workflow asks through.

Owns the face of a running workflow. Knows no engine: a session does the work. Invariant: a step's identity is assigned
synchronously at the call, before any await, so `AsyncRun` asks its session at the call and hands back what is to be awaited.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, ParamSpec, Protocol, TypeVar, overload

if TYPE_CHECKING:
    from recovery.definitions.effect import Bound
    from recovery.definitions.rejection import Rejection

P = ParamSpec("P")
T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)


@dataclass(frozen=True, slots=True)
class Applied(Generic[T_co]):
    """The effect happened, and this is its value."""

    value: T_co


@dataclass(frozen=True, slots=True)
class Rejected:
    """The environment refused the effect with a declared rejection."""

    error: Rejection


class Session(Protocol):
    """What a sync driver gives to a run."""

    @property
    def run_id(self) -> str: ...
    def decide(self, name: str, fn: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any: ...
    def perform(self, bound: Bound[Any], key: str | None, name: str | None) -> Any: ...
    def attempt(self, bound: Bound[Any], key: str | None, name: str | None) -> Applied[Any] | Rejected: ...


class AsyncSession(Protocol):
    """What an async driver gives to a run. Each call assigns the step before it returns its coroutine."""

    @property
    def run_id(self) -> str: ...
    def decide(
        self, name: str, fn: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Coroutine[Any, Any, Any]: ...
    def perform(self, bound: Bound[Any], key: str | None, name: str | None) -> Coroutine[Any, Any, Any]: ...
    def attempt(self, bound: Bound[Any], key: str | None, name: str | None) -> Coroutine[Any, Any, Applied[Any] | Rejected]: ...


class Run:
    """The first parameter of a `def` workflow."""

    __slots__ = ("_session",)

    def __init__(self, session: Session) -> None:
        self._session = session

    @property
    def run_id(self) -> str:
        return self._session.run_id

    def decide(self, name: str, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T:
        """Make a choice once: what `fn` returns is journaled, and replay returns that without calling `fn`."""
        return self._session.decide(name, fn, args, kwargs)  # type: ignore[no-any-return]

    def perform(self, bound: Bound[T], *, key: str | None = None, name: str | None = None) -> T:
        """Do an effect once and return its outcome; a declared rejection is raised. `key`: a business key of your own."""
        return self._session.perform(bound, key, name)  # type: ignore[no-any-return]

    def attempt(self, bound: Bound[T], *, key: str | None = None, name: str | None = None) -> Applied[T] | Rejected:
        """As `perform`, with a declared rejection as a value."""
        return self._session.attempt(bound, key, name)


class AsyncRun:
    """The first parameter of an `async def` workflow. Every method must be awaited."""

    __slots__ = ("_session",)

    def __init__(self, session: AsyncSession) -> None:
        self._session = session

    @property
    def run_id(self) -> str:
        return self._session.run_id

    @overload
    def decide(
        self, name: str, fn: Callable[P, Coroutine[Any, Any, T]], /, *args: P.args, **kwargs: P.kwargs
    ) -> Coroutine[Any, Any, T]: ...
    @overload
    def decide(self, name: str, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Coroutine[Any, Any, T]: ...
    def decide(self, name: str, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Coroutine[Any, Any, Any]:
        """Make a choice once: what `fn` returns is journaled, and replay returns that without calling `fn`."""
        return self._session.decide(name, fn, args, kwargs)

    def perform(self, bound: Bound[T], *, key: str | None = None, name: str | None = None) -> Coroutine[Any, Any, T]:
        """Do an effect once and return its outcome; a declared rejection is raised. `key`: a business key of your own."""
        return self._session.perform(bound, key, name)

    def attempt(
        self, bound: Bound[T], *, key: str | None = None, name: str | None = None
    ) -> Coroutine[Any, Any, Applied[T] | Rejected]:
        """As `perform`, with a declared rejection as a value."""
        return self._session.attempt(bound, key, name)
