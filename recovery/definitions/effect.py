"""Effects: changes outside our database, defined once and bound to arguments before they are performed.

Owns what an effect is: its body, contract, environment, probe, close, cancel and compensation. Knows no engine: a driver makes the
call, invokes the body and reports what came out. Invariant: a bound effect can be rebuilt from its name and its stored
arguments alone, and its body sees the decoded copies on the first attempt too.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Coroutine, Mapping, Sequence
from datetime import timedelta
from functools import wraps
from types import FrameType
from typing import Any, Concatenate, Final, Generic, ParamSpec, TypeVar, overload

from recovery.codec import Codec
from recovery.core.contracts import Contract, Kind, microseconds
from recovery.core.durations import stated
from recovery.core.entries import JSON, Answered
from recovery.core.errors import ValueUnreadable
from recovery.core.wording import of_type
from recovery.definitions.agreement import (
    check_colour,
    check_contract,
    check_is_effect,
    check_parameters,
    function_name,
    refused,
    rejections_by_name,
)
from recovery.definitions.answer import Answer
from recovery.definitions.body import IN_WORKFLOW
from recovery.definitions.bound import Bound as Bound
from recovery.definitions.call import Call
from recovery.definitions.environment import Environment
from recovery.definitions.outcomes import outcome_codec, takes_none
from recovery.definitions.rejection import NameTaken, Rejection, decode_rejection
from recovery.definitions.replies import Replies
from recovery.definitions.retry import Retry
from recovery.definitions.signature import Signature, read_signature

P = ParamSpec("P")
T = TypeVar("T")
R = TypeVar("R")

TIMEOUT_DEFAULT: Final = timedelta(seconds=30)


class Effect(Generic[P, T]):
    """A definition. Calling it binds arguments and does nothing else."""

    def __init__(
        self,
        fn: Callable[..., Any],
        contract: Contract,
        *,
        name: str,
        environment: Environment | None,
        rejects: Sequence[type[Rejection]],
        timeout: timedelta,
        frame: FrameType | None,
        undoes: Codec[Any] | None = None,
        retry: Retry | None = None,
        heartbeat: timedelta | None = None,
        riding: bool = True,
    ) -> None:
        self.fn = fn
        self.retry = retry
        self.riding = riding
        self.heartbeat = heartbeat
        self.name = name
        self.contract = contract
        self.timeout = timeout
        self.signature: Signature = read_signature(fn, what="effect", name=name, first="Call", frame=frame, outcome=undoes)
        if self.signature.first is not Call:
            raise refused(name, "its first parameter is not a Call", "Annotate it: `call: Call`; `call.key` is what to send.")
        _check_settings(name, timeout, heartbeat, riding)
        self.timeout_us = microseconds(timeout)
        self.environment = environment or Environment(name)
        self.rejects = rejections_by_name(rejects, name)
        self.outcome: Codec[T] = outcome_codec(name, contract, self.signature.returns, self.rejects)
        original, swallowed = contract.lookup is None or contract.lookup.original, contract.kind is Kind.SWALLOW
        self.replies = Replies(self.signature.where, self.outcome, self.rejects, original, swallowed)
        self.probe_body: Callable[..., Any] | None = None
        self.close_body: Callable[..., Any] | None = None
        self.cancel_body: Callable[..., Any] | None = None
        self.compensated_by: Effect[..., Any] | None = None
        self.complete = False  # it was seen to have the bodies that its contract relies on, and loses none
        self.__doc__ = fn.__doc__

    def __repr__(self) -> str:
        return f"<effect {self.name}>"

    @property
    def is_async(self) -> bool:
        return self.signature.is_async

    @property
    def accepts_none(self) -> bool:
        """Whether None is one of its values, so that an effect that is applied without a value can still return."""
        return takes_none(self.outcome)

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> Bound[T]:
        """Bind arguments; nothing happens yet. Raises ValueNotStorable for what cannot be stored."""
        if not args and self.signature.takes(kwargs):
            bound: Bound[T] = Bound(self, kwargs, None, self.retry, _simple=True)
        else:
            bound = self.bind(self.signature.encode(args, kwargs))
        return bound if (body := IN_WORKFLOW.get()) is None else bound.perform_is_owed(body)

    def bind(self, stored: Mapping[str, JSON]) -> Bound[T]:
        """Bind stored arguments, as a journal holds them. Reading them raises ValueUnreadable if they no longer fit."""
        return Bound(self, dict(stored), retry=self.retry)

    def parse(self, given: Mapping[str, Any]) -> Bound[T]:
        """Bind plain JSON from outside, such as a model's tool call. Raises ValueNotStorable saying what does not fit."""
        return self.bind(self.signature.parse(given))

    def json_schema(self) -> dict[str, JSON]:
        """The parameters as JSON Schema, for a tool's declaration."""
        description = {"description": inspect.cleandoc(self.__doc__)} if self.__doc__ else {}
        return {"title": self.name, **description, **self.signature.json_schema()}

    def returned(self, value: T) -> Answered:
        """The body returned `value`."""
        return self.replies.returned(value)

    def raised(self, error: BaseException) -> Answered | None:
        """The body raised. None: no answer at all (cancellation); the driver raises it on and the effect stays unknown."""
        return self.replies.raised(error)

    def probed(self, answer: Any) -> Answered:
        """The probe, the close or the cancel returned `answer`."""
        return self.replies.probed(answer)

    def probe_raised(self, error: BaseException) -> Answered | None:
        """The probe, the close or the cancel raised."""
        return self.replies.probe_raised(error)

    def decode_value(self, stored: JSON) -> T:
        """A stored outcome. Raises ValueUnreadable."""
        return self.outcome.decode(stored, where=self.signature.where, root="result")

    def decode_rejection(self, name: str, stored: JSON) -> Rejection:
        """A stored rejection. Raises ValueUnreadable if it is no longer declared or no longer fits."""
        if name == NameTaken.name and stored is None:
            return NameTaken()
        if name not in self.rejects:
            problem = "it is not declared in rejects="
            raise ValueUnreadable(where=self.signature.where, path=f"rejection {name}", type="its rejections", problem=problem)
        return decode_rejection(self.rejects[name], stored)

    # -- companions ----------------------------------------------------------------------------------------------------

    @overload
    def probe(
        self, fn: Callable[Concatenate[Call, P], Coroutine[Any, Any, Answer[T]]], /
    ) -> Callable[Concatenate[Call, P], Coroutine[Any, Any, Answer[T]]]: ...
    @overload
    def probe(self, fn: Callable[Concatenate[Call, P], Answer[T]], /) -> Callable[Concatenate[Call, P], Answer[T]]: ...
    def probe(self, fn: Callable[..., Any], /) -> Callable[..., Any]:
        """Define how to ask the environment about one call, read-only. Same parameters and colour as the effect."""
        if self.probe_body is not None:
            raise refused(self.name, "it has a probe already", "Define one probe.")
        self._check_companion(fn, "probe", inspect.currentframe())
        self.probe_body = fn
        return fn

    @overload
    def close(
        self, fn: Callable[Concatenate[Call, P], Coroutine[Any, Any, Answer[T]]], /
    ) -> Callable[Concatenate[Call, P], Coroutine[Any, Any, Answer[T]]]: ...
    @overload
    def close(self, fn: Callable[Concatenate[Call, P], Answer[T]], /) -> Callable[Concatenate[Call, P], Answer[T]]: ...
    def close(self, fn: Callable[..., Any], /) -> Callable[..., Any]:
        """Define how to close a key atomically: get its outcome, or have the environment refuse it for ever."""
        if self.close_body is not None:
            raise refused(self.name, "it has a close already", "Define one close.")
        if not self.contract.close:
            raise refused(self.name, "its contract does not promise an atomic close", "State `close=True` there if that is true.")
        self._check_companion(fn, "close", inspect.currentframe())
        self.close_body = fn
        return fn

    @overload
    def cancel(
        self, fn: Callable[Concatenate[Call, P], Coroutine[Any, Any, Answer[T]]], /
    ) -> Callable[Concatenate[Call, P], Coroutine[Any, Any, Answer[T]]]: ...
    @overload
    def cancel(self, fn: Callable[Concatenate[Call, P], Answer[T]], /) -> Callable[Concatenate[Call, P], Answer[T]]: ...
    def cancel(self, fn: Callable[..., Any], /) -> Callable[..., Any]:
        """Define how to cancel by key, where nobody wants the effect any more: undo what is there, and say what it was.

        It answers `Gone()` where it has undone something, now or before; `Found(outcome)` where something is there and can no longer be
        undone; `Absent()` only where nothing was ever there, as far as a look-up would show; `Accepted()` where the environment does not tell.
        It leaves no tombstone, so it proves what a probe proves: an absence counts once no copy can act. One that bars the key is a close.
        """
        if self.cancel_body is not None:
            raise refused(self.name, "it has a cancel already", "Define one cancel.")
        if not self.contract.cancel_by_key:
            raise refused(self.name, "its contract promises no cancel by key", "State `cancel_by_key=True` there if that is true.")
        self._check_companion(fn, "cancel", inspect.currentframe())
        self.cancel_body = fn
        return fn

    def compensation(
        self,
        contract: Contract,
        *,
        rejects: Sequence[type[Rejection]] = (),
        timeout: timedelta = TIMEOUT_DEFAULT,
        name: str | None = None,
        riding: bool = True,
    ) -> CompensationDecorator[P, T]:
        """Define the effect that undoes this one. Its parameters: the call, the outcome, then the effect's own. The outcome of a batch is the
        whole `Batched`, in the order of the request: `outcome.applied` says which items there are to undo."""
        check_contract(contract, f"compensation of {self.name}")
        check_is_effect(self.contract, self.name, "compensation")
        return CompensationDecorator(self, contract, tuple(rejects), timeout, name, riding)

    def compensate(self, bound: Bound[T], outcome: T) -> Bound[Any]:
        """The compensation of one settled call, bound. Only if the effect has one."""
        if self.compensated_by is None:
            raise refused(self.name, "it has no compensation", "Define one with `.compensation(contract)`.")
        lead = next(iter(self.compensated_by.signature.parameters))
        stored = self.outcome.encode(outcome, where=self.signature.where, root="result")
        return self.compensated_by.bind({lead: stored, **bound.stored})

    def _check_companion(self, fn: Callable[..., Any], role: str, frame: FrameType | None) -> None:
        check_is_effect(self.contract, self.name, role)
        signature = read_signature(fn, what=role, name=self.name, first="Call", frame=frame.f_back if frame else None)
        if signature.first is not Call:
            raise refused(self.name, f"the first parameter of its {role} is not a Call", "Annotate it: `call: Call`.", role)
        check_colour(self.name, self.signature, signature.is_async, role)
        check_parameters(self.name, self.signature, signature.parameters, role)


class CompensationDecorator(Generic[P, T]):
    """What `effect.compensation(contract)` returns; decorates the undoing body."""

    def __init__(
        self,
        of: Effect[P, T],
        contract: Contract,
        rejects: tuple[type[Rejection], ...],
        timeout: timedelta,
        name: str | None,
        riding: bool,
    ) -> None:
        self._of, self._riding = of, riding
        self._contract = contract
        self._rejects = rejects
        self._timeout = timeout
        self._name = name

    @overload
    def __call__(self, fn: Callable[Concatenate[Call, T, P], Coroutine[Any, Any, R]], /) -> Effect[Concatenate[T, P], R]: ...
    @overload
    def __call__(self, fn: Callable[Concatenate[Call, T, P], R], /) -> Effect[Concatenate[T, P], R]: ...
    def __call__(self, fn: Callable[..., Any], /) -> Effect[..., Any]:
        of, frame = self._of, inspect.currentframe()
        if of.compensated_by is not None:
            raise refused(of.name, "it has a compensation already", "Define one compensation.")
        undo: Effect[..., Any] = Effect(
            fn,
            self._contract,
            name=self._name or function_name(fn),
            environment=of.environment,
            rejects=self._rejects,
            timeout=self._timeout,
            frame=frame.f_back if frame else None,
            undoes=of.outcome,
            riding=self._riding,
        )
        check_colour(of.name, of.signature, undo.is_async, "compensation")
        parameters = dict(undo.signature.parameters)
        lead = next(iter(parameters), None)
        if lead is None or parameters.pop(lead).type != of.signature.returns:
            problem = f"its second parameter is not the outcome of {of.name!r}, {of.outcome.title}"
            raise refused(undo.name, problem, "Write `(call: Call, outcome: ..., *, ...)`.", "compensation")
        check_parameters(of.name, of.signature, parameters, "compensation")
        of.compensated_by = undo
        return undo


class EffectDecorator:
    """What `effect(contract)` returns; decorates the body."""

    def __init__(
        self,
        contract: Contract,
        environment: Environment | None,
        rejects: tuple[type[Rejection], ...],
        timeout: timedelta,
        name: str | None,
        retry: Retry | None,
        heartbeat: timedelta | None,
        riding: bool,
    ) -> None:
        self._retry, self._heartbeat, self._riding = retry, heartbeat, riding
        self._contract = contract
        self._environment = environment
        self._rejects = rejects
        self._timeout = timeout
        self._name = name

    @overload
    def __call__(self, fn: Callable[Concatenate[Call, P], Coroutine[Any, Any, T]], /) -> Effect[P, T]: ...
    @overload
    def __call__(self, fn: Callable[Concatenate[Call, P], T], /) -> Effect[P, T]: ...
    def __call__(self, fn: Callable[..., Any], /) -> Effect[..., Any]:
        frame = inspect.currentframe()
        return Effect(
            fn,
            self._contract,
            name=self._name or function_name(fn),
            environment=self._environment,
            rejects=self._rejects,
            timeout=self._timeout,
            frame=frame.f_back if frame else None,
            retry=self._retry,
            heartbeat=self._heartbeat,
            riding=self._riding,
        )


def _check_settings(name: str, timeout: object, heartbeat: object, riding: object) -> None:
    """What is typed first is a number of seconds, and for riding what an engine takes. Raises DefinitionError."""
    for what, given in (("timeout", timeout), ("heartbeat", timedelta(1) if heartbeat is None else heartbeat)):
        if stated(given, "effect", name, f"its {what}") <= timedelta(0):
            raise refused(name, f"its {what} is not longer than zero", "Say how long one attempt may take, and be silent.")
    if not isinstance(riding, bool):
        raise refused(name, f"its riding is {of_type(riding)}", "Pass True or False; an engine takes a Riding.")


def _contract_required(define: Callable[P, T]) -> Callable[P, T]:
    @wraps(define)
    def checked(*args: P.args, **kwargs: P.kwargs) -> T:
        check_contract(args[0] if args else kwargs.get("contract"), "")
        return define(*args, **kwargs)

    return checked


@_contract_required
def effect(
    contract: Contract,
    *,
    environment: Environment | None = None,
    rejects: Sequence[type[Rejection]] = (),
    timeout: timedelta = TIMEOUT_DEFAULT,
    heartbeat: timedelta | None = None,
    retry: Retry | None = None,
    name: str | None = None,
    riding: bool = True,
) -> EffectDecorator:
    """Define an effect from a function `(call: Call, ...) -> value`.

    contract: what the environment promises; `contracts.Opaque()` promises nothing.
    environment: what is changed, with its scope; an environment named like the effect by default.
    rejects: the declared errors; every other exception means that it might have happened.
    timeout: how long one attempt may take; its sender gives up then.
    heartbeat: how long one attempt may go without `call.heartbeat()` before it is given up; None: as long as it takes. A `def` body that has one runs
        in a thread of its own, which can be left alone.
    retry: how it is tried again after a failure, where its contract allows that at all; None: as the engine's budget says.
    riding: whether its outcome may become durable with the run's next entries, where the engine and the contract allow that; False: before the
        workflow goes on.
    name: what the journal keeps; the function's name by default. Set it before renaming the function.

    Raises DefinitionError for a definition that cannot be true.
    """
    return EffectDecorator(contract, environment, tuple(rejects), timeout, name, retry, heartbeat, riding)
