"""Superseding: what a new generation of a run leaves behind.

Owns which recorded steps a restart supersedes. Pure. Invariants: a superseded step stays known under its own name, and nobody judges it any more;
what stays has come to its outcome, or the new generation would judge effects of the old one.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Final

from recovery.core.entries import ANSWER, FIRED, LAPSED, UNFIT
from recovery.core.ids import branch_of
from recovery.core.recorded import DecisionStep, EffectStep, Step

ENDS_OF_RESTS: Final = frozenset({FIRED, ANSWER, LAPSED})
"""Forms of decisions that end the step above them."""


def superseded(steps: Mapping[str, Step], from_step: str) -> dict[str, Step]:
    """The steps that were recorded from one on. Raises ValueError where no generation can begin there."""
    if from_step not in steps:
        raise ValueError(f"no generation can begin at {from_step or 'nothing'}")
    cut = steps[from_step].seq
    for step in steps.values():
        if step.seq < cut and isinstance(step, EffectStep) and step.settled is None:
            raise ValueError("a generation begins behind an unsettled step")
    return {name: step for name, step in steps.items() if step.seq >= cut}


def heard_by(gone: Mapping[str, Step]) -> set[int]:
    """The messages that were taken in by what is left behind: those of a topic are taken again, in their order."""
    taken = (step.decision for step in gone.values() if isinstance(step, DecisionStep) and step.decision.form in {ANSWER, UNFIT})
    return {decision.value["number"] for decision in taken}


def still_completed(completed: Iterable[str], gone: Mapping[str, Step]) -> list[str]:
    """The steps that have come to an outcome which is not left behind."""
    ends = (step.decision for step in gone.values() if isinstance(step, DecisionStep))
    going_on: Collection[str] = {branch_of(end.step) for end in ends if end.form in ENDS_OF_RESTS}
    return [name for name in completed if name not in gone and name not in going_on]
