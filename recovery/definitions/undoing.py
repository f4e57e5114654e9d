"""Undoing: contradictions as a person should see them, each surplus effect with the compensation that would undo it.

Owns the binding of a compensation to a receipt. Performs nothing: a proposal is for a person. Invariant: a proposal's arguments are those of
the surplus receipt, never of the adopted one.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from recovery.core.contracts import Contract
from recovery.core.contradictions import contradicted
from recovery.core.entries import AnswerKind
from recovery.core.errors import RecoveryError
from recovery.core.findings import open_items
from recovery.core.history import History, Noted
from recovery.core.instants import moment
from recovery.definitions.recovered import Contradiction, Proposal, Receipt

if TYPE_CHECKING:
    from recovery.definitions.effect import Bound


def contradictions(
    history: History, contracts: dict[str, Contract], bound: Mapping[str, Bound[Any]], now_us: int
) -> tuple[Contradiction, ...]:
    """Every settled step that something speaks against. `bound`: the calls by step, as far as the app was asked."""
    found = [contradicted(step, contracts, now_us) for step in history.effects]
    return tuple(
        Contradiction(
            step=one.step.step,
            effect=one.step.intent.effect,
            environment=one.step.intent.environment,
            key=one.step.intent.key,
            duplicate=one.duplicate,
            outcome=one.step.settled.outcome.value if one.step.settled is not None else "",
            adopted=None if one.adopted is None else receipt(one.adopted),
            against=tuple(receipt(noted) for noted in one.against),
            proposals=_proposals(bound.get(one.step.step), one.surplus),
            acknowledged_by="" if one.acknowledged is None else one.acknowledged.by,
            acknowledged_because="" if one.acknowledged is None else one.acknowledged.reason,
            open=bool(one.open),
        )
        for one in found
        if one is not None
    )


def receipt(noted: Noted) -> Receipt:
    """One observation for people."""
    observation, answer = noted.observation, noted.answer
    return Receipt(
        said=answer.kind.value,
        value=answer.value,
        error=answer.error,
        receipt=answer.receipt,
        fingerprint=answer.fingerprint,
        source=observation.source.value,
        attempt=observation.attempt,
        epoch=observation.epoch,
        observed_at=moment(observation.observed_at_us),
    )


def undo_of(bound: Bound[Any], noted: Noted) -> Bound[Any] | None:
    """The compensation of one surplus receipt, of a batch as a whole. None where its value is not known, no longer fits, or leaves an item open: a
    person reads it in the environment."""
    if noted.answer.kind not in {AnswerKind.FOUND, AnswerKind.ITEMS} or open_items(noted.answer):
        return None
    try:
        return bound.effect.compensate(bound, bound.effect.decode_value(noted.answer.value))
    except RecoveryError:
        return None


def proposal(bound: Bound[Any], noted: Noted) -> Proposal | None:
    """The compensation of one surplus receipt, for people. None where there is none, or its scope is not known."""
    undo = undo_of(bound, noted)
    if undo is None:
        return None
    try:
        scope = undo.effect.environment.current_scope()
    except RecoveryError:
        return None
    return Proposal(
        effect=undo.effect.name,
        environment=undo.effect.environment.name,
        scope=scope,
        arguments=dict(undo.stored),
        undoes=receipt(noted),
    )


def _proposals(bound: Bound[Any] | None, surplus: tuple[Noted, ...]) -> tuple[Proposal, ...]:
    if bound is None or bound.effect.compensated_by is None:
        return ()
    made = [proposal(bound, noted) for noted in surplus]
    return tuple(one for one in made if one is not None)
