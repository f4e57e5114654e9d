"""Comparison: a settled outcome beside what the environment shows of it now.

Owns when an effect counts as lost. Knows nothing of how it was asked. Invariant: lost is said only where the environment would have had to
show it: its answer is of a time after the effect was known to have happened, and from before its memory ends. Nothing follows from it by
itself; a lost effect is a person's to make good.
"""

from __future__ import annotations

from dataclasses import replace
from enum import StrEnum

from recovery.core.compensation import HAPPENED
from recovery.core.contracts import Contract
from recovery.core.entries import AnswerKind, Observation
from recovery.core.evidence import Situation, examine
from recovery.core.findings import RECEIPTS
from recovery.core.history import EffectStep, Noted
from recovery.core.policy import Budget
from recovery.core.timing import can_be_final


class Compared(StrEnum):
    """What a settled, applied effect and its environment say together."""

    SAME = "same"  # the environment shows the receipt that the outcome rests on
    GONE = "gone"  # it shows that it happened and was removed since
    LOST = "lost"  # applied here, and the environment has no trace of it where it must have one
    MISMATCH = "mismatch"  # it shows something else under this key
    TOO_EARLY = "too_early"  # absent, as of a time before the effect was known to have happened
    FORGOTTEN = "forgotten"  # absent, and the environment need not remember it any more
    UNPROVEN = "unproven"  # absent, in a look-up whose absence is never a proof
    UNTOLD = "untold"  # no answer, or one that says nothing
    NOT_ASKED = "not_asked"  # nothing to ask, or not safe to ask


def compare(step: EffectStep, contract: Contract, seen: Observation) -> Compared:
    """What `seen`, the answer to a probe asked just now, says about an applied step."""
    settled = step.settled
    assert settled is not None
    assert settled.outcome in HAPPENED
    noted = Noted(None, seen)
    kind = seen.answer.kind
    if kind is AnswerKind.ABSENT:
        return _absent(step, contract, noted)
    if kind is AnswerKind.EXPIRED:
        return Compared.FORGOTTEN
    if kind is AnswerKind.GONE:
        return Compared.GONE
    if kind in RECEIPTS | {AnswerKind.ACCEPTED, AnswerKind.ITEMS}:
        return Compared.MISMATCH if _speaks_against(step, contract, noted) else Compared.SAME
    if kind in {AnswerKind.MISMATCH, AnswerKind.FOREIGN, AnswerKind.REFUSED, AnswerKind.CLOSED}:
        return Compared.MISMATCH
    return Compared.UNTOLD


def known_at_us(step: EffectStep) -> int:
    """By when the effect had happened: when the first receipt of it was heard, else when it was settled."""
    receipts = [noted.observation.observed_at_us for noted in step.observations if noted.answer.kind in RECEIPTS]
    assert step.settled is not None
    return min([*receipts, step.settled.at_us])


def _absent(step: EffectStep, contract: Contract, noted: Noted) -> Compared:
    if not can_be_final(contract):
        return Compared.UNPROVEN
    reading = examine(step, _situation(contract, noted)).reading
    until = reading.timing.absence_until_us
    if until is not None and noted.observation.observed_at_us >= until:
        return Compared.FORGOTTEN
    as_of = reading.state_at(noted)
    told_by_it = as_of == noted.answer.as_of_us  # a reading of the environment's clock, compared with ours
    margin = contract.clock_error_us if told_by_it else 0
    return Compared.LOST if as_of > known_at_us(step) + margin else Compared.TOO_EARLY


def _speaks_against(step: EffectStep, contract: Contract, noted: Noted) -> bool:
    with_it = replace(step, observations=(*step.observations, noted))
    reading = examine(with_it, _situation(contract, noted)).reading
    return any(against is noted for against in reading.contradictions()) or reading.differs(noted)


def _situation(contract: Contract, noted: Noted) -> Situation:
    return Situation(
        now_us=noted.observation.observed_at_us, contracts=(contract,), budget=Budget(), can_probe=True, can_close=False
    )
