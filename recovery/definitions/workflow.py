"""Workflows: functions that decide and perform through a run.

Owns what a workflow is: its name, version, colour, input, result and failure in stored form. Knows no engine. Invariant:
the same input gives the same digest, and a workflow's colour and the type of its run agree.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass
from types import FrameType
from typing import Any, Concatenate, Final, Generic, ParamSpec, TypeVar, overload

from recovery.codec import Codec, fingerprint
from recovery.core.entries import JSON
from recovery.core.errors import DefinitionError, ValueNotStorable, ValueUnreadable
from recovery.core.ids import ROOT
from recovery.definitions.async_run import AsyncRun
from recovery.definitions.body import IN_WORKFLOW
from recovery.definitions.child import BoundWorkflow
from recovery.definitions.effect import Effect
from recovery.definitions.migration import Migration
from recovery.definitions.rejection import Rejection, encode_rejection
from recovery.definitions.replies import error_name, message_of
from recovery.definitions.run import Run
from recovery.definitions.saga import Reasons, kept_names, reasons
from recovery.definitions.signature import Signature, read_signature

P = ParamSpec("P")
R = TypeVar("R")

MESSAGE_MAX: Final = 2000  # characters of a failure's message
UNDO: Final = "undo"
"""The name of the step that undoes a run as a whole."""

VERSION_MAX: Final = 200  # characters


@dataclass(frozen=True, slots=True)
class Failure:
    """A workflow's own uncaught exception. `error`: its qualified type, or a rejection's stable name."""

    error: str
    message: str
    fields: Mapping[str, JSON] | None = None  # of a rejection

    def to_json(self) -> JSON:
        return {"message": self.message} | ({} if self.fields is None else {"fields": dict(self.fields)})


class Workflow(Generic[P, R]):
    """A definition. Run it with an engine: `engine.run(run_id, workflow, ...)`; calling it binds the arguments of a child."""

    def __init__(
        self, fn: Callable[..., Any], *, name: str, version: str, frame: FrameType | None, undoing: Undoing | None = None
    ) -> None:
        self.fn = fn
        self.undoing = undoing
        self.name = name
        self.version = version
        if not isinstance(version, str) or len(version) > VERSION_MAX or not version.isprintable():
            problem = f"its version {version!r} is not a text of up to {VERSION_MAX} printable characters"
            raise DefinitionError(what="workflow", name=name, problem=problem, advice='Write it as one, like version="2".')
        self.signature: Signature = read_signature(fn, what="workflow", name=name, first="Run", frame=frame)
        self._check_colour()
        self.result: Codec[R] = Codec(self.signature.returns, what="workflow", name=name)
        self.migrations: dict[str, Migration] = {}
        self.__doc__ = fn.__doc__

    def __repr__(self) -> str:
        return f"<workflow {self.name} version {self.version}>"

    @property
    def is_async(self) -> bool:
        return self.signature.is_async

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> BoundWorkflow[R]:
        """The workflow with its arguments, for `run.start` and `run.call_child`; does nothing else. Raises ValueNotStorable and TypeError."""
        bound = BoundWorkflow(self, self.bind(*args, **kwargs))
        return bound if (body := IN_WORKFLOW.get()) is None else bound.start_is_owed(body)

    def migrates(self, *, from_version: str) -> Callable[[Migration], Migration]:
        """Define what the recorded steps of another version are to this one: `recover change-version` moves runs by it.

        The function is given the identities of the recorded steps in order, such as `reserve#1`, and returns a Migrated.
        Raises DefinitionError for a version that has one already, or that is this one."""

        def define(fn: Migration, /) -> Migration:
            if from_version == self.version or from_version in self.migrations:
                problem = f"it has a migration from version {from_version!r} already"
                if from_version == self.version:
                    problem = "its migration is from its own version"
                raise DefinitionError(
                    what="workflow", name=self.name, problem=problem, advice="Define one for each earlier version."
                )
            self.migrations[from_version] = fn
            return fn

        return define

    def bind(self, *args: P.args, **kwargs: P.kwargs) -> dict[str, JSON]:
        """The input in stored form, by parameter name. Raises ValueNotStorable."""
        return self.signature.encode(args, kwargs)

    def digest(self, stored: Mapping[str, JSON]) -> str:
        """The digest of an input: the same run id must always come with the same one."""
        return fingerprint({"workflow": self.name, "input": dict(stored)})

    def reads_as(self, recorded: Mapping[str, JSON], digest: str) -> bool:
        """Whether a recorded input, read as its models are today, is the one of this digest. Raises ValueUnreadable."""
        if not any(codec.models.any for codec in self.signature.parameters.values()):
            return False
        return self.digest(self.signature.encode((), self.arguments(recorded))) == digest

    def arguments(self, stored: Mapping[str, JSON]) -> dict[str, Any]:
        """Fresh arguments for one execution, by name. Raises ValueUnreadable."""
        return self.signature.decode(stored)

    def invoke(self, run: Run | AsyncRun, stored: Mapping[str, JSON]) -> Any:
        """Execute the body. A coroutine for an async workflow."""
        try:
            arguments = self.arguments(stored)
        except ValueUnreadable as error:
            raise error.in_entry(run.run_id, 1, ROOT) from error
        return self.fn(run, **arguments) if self.undoing is None else self.undoing.around(self.fn, run, arguments)

    def encode_result(self, value: R) -> JSON:
        """The result in stored form. Raises ValueNotStorable."""
        return self.result.encode(value, where=self.signature.where, root="result")

    def decode_result(self, stored: JSON) -> R:
        """The result that was stored. Raises ValueUnreadable."""
        return self.result.decode(stored, where=self.signature.where, root="result")

    def encode_failure(self, error: Exception, redact: Callable[[str], str] = str) -> Failure:
        """What is kept of an uncaught exception: its type and a bounded, redacted message; a rejection keeps its fields."""
        message = redact(message_of(error, MESSAGE_MAX))
        if isinstance(error, Rejection):
            try:
                return Failure(error.name, message, encode_rejection(error))
            except ValueNotStorable:
                return Failure(error.name, message)
        return Failure(error_name(error), message)

    def _check_colour(self) -> None:
        first, colour = self.signature.first, "async def" if self.is_async else "def"
        wanted: type[Run | AsyncRun] = AsyncRun if self.is_async else Run
        if first is wanted:
            return
        if first in {Run, AsyncRun}:
            problem = f"it is `{colour}` and takes a {first.__name__}"
            other = "def" if self.is_async else "async def"
            advice = (
                f"An `{colour}` workflow takes {wanted.__name__}"
                if self.is_async
                else f"A `{colour}` workflow takes {wanted.__name__}"
            )
            raise DefinitionError(
                what="workflow",
                name=self.name,
                problem=problem,
                advice=f"{advice}; write `run: {wanted.__name__}`, or make it `{other}`.",
            )
        problem = f"its first parameter is not a {wanted.__name__}"
        raise DefinitionError(what="workflow", name=self.name, problem=problem, advice=f"Annotate it: `run: {wanted.__name__}`.")


class AsyncWorkflowMustTakeAsyncRun:
    """What type checkers see instead of a Workflow where an `async def` takes Run. Defining one raises DefinitionError."""


class WorkflowDecorator:
    """What `workflow(name=...)` returns; decorates the body."""

    def __init__(self, name: str | None, version: str, undoing: Undoing | None) -> None:
        self._name = name
        self._version = version
        self._undoing = undoing

    @overload
    def __call__(self, fn: Callable[Concatenate[AsyncRun, P], Coroutine[Any, Any, R]], /) -> Workflow[P, R]: ...
    @overload
    def __call__(self, fn: Callable[Concatenate[Run, P], Coroutine[Any, Any, R]], /) -> AsyncWorkflowMustTakeAsyncRun: ...  # type: ignore[overload-overlap]
    @overload
    def __call__(self, fn: Callable[Concatenate[Run, P], R], /) -> Workflow[P, R]: ...
    def __call__(self, fn: Callable[..., Any], /) -> Any:
        frame = inspect.currentframe()
        return _define(fn, self._name, self._version, frame, self._undoing)


@overload
def workflow(fn: Callable[Concatenate[AsyncRun, P], Coroutine[Any, Any, R]], /) -> Workflow[P, R]: ...
@overload
def workflow(fn: Callable[Concatenate[Run, P], Coroutine[Any, Any, R]], /) -> AsyncWorkflowMustTakeAsyncRun: ...  # type: ignore[overload-overlap]
@overload
def workflow(fn: Callable[Concatenate[Run, P], R], /) -> Workflow[P, R]: ...
@overload
def workflow(
    *,
    name: str | None = None,
    version: str = "1",
    compensate_on: Reasons = (),
    keeps: Sequence[Effect[..., Any]] = (),
) -> WorkflowDecorator: ...
def workflow(
    fn: Callable[..., Any] | None = None,
    /,
    *,
    name: str | None = None,
    version: str = "1",
    compensate_on: Reasons = (),
    keeps: Sequence[Effect[..., Any]] = (),
) -> Any:
    """Define a workflow from `def f(run: Run, ...)` or `async def f(run: AsyncRun, ...)`.

    name: what the journal keeps; the function's name by default. Set it before renaming the function.
    version: recorded with each run.
    compensate_on: "failed", "cancelled" or both: a run that ends so undoes what it has applied first, as if all of it stood in a `run.saga`.
    keeps: effects that stay then.

    Raises DefinitionError for a definition that cannot run.
    """
    undoing = Undoing(compensate_on, tuple(keeps)) if compensate_on else None
    if fn is None:
        return WorkflowDecorator(name, version, undoing)
    return _define(fn, name, version, inspect.currentframe(), undoing)


def _define(fn: Any, name: str | None, version: str, frame: FrameType | None, undoing: Undoing | None) -> Workflow[..., Any]:
    chosen = name or str(getattr(fn, "__name__", type(fn).__name__))
    return Workflow(fn, name=chosen, version=version, frame=frame.f_back if frame else None, undoing=undoing)


@dataclass(frozen=True, slots=True)
class Undoing:
    """When the runs of a workflow are undone as a whole, and what stays then."""

    when: Reasons
    keeps: tuple[Effect[..., Any], ...]

    def __post_init__(self) -> None:
        reasons(UNDO, self.when)
        kept_names(UNDO, self.keeps)

    def around(self, fn: Callable[..., Any], run: Run | AsyncRun, arguments: Mapping[str, Any]) -> Any:
        """Execute a workflow's body in a saga of its own."""
        if isinstance(run, AsyncRun):
            return self._around_async(fn, run, arguments)
        with run.saga(UNDO, keeps=self.keeps, when=self.when):
            return fn(run, **arguments)

    async def _around_async(self, fn: Callable[..., Any], run: AsyncRun, arguments: Mapping[str, Any]) -> Any:
        async with run.saga(UNDO, keeps=self.keeps, when=self.when):
            return await fn(run, **arguments)
