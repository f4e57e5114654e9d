"""Compensating: an effect that happened once too often is undone, by a person's order.

Owns which effects such an order may undo, and the run that carries it out: one of its own, since what it undoes may belong to a run that has
ended. Invariants: what an outcome rests on is never undone so, only what speaks against it; one order for one receipt, however often it is given.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from recovery import codec
from recovery.claims import World, find
from recovery.core.contradictions import contradicted
from recovery.core.entries import JSON
from recovery.core.errors import DefinitionError, OverrideRefused, RecoveryError
from recovery.core.history import Noted
from recovery.core.ids import RUN_ID_PATTERN, digest_bytes
from recovery.core.instants import moment
from recovery.core.operations import Now, Use
from recovery.core.timing import timing_of
from recovery.core.trust import weakest
from recovery.definitions.effect import Bound
from recovery.definitions.recovered import Proposal, Recovered
from recovery.definitions.undoing import proposal, undo_of
from recovery.definitions.workflow import Workflow
from recovery.hindsight import record, reread
from recovery.operators.claiming import attributed
from recovery.operators.standing import effect_of, looked_at
from recovery.reconciler import run as carry_out
from recovery.storage.reading import Loaded, read

WORKFLOW: Final = "recovery.undo"
"""The workflow of a run that carries out such an order. Every engine has it."""


@dataclass(frozen=True)
class Order:
    """The input of such a run. `entry`: where the receipt stands in the journal of the run that it speaks against; `not_before`: when no copy of
    that step can act any more, None: it is so."""

    run: str
    step: str
    entry: int
    effect: str
    arguments: dict[str, JSON]
    not_before: datetime | None
    by: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Offered:
    """One effect that can be undone by an order. run_id: of the run that would do it."""

    run_id: str
    proposal: Proposal
    order: Order


@dataclass(frozen=True, slots=True, kw_only=True)
class Undone:
    """An order that was given. recovered: where the run that carries it out stands."""

    offered: Offered
    recovered: Recovered[Any]


async def offered(world: World, run_id: str, step: str, *, by: str, reason: str) -> tuple[Offered, ...]:
    """What an order would undo, in the order in which it became known. Raises StepNotFound, and OverrideRefused where there is nothing that could
    be undone so. Appends nothing but what speaks against the step."""
    about = f"{step} of run {run_id!r}"
    loaded: Loaded = await looked_at(run_id)
    if loaded.run.status.settled:
        loaded = await record(world, loaded)
    now_us = await Now()
    found = contradicted(effect_of(loaded, step), loaded.contracts, now_us)
    if found is None or not found.surplus:
        raise _refused(about, "no receipt speaks against its outcome", "What its outcome rests on is undone by its workflow.")
    if any(noted.seq is None for noted in found.surplus):
        raise _refused(about, "what speaks against it is not recorded yet", f"Recover it first: `recover --run-id {run_id}`.")
    bound = await _bound(world, loaded, step, about)
    quiet_us = timing_of(found.step, weakest((loaded.contracts[found.step.intent.contract], bound.effect.contract))).quiet_at_us
    not_before = moment(quiet_us + 1) if quiet_us is not None and quiet_us >= now_us else None
    return tuple(_offer(run_id, bound, noted, not_before, by=by, reason=reason) for noted in found.surplus)


async def compensate(world: World, run_id: str, step: str, *, by: str, reason: str) -> tuple[Undone, ...]:
    """Undo what happened once too often at a step. Repeated, it goes on with the order that was given first. Raises as `offered`."""
    attributed("A compensation", f"{step} of run {run_id!r}", by=by, reason=reason)
    workflow = world.workflows[WORKFLOW]
    undone = []
    for each in await offered(world, run_id, step, by=by, reason=reason):
        given = workflow.bind(each.order)
        if await find(each.run_id) is not None:
            given = (await Use(lambda journal, undoing=each.run_id: read(journal, undoing))).opened.input  # type: ignore[misc]  # bound now
        undone.append(Undone(offered=each, recovered=await carry_out(world, each.run_id, workflow, given)))
    return tuple(undone)


async def rebound(world: World, order: Order) -> Bound[Any]:
    """The call that an order is about, as it was ordered. Raises DefinitionError where the app does not define it any more."""
    try:
        loaded = await looked_at(order.run)
        bound = await _bound(world, loaded, order.step, f"{order.step} of run {order.run!r}")
    except RecoveryError as error:
        raise _gone(order, str(error)) from error
    undo = bound.effect.compensated_by
    if undo is None or undo.name != order.effect:
        raise _gone(order, f"{bound.effect.name} is undone by {'nothing' if undo is None else undo.name}")
    return undo.bind(order.arguments)


async def _bound(world: World, loaded: Loaded, step: str, about: str) -> Bound[Any]:
    """The call of a settled step, as the app makes it now. Raises OverrideRefused."""
    workflow: Workflow[..., Any] | None = world.workflows.of(loaded.run.workflow, loaded.history.version)
    calls = {} if workflow is None else await reread(workflow, loaded, world.budget)
    bound = calls.get(step)
    if bound is None:
        raise _refused(
            about, "the app that makes this call is not at hand, or does not make it any more", "Name the app that fits with --app."
        )
    if bound.effect.compensated_by is None:
        advice = "Undo it by hand, then `recover acknowledge`."
        raise _refused(about, f"{bound.effect.name} has no compensation", advice)
    return bound


def _offer(run_id: str, bound: Bound[Any], noted: Noted, not_before: datetime | None, *, by: str, reason: str) -> Offered:
    undo, told, entry = undo_of(bound, noted), proposal(bound, noted), noted.seq
    if undo is None or told is None or entry is None:
        about = f"entry {entry} of run {run_id!r}"
        raise _refused(
            about, "what happened there is not known well enough to be undone", "Undo it by hand, then `recover acknowledge`."
        )
    arguments: Mapping[str, JSON] = undo.stored
    order = Order(
        run=run_id, step=noted.observation.step, entry=entry, effect=undo.effect.name, arguments=dict(arguments),
        not_before=not_before, by=by, reason=reason,
    )  # fmt: skip
    return Offered(run_id=_named(run_id, entry), proposal=told, order=order)


def _named(run_id: str, entry: int) -> str:
    """The id of the run that undoes what an entry tells of: one for each."""
    name = f"{run_id}.undo.{entry}"
    return name if RUN_ID_PATTERN.fullmatch(name) else f"undo.{digest_bytes(codec.dumps([run_id, entry]).encode())}"


def _refused(about: str, problem: str, advice: str) -> OverrideRefused:
    return OverrideRefused(verb="A compensation", about=about, problem=problem, advice=advice)


def _gone(order: Order, problem: str) -> DefinitionError:
    advice = "Give the engine the workflow that made the call."
    return DefinitionError(what="order", name=f"{order.step} of {order.run}", problem=problem.rstrip("."), advice=advice)
