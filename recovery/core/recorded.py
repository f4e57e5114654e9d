"""Recorded steps: what a journal says about one step of a run.

Owns the facts that are kept per step. Knows nothing of the order of entries, which is the history's. Invariant: nothing here is judged; what is
listed is listed in the order in which it became durable.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from recovery.core.entries import (
    PATCHED,
    UNFIT,
    Answered,
    AnswerKind,
    Attempt,
    Decision,
    Intent,
    Observation,
    Override,
    Settled,
    Source,
    Verdict,
)
from recovery.core.heartbeats import Heard

_UNSPENT: Final = {
    Source.PROBE: frozenset({AnswerKind.UNREACHABLE}),
    Source.CANCEL: frozenset({AnswerKind.UNREACHABLE, AnswerKind.NOT_SENT}),
}
"""Sources of answers to a question, and the answers that spend none."""


@dataclass(slots=True)
class Noted:
    """An observation and where it stands; `seq` is None for late evidence, which is outside the chain."""

    seq: int | None
    observation: Observation

    @property
    def answer(self) -> Answered:
        return self.observation.answer


@dataclass(slots=True)
class EffectStep:
    """What is known about one intent. Attempts and observations are in the order in which they became durable."""

    seq: int
    intent: Intent
    attempts: list[Attempt] = field(default_factory=list)
    observations: list[Noted] = field(default_factory=list)
    verdicts: list[Verdict] = field(default_factory=list)
    settled: Settled | None = None
    overrides: list[Override] = field(default_factory=list)
    heard: Heard = field(default_factory=Heard, compare=False)  # heartbeats of its attempts, which decide nothing
    settled_seq: int = 0  # of the entry that settles it

    @property
    def step(self) -> str:
        return self.intent.step

    @property
    def beside(self) -> bool:
        """Whether it has no place in the order of a branch."""
        return False

    @property
    def probes(self) -> int:
        """How many questions were answered (they count against the durable budget; an outage spends nothing, nor does a cancel that never
        left, nor what a person had asked)."""
        ours = [noted for noted in self.observations if not noted.observation.by_operator]
        return sum(noted.answer.kind not in _UNSPENT.get(noted.observation.source, AnswerKind) for noted in ours)

    @property
    def attempts_allowed(self) -> int:
        """How many attempts may be spent by a person's order; 0 without one."""
        return max((order.attempts or 0 for order in self.overrides), default=0)

    def replies_of(self, attempt: int) -> list[Observation]:
        return [noted.observation for noted in self.observations if noted.observation.attempt == attempt]


@dataclass(slots=True)
class DecisionStep:
    seq: int
    decision: Decision

    @property
    def step(self) -> str:
        return self.decision.step

    @property
    def beside(self) -> bool:
        """Whether it has no place in the order of a branch: a replay meets it wherever it asks."""
        return self.decision.form in {PATCHED, UNFIT}


Step = EffectStep | DecisionStep
