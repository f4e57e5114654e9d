"""What a caller gets to know about a run: plain values, decoded.

Owns the reports of a recovery. Knows no engine. Invariant: `result` returns the original outcome or raises the error that stands for it, the
same on every look.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final, Generic, TypeVar

from recovery.core.entries import Status
from recovery.core.errors import ExitCode, RecoveryError
from recovery.core.instants import moment
from recovery.core.judgement import KEPT, Judgement
from recovery.core.reasons import ParkingReason, parking
from recovery.core.recorded import EffectStep
from recovery.core.resting import RestsFor
from recovery.core.values import value

R = TypeVar("R")

_KEEP: Final = KEPT.action.value
_SETTLED: Final = KEPT.reason.value  # read once: an enum's value is found by a call


@value(frozen=True, slots=True, kw_only=True)
class StepVerdict:
    """One conclusion about one effect. `action`: what follows; `row` and `reason`: why; `assumptions`: what it rests on."""

    step: str
    effect: str
    key: str
    row: str
    action: str
    reason: str
    assumptions: tuple[str, ...] = ()
    next_look: datetime | None = None

    @property
    def parking(self) -> ParkingReason | None:
        """Why it is in doubt or held; None where it is neither."""
        return parking(self.action, self.reason)


def verdict_of(effect: EffectStep, judgement: Judgement | None) -> StepVerdict:
    """What was concluded of an effect; None: that its outcome stands, as nothing speaks against it."""
    if judgement is None:
        return StepVerdict(step=effect.step, effect=effect.effect, key=effect.key, row=KEPT.name, action=_KEEP, reason=_SETTLED)
    row, next_look_us = judgement.row, judgement.next_look_us
    return StepVerdict(
        step=effect.step,
        effect=effect.effect,
        key=effect.key,
        row=row.name,
        action=row.action.value,
        reason=row.reason.value,
        assumptions=judgement.assumptions,
        next_look=None if next_look_us is None else moment(next_look_us),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Receipt:
    """What the environment was heard to say about one effect, and from whom.

    said: the kind of answer, such as found or refused; value: as it is stored. source: reply, late (a superseded worker's), push, probe or
    close. attempt: whose reply it is, None where it answers no attempt; epoch: of the worker that heard it.
    """

    said: str
    value: Any
    error: str
    receipt: str
    fingerprint: str
    source: str
    attempt: int | None
    epoch: str
    observed_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Proposal:
    """A compensation that a person may want: the effect that undoes a surplus one, with its arguments bound. Nothing performs it by itself."""

    effect: str
    environment: str
    scope: str
    arguments: Mapping[str, Any]
    undoes: Receipt


@dataclass(frozen=True, slots=True, kw_only=True)
class Contradiction:
    """Evidence against a step's recorded outcome. The outcome stands: later steps have run on it.

    duplicate: two effects happened. adopted: the receipt that the outcome rests on, None where it rests on none. against: what speaks
    against it, in the order in which it became known. proposals: what would undo the surplus effects; empty where the effect has no
    compensation, or where the app that defines it was not asked. acknowledged_by, acknowledged_because: a person's last word that it was
    seen to, "" without one; open: something here is named by no such word.
    """

    step: str
    effect: str
    environment: str
    key: str
    duplicate: bool
    outcome: str
    adopted: Receipt | None
    against: tuple[Receipt, ...]
    proposals: tuple[Proposal, ...] = ()
    acknowledged_by: str = ""
    acknowledged_because: str = ""
    open: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Recovered(Generic[R]):
    """Where a run stands after one call.

    value: the original outcome, decoded (plain JSON where the workflow is not known here); None unless completed.
    error: what `result` raises: the run's own failure, doubt, divergence, or "look again".
    verdicts: what this call concluded; empty where the run was settled before.
    contradictions: what speaks against recorded outcomes, on every look; also where nothing changed.
    """

    run_id: str
    workflow: str
    status: Status
    value: R | None = None
    error: RecoveryError | None = None
    verdicts: tuple[StepVerdict, ...] = ()
    contradictions: tuple[Contradiction, ...] = ()
    next_look: datetime | None = None

    def result(self) -> R:
        """The original outcome. Raises RunFailed, EffectInDoubt, Unresolved or Diverged."""
        if self.error is not None:
            raise self.error
        return self.value  # type: ignore[return-value]  # completed: the value is there, None included

    @property
    def exit_code(self) -> ExitCode:
        """What `recover --run-id` ends with: 0 where there is a result, else what the error says."""
        return self.error.exit_code if self.error is not None else ExitCode.SETTLED


@dataclass(frozen=True, slots=True, kw_only=True)
class RunInfo:
    """The run row, for people. `owner` is None when nobody works on it; `orphaned`: its owner is proven dead. `rests_for`: what kind of thing a run
    that waits rests for; `reason` says the same as text."""

    run_id: str
    workflow: str
    status: Status
    reason: str
    owner: str | None
    orphaned: bool
    epoch: str
    entries: int
    created_at: datetime
    updated_at: datetime
    next_look: datetime | None
    queue: str = ""
    priority: int = 0
    rests_for: RestsFor = RestsFor.NOTHING
