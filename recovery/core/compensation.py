"""Compensation: what is undone, in which order, and from when on.

Owns which effects of a run there are to undo, and the moment from which no copy of one acts any more. Pure: performs nothing, and knows
neither the effects' definitions nor who undoes them. Invariants: only what is settled as having happened is undone, each effect once, in the
reverse of the order in which they came to their outcomes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Set
from dataclasses import dataclass, replace
from typing import Final

from recovery.core.contracts import Contract, Kind
from recovery.core.entries import INHERITED, JSON, UNDOING, AnswerKind, OutcomeKind, Settled
from recovery.core.history import DecisionStep, EffectStep, History, Step
from recovery.core.timing import exposed_attempts, fits_window, timing_of

HAPPENED: Final = frozenset({OutcomeKind.APPLIED, OutcomeKind.APPLIED_WITHOUT_VALUE, OutcomeKind.MIXED})
"""Outcomes of effects that changed something; of a batch, at least where an item was applied."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Compensated:
    """What an undoing came to: the steps whose effects were undone, by their compensation or by a person, and those that a person left as
    they are. Each in the order in which it was come to."""

    undone: tuple[str, ...] = ()
    by_hand: tuple[str, ...] = ()
    left: tuple[str, ...] = ()


def happened(settled: Settled | None) -> bool:
    """Whether there is something to undo: it was applied, or some of its items were."""
    if settled is None or settled.outcome not in HAPPENED:
        return False
    return settled.outcome is not OutcomeKind.MIXED or some_applied(settled.value)


def some_applied(items: JSON) -> bool:
    """Whether a batch's stored items name one that happened."""
    found = items if isinstance(items, list) else []
    return any(isinstance(item, dict) and item.get("kind") == AnswerKind.FOUND.value for item in found)


def undo_order(history: History, contracts: Mapping[str, Contract], reached: Iterable[str]) -> tuple[EffectStep, ...]:
    """Which of the steps that a workflow has reached are to be undone: the last that came to its outcome first.

    Leaves out what changes nothing, what did not happen, what an earlier undoing has dealt with, and undoings themselves."""
    wanted = set(reached)
    seen_to, left = _undone_since(history, wanted), len(wanted)
    found: list[EffectStep] = []
    for name in reversed(history.completed):
        if not left:
            break  # a saga is at the end of a long run
        left -= name in wanted
        step = own_effect(history, name) if name in wanted and name not in seen_to else None
        if step is None or step.intent.undoes:
            continue
        if happened(step.settled) and contracts[step.intent.contract].kind is not Kind.READ:
            found.append(step)
    return tuple(found)


def own_effect(history: History, name: str) -> EffectStep | None:
    """The effect at a step: its own, or the one of an earlier generation whose outcome it reuses, under the name of this step. A fork's
    reused outcomes are its parent's, and so is what undoes them."""
    step = history.steps.get(name)  # a restart supersedes steps
    if not isinstance(step, DecisionStep):
        return step
    if step.decision.form != INHERITED or step.decision.value["run_id"] != history.run_id:
        return None
    before = history.superseded.get(step.decision.value["of_step"])
    if not isinstance(before, EffectStep) or before.settled is None:
        return None
    return replace(before, intent=replace(before.intent, step=name), settled=replace(before.settled, step=name))


def undone_by(history: History) -> dict[str, str]:
    """The effects that do not stand any more, or may not, each with the undoing that took it back or is about to."""
    stands = {OutcomeKind.REJECTED, OutcomeKind.NOT_EXECUTED}
    known = (*history.superseded.values(), *history.steps.values())  # undone by an earlier generation, it stands no more either
    undoings = [step for step in known if isinstance(step, EffectStep) and step.intent.undoes]
    found = {each.intent.undoes: each.step for each in undoings if each.settled is None or each.settled.outcome not in stands}
    for step in known:  # an outcome that was reused is undone under the name of the step that reused it
        if isinstance(step, DecisionStep) and step.decision.form == INHERITED and step.step in found:
            found.setdefault(step.decision.value["of_step"], found[step.step])
    return found


def _undone_since(history: History, wanted: Set[str]) -> set[str]:
    """What was undone since the first of these steps was recorded: none of them before that."""
    left, undone = set(wanted), set[str]()
    for name, step in reversed(history.steps.items()):
        if not left:
            break
        left.discard(name)
        if isinstance(step, EffectStep):
            undone.add(step.intent.undoes)
    return undone


def undone_by_cancel(step: Step) -> bool:
    """Whether this is an undoing that a cancel led to."""
    return isinstance(step, DecisionStep) and step.decision.form == UNDOING and bool(step.decision.value["cancelled"])


def unfinished(history: History) -> bool:
    """Whether an undoing was begun and has not come to its end: something of its list has neither been undone nor been left by a person."""
    begun = [step.decision for step in history.steps.values() if isinstance(step, DecisionStep) and step.decision.form == UNDOING]
    seen_to = {effect.intent.undoes for effect in history.effects if effect.settled is not None}
    return any(not seen_to.issuperset(undoing.value["undoes"]) for undoing in begun)


def unsettled(history: History, reached: Iterable[str]) -> str | None:
    """An effect among these that may have been sent and has no outcome; None if there is none."""
    effects = (history.steps.get(step) for step in reached)
    return next((effect.step for effect in effects if isinstance(effect, EffectStep) and effect.settled is None), None)


def acts_until_us(step: EffectStep, contract: Contract) -> int | None:
    """Until when a copy of a settled effect may still act, in microseconds: undone sooner, it could come back. None: no copy can.

    `contract`: the weakest of those that count. A copy that lands while the environment still answers its key out of a record does not act;
    where one could come later than that, or meet no record, all attempts must be quiet."""
    exposed, timing = exposed_attempts(step), timing_of(step, contract)
    kept = contract.keyed and not contract.fail_open and contract.lock_outlives_execution
    if kept and all(fits_window(attempt.send_until_us, timing.t0_us, contract) for attempt in exposed):
        return None
    return timing.quiet_at_us
