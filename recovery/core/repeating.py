"""Repeating: what each earlier effect of a run is to become where a fork or a new generation asks for it again.

Owns the terms of an order: what a person says of each effect, and what holds where nobody says. Pure; knows nothing of how an order is stored. Invariants:
the default never repeats an effect that may have happened, whichever of the sendings below its step it was; an outcome that was undone is not reused;
undoings have no terms, since each undoes a receipt of its own, and which receipts stand is asked of those.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Final

from recovery.core.compensation import undone_by
from recovery.core.contracts import Contract, Kind
from recovery.core.entries import CHILD, INHERITED, Decision, OutcomeKind
from recovery.core.findings import RECEIPTS
from recovery.core.history import DecisionStep, EffectStep, History, Step
from recovery.core.ids import base_of, branch_of
from recovery.core.inheritance import FORBID, NEW_KEY, REUSE, Forbid, NewKey, Policy, Reuse, Term, Unsettled, terms_of

AGAIN: Final = "again"
"""The name of the steps below an effect in which it is wanted again after a rejection."""

_HARMLESS: Final = {
    OutcomeKind.NOT_EXECUTED: "it was proven that the earlier one did not happen",
    OutcomeKind.REJECTED: "the earlier one was refused, and did not happen",
}


def terms_for(
    history: History, contracts: Mapping[str, Contract], prefix: Sequence[Step], policies: Mapping[str, Policy]
) -> list[Term]:
    """What is to become of each effect of a run's, by what a person says and else by default: of what was ordered before first, then in the order of its
    steps. What a person says of a step is about the last effect at it. Raises Unsettled where a policy is no answer to what the effect came to, where
    `policies` names none, and where an outcome would be reused that was undone."""
    inside = {step.step for step in prefix}
    found = terms_of(history)
    for earlier in _unless_repeated([*_earlier_effects(history, inside, contracts)]):
        found.pop(earlier.meaning, None)
        found[earlier.meaning] = earlier
    last = {term.step: term for term in found.values()}
    for name in policies:
        if base_of(name) not in last:
            raise Unsettled(_no_effect(history, name))
    said = {base_of(name): policy for name, policy in policies.items()}
    terms = [_said(term, said.get(term.step)) if term is last[term.step] else term for term in found.values()]
    _check_standing(history, terms)
    return terms


def unsaid(terms: Sequence[Term]) -> list[str]:
    """The steps whose last effect may have happened and is forbidden because nobody has said what is to become of it."""
    last = {term.step: term for term in terms}
    return [term.step for term in last.values() if term.policy == FORBID and not term.said]


def _no_effect(history: History, name: str) -> str:
    step = history.known(name)
    if isinstance(step, EffectStep) and step.intent.undoes:
        return f"{name} undoes {step.intent.undoes}, and what is undone later is said by what happens then"
    return f"{name} is no effect of it"


def _check_standing(history: History, terms: Sequence[Term]) -> None:
    """Raises Unsettled where an outcome is to be reused that an undoing has taken back, or may have: whoever builds on it builds on nothing."""
    undone = undone_by(history)
    for term in terms:
        if term.policy == REUSE and term.run_id == history.run_id and term.of_step in undone:
            advice = "begin in front of it, or say for it a new key with a reason, or forbid"
            raise Unsettled(f"{term.of_step} is undone by {undone[term.of_step]}, and its outcome cannot be reused ({advice})")


def _earlier_effects(history: History, inside: set[str], contracts: Mapping[str, Contract]) -> Iterator[Term]:
    for step in history.steps.values():
        term = _earlier(history.run_id, step, inside=step.step in inside, contracts=contracts)
        if term is not None:
            yield term


def _unless_repeated(terms: Sequence[Term]) -> list[Term]:
    """A refused sending is done anew by default only where none that followed on it at the same step may have happened: else its refusal is reused, and
    what is asked for then is what followed."""
    made: list[Term] = []
    acted: set[str] = set()
    for term in reversed(terms):
        place = place_of(term.step)
        if place in acted and term.policy == NEW_KEY and term.settled is not None:
            term = replace(term, policy=REUSE, reason="")  # the same term, decided
        if term.policy != NEW_KEY:
            acted.add(place)
        made.append(term)
    return made[::-1]


def place_of(step: str) -> str:
    """The step of the workflow that a sending is of: the first one, or one that followed on a rejection below it."""
    return branch_of(step) if step.rpartition("/")[2].startswith(f"{AGAIN}#") else step


def _earlier(run_id: str, step: Step, *, inside: bool, contracts: Mapping[str, Contract]) -> Term | None:
    """One recorded step, if it is an effect, or was inherited from one; with the policy that it has where nobody says."""
    if isinstance(step, DecisionStep):
        if step.decision.form == CHILD and not inside:
            return _child(run_id, step.decision)
        if step.decision.form != INHERITED:
            return None
        before = Term.from_json(step.decision.value)
        refused = before.settled is not None and before.settled.outcome in _HARMLESS  # reused once, and nothing is repeated by that
        policy = REUSE if inside or refused else FORBID
        return replace(before, step=base_of(step.step), inside=inside, policy=policy, reason="", said=False)
    intent, settled = step.intent, step.settled
    if intent.undoes:
        return None
    harmless = "it only reads" if contracts[intent.contract].kind is Kind.READ else _harmless(step)
    policy = REUSE if inside else NEW_KEY if harmless else FORBID
    return Term(
        step=base_of(step.step),
        policy=policy,
        reason=harmless if policy == NEW_KEY else "",
        said=False,
        inside=inside,
        run_id=run_id,
        of_step=step.step,
        effect=intent.effect,
        environment=intent.environment,
        scope=intent.scope,
        key=intent.key,
        fingerprint=intent.fingerprint,
        settled=None if settled is None else replace(settled, observation=None, evidence=()),
    )


def _harmless(step: EffectStep) -> str:
    """Why it did not happen, as evidence proves it; "" where it may have. A person's word is no proof, and a receipt that came later speaks against one."""
    if step.settled is None or step.settled.heuristic or any(noted.answer.kind in RECEIPTS for noted in step.observations):
        return ""
    return _HARMLESS.get(step.settled.outcome, "")


def _child(run_id: str, start: Decision) -> Term:
    """A run that was started: started again, it would do all its effects again."""
    about = {"effect": f"child {start.value['workflow']}", "environment": "", "scope": "", "key": start.value["run_id"]}
    return Term(
        step=base_of(start.step),
        policy=FORBID,
        reason="",
        said=False,
        inside=False,
        run_id=run_id,
        of_step=start.step,
        fingerprint=start.fingerprint,
        settled=None,
        **about,
    )


def _said(term: Term, policy: Policy | None) -> Term:
    match policy:
        case None:
            return term
        case Reuse() if term.settled is None:
            raise Unsettled(f"{term.step} is not settled, so that there is no outcome to reuse")
        case Reuse():
            return replace(term, policy=REUSE, reason="", said=True)
        case NewKey(reason) if not reason.strip():
            raise Unsettled(f"a new key for {term.step} needs a reason")
        case NewKey(reason):
            return replace(term, policy=NEW_KEY, reason=reason, said=True)
        case Forbid():
            return replace(term, policy=FORBID, reason="", said=True)
