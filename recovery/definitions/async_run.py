"""AsyncRun: what an `async def` workflow asks through.

Owns the face of a running workflow of the other colour. Knows no engine: a session does the work. Invariant: a step's identity is assigned
synchronously at the call, before any await, so that `AsyncRun` asks its session at the call and hands back what is to be awaited.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Coroutine, Iterable, Sequence
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, ParamSpec, Protocol, TypeVar, overload
from uuid import UUID

from recovery.core.compensation import Compensated
from recovery.definitions.deadline import SettingDeadline
from recovery.definitions.retry import Retry
from recovery.definitions.run import Applied, Rejected
from recovery.definitions.saga import AsyncSaga, Reasons
from recovery.definitions.speaking import RunLog
from recovery.definitions.wait import NO_DEFAULT, Wait, receive, wait_for

if TYPE_CHECKING:
    from recovery.definitions.child import AsyncChild, BoundWorkflow
    from recovery.definitions.effect import Bound, Effect

P = ParamSpec("P")
A = TypeVar("A")
D = TypeVar("D")
T = TypeVar("T")
T1 = TypeVar("T1")
T2 = TypeVar("T2")
T3 = TypeVar("T3")
T4 = TypeVar("T4")
T5 = TypeVar("T5")


class AsyncSession(Protocol):
    """What an async driver gives to a run. Each call assigns the step before it returns its coroutine."""

    @property
    def run_id(self) -> str: ...
    def decide(
        self, name: str, fn: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Coroutine[Any, Any, Any]: ...
    def perform(self, bound: Bound[Any], key: str | None, name: str | None, retry: Retry | None) -> Coroutine[Any, Any, Any]: ...
    def attempt(
        self, bound: Bound[Any], key: str | None, name: str | None, retry: Retry | None
    ) -> Coroutine[Any, Any, Applied[Any] | Rejected]: ...
    def now(self) -> Coroutine[Any, Any, datetime]: ...
    def sleep(self, duration: timedelta) -> Coroutine[Any, Any, None]: ...
    def sleep_until(self, at: datetime) -> Coroutine[Any, Any, None]: ...
    def deadline(self, at: timedelta | datetime, name: str) -> SettingDeadline: ...
    def random(self) -> Coroutine[Any, Any, float]: ...
    def uuid(self) -> Coroutine[Any, Any, UUID]: ...
    def patched(self, name: str) -> bool: ...
    def compensate(self, name: str, keeps: Sequence[Effect[..., Any]]) -> Coroutine[Any, Any, Compensated]: ...
    def saga(self, name: str, keeps: Sequence[Effect[..., Any]], when: Collection[str]) -> AsyncSaga: ...
    def wait(self, wait: Wait[Any]) -> Coroutine[Any, Any, Any]: ...
    def publish(self, name: str, value: Any) -> None: ...
    def log(self, level: int, event: str, fields: dict[str, Any]) -> None: ...
    def branch(self, name: str) -> AsyncRun: ...
    def start(
        self, bound: BoundWorkflow[Any], run_id: str | None, name: str | None, *, detached: bool
    ) -> Coroutine[Any, Any, AsyncChild[Any]]: ...
    def await_child(self, child: AsyncChild[Any]) -> Coroutine[Any, Any, Any]: ...
    def call_child(self, bound: BoundWorkflow[Any], run_id: str | None, name: str | None) -> Coroutine[Any, Any, Any]: ...
    def gather(
        self, bodies: Sequence[Callable[[AsyncRun], Coroutine[Any, Any, Any]]], limit: int | None, name: str
    ) -> Coroutine[Any, Any, list[Any]]: ...
    def map(
        self, fn: Callable[[AsyncRun, Any], Coroutine[Any, Any, Any]], items: Iterable[Any], limit: int, name: str
    ) -> Coroutine[Any, Any, list[Any]]: ...


class AsyncRun:
    """The first parameter of an `async def` workflow. Every method must be awaited."""

    __slots__ = ("_session",)

    def __init__(self, session: AsyncSession) -> None:
        self._session = session

    @property
    def run_id(self) -> str:
        """The name of the run, the same on every replay."""
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

    def perform(
        self, bound: Bound[T], *, key: str | None = None, name: str | None = None, retry: Retry | None = None
    ) -> Coroutine[Any, Any, T]:
        """Do an effect once and return its outcome; a declared rejection is raised. `key`: a business key of your own. `retry`: in the
        place of the effect's own."""
        return self._session.perform(bound, key, name, retry)

    def attempt(
        self, bound: Bound[T], *, key: str | None = None, name: str | None = None, retry: Retry | None = None
    ) -> Coroutine[Any, Any, Applied[T] | Rejected]:
        """As `perform`, with a declared rejection as a value."""
        return self._session.attempt(bound, key, name, retry)

    def now(self) -> Coroutine[Any, Any, datetime]:
        """The present moment, in UTC: read once and journaled, so that a replay gets the same."""
        return self._session.now()

    def sleep(self, duration: timedelta) -> Coroutine[Any, Any, None]:
        """Let time pass, durably: the moment at which it ends is journaled before the wait begins, and stays what it was after a crash.

        A call of the engine that may not wait so long (`Budget.max_wait`) leaves the run waiting, with that moment as its next look."""
        return self._session.sleep(duration)

    def sleep_until(self, at: datetime) -> Coroutine[Any, Any, None]:
        """As `sleep`, until a moment that has a time zone. One that has passed is no wait."""
        return self._session.sleep_until(at)

    def deadline(self, at: timedelta | datetime, /, *, name: str = "deadline") -> SettingDeadline:
        """Set a deadline once: a moment with a time zone, or how long from now. It is journaled, and stays what it was after a crash.

        As an `async with` block it bounds what this run or branch, and the branches begun from it, begin inside: a wait ends with it, and an
        effect is sent no more; both then raise DeadlinePassed. What an effect may have done by then is asked for, and is in doubt where it
        cannot be. Awaited, it gives the Deadline, which is a `with` block.
        """
        return self._session.deadline(at, name)

    def random(self) -> Coroutine[Any, Any, float]:
        """A random number in [0, 1), journaled."""
        return self._session.random()

    def uuid(self) -> Coroutine[Any, Any, UUID]:
        """A random UUID (version 4), journaled."""
        return self._session.uuid()

    def patched(self, name: str) -> bool:
        """Whether this run goes by the code behind the patch: `if run.patched("two-units"): ...`, else the code as it was.

        A run whose journal already goes on behind this place keeps to what it did. The answer is recorded, without a commit of its own, and
        is the same wherever in the run the name is asked for again."""
        return self._session.patched(name)

    def compensate(self, *, keeps: Sequence[Effect[..., Any]] = (), name: str = "compensate") -> Coroutine[Any, Any, Compensated]:
        """Undo what this run has applied so far, in a branch what that branch has: the last that came to its outcome first, each by its
        compensation, as an effect of its own. keeps: effects that stay as they are.

        Waits until no copy of them can act any more. What cannot be undone stops the run with CompensationStuck until a person has said what
        became of it."""
        return self._session.compensate(name, keeps)

    def saga(self, name: str, *, keeps: Sequence[Effect[..., Any]] = (), when: Reasons = ("failed", "cancelled")) -> AsyncSaga:
        """`async with run.saga("booking"):` undoes what was applied inside if an exception leaves it, as `compensate` does, and raises that again; and if the
        run is cancelled inside.

        keeps: effects that stay when the rest is undone; any other one without a compensation is refused inside before it is sent. when: one of
        the two reasons, or both. Doubt, an interrupt, a
        cancelled task and an error in the code (UsageError) undo nothing: the run goes on from there when it can."""
        return self._session.saga(name, keeps, when)

    def start(
        self, bound: BoundWorkflow[T], *, run_id: str | None = None, name: str | None = None, detached: bool = False
    ) -> Coroutine[Any, Any, AsyncChild[T]]:
        """Start a child: a run of its own, stored when this has been awaited, and executed when it is waited for or recovered.

        run_id: the child's; by default one that is derived from this run and this step. detached: this run does not wait for it at its end.
        Raises ChildRefused where another run has the id, and WorkflowUnknown where the engine has no such workflow, before anything happens."""
        return self._session.start(bound, run_id, name, detached=detached)

    def await_child(self, child: AsyncChild[T]) -> Coroutine[Any, Any, T]:
        """The outcome of a child, which is executed here unless somebody else works on it. Raises ChildFailed with the child's own failure."""
        return self._session.await_child(child)

    def call_child(self, bound: BoundWorkflow[T], *, run_id: str | None = None, name: str | None = None) -> Coroutine[Any, Any, T]:
        """Start a child and wait for its outcome."""
        return self._session.call_child(bound, run_id, name)

    @overload
    def wait_for(
        self,
        name: str,
        /,
        *,
        schema: type[T],
        about: Bound[Any] | None = None,
        by: Sequence[str] | None = None,
        valid_until: datetime | None = None,
        timeout: timedelta | None = None,
        valid_for: timedelta | None = None,
    ) -> Coroutine[Any, Any, T]: ...
    @overload
    def wait_for(
        self,
        name: str,
        /,
        *,
        schema: type[T],
        about: Bound[Any] | None = None,
        by: Sequence[str] | None = None,
        valid_until: datetime | None = None,
        timeout: timedelta | None = None,
        valid_for: timedelta | None = None,
        default: D,
    ) -> Coroutine[Any, Any, T | D]: ...
    def wait_for(
        self,
        name: str,
        /,
        *,
        schema: Any,
        about: Bound[Any] | None = None,
        by: Sequence[str] | None = None,
        valid_until: datetime | None = None,
        timeout: timedelta | None = None,
        valid_for: timedelta | None = None,
        default: Any = NO_DEFAULT,
    ) -> Coroutine[Any, Any, Any]:
        """Wait for one answer from outside, durably: nothing of the run stays in memory meanwhile, and a call of the engine ends with
        AnswerPending (exit code 8). `engine.signal`, or `recover signal`, gives the answer; the first one counts, and later ones are refused.

        schema: the answer's type. about: the call that the answer approves; the answer must name its fingerprint, and the call is then sent
        only while the approval stands. by: who may answer; anybody by default. timeout, valid_until: when the wait ends unanswered; what
        `valid_until` ends is not sent afterwards either. valid_for: how long after the answer the approved call may be sent.
        default: what is returned when the time is over; without it WaitLapsed is raised."""
        told = wait_for(
            name, schema, about=about, by=by, valid_until=valid_until, timeout=timeout, valid_for=valid_for, default=default
        )
        return self._session.wait(told)

    @overload
    def receive(
        self, topic: str, /, *, schema: type[T], by: Sequence[str] | None = None, timeout: timedelta | None = None
    ) -> Coroutine[Any, Any, T]: ...
    @overload
    def receive(
        self, topic: str, /, *, schema: type[T], by: Sequence[str] | None = None, timeout: timedelta | None = None, default: D
    ) -> Coroutine[Any, Any, T | D]: ...
    def receive(
        self,
        topic: str,
        /,
        *,
        schema: Any,
        by: Sequence[str] | None = None,
        timeout: timedelta | None = None,
        default: Any = NO_DEFAULT,
    ) -> Coroutine[Any, Any, Any]:
        """The next message of a topic, in the order in which they were sent, each taken once; waits as `wait_for` does while there is none.

        `engine.send`, or `recover send`, gives one. A message that does not fit the schema is recorded as such and passed over."""
        return self._session.wait(receive(topic, schema, by=by, timeout=timeout, default=default))

    def publish(self, name: str, value: Any, /) -> None:
        """Say how far the run is, for `engine.query` and `engine.listen`. The value is plain JSON, a dataclass or a pydantic model.

        It is durable with the next step that is, and shown from then on; a replay publishes nothing again. Not a step to be awaited."""
        self._session.publish(name, value)

    @property
    def log(self) -> RunLog:
        """A logger that is bound to the run and its last step, and silent while the run replays what it has recorded."""
        return RunLog(self._session.log)

    def branch(self, name: str) -> AsyncRun:
        """A branch with an order of steps of its own, for a task of yours; `gather` and `map` make theirs themselves."""
        return self._session.branch(name)

    @overload
    def gather(
        self, b1: Callable[[AsyncRun], Coroutine[Any, Any, T1]], /, *, limit: int | None = None, name: str = "gather"
    ) -> Coroutine[Any, Any, tuple[T1]]: ...
    @overload
    def gather(
        self,
        b1: Callable[[AsyncRun], Coroutine[Any, Any, T1]],
        b2: Callable[[AsyncRun], Coroutine[Any, Any, T2]],
        /,
        *,
        limit: int | None = None,
        name: str = "gather",
    ) -> Coroutine[Any, Any, tuple[T1, T2]]: ...
    @overload
    def gather(
        self,
        b1: Callable[[AsyncRun], Coroutine[Any, Any, T1]],
        b2: Callable[[AsyncRun], Coroutine[Any, Any, T2]],
        b3: Callable[[AsyncRun], Coroutine[Any, Any, T3]],
        /,
        *,
        limit: int | None = None,
        name: str = "gather",
    ) -> Coroutine[Any, Any, tuple[T1, T2, T3]]: ...
    @overload
    def gather(
        self,
        b1: Callable[[AsyncRun], Coroutine[Any, Any, T1]],
        b2: Callable[[AsyncRun], Coroutine[Any, Any, T2]],
        b3: Callable[[AsyncRun], Coroutine[Any, Any, T3]],
        b4: Callable[[AsyncRun], Coroutine[Any, Any, T4]],
        /,
        *,
        limit: int | None = None,
        name: str = "gather",
    ) -> Coroutine[Any, Any, tuple[T1, T2, T3, T4]]: ...
    @overload
    def gather(
        self,
        b1: Callable[[AsyncRun], Coroutine[Any, Any, T1]],
        b2: Callable[[AsyncRun], Coroutine[Any, Any, T2]],
        b3: Callable[[AsyncRun], Coroutine[Any, Any, T3]],
        b4: Callable[[AsyncRun], Coroutine[Any, Any, T4]],
        b5: Callable[[AsyncRun], Coroutine[Any, Any, T5]],
        /,
        *,
        limit: int | None = None,
        name: str = "gather",
    ) -> Coroutine[Any, Any, tuple[T1, T2, T3, T4, T5]]: ...
    @overload
    def gather(
        self,
        b1: Callable[[AsyncRun], Coroutine[Any, Any, T]],
        b2: Callable[[AsyncRun], Coroutine[Any, Any, T]],
        b3: Callable[[AsyncRun], Coroutine[Any, Any, T]],
        b4: Callable[[AsyncRun], Coroutine[Any, Any, T]],
        b5: Callable[[AsyncRun], Coroutine[Any, Any, T]],
        b6: Callable[[AsyncRun], Coroutine[Any, Any, T]],
        /,
        *more: Callable[[AsyncRun], Coroutine[Any, Any, T]],
        limit: int | None = None,
        name: str = "gather",
    ) -> Coroutine[Any, Any, tuple[T, ...]]: ...
    def gather(
        self, /, *bodies: Callable[[AsyncRun], Coroutine[Any, Any, Any]], limit: int | None = None, name: str = "gather"
    ) -> Coroutine[Any, Any, Any]:
        """Run branches at the same time, each with a run of its own, and return their values in the order of the bodies.

        limit: how many at a time; all by default. Every branch runs to its end. If one is in doubt, the others go on, and nothing follows
        on the gather; if some raise, the exception of the first of them in order is raised."""
        return _as_tuple(self._session.gather(bodies, limit, name))

    def map(
        self, fn: Callable[[AsyncRun, A], Coroutine[Any, Any, T]], items: Iterable[A], /, *, limit: int = 10, name: str = "map"
    ) -> Coroutine[Any, Any, list[T]]:
        """As `gather`, of `fn(run, item)` for each item, at most `limit` at a time."""
        return self._session.map(fn, items, limit, name)


async def _as_tuple(values: Coroutine[Any, Any, list[Any]]) -> tuple[Any, ...]:
    return tuple(await values)
