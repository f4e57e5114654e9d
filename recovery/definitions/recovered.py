"""What a caller gets to know about a run: plain values, decoded.

Owns the reports of a recovery. Knows no engine. Invariant: `result` returns the original outcome or raises the error that stands for it, the
same on every look.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Generic, TypeVar

from recovery.core.entries import Status
from recovery.core.errors import ExitCode, RecoveryError

R = TypeVar("R")


@dataclass(frozen=True, slots=True, kw_only=True)
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Recovered(Generic[R]):
    """Where a run stands after one call.

    value: the original outcome, decoded (plain JSON where the workflow is not known here); None unless completed.
    error: what `result` raises: the run's own failure, doubt, divergence, or "look again".
    verdicts: what this call concluded; empty where the run was settled before.
    """

    run_id: str
    workflow: str
    status: Status
    value: R | None = None
    error: RecoveryError | None = None
    verdicts: tuple[StepVerdict, ...] = ()
    next_look: datetime | None = None

    def result(self) -> R:
        """The original outcome. Raises RunFailed, EffectInDoubt, Unresolved or Diverged."""
        if self.error is not None:
            raise self.error
        return self.value  # type: ignore[return-value]  # completed: the value is there, None included

    @property
    def exit_code(self) -> ExitCode:
        return self.error.exit_code if self.error is not None else ExitCode.SETTLED


@dataclass(frozen=True, slots=True, kw_only=True)
class RunInfo:
    """The run row, for people. `owner` is None when nobody works on it; `orphaned`: its owner is proven dead."""

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
