"""Forking: a new run from the prefix of another one, and a new generation of a run from one of its steps.

Owns what must hold before either is written, and that a fork is stored whole, in one commit, on terms that its journal holds. Invariants: the run that
is forked is only read, and none of its intents is ever judged by a fork; where nobody says otherwise nothing that may have happened is done again.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from recovery.claims import World, find, in_hand
from recovery.core.entries import Decision, Entry, Opened, Override, Status, Verb
from recovery.core.errors import OverrideRefused, StepNotFound
from recovery.core.history import fold
from recovery.core.ids import ROOT, check_run_id
from recovery.core.inheritance import NewKey, Policy, Term, Unsettled, copied, cut_at, is_place, prefix_of
from recovery.core.operations import Now
from recovery.core.repeating import terms_for, unsaid
from recovery.crashpoints import around
from recovery.obeying import standing_status
from recovery.offspring import given_up
from recovery.offspring import opened as store_run
from recovery.operators.claiming import Claimed, attributed, keepable, under_claim
from recovery.operators.standing import looked_at
from recovery.storage.reading import Loaded, Whole

_FORK: Final = "A fork"
_RESTART: Final = "A restart"


@dataclass(frozen=True, slots=True, kw_only=True)
class Forked:
    """A fork as it was stored, or as it would be. at: the first step of `of_run` that is not taken over, "" where all are; of_run_status, head, head_digest:
    how that run and its journal stood; both_go_on: it may go on too, so that what it has not come to yet happens in both. prefix: the steps that are taken
    over. terms: what is to become of each effect of that run. version: of the workflow."""

    run_id: str
    of_run: str
    of_run_status: Status
    both_go_on: bool
    at: str
    head: int
    head_digest: str
    version: str
    prefix: tuple[str, ...]
    terms: tuple[Term, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Restarted:
    """A new generation as it was ordered, or as it would be. superseded: the steps that are left behind."""

    run_id: str
    from_step: str
    generation: int
    head: int
    head_digest: str
    status: Status
    prefix: tuple[str, ...]
    superseded: tuple[str, ...]
    terms: tuple[Term, ...]


# -- fork --------------------------------------------------------------------------------------------------------------


async def fork(
    world: World,
    run_id: str,
    new_run_id: str,
    *,
    at: str,
    policies: Mapping[str, Policy],
    version: str,
    by: str,
    reason: str,
    plan: bool = False,
) -> Forked:
    """Store a run that takes over another one's prefix. plan: only say what it would be. A repeat that asks for the same changes nothing. Raises
    RunNotFound, StepNotFound, InvalidName and OverrideRefused."""
    attributed(_FORK, f"run {run_id!r}", by=by, reason=reason)
    check_run_id(new_run_id)
    _check_words(_FORK, f"run {run_id!r}", policies, version)
    parent = await _looked_at(run_id)
    made, taken_over = _forked(parent, new_run_id, at, policies, version)
    order = Override(
        step=ROOT,
        verb=Verb.FORK,
        by=by,
        at_us=await Now(),
        reason=reason,
        terms=[term.to_json() for term in made.terms],
    )
    opened = Opened(
        workflow=parent.opened.workflow,
        version=made.version,
        input=parent.opened.input,
        input_digest=parent.opened.input_digest,
        at_us=order.at_us,
        forked_from=run_id,
        forked_at=made.at,
        forked_head=made.head_digest,
    )
    taken_over = tuple(replace(entry, at_us=order.at_us) for entry in taken_over)  # when this run came to know it
    fold(new_run_id, (opened, order, *taken_over))  # refused here, rather than stored and never readable
    if await find(new_run_id) is not None:
        await _check_same(new_run_id, opened, order)
    elif not plan:
        await _store(world, new_run_id, opened, (order, *taken_over))
    return made


def _forked(
    parent: Whole, run_id: str, at: str, policies: Mapping[str, Policy], version: str
) -> tuple[Forked, tuple[Decision, ...]]:
    """What a fork would be, and what it takes over. Raises StepNotFound and OverrideRefused."""
    history, of_run = parent.history, parent.run.run_id
    try:
        at, prefix = cut_at(history, _place(parent, at), policies)
        terms = terms_for(history, parent.contracts, prefix, policies)
        taken_over = tuple(copied(parent.entries, prefix, terms))
    except Unsettled as error:
        raise _refused(_FORK, of_run, error.problem) from None
    made = Forked(
        run_id=run_id,
        of_run=of_run,
        of_run_status=parent.run.status,
        both_go_on=history.ended is None and history.cancelled is None,
        at=at,
        head=parent.run.head,
        head_digest=parent.run.head_digest,
        version=version or parent.opened.version,
        prefix=tuple(entry.step for entry in taken_over),
        terms=tuple(terms),
    )
    return made, taken_over


async def _looked_at(run_id: str) -> Whole:
    """What the order is thought out on. A place of its own: whatever the run does from here on must not be overlooked by the order."""
    with around("load"):
        return await looked_at(run_id)


def _place(loaded: Loaded, at: str) -> str:
    """Raises StepNotFound."""
    step = loaded.history.steps.get(at)
    if at and (step is None or not is_place(step)):
        places = [name for name, step in loaded.history.steps.items() if is_place(step)]
        raise StepNotFound(run_id=loaded.run.run_id, step=at, known=", ".join(places) or "none")
    return at


async def _store(world: World, run_id: str, opened: Opened, more: Sequence[Entry]) -> None:
    """The whole fork, in one commit, and owned by nobody after it. Raises OverrideRefused where somebody else took the run id."""
    owner = world.owner()

    async def stored_and_given_up() -> None:
        row = await store_run(world, run_id, opened, Status.QUEUED, more, owner=owner)
        if row is None:
            raise _taken(run_id)
        await given_up(row)

    await in_hand(world, run_id, owner, stored_and_given_up())


async def _check_same(run_id: str, opened: Opened, order: Override) -> None:
    """A fork that is there already must be this one. Raises OverrideRefused."""
    there = await looked_at(run_id)
    first = replace(there.opened, at_us=opened.at_us, forked_head=opened.forked_head)
    orders = there.history.overrides
    if first != opened or not orders or orders[0].verb is not Verb.FORK or orders[0].terms != order.terms:
        raise _taken(run_id)


def _taken(run_id: str) -> OverrideRefused:
    return OverrideRefused(
        verb=_FORK, about=f"run {run_id!r}", problem="that run id is taken by another run", advice="Choose a new run id."
    )


# -- restart -----------------------------------------------------------------------------------------------------------


async def restart(
    world: World, run_id: str, step: str, *, policies: Mapping[str, Policy], by: str, reason: str, plan: bool = False
) -> Restarted:
    """Begin a new generation of a run at one of its steps. plan: only say what it would be. Raises StepNotFound, HeadMoved, LeaseUnavailable, and
    OverrideRefused: the run is settled or cancelled, what lies before the step is not settled, or an effect from there on may have happened
    and no policy is said for it."""
    about = f"run {run_id!r}"
    attributed(_RESTART, about, by=by, reason=reason)
    _check_words(_RESTART, about, policies)
    seen = await _looked_at(run_id)
    _check_open(seen, about)
    made = _restarted(seen, step, policies)
    if plan:
        return made
    if silent := unsaid(made.terms):
        problem = f"{', '.join(silent)} may have happened, and nobody has said what is to become of it"
        advice = "Say for each: reuse, a new key with a reason, or forbid."
        raise OverrideRefused(verb=_RESTART, about=about, problem=problem, advice=advice)
    order = Override(
        step=ROOT,
        verb=Verb.RESTART,
        by=by,
        at_us=await Now(),
        reason=reason,
        from_step=step,
        terms=[term.to_json() for term in made.terms],
    )

    async def write(claimed: Claimed) -> Restarted:
        claimed.check_head(seen)
        run, held = claimed.loaded.run, claimed.loaded.history.held is not None
        status = run.status if held else standing_status(fold(run_id, [*seen.entries, order]))
        await claimed.move(order, to=status, reason=run.reason if held else "")
        return replace(made, status=status)

    return await under_claim(world, run_id, write)


def _restarted(seen: Loaded, step: str, policies: Mapping[str, Policy]) -> Restarted:
    """What a restart would be. Raises StepNotFound and OverrideRefused."""
    history, run = seen.history, seen.run
    try:
        prefix = prefix_of(history, _place(seen, step or "nothing"))
        terms = terms_for(history, seen.contracts, prefix, policies)
        if stays := [term.step for term in terms if term.inside and term.said]:
            raise Unsettled(f"{stays[0]} lies before it, and stays as it is")
    except Unsettled as error:
        raise _refused(_RESTART, run.run_id, error.problem) from None
    inside = [each.step for each in prefix]
    return Restarted(
        run_id=run.run_id,
        from_step=step,
        generation=history.generation + 1,
        head=run.head,
        head_digest=run.head_digest,
        status=run.status,
        prefix=tuple(inside),
        superseded=tuple(name for name in history.steps if name not in inside),
        terms=tuple(term for term in terms if not term.inside),
    )


def _check_open(loaded: Loaded, about: str) -> None:
    if loaded.history.ended is not None:
        problem = f"it is settled ({loaded.run.status.value}), and an outcome is final"
        raise OverrideRefused(
            verb=_RESTART, about=about, problem=problem, advice="Fork it with `recover fork RUN NEW-RUN --at STEP`."
        )
    if loaded.history.cancelled is not None:
        raise OverrideRefused(
            verb=_RESTART, about=about, problem="it is cancelled", advice="Fork it with `recover fork` once it has ended."
        )


def _check_words(verb: str, about: str, policies: Mapping[str, Policy], version: str = "") -> None:
    """Raises OverrideRefused where no store could keep them."""
    keepable(verb, about, version=version)
    for policy in policies.values():
        keepable(verb, about, reason=policy.reason if isinstance(policy, NewKey) else "")


def _refused(verb: str, run_id: str, problem: str) -> OverrideRefused:
    return OverrideRefused(
        verb=verb, about=f"run {run_id!r}", problem=problem, advice=f"See its steps with `recover show {run_id}`."
    )
