"""Driving: one more attempt under the same key, and the close of a key, by a person's order.

Owns the check that the verdict table licenses them: a redrive lifts a spent budget by one attempt and nothing else. Invariant: the order is
durable before the attempt, the attempt before its first byte, and the key is never another one.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Final

from recovery.claims import World
from recovery.core.contradictions import taken_in
from recovery.core.effect_errors import NotLicensed
from recovery.core.entries import Answered, Attempt, Observation, Override, Settled, Source, Status, Verb
from recovery.core.errors import OverrideRefused
from recovery.core.judgement import Judgement, conclude
from recovery.core.operations import Close, Now
from recovery.core.reasons import ParkingReason
from recovery.core.request import Request
from recovery.core.rows import Action
from recovery.core.timing import CLOSING, attempts_spent, tombstones
from recovery.core.trust import weakest
from recovery.definitions.recovered import Recovered
from recovery.operators.claiming import Claimed, keepable, under_claim
from recovery.operators.resolving import check_open
from recovery.operators.standing import Standing, effect_of, looked_at, standing
from recovery.reconciler import recover

FROZEN: Final = frozenset({ParkingReason.KEY_MISMATCH, ParkingReason.RECEIPT_MISMATCH})
"""Verdicts after which a key is neither sent nor closed: it may be somebody else's."""


async def redrive(world: World, run_id: str, step: str, *, by: str, reason: str) -> Recovered[Any]:
    """Allow one attempt more than the budget does, then recover. Raises NotLicensed wherever the table would not send even so:
    past not_after, without a key, on a store that fails open, after a closed, expired or cached answer, while held."""
    keepable("A redrive", f"{step} of run {run_id!r}", by=by, reason=reason)
    loaded = await looked_at(run_id)
    stands = await standing(world, loaded, step)
    check_open(stands)
    spent = attempts_spent(stands.effect, weakest(stands.situation.contracts))
    order = Override(step=step, verb=Verb.REDRIVE, by=by, at_us=await Now(), reason=reason, attempts=spent + 1)
    lifted = replace(stands.effect, overrides=(*stands.effect.overrides, order))
    _check_licensed(stands, conclude(lifted, stands.situation))

    async def write(claimed: Claimed) -> None:
        claimed.check_head(loaded)
        await claimed.move(order, to=Status.RUNNING)

    await under_claim(world, run_id, write)
    return await recover(world, run_id)


def _check_licensed(stands: Standing, judgement: Judgement) -> None:
    if stands.request is None:
        raise _needs_app("A redrive", stands)
    if judgement.action not in {Action.SEND, Action.RESEND}:
        raise NotLicensed(
            run_id=stands.loaded.run.run_id,
            step=stands.effect.step,
            verb="sending its key again",
            reason=judgement.reason.value,
            row=judgement.row.number,
            why=judgement.row.paragraph,
        )


# -- closing -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Closed:
    """What the environment answered to a close. settled: the outcome that follows from it, None where nothing is proven by it;
    judgement: the verdict with this answer."""

    run_id: str
    step: str
    answer: Answered
    settled: Settled | None
    judgement: Judgement


async def close_key(world: World, run_id: str, step: str, *, by: str, reason: str) -> Closed:
    """Close the step's key: the environment tells its outcome, or refuses it for ever. Raises OverrideRefused, LeaseUnavailable."""
    keepable("A close", f"{step} of run {run_id!r}", by=by, reason=reason)
    loaded = await looked_at(run_id)
    stands = await standing(world, loaded, step)
    check_open(stands)
    request = _closeable(stands)

    async def close(claimed: Claimed) -> Closed:
        claimed.check_head(loaded)
        return await _closed(claimed, stands, request, by, reason)

    return await under_claim(world, run_id, close)


def _closeable(stands: Standing) -> Request:
    about = f"{stands.effect.step} of run {stands.loaded.run.run_id!r}"
    if stands.request is None:
        raise _needs_app("A close", stands)
    for holds, problem, advice in (
        (
            not stands.request.can_close,
            f"{stands.request.effect} has no close",
            f"What can be ordered instead: `recover explain {stands.loaded.run.run_id} {stands.effect.step}`.",
        ),
        (stands.situation.scope_changed, "its scope is not the one of the intent", "Go back to the scope of the intent."),
        (
            stands.judgement.reason in FROZEN,
            "its key is frozen, because it answers for another request",
            "Resolve it once you know whose it is.",
        ),
        (stands.situation.held, "it is held, and a close is a request", "Release it first."),
        (bool(tombstones(stands.effect)), "its key is closed already", "See what that proves with `recover explain`."),
    ):
        if holds:
            raise OverrideRefused(verb="A close", about=about, problem=problem, advice=advice)
    return stands.request


async def _closed(claimed: Claimed, stands: Standing, request: Request, by: str, reason: str) -> Closed:
    effect, epoch, now_us = effect_of(claimed.loaded, stands.effect.step), str(claimed.loaded.run.epoch), await Now()
    attempt = Attempt(
        step=effect.step,
        number=len(effect.attempts) + 1,
        purpose=CLOSING,
        sent_at_us=now_us,
        send_until_us=now_us + effect.intent.timeout_us,
        epoch=epoch,
    )
    order = Override(step=effect.step, verb=Verb.CLOSE, by=by, at_us=now_us, reason=reason)
    await claimed.move(*taken_in(effect), order, attempt, to=Status.RUNNING)
    answer = await Close(request.subject, effect.intent, attempt)
    told = Observation(
        step=effect.step,
        source=Source.CLOSE,
        asked_at_us=now_us,
        observed_at_us=await Now(),
        answer=answer,
        attempt=attempt.number,
        epoch=epoch,
    )
    judgement = conclude(effect, replace(stands.situation, now_us=await Now()), told)
    settled = judgement.settlement
    if settled is not None:
        await claimed.move(settled, to=Status.RUNNING)
    elif judgement.action is Action.PARK:
        await claimed.move(told, judgement.recorded(), to=Status.IN_DOUBT, reason=judgement.reason.value)
    else:
        await claimed.move(told, to=Status.RUNNING)
    return Closed(run_id=claimed.loaded.run.run_id, step=effect.step, answer=answer, settled=settled, judgement=judgement)


def _needs_app(verb: str, stands: Standing) -> OverrideRefused:
    problem = stands.problem or "only the app's code can send, and this engine does not have the workflow"
    return OverrideRefused(
        verb=verb,
        about=f"{stands.effect.step} of run {stands.loaded.run.run_id!r}",
        problem=problem,
        advice="Name the app that fits with --app module:engine.",
    )
