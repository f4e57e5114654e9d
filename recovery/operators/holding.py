"""Holding: runs and contracts under which nothing is sent until a person releases them, and fences.

Owns the orders about a whole run, and the words about contracts. Invariants: a hold and a fence raise the epoch, so that whoever was at work
can append nothing more; what it sent before that may still act, and the order says until when.
"""

from __future__ import annotations

from dataclasses import dataclass

from recovery.claims import World, existing
from recovery.core.entries import Override, Status, Verb
from recovery.core.errors import OverrideRefused
from recovery.core.ids import ROOT
from recovery.core.operations import Now, Use
from recovery.core.resting import RestsFor
from recovery.core.timing import exposed_attempts, timing_of
from recovery.core.typed import TEXT_MAX
from recovery.crashpoints import around
from recovery.obeying import standing_status
from recovery.operators.claiming import Claimed, attributed, keepable, under_claim, unkept
from recovery.operators.standing import looked_at
from recovery.ports import Hold
from recovery.storage.reading import Loaded


@dataclass(frozen=True, slots=True, kw_only=True)
class Ordered:
    """An order about a run, as it was written. was_owned_by: who had the run until then, "" for nobody; acts_until_us: when the last
    copy of an attempt whose step is not settled may still act, None: no copy can."""

    run_id: str
    order: Override
    status: Status
    epoch: str
    was_owned_by: str = ""
    acts_until_us: int | None = None


async def hold(world: World, run_id: str, *, by: str, reason: str) -> Ordered:
    """Hold a run, whoever is at work on it. Raises OverrideRefused (settled, or held already), RunNotFound."""
    attributed("A hold", f"run {run_id!r}", by=by, reason=reason)
    return await _order(world, run_id, Verb.HOLD, by, reason)


async def release(world: World, run_id: str, *, by: str, reason: str) -> Ordered:
    """Release a held run: the next recovery goes on. Raises OverrideRefused where it is not held."""
    attributed("A release", f"run {run_id!r}", by=by, reason=reason)
    return await _order(world, run_id, Verb.RELEASE, by, reason)


async def fence(world: World, run_id: str, *, by: str, reason: str) -> Ordered:
    """Raise a run's epoch, whoever owns it, and own it no more. Raises OverrideRefused (settled), RunNotFound."""
    return await _order(world, run_id, Verb.FENCE, by, reason)


async def _order(world: World, run_id: str, verb: Verb, by: str, reason: str) -> Ordered:
    keepable(f"A {verb.value}", f"run {run_id!r}", by=by, reason=reason)
    before = await existing(run_id)
    dead = before.owner is not None and world.proven_dead(before.owner)
    if not (
        before.status.settled or dead
    ):  # a refused order must not take the run from anybody; from the dead it is given up on the way
        _check(await looked_at(run_id), verb)

    async def write(claimed: Claimed) -> Ordered:
        loaded = claimed.loaded
        _check(loaded, verb)
        order = Override(step=ROOT, verb=verb, by=by, at_us=await Now(), reason=reason)
        status, why, rests_for = _after(loaded, verb, reason)
        await claimed.move(order, to=status, reason=why, rests_for=rests_for)
        return Ordered(
            run_id=run_id,
            order=order,
            status=status,
            epoch=str(loaded.run.epoch),
            was_owned_by="" if before.owner is None or dead else str(before.owner),
            acts_until_us=acts_until(loaded),
        )

    return await under_claim(world, run_id, write, by_force=verb in {Verb.HOLD, Verb.FENCE})


def _check(loaded: Loaded, verb: Verb) -> None:
    held = loaded.history.held
    about = f"run {loaded.run.run_id!r}"
    if verb is Verb.HOLD and held is not None:
        raise OverrideRefused(verb="A hold", about=about, problem=f"{held.by} holds it already", advice="Release it first.")
    if verb is Verb.RELEASE and held is None:
        advice = "Where its contract is held, release that with --contract."
        raise OverrideRefused(verb="A release", about=about, problem="nobody holds the run", advice=advice)


def _after(loaded: Loaded, verb: Verb, reason: str) -> tuple[Status, str, RestsFor]:
    """How the run stands behind the order."""
    run = loaded.run
    if verb is Verb.HOLD or (verb is Verb.FENCE and loaded.history.held is not None):
        return Status.HELD, reason if verb is Verb.HOLD else run.reason, RestsFor.NOTHING
    return (
        (standing_status(loaded.history), "", RestsFor.NOTHING) if verb is Verb.RELEASE else (run.status, run.reason, run.rests_for)
    )


def acts_until(loaded: Loaded) -> int | None:
    """When the last copy of an attempt of an unsettled step may still act; None: no attempt may have left."""
    exposed = [effect for effect in loaded.history.unsettled if exposed_attempts(effect)]
    known = [timing_of(effect, loaded.contracts[effect.intent.contract]).quiet_at_us for effect in exposed]
    return max((at_us for at_us in known if at_us is not None), default=None)


# -- contracts ---------------------------------------------------------------------------------------------------------


async def hold_contract(world: World, subject: str, *, by: str, reason: str) -> Hold:
    """Hold a contract, by its digest or its name: nothing is sent under it by whoever loads a run from now on, nor by a worker once it has
    next renewed its lease. What it sends before that is not stopped."""
    _check_subject("A hold", subject)
    attributed("A hold", f"contract {subject!r}", by=by, reason=reason)
    return await _say(world, subject, held=True, by=by, reason=reason)


async def release_contract(world: World, subject: str, *, by: str, reason: str) -> Hold:
    """Release a contract. Raises OverrideRefused where it is not held."""
    _check_subject("A release", subject)
    attributed("A release", f"contract {subject!r}", by=by, reason=reason)
    if all(hold.subject != subject for hold in await contract_holds()):
        raise OverrideRefused(
            verb="A release", about=f"contract {subject!r}", problem="it is not held under that name",
            advice="See what is held with `recover doubt`.",
        )  # fmt: skip
    return await _say(world, subject, held=False, by=by, reason=reason)


async def contract_holds() -> list[Hold]:
    """The contracts that are held now."""
    return await Use(lambda journal: journal.holds())


def _check_subject(verb: str, subject: str) -> None:
    """Raises OverrideRefused for what names no contract."""
    problem = "" if subject.strip() else "it needs a digest or a name"
    if unkept(subject) or len(subject) > TEXT_MAX:
        problem = f"no contract has that name: it is longer than {TEXT_MAX} characters, or no text"
    if problem:
        raise OverrideRefused(verb=verb, about="a contract", problem=problem, advice="Say it with --contract.")


async def _say(world: World, subject: str, *, held: bool, by: str, reason: str) -> Hold:
    word = Hold(subject, held, by, reason, await Now(), world.token())
    with around("hold"):
        await Use(lambda journal: journal.add_hold(word))
    return word
