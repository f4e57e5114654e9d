"""Bound: an effect with its arguments in stored form.

Owns what is performed, and its own terms: until when it is wanted, how it is tried again. Knows no engine. Invariant: it can be rebuilt from its
effect's name and its stored arguments alone, and the body sees the decoded copies on the first attempt too.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from dataclasses import field, replace
from datetime import datetime
from typing import TYPE_CHECKING, Any, Generic, Self, TypeVar

from recovery.codec import fingerprint, fingerprint_of_simple
from recovery.core.entries import JSON, Answered
from recovery.core.instants import instant_us
from recovery.core.values import value
from recovery.definitions.agreement import refused
from recovery.definitions.body import Body
from recovery.definitions.call import Call
from recovery.definitions.retry import Retry

if TYPE_CHECKING:
    from recovery.definitions.effect import Effect

T = TypeVar("T")


@value(frozen=True, slots=True)
class Bound(Generic[T]):
    """An effect with its arguments in stored form: what `run.perform` takes, and what an intent is written from."""

    effect: Effect[..., T]
    stored: Mapping[str, JSON]
    valid_until_us: int | None = None
    retry: Retry | None = None  # how it is tried again; None: as the engine's budget says
    _owed: list[Body] = field(default_factory=list, repr=False, compare=False)  # who waits for it to be performed
    _simple: bool = field(default=False, repr=False, compare=False)  # its arguments are such as `fingerprint_of_simple` takes
    _known_as: str = field(default="", init=False, repr=False, compare=False)  # its fingerprint, once it was asked for

    @property
    def fingerprint(self) -> str:
        """The digest of what is asked for. A replay mostly compares the arguments as they are stored, and does without."""
        if not self._known_as:
            digest = fingerprint_of_simple if self._simple else fingerprint
            object.__setattr__(self, "_known_as", digest({"arguments": self.stored, "effect": self.effect.name}))
        return self._known_as

    def perform_is_owed(self, body: Body) -> Self:
        """Made by a call inside a workflow: to be said if nobody performs it."""
        self._owed.append(body)
        return self

    def taken(self) -> None:
        """It is being performed."""
        self._owed.clear()

    def __del__(self) -> None:
        if self._owed and not self._owed[0].broken_off:
            said = f"effect {self.effect.name!r} was bound in a workflow and never performed: nothing was sent"
            warnings.warn(f"{said}. Use run.perform(...), or bind it only where it is performed", RuntimeWarning, stacklevel=2)

    def until(self, at: datetime) -> Bound[T]:
        """The same call, wanted only until `at`, with its time zone: from then on nothing is sent. The intent keeps what was said first."""
        if at.utcoffset() is None:
            raise ValueError("until(at) needs a time with a time zone, such as datetime.now(UTC) + timedelta(minutes=10)")
        owed = [*self._owed]
        self.taken()  # the debt goes over to the copy
        return replace(self, valid_until_us=instant_us(at), _owed=owed)

    def retried(self, retry: Retry | None) -> Bound[T]:
        """The same call, tried again as `retry` says; as its effect says where that is None."""
        return self if retry is None else replace(self, retry=retry, _owed=[])

    def raised(self, error: BaseException) -> Answered | None:
        """The body raised; `Effect.raised`, with the class under which its retry policy knows the failure."""
        answer = self.effect.raised(error)
        if answer is None or self.retry is None:
            return answer
        return replace(answer, cause=self.retry.cause_of(error))

    @property
    def arguments(self) -> dict[str, Any]:
        """Fresh decoded copies; changing them changes nothing here."""
        return self.effect.signature.decode(self.stored)

    def invoke(self, call: Call) -> Any:
        """Run the body once. A coroutine for an async effect."""
        return self.effect.fn(call, **(self.stored if self._simple else self.arguments))

    def ask(self, call: Call) -> Any:
        """Run the probe once. Only if the effect has one."""
        return _present(self.effect.probe_body, self.effect, "probe")(call, **self.arguments)

    def close(self, call: Call) -> Any:
        """Run the close once. Only if the effect has one."""
        return _present(self.effect.close_body, self.effect, "close")(call, **self.arguments)

    def cancel(self, call: Call) -> Any:
        """Run the cancel once. Only if the effect has one."""
        return _present(self.effect.cancel_body, self.effect, "cancel")(call, **self.arguments)


def _present(body: Callable[..., Any] | None, of: Effect[..., Any], role: str) -> Callable[..., Any]:
    if body is None:
        raise refused(of.name, f"it has no {role}", f"Define one with `@{of.name}.{role}`.")
    return body
