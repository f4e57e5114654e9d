"""Evidence: from what is durable about a step to the facts that decide.

Owns rule 1 (may the key be sent again), what a question or a close could still prove, and the gates. Knows nothing of the rows.
Invariant: `weigh` is a pure function of step and situation, its result is always valid facts, and with the same evidence it
changes only when a named time passes.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from recovery.core.contracts import Contract, Kind, Replay, microseconds
from recovery.core.entries import AnswerKind, Source
from recovery.core.errors import InvariantViolated
from recovery.core.facts import SELF_EVIDENT, Absence, Ask, Close, Facts, Finding, Gate, Resend, decided
from recovery.core.findings import Findings, Reading, open_items
from recovery.core.history import EffectStep, Noted
from recovery.core.policy import Budget
from recovery.core.timing import (
    ASKED,
    SAYS_NOTHING,
    SENDING,
    Situation,
    Timing,
    attempts_spent,
    exposed_attempts,
    probes_spent,
    replies,
    timing_of,
    tombstones,
    valid_until_us,
)
from recovery.core.trust import weaker, weakest
from recovery.core.trying import attempts_left, given_up
from recovery.core.values import value

__all__ = ["Situation", "Timing", "Weighed", "answer_due", "back_off_until", "cancels", "examine", "weaker", "weigh"]

PRIORITY: Final = tuple(Finding)
"""Which finding counts where several hold: the order of the rows."""

_TRIES: Final = frozenset({Source.REPLY, Source.PROBE, Source.CLOSE, Source.CANCEL})
_DOUBLINGS_MAX: Final = 62


@value(frozen=True, slots=True, kw_only=True)
class Weighed:
    """Facts, and what they rest on."""

    facts: Facts
    contract: Contract
    timing: Timing
    reading: Reading
    support: tuple[Noted, ...]  # the observations behind the finding


def weigh(step: EffectStep, situation: Situation) -> Facts:
    """What the step's evidence amounts to at `situation.now_us`."""
    return examine(step, situation).facts


def examine(step: EffectStep, situation: Situation, priority: tuple[Finding, ...] = PRIORITY) -> Weighed:
    """`weigh`, with the reasons kept. `priority` differs from PRIORITY only in tests that show why it must not."""
    contract = weakest(situation.contracts)
    if contract.kind is Kind.READ:
        situation = replace(situation, restored=False)  # an attempt that the backup lacks did nothing either
    timing = timing_of(step, contract)
    reading = Reading(step, situation, contract, timing)
    found = reading.all()
    finding = min(found, key=priority.index)
    if finding in SELF_EVIDENT or (finding is Finding.REJECTED_AFTER_QUIET and not situation.restored):
        facts = decided(finding)
    else:
        facts = _Weighing(step, situation, contract, timing, reading).facts(finding)
        if not facts.valid:
            raise InvariantViolated(f"step {step.step}: weighed to facts that cannot be: {facts}")
    return Weighed(facts=facts, contract=contract, timing=timing, reading=reading, support=_support(finding, found, step))


def _support(finding: Finding, found: Findings, step: EffectStep) -> tuple[Noted, ...]:
    """What a verdict names as evidence: the finding's own, else everything that was observed."""
    return found[finding] if finding in found and finding is not Finding.OPEN else tuple(step.observations)


def back_off_until(step: EffectStep, budget: Budget) -> int | None:
    """When the next try is due after tries that told nothing, or left items of a batch open; None after any other answer. A person's
    question that told nothing is none of these tries."""
    made = [noted for noted in step.observations if noted.observation.source in _TRIES]
    tries = [noted for noted in made if not (noted.observation.by_operator and _told_nothing(noted))]
    silent = 0
    for noted in reversed(tries):
        if not _told_nothing(noted):
            break
        silent += 1
    if not silent:
        return None
    last = tries[-1].observation
    doubled = microseconds(budget.backoff) << min(silent - 1, _DOUBLINGS_MAX)
    pause = min(doubled, microseconds(budget.backoff_max)) if last.pause_us is None else last.pause_us
    return last.observed_at_us + max(pause, last.answer.retry_after_us or 0)


def _told_nothing(noted: Noted) -> bool:
    return noted.answer.kind in SAYS_NOTHING or bool(open_items(noted.answer))


def cancels(situation: Situation, *, wanted: bool) -> bool:
    """Whether the question is put as a cancel by key. Never where a backup may have lost what the key was used for."""
    return situation.can_cancel and not wanted and not situation.restored


def answer_due(step: EffectStep) -> int | None:
    """The latest deadline of a re-send or close to which nothing was answered."""
    told = replies(step)
    open_ends = [attempt.send_until_us for attempt in step.attempts if attempt.purpose != SENDING and not told[attempt.number]]
    return max(open_ends, default=None)


@value(frozen=True, slots=True)
class _Weighing:
    step: EffectStep
    situation: Situation
    contract: Contract
    timing: Timing
    reading: Reading

    def facts(self, finding: Finding) -> Facts:
        situation = self.situation
        exposed = self.contract.kind is not Kind.READ and bool(exposed_attempts(self.step))
        ask = self.ask(exposed)
        return Facts(
            finding=finding,
            gate=self.gate(exposed),
            restored=situation.restored,
            exposed=exposed,
            wanted=self.wanted() and (exposed or not given_up(self.step, self.contract, situation.now_us)),
            resend=self.resend() if ask is not Ask.DUE else self.resend_before_asking(),
            attempts_left=self.attempts_left(),
            ask=ask,
            close=self.close(exposed),
            absence=self.absence(exposed, ask),
        )

    def wanted(self) -> bool:
        until = valid_until_us(self.step, self.contract)
        return self.situation.wanted and (until is None or self.situation.now_us < until)

    # -- gates ---------------------------------------------------------------------------------------------------------

    def gate(self, exposed: bool) -> Gate:
        now = self.situation.now_us
        if self.situation.held:
            return Gate.HELD
        if self.situation.scope_changed:
            return Gate.SCOPE_CHANGED
        due = back_off_until(self.step, self.situation.budget)
        if due is not None and now < due and not (exposed and (self.hopeless() or self.idle())):
            return Gate.BACKING_OFF
        overdue = answer_due(self.step)
        if overdue is not None and now < overdue:
            return Gate.UNANSWERED
        return Gate.CLEAR

    def hopeless(self) -> bool:
        """No key, nothing to ask, nothing to close: waiting would bring nothing."""
        return not self.contract.keyed and not self.askable() and not self.situation.can_close

    def attempts_left(self) -> bool:
        return attempts_left(self.step, self.contract, self.situation.budget, self.situation.now_us)

    def idle(self) -> bool:
        """No attempt left, nothing to ask, nothing to close: there is no next try to wait for."""
        return not (self.attempts_left() or self.askable() or self.situation.can_close)

    # -- rule 1 --------------------------------------------------------------------------------------------------------

    def resend(self) -> Resend:
        contract, timing = self.contract, self.timing
        if contract.kind is Kind.READ:
            return Resend.LICENSED
        kinds = {noted.answer.kind for noted in self.step.observations if noted.observation.source is not Source.OPERATOR}
        for kind, answer in (
            (AnswerKind.CLOSED, Resend.CLOSED),
            (AnswerKind.INDETERMINATE, Resend.CACHED_FAILURE),
            (AnswerKind.EXPIRED, Resend.EXPIRED),
        ):
            if kind in kinds:
                return answer
        if not contract.keyed:
            return Resend.OPAQUE if self.hopeless() else Resend.KEYLESS
        if contract.fail_open:
            return Resend.FAIL_OPEN
        if not self.licensed():
            return Resend.REFUSED
        if timing.t0_us is not None and (timing.not_after_us is None or self.situation.now_us > timing.not_after_us):
            return Resend.LATE
        return Resend.LICENSED

    def resend_before_asking(self) -> Resend:
        """Other bytes would meet their own key's refusal, which freezes it, where a question finds what the first ones did: so the question comes first."""
        found = self.resend()
        other_bytes = found is Resend.LICENSED and self.contract.kind is not Kind.READ and not self.situation.same_bytes
        return Resend.REFUSED if other_bytes else found

    def licensed(self) -> bool:
        """The clauses of rule 1 that do not change with time: serialised copies, nothing forgotten that may have acted, bytes."""
        contract = self.contract
        success = contract.kind is Kind.SWALLOW or contract.replay_success in {Replay.ORIGINAL, Replay.CURRENT}
        failure = contract.replay_failure is not Replay.REEXECUTES or contract.failures_effect_free
        same = self.situation.same_bytes or contract.mismatch_checked
        return contract.lock_outlives_execution and success and failure and same

    # -- asking and closing --------------------------------------------------------------------------------------------

    def answers(self) -> list[Noted]:
        """What probes told, since a copy was last seen at work. What was seen late counts from when it was seen."""
        told: list[Noted] = []
        for noted in self.step.observations:
            if noted.answer.kind is AnswerKind.IN_FLIGHT:
                told = [answer for answer in told if _asked_since(answer, noted)]
            elif noted.observation.source in ASKED and noted.answer.kind not in SAYS_NOTHING:
                told.append(noted)
        return told

    def since_attempt(self) -> list[Noted]:
        """The answers that were asked after the last attempt that may act."""
        last = max((attempt.sent_at_us for attempt in exposed_attempts(self.step)), default=None)
        return [noted for noted in self.answers() if last is None or noted.observation.asked_at_us >= last]

    def askable(self) -> bool:
        """Whether there is a question to put: a probe, or a cancel of what nobody wants."""
        return self.situation.can_probe or cancels(self.situation, wanted=self.wanted())

    def ask(self, exposed: bool) -> Ask:
        situation, timing = self.situation, self.timing
        if not self.askable():
            return Ask.NONE
        left = probes_spent(self.step, self.contract) < situation.budget.probes
        if situation.restored:
            asked = any(_incarnation(noted) >= situation.incarnation for noted in self.answers())
            return Ask.ANSWERED if asked else Ask.DUE if left else Ask.SPENT
        if not exposed or (timing.receipt_until_us is not None and situation.now_us >= timing.receipt_until_us):
            return Ask.NONE
        told = self.since_attempt()
        come = situation.now_us >= timing.counts_at_us
        due = not told or (come and not any(noted.observation.asked_at_us >= timing.counts_at_us for noted in told))
        later = not come and any(noted.answer.kind is AnswerKind.ABSENT for noted in told)
        if due and left:
            return Ask.DUE
        return Ask.SPENT if (due or later) and not left else Ask.ANSWERED

    def close(self, exposed: bool) -> Close:
        situation, until = self.situation, self.timing.close_until_us
        barred = not exposed or situation.restored or self.contract.fail_open or not situation.can_close
        if barred or tombstones(self.step) or (until is not None and situation.now_us >= until):
            return Close.NONE
        closes = attempts_spent(self.step, self.contract, closing=True)
        return Close.AVAILABLE if closes < situation.budget.attempts else Close.SPENT

    def absence(self, exposed: bool, ask: Ask) -> Absence:
        reading, timing = self.reading, self.timing
        absent = [noted for noted in self.since_attempt() if noted.answer.kind is AnswerKind.ABSENT]
        if not absent or not exposed or self.situation.restored or self.hopeless():
            return Absence.NONE
        if any(reading.enforced(noted) for noted in absent):
            return Absence.ENFORCED
        ahead = self.situation.now_us < timing.counts_at_us and ask in {Ask.ANSWERED, Ask.SPENT}
        if ahead and timing.matures:
            return Absence.MATURING
        if any(reading.assumed(noted) for noted in absent):
            return Absence.TRUSTED if self.contract.trust_settle else Absence.UNPROVEN
        return Absence.PENDING if ahead else Absence.UNPROVEN


def _asked_since(answer: Noted, seen: Noted) -> bool:
    """Late evidence stands behind everything else, so there the order in which things became known says nothing."""
    asked, at = answer.observation.asked_at_us, seen.observation.observed_at_us
    return asked >= at if seen.observation.source is Source.LATE else asked > at


def _incarnation(noted: Noted) -> int:
    """The incarnation in which a probe was asked; unknown counts as the first."""
    head = noted.observation.epoch.partition(".")[0]
    return int(head) if head.isdigit() else 0
