"""Where one step stands: its evidence, the situation it is judged in, and the verdict now.

Owns how a step is found and judged without acting, with the app's workflow where it is known and from the journal alone where it is not.
Invariant: nothing is claimed, appended or asked here.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

from recovery.claims import World, existing
from recovery.core.entries import Observation
from recovery.core.errors import ReplayError, StepNotFound
from recovery.core.history import EffectStep
from recovery.core.judgement import Judgement, conclude
from recovery.core.operations import Now, Use
from recovery.core.policy import Budget
from recovery.core.request import Request, holding
from recovery.core.timing import Situation
from recovery.operators.rehearsal import Rehearsal, held_now, rehearsed
from recovery.ports import RunRow
from recovery.storage.reading import Loaded, Whole, read

ALONE: Final = (
    "whether the app still asks for this with the same arguments, contract and scope",
    "whether the app can ask or close, beyond what the stored contract says",
)
"""What the journal alone cannot tell about an unsettled intent."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """One step as of `situation.now_us`. request: the call as the workflow makes it now; None: judged from the journal alone.
    problem: why the workflow did not get there, "" if it did or was not tried."""

    loaded: Whole
    effect: EffectStep
    situation: Situation
    request: Request | None
    judgement: Judgement
    problem: str = ""

    def hypothetically(self, observation: Observation | None = None, now_us: int | None = None) -> Judgement:
        """The verdict if this were observed, or at another time. Changes nothing."""
        situation = self.situation if now_us is None else replace(self.situation, now_us=now_us)
        return conclude(self.effect, situation, observation)


def effect_of(loaded: Loaded, step: str) -> EffectStep:
    """The effect at a step. Raises StepNotFound."""
    found = loaded.history.steps.get(step)
    if isinstance(found, EffectStep):
        return found
    known = ", ".join(effect.step for effect in loaded.history.effects) or "none"
    raise StepNotFound(run_id=loaded.run.run_id, step=step, known=known)


async def looked_at(run_id: str) -> Whole:
    """The run from one verified snapshot. Raises RunNotFound, RunForgotten, JournalCorrupt."""
    await existing(run_id)
    return await Use(lambda journal: read(journal, run_id))


async def standing(world: World, loaded: Whole, step: str) -> Standing:
    """Judge one step of a loaded run. Raises StepNotFound, and ValueUnreadable where the app's types no longer fit the journal."""
    effect, workflow = effect_of(loaded, step), world.workflows.of(loaded.run.workflow, loaded.history.version)
    machine = None if workflow is None else await rehearsed(world, loaded, workflow)
    request = None if machine is None else machine.requests.get(step)
    if machine is not None and request is not None:
        situation, problem = machine.situation(request, effect, await Now()), ""
    else:
        situation = alone(loaded, effect, await Now(), world.budget, await held_now())
        problem = "" if machine is None else _why_not(machine)
    if loaded.history.held is not None:
        situation = replace(situation, held=True)
    judgement = conclude(effect, situation)
    return Standing(loaded=loaded, effect=effect, situation=situation, request=request, judgement=judgement, problem=problem)


def _why_not(machine: Rehearsal) -> str:
    stopped = machine.stopped
    if stopped is not None and isinstance(stopped.error, ReplayError):
        return str(stopped.error)
    return "The workflow does not ask for this step any more: it ends or stops before it."


def alone(loaded: Loaded, effect: EffectStep, now_us: int, budget: Budget, holds: frozenset[str] = frozenset()) -> Situation:
    """The situation as the journal tells it: the stored contract, and the scope of the intent."""
    contract = loaded.contracts[effect.intent.contract]
    return Situation(
        now_us=now_us,
        contracts=(contract,),
        budget=budget,
        can_probe=contract.lookup is not None,
        can_close=contract.close,
        can_cancel=contract.cancel_by_key,
        restored=loaded.restored,
        incarnation=loaded.incarnation,
        held=loaded.history.held is not None or holding((contract,), holds),
        wanted=loaded.history.cancelled is None or bool(effect.intent.undoes),
        scope_changed=False,
        replay_fingerprint=effect.intent.fingerprint,
    )


def has_living_owner(world: World, run: RunRow) -> bool:
    """Whether somebody may be at work on the run: it is owned, and its owner is not proven dead."""
    return run.owner is not None and not run.status.settled and not world.proven_dead(run.owner)
