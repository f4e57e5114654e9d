"""Explaining: why a step stands where it stands, and what would change that.

Owns the hypotheses: answers that the environment could give, times that pass, and orders that a person could give, each judged by the same
table. Invariant: pure but for reading; what it says would happen is what `conclude` says, never a second set of rules.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Final

from recovery.claims import World
from recovery.core.compensating import BY_HAND
from recovery.core.contracts import Contract
from recovery.core.entries import JSON, Answered, AnswerKind, Observation, Override, Settled, Source, Verb
from recovery.core.evidence import cancels
from recovery.core.history import EffectStep
from recovery.core.judgement import Judgement, conclude
from recovery.core.reasons import HoldReason, Parked, ParkingReason
from recovery.core.rows import Row
from recovery.core.timing import ASKED, Timing, attempts_spent, lookup_of
from recovery.core.trust import weakest
from recovery.core.verdicts import ROW_BY_NAME
from recovery.operators.advice import SETTLED_BY
from recovery.operators.quarantining import deaths
from recovery.operators.standing import ALONE, Standing, looked_at, standing

_ASKED: Final = (
    AnswerKind.FOUND, AnswerKind.REFUSED, AnswerKind.ABSENT, AnswerKind.GONE, AnswerKind.FOREIGN, AnswerKind.MISMATCH,
    AnswerKind.CLOSED, AnswerKind.EXPIRED, AnswerKind.INDETERMINATE, AnswerKind.IN_FLIGHT, AnswerKind.UNREACHABLE,
)  # fmt: skip
"""What a probe may answer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Piece:
    """One thing that the verdict knows. seq: its entry's number, None for what stands outside the chain."""

    seq: int | None
    kind: str
    at_us: int
    source: str = ""
    answer: Answered | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """Where something would lead. what: in words; at_us: when, None: now."""

    what: str
    row: Row
    at_us: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation:
    """Everything about one step's verdict, as of `at_us`. settled: its outcome, and `row` is then the one that gave it.

    evidence: what the verdict rests on; also: what else is known. changes: what would lead to another row; same: what would not.
    unknown: what was not checked, because the app was not there or no longer fits (`problem`). parking: why it is parked, None: it is not."""

    run_id: str
    at_us: int
    effect: EffectStep
    contract: Contract
    row: Row
    evidence: tuple[Piece, ...]
    also: tuple[Piece, ...]
    assumptions: tuple[str, ...]
    advice: str
    next_look_us: int | None
    timing: Timing
    changes: tuple[Change, ...]
    same: tuple[str, ...]
    settled: Settled | None = None
    contradicted: bool = False
    unknown: tuple[str, ...] = ()
    problem: str = ""
    parking: Parked | None = None


async def explain(world: World, run_id: str, step: str) -> Explanation:
    """Why the step stands where it stands. Raises StepNotFound and what reading a run raises; claims and changes nothing."""
    loaded = await looked_at(run_id)
    return explained(await standing(world, loaded, step))


def explained(stands: Standing) -> Explanation:
    """The explanation of a standing. Pure."""
    effect, judgement = stands.effect, stands.judgement
    settled = effect.settled
    row, assumptions, seqs = judgement.row, judgement.assumptions, set(judgement.evidence)
    if settled is not None:
        row = ROW_BY_NAME.get(settled.row, judgement.row)
        assumptions, seqs = settled.assumptions, set(settled.evidence)
    quarantined = row.parking is ParkingReason.HELD and deaths(stands.loaded.history.held) is not None
    parking = HoldReason.QUARANTINED if quarantined else row.parking
    pieces = list(_pieces(stands))
    came = [] if settled is not None else list(_changes(stands))
    changes = [change for change in came if change.row is not row]
    return Explanation(
        run_id=stands.loaded.run.run_id,
        at_us=stands.situation.now_us,
        effect=effect,
        contract=stands.situation.contracts[0],
        row=row,
        evidence=tuple(piece for piece in pieces if piece.seq in seqs),
        also=tuple(piece for piece in pieces if piece.seq not in seqs),
        assumptions=assumptions,
        advice=_advice(effect, parking),
        next_look_us=None if settled is not None else judgement.next_look_us,
        timing=judgement.timing,
        changes=tuple(changes),
        same=tuple(change.what for change in came if change.row is row),
        settled=settled,
        contradicted=settled is not None and judgement.row.name == "contradicted",
        unknown=ALONE if stands.request is None else (),
        problem=stands.problem,
        parking=parking,
    )


def _advice(effect: EffectStep, parking: Parked | None) -> str:
    undoes, by_hand = effect.intent.undoes, effect.intent.effect == BY_HAND
    if undoes and by_hand and effect.settled is None:
        said = "say so (`recover resolve`: --applied where you undid it, --not-executed where it stays)"
        return f"{undoes} is to be undone and cannot be by itself. Undo it in the environment, or leave it, and {said}."
    if effect.settled is not None:
        return "It is settled, and that is final. What speaks against it is recorded when it arrives."
    if parking is not None:
        return SETTLED_BY[parking]
    return "Recover the run: it needs nobody's decision."


def _pieces(stands: Standing) -> Iterator[Piece]:
    effect = stands.effect
    if effect.seq:
        yield Piece(seq=effect.seq, kind="intent", at_us=effect.intent.at_us)
    for noted in effect.observations:
        seen = noted.observation
        yield Piece(seq=noted.seq, kind="observation", at_us=seen.observed_at_us, source=seen.source.value, answer=seen.answer)
    for seq, entry in enumerate(stands.loaded.entries, start=1):
        if isinstance(entry, Override) and entry.step == effect.step:
            yield Piece(seq=seq, kind=f"override: {entry.verb.value} by {entry.by}", at_us=entry.at_us)


# -- what would change it ----------------------------------------------------------------------------------------------


def _changes(stands: Standing) -> Iterator[Change]:
    yield from _orders(stands)
    yield from _answers(stands)
    yield from _times(stands)


def _orders(stands: Standing) -> Iterator[Change]:
    effect, situation = stands.effect, stands.situation
    if situation.held:
        yield Change(what="it is released", row=conclude(effect, replace(situation, held=False)).row)
    if situation.scope_changed:
        yield Change(what="the scope is the intent's again", row=conclude(effect, replace(situation, scope_changed=False)).row)
    order = Override(
        step=effect.step,
        verb=Verb.REDRIVE,
        by="",
        at_us=situation.now_us,
        attempts=attempts_spent(effect, weakest(situation.contracts)) + 1,
    )
    more = replace(effect, overrides=(*effect.overrides, order))
    yield Change(what="one attempt more is allowed (redrive)", row=conclude(more, situation).row)


def _answers(stands: Standing) -> Iterator[Change]:
    situation, attempts = stands.situation, stands.effect.attempts
    cancelled = cancels(situation, wanted=stands.judgement.facts.wanted)
    source, question = (Source.CANCEL, "a cancel by key") if cancelled else (Source.PROBE, "a probe")
    if (situation.can_probe or cancelled) and not situation.scope_changed:
        for kind in _ASKED:
            told = stands.hypothetically(_said(stands, kind, source, situation.now_us))
            yield Change(what=f"{question} answers {_word(kind)}", row=told.row)
        at_us = stands.judgement.timing.counts_at_us
        if at_us > situation.now_us:
            late = stands.hypothetically(_said(stands, AnswerKind.ABSENT, source, at_us), at_us)
            yield Change(what=f"{question} answers absent then", row=late.row, at_us=at_us)
    if attempts:
        for kind in (AnswerKind.FOUND, AnswerKind.REFUSED):
            told = stands.hypothetically(_said(stands, kind, Source.LATE, situation.now_us, attempts[-1].number))
            yield Change(what=f"the reply to attempt {attempts[-1].number} comes late and says {_word(kind)}", row=told.row)
    told = stands.hypothetically(_said(stands, AnswerKind.FOUND, Source.OPERATOR, situation.now_us))
    yield Change(what="a person says what happened (resolve)", row=_resolved(told))


def _resolved(told: Judgement) -> Row:
    """A resolution settles even where the evidence parks first, so its row is always the operator's."""
    return ROW_BY_NAME["operator"] if told.settlement is None or told.settlement.heuristic else told.row


def _times(stands: Standing) -> Iterator[Change]:
    """Each named time that lies ahead and from which on the same evidence gives another verdict than just before."""
    timing, now_us = stands.judgement.timing, stands.situation.now_us
    named = {
        "its next look is due": stands.judgement.next_look_us,
        "no copy can act any more": _after(timing.quiet_at_us),
        "an absence would count": timing.counts_at_us,
        "a re-send would come too late": _after(timing.not_after_us),
        "a receipt would no longer be shown": timing.receipt_until_us,
        "an absence would no longer count": timing.absence_until_us,
        "a close would no longer prove anything": timing.close_until_us,
    }
    ahead = sorted((at_us, what) for what, at_us in named.items() if at_us is not None and at_us > now_us)
    before = stands.judgement.row
    for at_us, what in ahead:
        row = stands.hypothetically(None, at_us).row
        if row is not before:
            yield Change(what=what, row=row, at_us=at_us)
        before = row


def _after(at_us: int | None) -> int | None:
    return None if at_us is None else at_us + 1


def _word(kind: AnswerKind) -> str:
    return kind.value.replace("_", " ")


def _said(stands: Standing, kind: AnswerKind, source: Source, at_us: int, attempt: int | None = None) -> Observation:
    """An answer of this kind as the environment would most plainly give it."""
    contract = stands.situation.contracts[0]
    original = source not in ASKED or lookup_of(contract).original
    value = _plain_value(stands, contract) if kind is AnswerKind.FOUND else None
    error = "a declared rejection" if kind is AnswerKind.REFUSED else ""
    answer = Answered(kind=kind, value=value, error=error, original=original)
    epoch = f"{stands.situation.incarnation}.0"
    return Observation(
        step=stands.effect.step, source=source, asked_at_us=at_us, observed_at_us=at_us, answer=answer, attempt=attempt, epoch=epoch
    )


def _plain_value(stands: Standing, contract: Contract) -> JSON:
    """A value whose stable fields are those that were asked for."""
    asked = stands.effect.intent.arguments
    return {name: asked.get(name) if isinstance(asked, dict) else None for name in contract.stable_fields} or None
