"""Acknowledging: a person's word that what speaks against an outcome was seen to.

Owns which items such a word names. Invariants: the outcome stands; only what the journal records is acknowledged, so that what comes later
needs a person again.
"""

from __future__ import annotations

from dataclasses import dataclass

from recovery.claims import World, claim, in_hand, visit
from recovery.core.contradictions import Contradicted, contradicted, need_a_person
from recovery.core.entries import Override, Verb
from recovery.core.errors import HeadMoved, OverrideRefused
from recovery.core.judgement import CONTRADICTED
from recovery.core.operations import Append, Now
from recovery.hindsight import record
from recovery.operators.claiming import Claimed, attributed, under_claim
from recovery.operators.standing import effect_of, looked_at
from recovery.storage.reading import Loaded
from recovery.storage.writer import writer_of


@dataclass(frozen=True, slots=True, kw_only=True)
class Acknowledged:
    """The order as it was written. left: whether something else in the run still needs a person."""

    run_id: str
    order: Override
    left: bool


async def acknowledge(world: World, run_id: str, step: str, *, by: str, reason: str) -> Acknowledged:
    """Say that what speaks against a step's outcome was seen to. Raises StepNotFound, OverrideRefused, HeadMoved, LeaseUnavailable."""
    about = f"{step} of run {run_id!r}"
    attributed("An acknowledgement", about, by=by, reason=reason)
    seen: Loaded = await looked_at(run_id)
    if seen.run.status.settled:
        seen = await record(world, seen)
    found = _open(seen, step, await Now(), about)
    evidence = tuple(noted.seq for noted in found.open if noted.seq is not None)

    async def write(claimed: Claimed) -> Acknowledged:
        claimed.check_head(seen)
        loaded, run = claimed.loaded, claimed.loaded.run
        order = Override(step=step, verb=Verb.ACKNOWLEDGE, by=by, at_us=await Now(), reason=reason, evidence=evidence)
        loaded.history.add(order)
        left = need_a_person(loaded.history, loaded.contracts, order.at_us)
        why = (CONTRADICTED if left else "") if run.status.settled else run.reason
        await claimed.writer.commit(Append((order,), run.status, None, why, run.rests_for, keeps_look=True))
        return Acknowledged(run_id=run_id, order=order, left=left)

    if not seen.run.status.settled:
        return await under_claim(world, run_id, write)
    owner = world.owner()

    async def behind_its_end() -> Acknowledged:
        claimed = await claim(world, seen.run, owner)
        if claimed is None:
            raise HeadMoved(run_id=run_id, found="another worker's", expected=seen.run.head_digest)
        return await visit(world, claimed, lambda loaded: write(Claimed(loaded, writer_of(loaded, world.token))))

    return await in_hand(world, run_id, owner, behind_its_end())


def _open(loaded: Loaded, step: str, now_us: int, about: str) -> Contradicted:
    """What nobody has acknowledged yet. Raises OverrideRefused."""
    found = contradicted(effect_of(loaded, step), loaded.contracts, now_us)
    if found is None or not found.open:
        word = None if found is None else found.acknowledged
        problem = "nothing speaks against its outcome" if word is None else f"{word.by} has acknowledged it already"
        raise OverrideRefused(verb="An acknowledgement", about=about, problem=problem, advice="See the run with `recover show`.")
    if any(noted.seq is None for noted in found.open):
        run_id = loaded.run.run_id
        advice = f"Recover it first: `recover --run-id {run_id}`."
        raise OverrideRefused(
            verb="An acknowledgement", about=about, problem="what speaks against it is not recorded yet", advice=advice
        )
    return found
