"""Inheriting: what a run does where it comes to an effect that was done before it was forked, or before its generation.

Owns that a reused outcome returns without an intent, and that a forbidden effect fails its step. Invariant: nothing is sent here; what a run
inherits it records as its own decision, so that a replay finds the same.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from recovery.core.entries import ANEW, CHILD, FORBIDDEN, FORMS, INHERITED, Settled, decode, encode
from recovery.core.history import DecisionStep, Step
from recovery.core.ids import base_of
from recovery.core.inheritance import FORBID, NEW_KEY, REUSE, Term, inherited_entry, terms_of
from recovery.core.misfits import Side, asked_decision, asked_effect
from recovery.core.operations import Now
from recovery.core.order_errors import EffectForbidden
from recovery.core.request import Request

if TYPE_CHECKING:
    from recovery.core.execution import Execution


@dataclass(frozen=True, slots=True)
class Asked:
    """What a step asks for. side: as a divergence tells it."""

    effect: str
    environment: str
    fingerprint: str
    side: Side

    def is_as(self, term: Term) -> bool:
        """Whether this is the earlier effect once more."""
        return term.is_about(self.effect, self.environment, self.fingerprint)


async def inherited(execution: Execution, step: str, request: Request) -> Settled | None:
    """The outcome that this effect inherits; None where it is performed. Raises EffectForbidden, and Unwind where the replay asks for another one."""
    if request.undoes and step not in execution.history.steps:
        return None  # it undoes a receipt that stands, whatever became of an earlier one
    asked = Asked(request.effect, request.environment, request.fingerprint, asked_effect(step, request))
    return await _inherited(execution, step, asked)


async def check_start(execution: Execution, step: str, workflow: str, fingerprint: str) -> None:
    """Whether a child may be started, which would do all its effects once more. Raises as `inherited`."""
    asked = Asked(f"child {workflow}", "", fingerprint, asked_decision(step, CHILD, fingerprint))
    await _inherited(execution, step, asked)


async def _inherited(execution: Execution, step: str, asked: Asked) -> Settled | None:
    recorded = execution.history.steps.get(step)
    if isinstance(recorded, DecisionStep):
        form = recorded.decision.form
        if form not in {INHERITED, FORBIDDEN, ANEW}:
            return None
        before = Term.from_json(recorded.decision.value)
        if not asked.is_as(before):
            inherits = f"{FORMS[form]}, {before.effect} with fingerprint {before.fingerprint[:12]}"
            raise execution.diverge(step, inherits, f"{asked.effect} with fingerprint {asked.fingerprint[:12]}", asked.side)
        return None if form == ANEW else _given(execution, step, before, form)
    if recorded is not None:
        return None
    term = _ordered(execution, step, asked.effect, asked.environment, asked.fingerprint)
    if term is None or term.policy == NEW_KEY:
        return None
    form = INHERITED if term.policy == REUSE else FORBIDDEN
    await execution.append(step, [inherited_entry(step, term, await Now(), form)])
    return _given(execution, step, term, form)


def is_anew(recorded: Step) -> bool:
    """Whether what is recorded only says that the effect is to be done."""
    return isinstance(recorded, DecisionStep) and recorded.decision.form == ANEW


def renewed(execution: Execution, step: str, effect: str, environment: str, fingerprint: str) -> bool:
    """Whether this effect is to have a new key, whatever key the workflow names for it."""
    term = _ordered(execution, step, effect, environment, fingerprint)
    return term is not None and term.policy == NEW_KEY


def _ordered(execution: Execution, step: str, effect: str, environment: str, fingerprint: str) -> Term | None:
    """What was ordered about this effect, where a step asks for it once more."""
    if not execution.history.overrides:
        return None
    return terms_of(execution.history).get((base_of(step), effect, environment, fingerprint))


def _given(execution: Execution, step: str, term: Term, form: str) -> Settled:
    if form == FORBIDDEN or term.policy == FORBID:
        raise EffectForbidden(
            run_id=execution.history.run_id, step=step, effect=term.effect, of_run=term.run_id, of_step=term.of_step, key=term.key
        )
    assert term.settled is not None, "only an outcome can be reused"
    settled = decode("settled", encode(term.settled) | {"step": step})
    assert isinstance(settled, Settled)
    return settled
