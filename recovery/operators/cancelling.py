"""Cancelling, pausing and resuming: orders that a living owner takes in, where a hold and a fence would take its run from it.

Owns where each order goes: into the run's inbox where somebody is at work on it, else into its journal under a claim. Invariants: none of them
moves another worker's head; a cancelled run is brought to its end at once where its workflow is known and nobody else has it.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any, Final

from recovery.claims import World, existing
from recovery.core.children import open_children
from recovery.core.entries import Override, Status, Verb
from recovery.core.errors import LeaseUnavailable, OverrideRefused
from recovery.core.history import held_by
from recovery.core.operations import Now, Use
from recovery.crashpoints import around
from recovery.definitions.recovered import Recovered
from recovery.obeying import disobeyed, message, obeyed
from recovery.offspring import tell_cancelled
from recovery.operators.claiming import Claimed, attributed, under_claim
from recovery.operators.standing import looked_at
from recovery.ports import NotOpen
from recovery.reconciler import look, recover
from recovery.storage.reading import Loaded

_NAMES: Final = {Verb.CANCEL: "A cancel", Verb.PAUSE: "A pause", Verb.RESUME: "A resume"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Told:
    """An order as it was given. taken_in: it is in the run's journal by now; else it is in its inbox, for `owner` to take in at its next step or
    renewal of the lease. status: of the run."""

    run_id: str
    verb: Verb
    by: str
    reason: str
    status: Status
    taken_in: bool
    owner: str = ""


async def cancel(world: World, run_id: str, *, by: str, reason: str) -> Recovered[Any]:
    """Cancel a run, and bring it to its end as far as that can be done here. Repeated, it goes on with that. Raises RunNotFound, and
    OverrideRefused where the run has settled otherwise."""
    await _give(world, run_id, Verb.CANCEL, by, reason)
    row = await existing(run_id)
    if not row.status.settled:
        with suppress(LeaseUnavailable):  # its owner was told
            if row.workflow in world.workflows:
                return await recover(_at_once(world), run_id)
            await _take_in(world, run_id)
    return await look(world, run_id)


async def pause(world: World, run_id: str, *, by: str, reason: str) -> Told:
    """Let a run begin nothing new until it is resumed. Raises OverrideRefused (settled, cancelled, or held already), RunNotFound."""
    return await _told(world, run_id, Verb.PAUSE, by, reason)


async def resume(world: World, run_id: str, *, by: str, reason: str) -> Told:
    """Let a paused run go on with its next recovery. Raises OverrideRefused where it is not paused, RunNotFound."""
    return await _told(world, run_id, Verb.RESUME, by, reason)


async def _told(world: World, run_id: str, verb: Verb, by: str, reason: str) -> Told:
    row = await existing(run_id)
    if row.owner is not None and world.proven_dead(row.owner):
        await under_claim(world, run_id, _nothing)  # from the dead it is given up, even where the order is refused
    await _give(world, run_id, verb, by, reason)
    with suppress(LeaseUnavailable, OverrideRefused):  # its owner was told, or has settled it meanwhile
        await _take_in(world, run_id)
    loaded = await looked_at(run_id)
    owner = "" if loaded.run.owner is None else str(loaded.run.owner)
    waits = bool(await disobeyed(loaded.history))
    return Told(run_id=run_id, verb=verb, by=by, reason=reason, status=loaded.run.status, taken_in=not waits, owner=owner)


async def _give(world: World, run_id: str, verb: Verb, by: str, reason: str) -> None:
    """Put an order into the run's inbox, durably, unless it is there or in the journal."""
    about = f"run {run_id!r}"
    attributed(_NAMES[verb], about, by=by, reason=reason)
    loaded = await looked_at(run_id)
    if loaded.run.status is Status.CANCELLED and verb is Verb.CANCEL:
        return
    waiting = await disobeyed(loaded.history)
    if waiting and waiting[-1].verb is verb and not loaded.run.status.settled:
        return  # said before, and not taken in yet
    _check(loaded, [*loaded.history.overrides, *waiting], verb)
    order = message(world.token(), run_id, verb, by=by, reason=reason, at_us=await Now())
    with around("deliver"):
        came = await Use(lambda journal: journal.deliver(order))
    if isinstance(came, NotOpen):
        if verb is Verb.CANCEL and came.run is not None and came.run.status is Status.CANCELLED:
            return  # somebody else's cancel came between the look and the order, and was carried out
        raise _refused(verb, run_id, "it settled meanwhile", f"See it with `recover show {run_id}`.")
    await Use(lambda journal: world.tell(run_id))  # noqa: ARG005  # it reads the inbox where the store may be used
    if verb is Verb.CANCEL:
        for child in open_children(loaded.history):  # whoever works on one hears of it now, and not when its parent's step returns
            await tell_cancelled(world, child, run_id, by=by, reason=reason)


def _check(loaded: Loaded, orders: Sequence[Override], verb: Verb) -> None:
    run, held = loaded.run, held_by(orders)
    cancelled = any(order.verb is Verb.CANCEL for order in orders)
    for holds, problem, advice in (
        (
            run.status.settled,
            f"it is settled ({run.status.value}), so there is nothing to order",
            f"See it with `recover show {run.run_id}`.",
        ),
        (verb is Verb.PAUSE and cancelled, "it is cancelled, and begins nothing new", f"See it with `recover show {run.run_id}`."),
        (
            verb is Verb.PAUSE and held is not None,
            "it is held or paused already",
            f"See who did it with `recover show {run.run_id}`.",
        ),
        (verb is Verb.RESUME and held is None, "nobody has paused it", f"Recover it with `recover --run-id {run.run_id}`."),
        (
            verb is Verb.RESUME and held is not None and held.verb is Verb.HOLD,
            "it is held, and not paused",
            f"Let it go on with `recover release {run.run_id}`.",
        ),
    ):
        if holds:
            raise _refused(verb, run.run_id, problem, advice)


def _refused(verb: Verb, run_id: str, problem: str, advice: str) -> OverrideRefused:
    return OverrideRefused(verb=_NAMES[verb], about=f"run {run_id!r}", problem=problem, advice=advice)


async def _take_in(world: World, run_id: str) -> None:
    """Take in what is in the run's inbox, under a claim. Raises LeaseUnavailable where somebody is at work on the run."""

    async def write(claimed: Claimed) -> None:
        await obeyed(world, claimed.loaded)

    await under_claim(_at_once(world), run_id, write)


async def _nothing(_claimed: Claimed) -> None:
    """The run is claimed and given up."""


def _at_once(world: World) -> World:
    return replace(world, wait_for_owner=timedelta(0))
