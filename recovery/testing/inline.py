"""Inline workflows: the steps of a scenario as a `def` and as an `async def` workflow.

Owns what each step means, once, as a generator of requests; two short loops answer them, one by calling and one by awaiting. Knows no
engine. Invariant: both colours make the same requests in the same order.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Generator, Iterable, Iterator, Mapping
from contextvars import ContextVar
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Final, TypeAlias

from pydantic import BaseModel

from recovery.core.compensation import Compensated
from recovery.core.errors import DeadlinePassed
from recovery.definitions.async_run import AsyncRun
from recovery.definitions.child import AsyncChild
from recovery.definitions.deadline import Deadline as DeadlineSet
from recovery.definitions.effect import Effect
from recovery.definitions.rejection import encode_rejection
from recovery.definitions.run import Applied, Rejected, Run
from recovery.definitions.workflow import Workflow
from recovery.testing.odd import ODD, odd
from recovery.testing.steps import (
    Attempt,
    Child,
    Compensate,
    Deadline,
    Decide,
    Fail,
    Gather,
    Perform,
    Publish,
    Receive,
    Return,
    Saga,
    Sleep,
    Step,
    Try,
    WaitFor,
)

NAME: Final = "scenario"

current_step: ContextVar[str] = ContextVar("recovery_testing_step", default="")
"""The name of the inline step that is under way."""

asking: ContextVar[Callable[[str], int]] = ContextVar("recovery_testing_asking", default=lambda _decision: 1)
"""Says how often a decision's function was called by now, of the world that the process is in which calls it: the workflow itself keeps nothing, so
that one is made for all processes that run it."""


class WorkflowFailure(Exception):
    """What `fail` raises."""


class BadReference(Exception):
    """A `$name` that refers to nothing."""


@dataclass(frozen=True, slots=True)
class Request:
    """One call on the run: made on a Run it gives its value, on an AsyncRun what is to be awaited."""

    step: str
    make: Callable[[Any], Any]


Ask: TypeAlias = Generator[Request, Any, Any]


@dataclass(frozen=True, slots=True)
class _Returned:
    value: Any


@dataclass(frozen=True, slots=True)
class Program:
    """Steps with what they need."""

    steps: list[Step]
    effects: Mapping[str, Effect[..., Any]]
    children: dict[str, Workflow[..., Any]] = field(default_factory=dict)  # by name, from when the workflow is made

    def execute(self, given: Any) -> Ask:
        """Make the requests of one execution; its value is the workflow's."""
        return (yield from self._branch_of(self.steps, {"input": given}))

    def _block(self, steps: list[Step], known: dict[str, Any]) -> Generator[Request, Any, _Returned | None]:
        for step in steps:
            match step:
                case Decide():
                    known[step.decide] = yield self._decision(step, known)
                case Perform():
                    value = yield self._call(step.perform, "perform", step, known)
                    known[step.as_ or step.name or step.perform] = value
                case Attempt():
                    returned = yield from self._branch(step, known)
                    if returned is not None:
                        return returned
                case Try():
                    returned = yield from self._guarded(step, known)
                    if returned is not None:
                        return returned
                case Sleep():
                    duration = step.sleep
                    yield Request("sleep", lambda run, duration=duration: run.sleep(duration))  # type: ignore[misc]  # bound now
                case Deadline():
                    returned = yield from self._bounded(step, known)
                    if returned is not None:
                        return returned
                case WaitFor() | Receive() | Publish():
                    yield from self._spoken(step, known)
                case Gather():
                    known[step.as_] = list((yield self._gathered(step, known)))
                case Child():
                    known[step.as_ or step.child] = yield self._child(step, known)
                case Saga():
                    left: _Returned | None = yield self._saga(step, known)
                    if left is not None:
                        return left
                case Compensate():
                    undone: Compensated = yield self._undone(step)
                    known[step.compensate] = {how: list(steps) for how, steps in asdict(undone).items()}
                case Return():
                    return _Returned(resolved(step.return_, known))
                case Fail():
                    raise WorkflowFailure(step.fail)
        return None

    def _decision(self, step: Decide, known: dict[str, Any]) -> Request:
        choices = [resolved(value, known) for value in step.values or [step.value]]
        arguments = [] if step.of is None else [resolved(step.of, known)]

        def choose(*_of: Any) -> Any:
            return choices[min(asking.get()(step.decide), len(choices)) - 1]

        return Request(step.decide, lambda run: run.decide(step.decide, choose, *arguments))

    def _call(self, effect: str, verb: str, step: Perform | Attempt, known: dict[str, Any]) -> Request:
        bound = self.effects[effect](**resolved(step.with_, known))
        key = None if step.key is None else resolved(step.key, known)
        retry = None if step.retry is None else step.retry.built()
        return Request(step.name or effect, lambda run: getattr(run, verb)(bound, key=key, name=step.name, retry=retry))

    def _spoken(self, step: WaitFor | Receive | Publish, known: dict[str, Any]) -> Generator[Request, Any, None]:
        """What is said to the run, or by it."""
        match step:
            case WaitFor():
                known[step.wait_for] = yield self._wait(step, known)
            case Receive():
                known[step.as_ or step.receive] = yield self._received(step)
            case _:
                name, said = step.publish, resolved(step.value, known)
                yield Request(name, lambda run: _published(run, name, said))

    def _wait(self, step: WaitFor, known: dict[str, Any]) -> Request:
        how: dict[str, Any] = {"by": step.by, "timeout": step.timeout, "valid_for": step.valid_for}
        if step.about is not None:
            how["about"] = self.effects[step.about](**resolved(step.with_ or {}, known))
        if "default" in step.model_fields_set:
            how["default"] = step.default
        return Request(step.wait_for, lambda run: run.wait_for(step.wait_for, schema=Any, **how))

    def _received(self, step: Receive) -> Request:
        default = {"default": step.default} if "default" in step.model_fields_set else {}
        return Request(step.receive, lambda run: run.receive(step.receive, schema=Any, timeout=step.timeout, **default))

    def _branch(self, step: Attempt, known: dict[str, Any]) -> Generator[Request, Any, _Returned | None]:
        came: Applied[Any] | Rejected = yield self._call(step.attempt, "attempt", step, known)
        name = step.as_ or step.name or step.attempt
        if isinstance(came, Rejected):
            known[name] = {"error": came.error.name, **encode_rejection(came.error)}
            return (yield from self._block(step.rejected, known))
        known[name] = came.value
        return (yield from self._block(step.applied, known))

    def _gathered(self, step: Gather, known: dict[str, Any]) -> Request:
        def body(steps: list[Step]) -> Callable[[Run | AsyncRun], Any]:
            def go(run: Run | AsyncRun) -> Any:
                asked = self._branch_of(steps, dict(known))
                return _awaited(asked, run) if isinstance(run, AsyncRun) else _called(asked, run)

            return go

        return Request("gather", lambda run: run.gather(*map(body, step.gather)))

    def _child(self, step: Child, known: dict[str, Any]) -> Request:
        bound = self.children[step.child](resolved(step.with_, known))
        detached = step.how == "detach"

        async def started(starting: Coroutine[Any, Any, AsyncChild[Any]]) -> str:
            return (await starting).run_id

        def start(run: Run | AsyncRun) -> Any:
            if step.how == "call":
                return run.call_child(bound, run_id=step.run_id)
            if isinstance(run, Run):
                return run.start(bound, run_id=step.run_id, detached=detached).run_id
            return started(run.start(bound, run_id=step.run_id, detached=detached))

        return Request(step.child, start)

    def _saga(self, step: Saga, known: dict[str, Any]) -> Request:
        keeps = [self.effects[name] for name in step.keeps]

        async def awaited(run: AsyncRun) -> Any:
            async with run.saga(step.saga, keeps=keeps):
                try:
                    return await _awaited(self._block(step.do, known), run)
                finally:
                    current_step.set(step.saga)

        def called(run: Run) -> Any:
            with run.saga(step.saga, keeps=keeps):
                try:
                    return _called(self._block(step.do, known), run)
                finally:
                    current_step.set(step.saga)

        return Request(step.saga, lambda run: awaited(run) if isinstance(run, AsyncRun) else called(run))

    def _undone(self, step: Compensate) -> Request:
        return Request(step.compensate, lambda run: run.compensate(name=step.compensate))

    def _branch_of(self, steps: list[Step], known: dict[str, Any]) -> Ask:
        returned = yield from self._block(steps, known)
        return None if returned is None else returned.value

    def _guarded(self, step: Try, known: dict[str, Any]) -> Generator[Request, Any, _Returned | None]:
        try:
            return (yield from self._block(step.try_, known))
        except Exception:  # the `try` step of a scenario is a user's `except Exception`
            if step.except_ is None:
                raise
            return (yield from self._block(step.except_, known))
        finally:
            yield from self._block(step.finally_, known)

    def _bounded(self, step: Deadline, known: dict[str, Any]) -> Generator[Request, Any, _Returned | None]:
        scope: DeadlineSet = yield Request("deadline", lambda run: run.deadline(step.deadline))
        try:
            with scope:
                return (yield from self._block(step.do, known))
        except DeadlinePassed:
            if step.passed is None:
                raise
            return (yield from self._block(step.passed, known))


def resolved(value: Any, known: Mapping[str, Any]) -> Any:
    """`value` with its references looked up. Raises BadReference."""
    if isinstance(value, dict):
        return odd(value[ODD]) if set(value) == {ODD} else {name: resolved(item, known) for name, item in value.items()}
    if isinstance(value, list):
        return [resolved(item, known) for item in value]
    if not isinstance(value, str) or not value.startswith("$"):
        return value
    if value.startswith("$$"):
        return value[1:]
    name, *path = value[1:].split(".")
    try:
        found = known[name]
        for part in path:
            found = found[part]
    except (KeyError, TypeError, IndexError):
        raise BadReference(f"{value} refers to nothing; known: {', '.join(known)}") from None
    return found


def _published(run: Run | AsyncRun, name: str, said: Any) -> Any:
    """Not awaited in either colour, but by the loop that awaits everything."""
    run.publish(name, said)
    return _nothing() if isinstance(run, AsyncRun) else None


async def _nothing() -> None: ...


def inline_workflow(program: Program, *, is_async: bool) -> Workflow[..., Any]:
    """The workflow of a program, named "scenario"; its one argument is the run's input. Those of its children are in the program from here on."""
    for name, steps in _children(program.steps):
        program.children[name] = _workflow(replace(program, steps=steps), name, is_async=is_async)
    return _workflow(program, NAME, is_async=is_async)


def _children(steps: Iterable[Any]) -> Iterator[tuple[str, list[Step]]]:
    """The names and steps of every child, children's children included."""
    for step in steps:
        if isinstance(step, Child):
            yield step.child, step.do
        if isinstance(step, BaseModel):
            for _, inside in step:
                yield from _children(inside if isinstance(inside, list) else ())
        elif isinstance(step, list):
            yield from _children(step)


def _workflow(program: Program, name: str, *, is_async: bool) -> Workflow[..., Any]:
    def body(run: Run, input: Any) -> Any:
        return _called(program.execute(input), run)

    async def awaited(run: AsyncRun, input: Any) -> Any:
        return await _awaited(program.execute(input), run)

    return Workflow(awaited if is_async else body, name=name, version="1", frame=None)


def _called(requests: Ask, run: Run) -> Any:
    proceed: Callable[[], Request] = lambda: next(requests)  # noqa: E731
    while True:
        try:
            request = proceed()
        except StopIteration as stop:
            return stop.value
        current_step.set(request.step)
        try:
            proceed = _sending(requests, request.make(run))
        except BaseException as error:  # noqa: BLE001  # all of it belongs to the steps
            proceed = _raising(requests, error)


async def _awaited(requests: Ask, run: AsyncRun) -> Any:
    proceed: Callable[[], Request] = lambda: next(requests)  # noqa: E731
    while True:
        try:
            request = proceed()
        except StopIteration as stop:
            return stop.value
        current_step.set(request.step)
        try:
            proceed = _sending(requests, await request.make(run))
        except BaseException as error:  # noqa: BLE001
            proceed = _raising(requests, error)


def _sending(requests: Ask, value: Any) -> Callable[[], Request]:
    return lambda: requests.send(value)


def _raising(requests: Ask, error: BaseException) -> Callable[[], Request]:
    return lambda: requests.throw(error)
