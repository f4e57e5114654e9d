"""Moving runs to another version of their code, by a person's order.

Owns what must hold before such an order is written. Invariants: only a run whose every effect is settled is moved; the code that it is moved to
was replayed against what it records, and fits; nothing is sent, decided or asked.
"""

from __future__ import annotations

from copy import deepcopy
from dataclasses import dataclass, replace
from typing import Any

from recovery.claims import World
from recovery.core.entries import Override, Status, Verb
from recovery.core.errors import OverrideRefused
from recovery.core.history import History
from recovery.core.ids import ROOT
from recovery.core.moving import checked
from recovery.core.operations import Now
from recovery.core.wording import of_type
from recovery.definitions.migration import Migrated
from recovery.definitions.workflow import Workflow
from recovery.obeying import standing_status
from recovery.operators.claiming import Claimed, attributed, under_claim
from recovery.operators.fitting import Fit, fit
from recovery.operators.standing import has_living_owner, looked_at
from recovery.storage.reading import Loaded

_WHAT = "A change of version"


@dataclass(frozen=True, slots=True, kw_only=True)
class Moved:
    """What a change of version came to, or would. before, after: the versions. order: as it was written; None: nothing was written."""

    run_id: str
    workflow: str
    before: str
    after: str
    steps: dict[str, str | None]
    dropped: tuple[str, ...]
    then: str
    order: Override | None = None


async def move(world: World, run_id: str, *, version: str | None, by: str, reason: str, dry: bool = False) -> Moved:
    """Move a run to a version that knows how. version: None takes the one that was registered last. dry: only say what it would come to.

    Raises OverrideRefused where it cannot be moved, and Diverged or ValueUnreadable where the new code does not fit what was moved."""
    if not dry:
        attributed(_WHAT, f"run {run_id!r}", by=by, reason=reason)
    seen = await looked_at(run_id)
    workflow = _target(world, seen, version)
    if dry:
        return await _planned(seen, workflow, Override(step=ROOT, verb=Verb.MOVE, by=by, at_us=await Now()))
    if has_living_owner(world, seen.run):
        await _planned(
            seen, workflow, Override(step=ROOT, verb=Verb.MOVE, by=by, at_us=await Now())
        )  # refused before it is claimed

    async def write(claimed: Claimed) -> Moved:
        loaded = claimed.loaded
        order = Override(step=ROOT, verb=Verb.MOVE, by=by, at_us=await Now(), reason=reason)
        planned = await _planned(loaded, workflow, order)
        assert planned.order is not None
        status, why = _standing(loaded, planned.order)
        await claimed.move(planned.order, to=status, reason=why)
        return planned

    return await under_claim(world, run_id, write)


def _target(world: World, loaded: Loaded, version: str | None) -> Workflow[..., Any]:
    """The version to move to. Raises OverrideRefused where it is not there, or knows nothing of the run's own."""
    if loaded.history.ended is not None:
        raise _refused(loaded, "it has ended", f"See it with `recover show {loaded.run.run_id}`.")
    name, before = loaded.run.workflow, loaded.history.version
    found = [one for one in world.workflows.every() if one.name == name]
    newest = world.workflows.get(name)
    target = newest if version is None else next((one for one in found if one.version == version), None)
    if target is None:
        known = ", ".join(one.version for one in found) or "none"
        raise _refused(
            loaded, f"there is no version {version!r} of {name!r} here (known: {known})", "Give the engine that version."
        )
    if target.version == before:
        raise _refused(loaded, f"it goes by version {before!r} already", "Recover it.")
    if before not in target.migrations:
        problem = f"version {target.version!r} of {name!r} has no migration from version {before!r}"
        advice = f"Define one with `@{name}.migrates(from_version={before!r})`, or register version {before!r} beside it."
        raise _refused(loaded, problem, advice)
    return target


async def _planned(loaded: Loaded, workflow: Workflow[..., Any], order: Override) -> Moved:
    """The order that would be written, and what would follow. Raises OverrideRefused, Diverged and ValueUnreadable."""
    history = loaded.history
    if any(order.verb in {Verb.FORK, Verb.RESTART} for order in history.overrides):
        problem = "it was forked or restarted, and what it inherits is known by the names of its steps"
        raise _refused(loaded, problem, "Pin it: register its version beside the new one.")
    if history.unsettled:
        step = history.unsettled[0].step
        raise _refused(
            loaded,
            f"step {step} is not settled",
            f"Recover it with version {history.version!r} first, or settle that step by hand.",
        )
    said = _said(loaded, workflow)
    try:
        whole = checked(history.steps, said.steps, said.dropped)
    except ValueError as error:
        raise _refused(loaded, f"its migration does not fit what is recorded: {error}", "Correct the migration.") from error
    order = replace(
        order,
        version=workflow.version,
        steps=[[new, old] for new, old in said.steps.items()],
        dropped=tuple(said.dropped),
        epoch=str(loaded.run.epoch),
    )
    tried: Fit = await fit(replace(loaded, history=_moved(history, order)), workflow)
    tried.check()
    return Moved(
        run_id=loaded.run.run_id,
        workflow=workflow.name,
        before=history.version,
        after=workflow.version,
        steps=whole,
        dropped=tuple(said.dropped),
        then=tried.then,
        order=order,
    )


def _said(loaded: Loaded, workflow: Workflow[..., Any]) -> Migrated:
    migration = workflow.migrations[loaded.history.version]
    said = migration(tuple(loaded.history.steps))
    if not isinstance(said, Migrated):
        raise _refused(loaded, f"its migration gave {of_type(said)}", "Return a Migrated.")
    return said


def _moved(history: History, order: Override) -> History:
    """A copy, moved: what is loaded stays what it is."""
    copy = deepcopy(history)
    copy.add(order)
    return copy


def _standing(loaded: Loaded, order: Override) -> tuple[Status, str]:
    if loaded.run.status is Status.HELD:
        return Status.HELD, loaded.run.reason
    return standing_status(_moved(loaded.history, order)), ""


def _refused(loaded: Loaded, problem: str, advice: str) -> OverrideRefused:
    return OverrideRefused(verb=_WHAT, about=f"run {loaded.run.run_id!r}", problem=problem, advice=advice)
