"""Asking: one read-only question about one effect, kept as an observation.

Owns where the answer goes: into the journal under a claim, or, while somebody else is at work on the run or after its end, into the evidence
outside the fence. Invariants: it acts on nothing; what the answer means is only told; it spends
none of the questions of the run's own recovery, and moves no back-off.
"""

from __future__ import annotations

from dataclasses import dataclass

from recovery.claims import World
from recovery.core.entries import Answered, Observation, Source
from recovery.core.errors import OverrideRefused
from recovery.core.judgement import Judgement
from recovery.core.operations import Ask, Now
from recovery.core.request import Request
from recovery.hindsight import keep
from recovery.operators.claiming import Claimed, under_claim
from recovery.operators.standing import Standing, has_living_owner, looked_at, standing
from recovery.storage.reading import Loaded


@dataclass(frozen=True, slots=True, kw_only=True)
class Probed:
    """What the environment said. outside: kept as evidence outside the fence, because the run was not ours to append to, and why.
    judgement: what the verdict would be now."""

    run_id: str
    step: str
    answer: Answered
    outside: str
    judgement: Judgement


async def probe(world: World, run_id: str, step: str) -> Probed:
    """Ask about one effect. Raises StepNotFound, OverrideRefused (nothing to ask, or another scope), HeadMoved, LeaseUnavailable."""
    loaded = await looked_at(run_id)
    stands = await standing(world, loaded, step)
    request = _askable(stands)
    outside = _outside(world, loaded)
    if outside:
        observation = await _asked(request, stands, str(loaded.run.epoch))
        await keep(run_id, loaded.run.epoch, observation)
    else:

        async def ask_and_append(claimed: Claimed) -> Observation:
            claimed.check_head(loaded)
            observation = await _asked(request, stands, str(claimed.loaded.run.epoch))
            await claimed.append(observation)
            return observation

        observation = await under_claim(world, run_id, ask_and_append)
    judgement = stands.hypothetically(observation, await Now())
    return Probed(run_id=run_id, step=step, answer=observation.answer, outside=outside, judgement=judgement)


def _outside(world: World, loaded: Loaded) -> str:
    run = loaded.run
    if run.status.settled:
        return f"the run is {run.status.value}"
    return f"{run.owner} is at work on the run" if has_living_owner(world, run) else ""


def _askable(stands: Standing) -> Request:
    """The call to ask about. Raises OverrideRefused."""
    about = f"{stands.effect.step} of run {stands.loaded.run.run_id!r}"
    if stands.request is None:
        problem = stands.problem or "only the app's code can ask, and this engine does not have the workflow"
        raise OverrideRefused(
            verb="A probe", about=about, problem=problem, advice="Name the app that fits with --app module:engine."
        )
    if not stands.request.can_probe:
        problem = f"{stands.request.effect} has no probe"
        raise OverrideRefused(
            verb="A probe", about=about, problem=problem, advice="Look in the environment's own records by the key."
        )
    if stands.situation.scope_changed:
        was, now = stands.effect.intent.scope, stands.request.scope
        problem = f"its scope was {was!r} and is {now!r} now, so that an answer would be about something else"
        raise OverrideRefused(verb="A probe", about=about, problem=problem, advice="Go back to the scope of the intent.")
    return stands.request


async def _asked(request: Request, stands: Standing, epoch: str) -> Observation:
    asked_at_us = await Now()
    answer = await Ask(request.subject, stands.effect.intent, epoch)
    return Observation(
        step=stands.effect.step,
        source=Source.PROBE,
        asked_at_us=asked_at_us,
        observed_at_us=await Now(),
        answer=answer,
        epoch=epoch,
        by_operator=True,
    )
