"""Straight: the two judgements of an effect that is asked for, sent once and answered in time, which is what nearly every effect is.

Owns when a step is so ordinary that its judgement is known beforehand, and how it differs from that of the step before. Knows no rule of the table: what
is known beforehand is what `conclude` has said of a first step of the same kind. Invariant: wherever this answers, `conclude` would answer the very
same; everywhere else it gives None, and `conclude` is asked. All named times of such a step lie at fixed distances from its one attempt, so that
its judgement is the first one's, moved in time.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import lru_cache
from typing import Final, NamedTuple, TypeAlias

from recovery.core.contracts import Contract
from recovery.core.entries import Answered, AnswerKind, Attempt, Intent, Observation, OutcomeKind, Settled, Source
from recovery.core.history import EffectStep, Noted
from recovery.core.judgement import Judgement, conclude
from recovery.core.policy import Budget
from recovery.core.riding import comes_again
from recovery.core.rows import Action
from recovery.core.timing import SENDING, Situation, Timing

COURSES_KEPT: Final = 256


class Course(NamedTuple):
    """What the straight steps of one kind have in common. sending: the judgement of one that was not attempted; adopting: of one whose only attempt
    has brought its outcome, sent at moment 0. rides_for_us: for how long from then its outcome would be learnt again by a re-send; None: it would not."""

    sending: Judgement
    adopting: Judgement
    outcome: Settled
    lasts_us: int
    valid_for_us: int | None
    rides_for_us: int | None


Kind: TypeAlias = tuple[str, int, bool, bool, bool]
"""What makes steps go the same course: the digest of the contract, which says more than its equality does; the timeout, in microseconds; whether the
effect can be asked for, and closed; whether its bytes are the same as in earlier attempts."""


@lru_cache(maxsize=COURSES_KEPT)
def course_of(kind: Kind, contract: Contract, budget: Budget) -> Course | None:
    """The course of such steps; None where they have none: a receipt that is held against what was asked for, each by itself, or a budget
    without an attempt."""
    digest, timeout_us, can_probe, can_close, same_bytes = kind
    situation = Situation(
        now_us=0, contracts=(contract,), budget=budget, can_probe=can_probe, can_close=can_close, same_bytes=same_bytes
    )
    intent = Intent(
        step="", effect="", environment="", scope="", key="", fingerprint="", arguments=None, contract=digest, at_us=0,
        timeout_us=timeout_us,
    )  # fmt: skip
    begins = conclude(EffectStep(0, intent), situation)
    if contract.stable_fields or begins.action is not Action.SEND:
        return None
    attempt = Attempt(step="", number=1, purpose=SENDING, sent_at_us=0, send_until_us=timeout_us, epoch="")
    found = Answered(kind=AnswerKind.FOUND)
    reply = Observation(step="", source=Source.REPLY, asked_at_us=0, observed_at_us=0, answer=found, attempt=1)
    sent = EffectStep(1, intent, (attempt,))
    ends = conclude(sent, situation, reply)
    settled = ends.settlement
    if settled is None or settled.outcome is not OutcomeKind.APPLIED:
        return None
    again = comes_again(sent, settled, contract, budget)
    rides_for_us = ends.timing.not_after_us if again else None
    return Course(begins, ends, settled, timeout_us, contract.valid_for_us, rides_for_us)


@dataclass(slots=True)
class Straight:
    """The courses that the steps of one run have gone, under one budget."""

    _budget: Budget | None = None
    _courses: dict[Kind, Course | None] = field(default_factory=dict)

    def judge(self, step: EffectStep, situation: Situation, fresh: Observation | None) -> Judgement | None:
        """What `conclude` would say; None where the step, or what it is judged in, is not ordinary."""
        intent = step.intent
        if situation.held or situation.restored or situation.scope_changed or not situation.wanted or len(situation.contracts) != 1:
            return None
        if situation.replay_fingerprint not in {None, intent.fingerprint} or step.settled is not None or step.observations:
            return None
        contract = situation.contracts[0]
        kind = (contract.digest, intent.timeout_us, situation.can_probe, situation.can_close, situation.same_bytes)
        course = self.course(kind, contract, situation.budget)
        if course is None:
            return None
        return begun(course, step, situation.now_us) if fresh is None else answered(course, step, fresh, situation.now_us)

    def course(self, kind: Kind, contract: Contract, budget: Budget) -> Course | None:
        """What steps of a kind have in common; None where they have nothing in common that is known beforehand."""
        if budget is not self._budget:
            self._budget, self._courses = budget, {}
        if kind not in self._courses:
            self._courses[kind] = course_of(kind, contract, budget)
        return self._courses[kind]


def begun(course: Course, step: EffectStep, now_us: int) -> Judgement | None:
    """Of a step that nobody has attempted, and that is wanted now."""
    intent = step.intent
    if step.seq or step.attempts or step.overrides or intent.deadline_us is not None or intent.attempts_max == 0:
        return None
    ends = (
        intent.valid_until_us,
        intent.attempts_until_us,
        None if course.valid_for_us is None else intent.at_us + course.valid_for_us,
    )
    if any(end_us is not None and now_us >= end_us for end_us in ends):
        return None
    return sending(course, intent.step, now_us)


def sending(course: Course, step: str, now_us: int) -> Judgement:
    """The judgement of a step that is sent now."""
    known = course.sending
    return Judgement(
        step=step,
        at_us=now_us,
        facts=known.facts,
        row=known.row,
        next_look_us=now_us + course.lasts_us,
        assumptions=known.assumptions,
        evidence=(),
        settlement=None,
        news=True,
        timing=known.timing,
    )


def answered(course: Course, step: EffectStep, reply: Observation, now_us: int) -> Judgement | None:
    """Of a step whose first attempt was answered with its outcome, which is not durable yet."""
    if reply.source is not Source.REPLY or reply.attempt != 1 or len(step.attempts) != 1 or step.verdicts:
        return None
    attempt = step.attempts[0]
    if attempt.purpose != SENDING or attempt.send_until_us - attempt.sent_at_us != course.lasts_us:
        return None
    settled = outcome(course, step.intent, reply, now_us)
    return None if settled is None else adopting(course, attempt, settled)


def outcome(course: Course, intent: Intent, reply: Observation, now_us: int) -> Settled | None:
    """What the reply to the only attempt settles the step with; None where it is another answer than its outcome."""
    answer = reply.answer
    if answer.kind is not AnswerKind.FOUND or not answer.original or answer.fingerprint not in {"", intent.fingerprint}:
        return None
    known = course.outcome
    return Settled(
        intent.step, OutcomeKind.APPLIED, now_us, answer.value, "", False, False, known.row, known.reason, known.assumptions, (), reply
    )  # fmt: skip


def adopting(course: Course, attempt: Attempt, settled: Settled) -> Judgement:
    """The judgement of a step whose only attempt has brought this outcome."""
    known, reply = course.adopting, settled.observation
    assert reply is not None, "what it rests on"
    return Judgement(
        step=settled.step,
        at_us=settled.at_us,
        facts=known.facts,
        row=known.row,
        next_look_us=None,
        assumptions=known.assumptions,
        evidence=(),
        settlement=settled,
        news=True,
        timing=moved(known.timing, attempt.sent_at_us),
        support=(Noted(None, reply),),
    )


def moved(timing: Timing, by_us: int) -> Timing:
    """The named times of a step whose first attempt was sent so much later."""
    quiet_at_us = timing.quiet_at_us
    return Timing(
        t0_us=by_us,
        quiet_at_us=_later(quiet_at_us, by_us),
        not_after_us=_later(timing.not_after_us, by_us),
        counts_at_us=timing.counts_at_us if quiet_at_us is None else timing.counts_at_us + by_us,  # a read is quiet at once
        receipt_until_us=_later(timing.receipt_until_us, by_us),
        absence_until_us=_later(timing.absence_until_us, by_us),
        close_until_us=_later(timing.close_until_us, by_us),
        matures=timing.matures,
        fence_at_us=_later(timing.fence_at_us, by_us),
    )


def _later(at_us: int | None, by_us: int) -> int | None:
    return None if at_us is None else at_us + by_us
