"""Policy: the numbers an engine works with. Plain data with units in the names of what is compared."""

# pyright: reportReturnType=false
# The body of a protocol's method is its docstring; mypy checks those who implement it.

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Final, Protocol

from recovery.core.durations import stated
from recovery.core.errors import DefinitionError


@dataclass(frozen=True, slots=True, kw_only=True)
class Budget:
    """Bounds of one intent (attempts, probes: durable, counted over all workers) and of one call (max_wait).

    attempts: those that may have left; one proven unsent, and a probe that nobody answered, spend nothing, so that an outage ends in
    "look again" and never in doubt. Nor does an answer that a copy is at work, until every attempt that was there at the first such answer
    must be over (its send_until, the settle window and the clock error).
    max_wait: how long one recovery call may wait for named times; None: as long as it takes (a worker).
    max_answer_wait: how long one call may look for an answer that nobody has given yet (`run.wait_for`, `run.receive`). Not at all by default: the
    run is let go, and the call that comes after the answer goes on.
    """

    attempts: int = 20
    probes: int = 20
    max_wait: timedelta | None = timedelta(seconds=60)
    max_answer_wait: timedelta = timedelta(0)
    backoff: timedelta = timedelta(milliseconds=200)  # after the first unanswered try; doubles each time
    backoff_max: timedelta = timedelta(seconds=30)

    def __post_init__(self) -> None:
        for name in ("max_wait", "max_answer_wait", "backoff", "backoff_max"):
            if not (name == "max_wait" and self.max_wait is None):
                stated(getattr(self, name), "budget", name)
        _require(self.attempts >= 0, "budget", "attempts", "it is negative", "None sends nothing.")
        _require(self.probes >= 0, "budget", "probes", "it is negative", "Allow none or more.")
        none = timedelta(0)
        _require(self.max_wait is None or self.max_wait >= none, "budget", "max_wait", "it is negative", "Zero waits for nothing.")
        _require(self.max_answer_wait >= none, "budget", "max_answer_wait", "it is negative", "Zero does not wait.")
        _require(
            none < self.backoff <= self.backoff_max,
            "budget",
            "backoff",
            "it is zero or above backoff_max",
            "Make it a short pause.",
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Lease:
    """Who may work on a run. A lease has ended when its counter has not moved for `term` on the watcher's boot clock."""

    term: timedelta = timedelta(seconds=30)
    renew_every: timedelta = timedelta(seconds=10)

    def __post_init__(self) -> None:
        stated(self.term, "lease", "term")
        stated(self.renew_every, "lease", "renew_every")
        ends = "a live owner would lose its runs"
        _require(timedelta(0) < self.renew_every < self.term, "lease", "renew_every", ends, "Renew several times in a term.")


@dataclass(frozen=True, slots=True, kw_only=True)
class Riding:
    """How long the outcome of an effect may wait for the next commit of its run. It rides only where its contract says that sending the key again
    returns it as it was: a crash then loses nothing that anybody has seen.

    limit: at most so long it waits. horizon: how long after a crash a recovery is counted on; an outcome whose key would be forgotten by then
    does not ride.
    """

    limit: timedelta = timedelta(milliseconds=50)
    horizon: timedelta = timedelta(hours=4)

    def __post_init__(self) -> None:
        stated(self.limit, "riding", "limit")
        stated(self.horizon, "riding", "horizon")
        none = timedelta(0)
        _require(self.limit > none, "riding", "limit", "it is not longer than zero", "Pass `riding=None` where nothing is to ride.")
        _require(self.horizon >= none, "riding", "horizon", "it is negative", "Say how long after a crash a run is recovered.")


class Policy(Protocol):
    """What a user says about repeating something that failed."""

    @property
    def attempts_max(self) -> int | None:
        """How many attempts there may be whatever they fail with; None: as the budget says."""

    @property
    def within_us(self) -> int | None:
        """How long after the first one may begin an attempt may begin; None: no bound."""

    def cause_of(self, error: BaseException) -> str:
        """The name of the class that the policy knows an error under; "" for none."""

    def pause_us(self, causes: Sequence[str], elapsed_us: int, bits: int, error: BaseException | None = None) -> int | None:
        """How long to wait after the last of these failures; None: that was enough. causes: each by its class; elapsed_us: since the first
        attempt might begin; bits: 128 random ones; error: the last failure, where it is at hand."""


def _require(holds: bool, what: str, field: str, problem: str, advice: str) -> None:
    if not holds:
        raise DefinitionError(what=what, name=field, problem=problem, advice=advice)


RIDING: Final = Riding()
"""What an engine does that is not told otherwise."""
