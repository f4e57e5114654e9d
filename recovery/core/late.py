"""Late evidence: how what came outside the chain finds the step that it is about.

Owns that. Judges nothing. Invariant: what is in the chain by now is not added a second time, and what is added names an attempt only if that very attempt
is in this journal.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import TYPE_CHECKING

from recovery.core.entries import Observation, step_of
from recovery.core.recorded import EffectStep, Noted

if TYPE_CHECKING:
    from recovery.core.history import History


def hear(history: History, late: Iterable[Observation]) -> None:
    """Add late evidence to the steps that it is about, unless it is in the chain by now."""
    for observation in late:
        step = history.places.called_now(step_of(observation), observation.epoch)
        effect = history.known(step) if step is not None else None
        if isinstance(effect, EffectStep) and step is not None:
            placed = _placed(effect, replace(observation, step=step))
            if all(noted.observation != placed for noted in effect.observations):
                effect.observations += (Noted(None, placed),)


def _placed(effect: EffectStep, observation: Observation) -> Observation:
    """Late evidence names an attempt only if that attempt is in this journal. In a restored one the number may belong to another attempt
    by now, and a "this did nothing" from the lost time must not clear it."""
    number = observation.attempt
    if number is None:
        return observation
    known = number <= len(effect.attempts) and observation.epoch in {"", effect.attempts[number - 1].epoch}
    return observation if known else replace(observation, attempt=None)
