"""Resolving: the outcome of a step by a person's word.

Owns what a word must bring, and its check against the effect's own types. Invariants: it is marked heuristic and names who, why and on what
grounds; it never replaces an outcome, and never comes before one that the evidence itself gives.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Final

from recovery.claims import World
from recovery.codec import check_stored
from recovery.core.contradictions import taken_in
from recovery.core.effect_errors import NotExecuted, OutcomeUnavailable
from recovery.core.entries import JSON, Answered, AnswerKind, Observation, OutcomeKind, Override, Settled, Source, Status, Verb
from recovery.core.errors import OverrideRefused, StepSettled, ValueNotStorable, ValueUnreadable
from recovery.core.ids import digest_bytes
from recovery.core.operations import Now
from recovery.core.rows import Action, Reason
from recovery.definitions.answer import clipped
from recovery.definitions.effect import Effect
from recovery.definitions.rejection import encode_rejection
from recovery.operators.claiming import Claimed, attributed, keepable, under_claim
from recovery.operators.standing import Standing, effect_of, looked_at, standing

GROUNDS_MAX: Final = 10_000  # characters kept; the digest is of all of it

_ANSWERS: Final = {
    OutcomeKind.APPLIED: AnswerKind.FOUND,
    OutcomeKind.APPLIED_WITHOUT_VALUE: AnswerKind.UNSTORABLE,
    OutcomeKind.REJECTED: AnswerKind.REFUSED,
    OutcomeKind.NOT_EXECUTED: AnswerKind.ABSENT,
    OutcomeKind.MIXED: AnswerKind.ITEMS,
}
_VALUE: Final = (
    "give it with --value JSON, as the effect would return it. If nobody can tell it, say --without-value: the workflow then gets "
    "OutcomeUnavailable, which ends its run for ever unless it catches that."
)
_SETTLES: Final = {Action.ADOPT, Action.REJECT, Action.NOT_EXECUTED}


@dataclass(frozen=True, slots=True, kw_only=True)
class Word:
    """What a person says happened. value: of an applied or mixed effect, or a rejection's fields; error: the rejection's name."""

    outcome: OutcomeKind
    by: str
    reason: str
    evidence: str
    value: JSON = None
    error: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Resolved:
    """The settlement that was written. checked: whether its value was checked against the effect's types. raises: the error that the workflow gets in
    the place of a value; "" where it gets one, or was not the one that asked: what undoes another effect is asked for by its saga."""

    run_id: str
    step: str
    settled: Settled
    checked: bool
    raises: str


async def resolve(world: World, run_id: str, step: str, word: Word) -> Resolved:
    """Settle a step by a person's word, and nothing else: recover the run afterwards.

    Raises StepNotFound, StepSettled, LeaseUnavailable (somebody is at work on it), OverrideRefused, HeadMoved."""
    about = f"{step} of run {run_id!r}"
    attributed("A resolution", about, by=word.by, reason=word.reason, evidence=word.evidence)
    loaded = await looked_at(run_id)
    stands = await standing(world, loaded, step)
    check_open(stands)
    if stands.judgement.action in _SETTLES:
        problem = f"the evidence settles it by itself ({stands.judgement.reason.value})"
        raise OverrideRefused(verb="A resolution", about=about, problem=problem, advice="Recover the run; no word is needed.")
    effect = None if stands.request is None else stands.request.subject.effect
    word = _checked(word, effect, about)

    async def write(claimed: Claimed) -> Settled:
        claimed.check_head(loaded)
        return await _written(claimed, step, word)

    settled = await under_claim(world, run_id, write)
    raises = "" if stands.effect.intent.undoes else _raised(settled.outcome, effect)
    return Resolved(run_id=run_id, step=step, settled=settled, checked=effect is not None, raises=raises)


def check_open(stands: Standing) -> None:
    """Raises StepSettled."""
    settled = stands.effect.settled
    if settled is not None:
        raise StepSettled(run_id=stands.loaded.run.run_id, step=stands.effect.step, outcome=settled.outcome.value)


def _raised(outcome: OutcomeKind, effect: Effect[..., Any] | None) -> str:
    """What `run.perform` and `run.attempt` raise for an outcome without a value that no declared rejection explains."""
    if outcome is OutcomeKind.APPLIED_WITHOUT_VALUE and (effect is None or not effect.accepts_none):
        return OutcomeUnavailable.__name__
    return NotExecuted.__name__ if outcome is OutcomeKind.NOT_EXECUTED else ""


async def _written(claimed: Claimed, step: str, word: Word) -> Settled:
    """The order and the settlement, in one row of their own each and one commit."""
    loaded, at_us = claimed.loaded, await Now()
    order = Override(
        step=step,
        verb=Verb.RESOLVE,
        by=word.by,
        at_us=at_us,
        reason=word.reason,
        grounds=clipped(word.evidence, GROUNDS_MAX),
        grounds_digest=digest_bytes(word.evidence.encode(errors="backslashreplace")),
    )
    answer = Answered(
        kind=_ANSWERS[word.outcome], value=word.value, error=word.error, detail=clipped(f"by {word.by}: {word.reason}")
    )
    told = Observation(
        step=step, source=Source.OPERATOR, asked_at_us=at_us, observed_at_us=at_us, answer=answer, epoch=str(loaded.run.epoch)
    )
    effect = effect_of(loaded, step)
    late = taken_in(effect)
    known = [noted.seq for noted in effect.observations if noted.seq is not None]
    ahead = range(loaded.run.head + 1, loaded.run.head + len(late) + 2)  # the late evidence, then the order
    settled = Settled(
        step=step,
        outcome=word.outcome,
        at_us=at_us,
        value=word.value,
        error=word.error,
        heuristic=True,
        row="operator",
        reason=Reason.OPERATOR.value,
        evidence=(*known, *ahead),
        observation=told,
    )
    if loaded.history.held is not None:
        await claimed.append(*late, order, settled)
    else:
        await claimed.move(*late, order, settled, to=Status.RUNNING)
    return settled


# -- the word against the effect's own types ---------------------------------------------------------------------------


def _checked(word: Word, effect: Effect[..., Any] | None, about: str) -> Word:
    """The word with its value in stored form. Raises OverrideRefused for one that no run of this effect could have."""
    if word.outcome is OutcomeKind.REJECTED and not word.error:
        raise _refused(about, "a rejection needs its name", "Say which with --rejected NAME.")
    if word.outcome is OutcomeKind.MIXED and not _items(word.value):
        problem = "a mixed outcome needs every item, each found or refused"
        raise _refused(about, problem, 'Give --value \'[{"kind": "found", ...}, {"kind": "refused", ...}]\'.')
    if word.outcome in {OutcomeKind.NOT_EXECUTED, OutcomeKind.APPLIED_WITHOUT_VALUE} and word.value is not None:
        raise _refused(about, f"{word.outcome.value} has no value", "Leave --value out.")
    keepable("A resolution", about, rejection=word.error)
    if word.outcome is OutcomeKind.APPLIED and word.value is None:
        _check_valueless(effect, about)
    try:
        check_stored(word.value, where="value", root="--value")
        return word if effect is None else _stored(word, effect)
    except (ValueUnreadable, ValueNotStorable) as error:
        why = "does not fit" if isinstance(error, ValueUnreadable) else "cannot be stored"
        problem = f"the value at {error.path} {why} ({error.problem})"
        raise _refused(about, problem, "Give a value as the effect itself would return it.") from error


def _check_valueless(effect: Effect[..., Any] | None, about: str) -> None:
    """Raises OverrideRefused where "it happened" alone would end the run: settled without its value, a step cannot be given one any more."""
    if effect is None:
        problem = "whether it returns a value is not known without its app, and no value was given"
        raise _refused(about, problem, f"Name the app with --app, or {_VALUE}")
    if not effect.accepts_none:
        problem = f"{effect.name} returns {effect.outcome.title}, and no value was given"
        raise _refused(about, problem, f"{_VALUE[0].upper()}{_VALUE[1:]}")


def _stored(word: Word, effect: Effect[..., Any]) -> Word:
    where = effect.signature.where
    if word.outcome is OutcomeKind.REJECTED:
        rejection = effect.decode_rejection(word.error, {} if word.value is None else word.value)
        return replace(word, value=encode_rejection(rejection))
    if word.outcome in {OutcomeKind.APPLIED, OutcomeKind.MIXED}:
        return replace(word, value=effect.outcome.encode(effect.decode_value(word.value), where=where, root="result"))
    return word


def _items(value: JSON) -> bool:
    closed = {AnswerKind.FOUND.value, AnswerKind.REFUSED.value}
    return isinstance(value, list) and bool(value) and all(isinstance(item, dict) and item.get("kind") in closed for item in value)


def _refused(about: str, problem: str, advice: str) -> OverrideRefused:
    return OverrideRefused(verb="A resolution", about=about, problem=problem, advice=advice)
