"""Trying: how often one intent is tried, and how long apart, where its effect says so itself.

Owns the counters behind a retry policy, all of them read from what is durable: attempts, what was answered to them, what was drawn. Knows neither how
a policy computes (that is the policy's) nor whether a re-send is licensed (that is the table's). Invariants: a policy's answer is drawn once
for each failure, and durable with it, so that a restart neither begins at zero nor tries too early; a policy only ever makes fewer
attempts than the table would.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from recovery.core.contracts import Contract, Kind
from recovery.core.entries import AnswerKind, Observation, Source
from recovery.core.history import EffectStep
from recovery.core.operations import Draw
from recovery.core.policy import Budget, Policy
from recovery.core.timing import attempts_spent, effect_attempts, exposed_attempts

FAILURES: Final = frozenset({AnswerKind.UNREACHABLE, AnswerKind.TURNED_AWAY, AnswerKind.NOT_SENT})
"""Replies after which a policy is asked. A copy that is at work is no failure: it is looked at again as the budget says."""


async def paced(policy: Policy | None, effect: EffectStep, reply: Observation) -> Observation:
    """A reply with what the policy says of it, if it is a failure."""
    if policy is None or reply.source is not Source.REPLY or reply.answer.kind not in FAILURES:
        return reply
    causes = [*_causes(effect), reply.answer.cause]
    pause_us = policy.pause_us(causes, max(0, reply.observed_at_us - effect.intent.at_us), await Draw())
    return replace(reply, pause_us=pause_us, gives_up=pause_us is None)


def _causes(effect: EffectStep) -> list[str]:
    """What each earlier attempt failed with. One whose answer nobody heard failed with nothing that has a name."""
    told = {noted.observation.attempt: noted.answer for noted in effect.observations if noted.observation.source is Source.REPLY}
    failed = [told.get(attempt.number) for attempt in effect_attempts(effect)]
    return ["" if answer is None else answer.cause for answer in failed[:-1] if answer is None or answer.kind in FAILURES]


def attempts_left(effect: EffectStep, contract: Contract, budget: Budget, now_us: int) -> bool:
    """Whether one more attempt is within the bounds: the policy's where there is one, else the budget's, and beyond them a person's order."""
    spent = attempts_spent(effect, contract)
    own = budget.attempts if effect.intent.attempts_max is None else effect.intent.attempts_max
    return spent < effect.attempts_allowed or (spent < own and not _enough(effect, now_us))


def given_up(effect: EffectStep, contract: Contract, now_us: int) -> bool:
    """Whether the policy has had enough of an effect of which every attempt is proven without effect. Those that never left count here: giving
    up by proof leaves no doubt, however long an outage lasts."""
    exposed = contract.kind is not Kind.READ and exposed_attempts(effect)
    if exposed or effect.attempts_allowed > len(effect.attempts):
        return False
    bound = effect.intent.attempts_max
    return (bound is not None and len(effect_attempts(effect)) >= bound) or _enough(effect, now_us)


def _enough(effect: EffectStep, now_us: int) -> bool:
    until = effect.intent.attempts_until_us
    return (until is not None and now_us >= until) or any(noted.observation.gives_up for noted in effect.observations)
