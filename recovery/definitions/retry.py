"""Retry: what a user says about repeating something that failed.

Owns the bounds, the waits and the classes of errors of a policy; tenacity's wait and stop objects are used as arithmetic only: nothing here sleeps,
loops or calls what failed. Knows no engine. Invariant: a policy computes from counters that it is given, so that whoever keeps them durably can
ask it again in another process.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import TYPE_CHECKING, Final, Generic, ParamSpec, TypeVar

from recovery.core.contracts import microseconds
from recovery.core.durations import stated
from recovery.core.errors import DefinitionError
from recovery.core.policy import Budget
from recovery.definitions.rejection import Rejection
from recovery.definitions.replies import class_name

if TYPE_CHECKING:
    from tenacity import RetryCallState

P = ParamSpec("P")
T = TypeVar("T")

PAUSE_MAX: Final = timedelta(days=366)
"""Longer waits count as this one: tenacity's own bound lies beyond the end of the calendar."""

_BITS: Final = 128


@dataclass(frozen=True, slots=True, kw_only=True)
class Retry:
    """How something that failed is tried again.

    attempts: how many times in all, the first one included; None: as the engine's budget says.
    within: no attempt begins so long after the first one may have; a wait that would lead beyond it is not begun.
    wait: how long before the next attempt, in seconds: one of tenacity's wait objects, or a function like one. None: 200 ms, doubling up to
    30 s, each drawn between half of it and the whole.
    stop: when it is enough: one of tenacity's stop objects, or a function like one.
    on: policies for classes of errors, subclasses included; the nearest class of an error counts. None: never again after such an error.
    A class of rejections is tried again, under a new key, only where it is named here.

    Raises DefinitionError for a policy that cannot be.
    """

    attempts: int | None = None
    within: timedelta | None = None
    wait: Callable[[RetryCallState], float] | None = None
    stop: Callable[[RetryCallState], bool] | None = None
    on: Mapping[type[Exception], Retry | None] = field(default_factory=dict)

    def __post_init__(self) -> None:
        _require(self.attempts is None or self.attempts >= 1, "attempts", "it is less than one", "The first attempt counts.")
        _require(
            self.within is None or stated(self.within, "retry", "within") > timedelta(0),
            "within",
            "it is not longer than zero",
            "Say how long.",
        )
        for cls, policy in self.on.items():
            known = isinstance(cls, type) and issubclass(cls, Exception)
            _require(known, "on", f"{cls!r} is no class of exceptions", "Name classes.")
            _require(policy is None or not policy.on, "on", f"that of {cls.__name__} has classes of its own", "Name all in one.")

    def __call__(self, fn: Callable[P, T], /) -> Retried[P, T]:
        """A deciding function that is tried again by this policy: `run.decide("plan", Retry(attempts=3)(ask), prompt)`, or as a decorator."""
        return Retried(fn, self)

    @property
    def attempts_max(self) -> int | None:
        """The most attempts that any class of errors may lead to; None where none says a number."""
        said = [policy.attempts for policy in (self, *self.on.values()) if policy is not None and policy.attempts is not None]
        unsaid = any(policy is not None and policy.attempts is None for policy in (self, *self.on.values()))
        return None if not said else max(*said, Budget().attempts) if unsaid else max(said)

    @property
    def within_us(self) -> int | None:
        return None if self.within is None else microseconds(self.within)

    def cause_of(self, error: BaseException) -> str:
        """The name of the class in `on` under which this policy knows an error; "" for none."""
        return next((class_name(cls) for cls in type(error).__mro__ if cls in self.on), "")

    def of(self, cause: str) -> Retry | None:
        """The policy for a class that `cause_of` named; None: never again."""
        return next((policy for cls, policy in self.on.items() if class_name(cls) == cause), self)

    @property
    def rejections(self) -> bool:
        """Whether some class of rejections is tried again, each time as a new effect under a new key."""
        return any(issubclass(cls, Rejection) and policy is not None for cls, policy in self.on.items())

    def again(self, rejection: Rejection) -> str:
        """As `cause_of`, of a rejection that is wanted again under a new key; "" where no class of rejections is named for it."""
        near = next((cls for cls in type(rejection).__mro__ if cls in self.on and issubclass(cls, Rejection)), None)
        return "" if near is None or self.on[near] is None else class_name(near)

    def pause_us(self, causes: Sequence[str], elapsed_us: int, bits: int, error: BaseException | None = None) -> int | None:
        """How long to wait after the last of these failures, in microseconds; None: that was enough.

        causes: all failures so far, each by its class; those of one policy are counted together. bits: 128 random ones, for the wait of its own.
        error: the last failure itself, where it is at hand."""
        policy = self.of(causes[-1])
        if policy is None:
            return None
        tried = sum(self.of(cause) is policy for cause in causes)
        state = _state(tried, elapsed_us, error)
        pause_us = _drawn(tried, bits) if policy.wait is None else _whole(policy.wait(state))
        state.upcoming_sleep = pause_us / 1_000_000
        bounds = [each.within_us for each in (self, policy) if each.within_us is not None]
        enough = policy.attempts is not None and tried >= policy.attempts
        if enough or any(elapsed_us + pause_us >= bound for bound in bounds):
            return None
        return None if policy.stop is not None and policy.stop(state) else pause_us


class Retried(Generic[P, T]):
    """A deciding function with its retry policy. Called by itself it is the function, called once."""

    def __init__(self, fn: Callable[P, T], retry: Retry) -> None:
        self.fn = fn
        self.retry = retry
        self.__doc__ = fn.__doc__

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> T:
        return self.fn(*args, **kwargs)


def _state(tried: int, elapsed_us: int, error: BaseException | None) -> RetryCallState:
    """What tenacity's objects compute from: the counters, and no clock of its own."""
    from tenacity import Future, RetryCallState, Retrying  # here: definitions are imported by every program that has workflows

    state = RetryCallState(Retrying(), None, (), {})
    state.start_time, state.outcome_timestamp = 0.0, elapsed_us / 1_000_000
    state.attempt_number = tried
    outcome = Future(tried)
    outcome.set_exception(error or UnknownFailure())
    state.outcome = outcome
    return state


class UnknownFailure(Exception):
    """Stands for a failure that only its class is known of."""


def _drawn(tried: int, bits: int) -> int:
    """As a budget's back-off, drawn between half of it and the whole, so that those who failed together do not come back together."""
    budget = Budget()
    whole = min(microseconds(budget.backoff) << min(tried - 1, 40), microseconds(budget.backoff_max))
    return whole - (whole // 2) * (bits % (1 << _BITS)) // (1 << _BITS)


def _whole(seconds: float) -> int:
    """Seconds as whole microseconds, at most PAUSE_MAX; what is no number of them is no wait."""
    if math.isnan(seconds) or seconds <= 0:
        return 0
    return microseconds(PAUSE_MAX) if seconds >= PAUSE_MAX.total_seconds() else round(seconds * 1_000_000)


def _require(holds: bool, what: str, problem: str, advice: str) -> None:
    if not holds:
        raise DefinitionError(what="retry", name=what, problem=problem, advice=advice)
