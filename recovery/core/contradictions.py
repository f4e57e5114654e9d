"""Contradictions: what speaks against an outcome that is already recorded, and how it is recorded without changing it.

Owns the entries that journal a contradiction, and which receipts say that an effect happened twice. Decides nothing: an outcome never
flips. Invariant: each contradicting item is recorded once, by a verdict that names it, behind the item itself where that came from outside
the chain.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

from recovery.core.compensation import some_applied
from recovery.core.contracts import Contract
from recovery.core.entries import Answered, AnswerKind, Entry, Override, Settled, Source, Verb
from recovery.core.evidence import Situation, examine
from recovery.core.findings import RECEIPTS, Reading
from recovery.core.history import EffectStep, History, Noted
from recovery.core.judgement import Judgement, conclude, unrecorded
from recovery.core.policy import Budget


@dataclass(frozen=True, slots=True, kw_only=True)
class Contradicted:
    """A settled step and what speaks against its outcome.

    adopted: the receipt behind the outcome; None where it rests on none. against: the items, in the order in which they became known.
    surplus: those of them that are receipts of an effect which the outcome does not count: a second one, or one where none should be.
    acknowledged: a person's last word that they were seen to; open: those that no such word names.
    """

    step: EffectStep
    adopted: Noted | None
    against: tuple[Noted, ...]
    surplus: tuple[Noted, ...]
    acknowledged: Override | None
    open: tuple[Noted, ...]

    @property
    def duplicate(self) -> bool:
        """Whether two effects happened."""
        return self.adopted is not None and bool(self.surplus)


def taken_in(step: EffectStep) -> list[Entry]:
    """What an unsettled step's late evidence becomes when it is weighed: entries of the chain, so that an outcome can name them."""
    return [] if step.settled is not None else [noted.observation for noted in step.observations if noted.seq is None]


def records(step: EffectStep, judgement: Judgement, length: int) -> list[Entry]:
    """The entries that record what no verdict has recorded yet. `length`: of the journal that they are appended to."""
    entries: list[Entry] = []
    for noted in unrecorded(step, judgement.support):
        seq = noted.seq
        if seq is None:
            entries.append(noted.observation)
            seq = length + len(entries)
        entries.append(replace(judgement.recorded(), evidence=(seq,)))
    return entries


def news(history: History, contracts: dict[str, Contract], now_us: int) -> list[Entry]:
    """What a settled run's journal does not record yet, judged by its stored contracts alone. Empty without new evidence."""
    entries: list[Entry] = []
    for step in history.effects:
        if step.unread is None and step.settled is not None:
            judgement = conclude(step, _situation(step, contracts, now_us))
            if judgement.news:
                entries += records(step, judgement, history.length + len(entries))
    return entries


def contradicted(step: EffectStep, contracts: dict[str, Contract], now_us: int) -> Contradicted | None:
    """What speaks against a step's outcome; None for one that is not settled, or that nothing speaks against."""
    if step.unread is not None or step.settled is None or unopposed(step, step.settled):
        return None  # of one that is unread nothing was heard but what its outcome rests on
    reading = examine(step, _situation(step, contracts, now_us)).reading
    basis = _basis(step)
    adopted = next((noted for noted in basis if noted.answer.kind in RECEIPTS), None)
    against = list(reading.contradictions())
    if adopted is not None:
        against = [noted for noted in basis if _another(reading, adopted, noted)] + against
    if not against:
        return None
    surplus = tuple(noted for noted in against if noted.answer.kind in RECEIPTS or _some_items(noted.answer))
    words = [order for order in step.overrides if order.verb is Verb.ACKNOWLEDGE]
    seen_to = {seq for order in words for seq in order.evidence}
    return Contradicted(
        step=step,
        adopted=adopted,
        against=tuple(against),
        surplus=surplus,
        acknowledged=words[-1] if words else None,
        open=tuple(noted for noted in against if noted.seq not in seen_to),
    )


def unopposed(step: EffectStep, settled: Settled) -> bool:
    """Whether nothing was ever observed but what the outcome rests on, so that nothing can speak against it, under any contract: almost every step
    of every run."""
    observations = step.observations
    if len(observations) != 1:
        return not observations
    [noted] = observations
    return noted.observation is settled.observation or noted.observation == settled.observation or noted.seq in settled.evidence


def need_a_person(history: History, contracts: dict[str, Contract], now_us: int) -> bool:
    """Whether something speaks against an outcome and nobody has acknowledged it."""
    found = (contradicted(step, contracts, now_us) for step in history.effects)
    return any(one is not None and one.open for one in found)


def _basis(step: EffectStep) -> list[Noted]:
    """The observations that the outcome rests on."""
    settled = step.settled
    assert settled is not None
    named = set(settled.evidence)
    found = [noted for noted in step.observations if noted.seq in named or noted.observation == settled.observation]
    return [noted for noted in found if noted.observation.source is not Source.OPERATOR]


def _another(reading: Reading, adopted: Noted, noted: Noted) -> bool:
    return noted is not adopted and noted.answer.kind in RECEIPTS and not reading.same(adopted, noted)


_NO_BUDGET: Final = Budget()
"""Of no matter here: nothing is sent or asked."""


def _situation(step: EffectStep, contracts: dict[str, Contract], now_us: int) -> Situation:
    contract = contracts[step.intent.contract]
    return Situation(now_us=now_us, contracts=(contract,), budget=_NO_BUDGET, can_probe=False, can_close=False)


def _some_items(answer: Answered) -> bool:
    """Whether this is a batch's answer that names an item which happened."""
    return answer.kind is AnswerKind.ITEMS and some_applied(answer.value)
