"""Forgetting: the entries of a settled run are removed, and what must outlive them stays.

Owns when that is allowed. Invariants: the run's id and its keys are taken for ever; nothing is forgotten while a copy of an attempt may act
or the environment may still answer for one of its keys inside its window, because then late evidence could come and need the entries; nor while
something speaks against an outcome and nobody has acknowledged it, because what shows that would go with the entries;
nor a child whose open parent has not adopted its outcome.
"""

from __future__ import annotations

from dataclasses import dataclass

from recovery import codec
from recovery.claims import World, find, load
from recovery.core.contracts import WindowStart
from recovery.core.contradictions import need_a_person, news
from recovery.core.effect_errors import KeyStillAsked
from recovery.core.entries import encode
from recovery.core.errors import HeadMoved, OverrideRefused, RunUnsettled
from recovery.core.history import EffectStep
from recovery.core.ids import digest_bytes
from recovery.core.instants import iso
from recovery.core.operations import Now, Use
from recovery.core.timing import quiet_after, timing_of
from recovery.crashpoints import around
from recovery.operators.claiming import keepable
from recovery.operators.standing import looked_at
from recovery.ports import Stub
from recovery.storage.reading import Loaded
from recovery.storage.resting import blinded


@dataclass(frozen=True, slots=True, kw_only=True)
class Forgotten:
    """What stays: the stub, the run's status, and its keys as (environment, scope, key)."""

    stub: Stub
    status: str
    keys: tuple[tuple[str, str, str], ...]


async def forget(world: World, run_id: str, *, by: str, reason: str) -> Forgotten:  # noqa: ARG001  # every verb takes the world
    """Remove a settled run's entries. Raises RunUnsettled, OverrideRefused (something speaks against an outcome), KeyStillAsked (with the time),
    HeadMoved, RunForgotten."""
    keepable("Forgetting", f"run {run_id!r}", by=by, reason=reason)
    loaded = await looked_at(run_id)
    ended, now_us = loaded.history.ended, await Now()
    if ended is None:
        raise RunUnsettled(run_id=run_id, status=loaded.run.status.value, reason=", and only settled runs are forgotten")
    if news(loaded.history, loaded.contracts, now_us):
        raise OverrideRefused(
            verb="Forgetting",
            about=f"run {run_id!r}",
            problem="late evidence speaks against an outcome and is not recorded yet",
            advice=f"See it with `recover --run-id {run_id}`, which records it.",
        )
    if need_a_person(loaded.history, loaded.contracts, now_us):
        raise OverrideRefused(
            verb="Forgetting",
            about=f"run {run_id!r}",
            problem="something speaks against an outcome and nobody has acknowledged it",
            advice="See it with `recover doubt`, and say that it was seen to with `recover acknowledge RUN STEP`.",
        )
    await _check_adopted(loaded)
    for effect in loaded.history.effects:
        until_us = asked_until(loaded, effect)
        if until_us is not None and now_us <= until_us:
            raise KeyStillAsked(run_id=run_id, step=effect.step, key=effect.intent.key, until=iso(until_us))
    stub = Stub(run_id, blinded(digest_bytes(codec.dumps(encode(ended)).encode()), loaded.sealing), by, reason, now_us)
    with around("forget"):
        forgotten = await Use(lambda journal: journal.forget(loaded.run, stub))
    if not forgotten:
        found = await Use(lambda journal: journal.find(run_id))
        raise HeadMoved(run_id=run_id, found=found.head_digest if found else "none", expected=loaded.run.head_digest)
    intents = [effect.intent for effect in loaded.history.effects]
    keys = tuple((intent.environment, intent.scope, intent.key) for intent in intents if intent.key)
    return Forgotten(stub=stub, status=loaded.run.status.value, keys=keys)


async def _check_adopted(loaded: Loaded) -> None:
    """An open parent adopts the entry that settled its child, which would be gone. Raises OverrideRefused."""
    first, run_id = loaded.opened, loaded.run.run_id
    parent = await find(first.parent) if first.parent else None
    if parent is None or parent.status.settled or run_id in (await load(parent.run_id)).history.adopted:
        return
    raise OverrideRefused(
        verb="Forgetting",
        about=f"run {run_id!r}",
        problem=f"its parent {first.parent!r} has not adopted its outcome",
        advice=f"Bring the parent to its end with `recover --run-id {first.parent}`, and forget the child after that.",
    )


def asked_until(loaded: Loaded, effect: EffectStep) -> int | None:
    """The last moment at which a copy may act or the key's window is open, whichever is later; None: nothing was ever attempted.

    All attempts count, those that were proven without effect too: it costs little to wait for them, and nothing to be wrong."""
    contract = loaded.contracts[effect.intent.contract]
    t0_us = timing_of(effect, contract).t0_us
    quiet_us = quiet_after(effect.attempts, contract)
    from_us = t0_us if contract.window_starts is WindowStart.FIRST_SEEN else quiet_us  # work has completed by then (A2)
    window = None if from_us is None or contract.window_us is None else from_us + contract.window_us + contract.clock_error_us
    ends = [at_us for at_us in (quiet_us, window) if at_us is not None]
    return max(ends, default=None)
