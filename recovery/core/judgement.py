"""Judgement: the verdict on one step, ready to be acted on and recorded.

Owns what a row means for a concrete step: its next look, its assumptions, its evidence and the settlement it leads to. Knows
nothing of how anything is sent or stored. Invariant: `conclude` is pure, and the same evidence in the same situation gives the
same judgement; a settled step is never settled again.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, Final, TypeAlias

from recovery.core.contracts import Contract, Lookup
from recovery.core.entries import Answered, AnswerKind, Observation, OutcomeKind, Settled, Verdict
from recovery.core.errors import InvariantViolated
from recovery.core.evidence import Situation, Weighed, answer_due, back_off_until, cancels, examine
from recovery.core.facts import Facts, Finding, decided
from recovery.core.history import EffectStep, Noted
from recovery.core.rows import Action, ParkingReason, Reason, Row
from recovery.core.timing import Timing, send_until_us
from recovery.core.values import value
from recovery.core.verdicts import judge

Outcome: TypeAlias = dict[str, Any]
"""The fields of a settlement that depend on the evidence."""

NAME_TAKEN: Final = "NameTaken"
"""The stable name of the rejection of row 17."""

CONTRADICTED: Final = "contradicted"
"""The name of row 3, and the reason in the row of a settled run whose contradictions nobody has acknowledged."""

KEPT: Final = judge(decided(Finding.KEPT))
"""The row of a settled step that nothing speaks against. Its judgement is the same of each: no assumption, no next look, no news."""

_BY_FINDING: Final = frozenset({*range(1, 20), 21, 29})
"""Rows that rest on the finding's own observations; the others rest on everything observed."""


@value(frozen=True, slots=True, kw_only=True)
class Judgement:
    """A row, applied to a step.

    next_look_us: when to look again; for an attempt, its send_until (to be written into the attempt as it stands); None: never by
    itself. evidence: sequence numbers of the durable observations behind it (the intent's own where nothing was observed).
    settlement: the entry that settles the step, with the fresh observation inside, or None. news: whether this differs from the
    last recorded verdict, so that judging again appends nothing (a divergence is compared by the history, which keeps it). support: the
    observations behind the finding; of a contradiction, each item that speaks against the recorded outcome. cancels: the question is put as a
    cancel by key, which is an attempt.
    """

    step: str
    at_us: int
    facts: Facts
    row: Row
    next_look_us: int | None
    assumptions: tuple[str, ...]
    evidence: tuple[int, ...]
    settlement: Settled | None
    news: bool
    timing: Timing
    support: tuple[Noted, ...] = ()
    cancels: bool = False

    @property
    def action(self) -> Action:
        return self.row.action

    @property
    def reason(self) -> Reason | ParkingReason:
        return self.row.reason

    def recorded(self) -> Verdict:
        """The entry that records this judgement."""
        return Verdict(
            step=self.step,
            row=self.row.name,
            action=self.action.value,
            reason=self.reason.value,
            at_us=self.at_us,
            assumptions=self.assumptions,
            next_look_us=self.next_look_us,
        )


def conclude(step: EffectStep, situation: Situation, fresh: Observation | None = None) -> Judgement:
    """Weigh and judge `step`. `fresh` is an observation that is not durable yet; `step` itself is not changed.

    A settlement carries `fresh` inside, so that both become durable in one row; any other judgement leaves its recording to
    the caller.
    """
    if fresh is not None:
        step = replace(step, observations=(*step.observations, Noted(None, fresh)))
    weighed = examine(step, situation)
    row = judge(weighed.facts)
    assumptions = _assumptions(row, weighed.contract)
    behind = weighed.support if row.number in _BY_FINDING else step.observations
    evidence = tuple(sorted({noted.seq for noted in behind if noted.seq is not None}))
    if not evidence and fresh is None and step.seq > 0:
        evidence = (step.seq,)
    settlement = None
    if row.action in _SETTLING and step.settled is None:
        settlement = Settled(
            step=step.step,
            at_us=situation.now_us,
            row=row.name,
            reason=row.reason.value,
            assumptions=assumptions,
            evidence=evidence,
            observation=fresh,
            **_SETTLING[row.action](weighed),
        )
    next_look = _next_look(row, weighed, situation, step)
    return Judgement(
        step=step.step,
        at_us=situation.now_us,
        facts=weighed.facts,
        row=row,
        next_look_us=next_look,
        assumptions=assumptions,
        evidence=evidence,
        settlement=settlement,
        news=_news(step, weighed, row, next_look),
        timing=weighed.timing,
        support=weighed.support,
        cancels=row.action is Action.ASK and cancels(situation, wanted=weighed.facts.wanted),
    )


# -- when to look again ------------------------------------------------------------------------------------------------


def _next_look(row: Row, weighed: Weighed, situation: Situation, step: EffectStep) -> int | None:
    """Every wait names its time, every act the time at which its answer is overdue."""
    if row.action in {Action.SEND, Action.RESEND}:
        return send_until_us(step, situation.now_us)
    if row.action in {Action.CLOSE, Action.ASK}:
        return situation.now_us + step.intent.timeout_us
    if row.action is not Action.WAIT:
        return None
    timing = weighed.timing
    quiet = (timing.quiet_at_us or 0) + 1
    lag = weighed.contract.lookup.lag_us if weighed.contract.lookup else 0
    return {
        "name-taken-early": quiet + lag,
        "backing-off": back_off_until(step, situation.budget),
        "unanswered": answer_due(step),
        "rejection-early": quiet,
        "absence-early": timing.counts_at_us,
    }[row.name]


def _news(step: EffectStep, weighed: Weighed, row: Row, next_look: int | None) -> bool:
    """A contradiction is recorded once per item, anything else when it differs from what was recorded last."""
    if row.action is Action.KEEP:
        return weighed.facts.finding is Finding.CONTRADICTED and bool(unrecorded(step, weighed.support))
    if row.action in {Action.SEND, Action.RESEND, Action.CLOSE, Action.ASK} or not step.verdicts:
        return True
    last = step.verdicts[-1]
    return (last.row, last.next_look_us) != (row.name, next_look)


def unrecorded(step: EffectStep, against: tuple[Noted, ...]) -> tuple[Noted, ...]:
    """Which contradicting items no verdict has recorded yet. Each is recorded once (I7)."""
    verdicts = [verdict for verdict in step.verdicts if verdict.row == CONTRADICTED]
    named = {seq for verdict in verdicts for seq in verdict.evidence}
    unnamed = sum(not verdict.evidence for verdict in verdicts)
    return tuple(noted for noted in against if noted.seq not in named)[unnamed:]


# -- what it rests on --------------------------------------------------------------------------------------------------


def _assumptions(row: Row, contract: Contract) -> tuple[str, ...]:
    relied = [name for name in row.relies_on if name in contract.unstated]
    return (*row.assumes, *(f"default {name}={_shown(getattr(contract, name))}" for name in relied))


def _shown(value: object) -> str:
    if not isinstance(value, Lookup):
        return str(value)
    kept = "for ever" if value.retention_us is None else f"{value.retention_us} us"
    sees = "authoritative" if value.authoritative else "not authoritative"
    return f"{sees}, lag {value.lag_us} us, kept {kept}, deletion {value.deletion}"


# -- settling ----------------------------------------------------------------------------------------------------------


def _adopted(weighed: Weighed) -> Outcome:
    basis, finding = _basis(weighed), weighed.facts.finding
    if finding is Finding.OPERATOR:
        return _by_word(basis.answer)
    if finding in {Finding.GONE, Finding.SWALLOWED}:
        return {"outcome": OutcomeKind.APPLIED_WITHOUT_VALUE}
    if finding is Finding.MIXED:
        return {"outcome": OutcomeKind.MIXED, "value": basis.answer.value}
    return _receipt(weighed, basis)


def _receipt(weighed: Weighed, basis: Noted) -> Outcome:
    """The first reply whole; of a present state the stable fields; of a duplicate without either, that it happened."""
    answer, reading = basis.answer, weighed.reading
    if answer.kind is AnswerKind.FOUND and reading.original(basis):
        return {"outcome": OutcomeKind.APPLIED, "value": answer.value}
    stable = reading.stable(answer.value) if answer.kind is AnswerKind.FOUND else None
    if stable is None:
        return {"outcome": OutcomeKind.APPLIED_WITHOUT_VALUE}
    return {"outcome": OutcomeKind.APPLIED, "value": stable, "reconstructed": True}


def _by_word(answer: Answered) -> Outcome:
    outcomes = {
        AnswerKind.FOUND: OutcomeKind.APPLIED,
        AnswerKind.REFUSED: OutcomeKind.REJECTED,
        AnswerKind.ITEMS: OutcomeKind.MIXED,
        AnswerKind.ABSENT: OutcomeKind.NOT_EXECUTED,
        AnswerKind.NOT_SENT: OutcomeKind.NOT_EXECUTED,
        AnswerKind.CLOSED: OutcomeKind.NOT_EXECUTED,
    }
    outcome = outcomes.get(answer.kind, OutcomeKind.APPLIED_WITHOUT_VALUE)
    valued = outcome not in {OutcomeKind.NOT_EXECUTED, OutcomeKind.APPLIED_WITHOUT_VALUE}
    return {"outcome": outcome, "value": answer.value if valued else None, "error": answer.error, "heuristic": True}


def _rejected(weighed: Weighed) -> Outcome:
    answer = _basis(weighed).answer
    error = NAME_TAKEN if weighed.facts.finding is Finding.FOREIGN_FINAL else answer.error
    return {"outcome": OutcomeKind.REJECTED, "value": answer.value, "error": error}


def _not_executed(weighed: Weighed) -> Outcome:  # noqa: ARG001  # one signature for all settling actions
    return {"outcome": OutcomeKind.NOT_EXECUTED}


def _basis(weighed: Weighed) -> Noted:
    """The observation whose answer becomes the outcome."""
    if not weighed.support:
        raise InvariantViolated(f"{weighed.facts.finding} settles a step without an observation")
    return weighed.support[0]


_SETTLING: Final[dict[Action, Callable[[Weighed], Outcome]]] = {
    Action.ADOPT: _adopted,
    Action.REJECT: _rejected,
    Action.NOT_EXECUTED: _not_executed,
}
