"""Whole runs: why a run stands where it stands, who acts next, and how.

Owns that for the run as a whole; why one step of it stands where it stands is in `explaining`. Invariant: pure but for reading, and it says no more than what is
recorded: of a run that ended its workers the number of them, and not why they ended.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from recovery.claims import World
from recovery.core.entries import Override, Status, Verb, kind_of
from recovery.core.ids import ROOT
from recovery.core.instants import iso
from recovery.core.reasons import HoldReason, Parked, ParkingReason
from recovery.operators.awaiting import Awaited, awaited_by
from recovery.operators.claiming import order_of
from recovery.operators.quarantining import Deaths, deaths
from recovery.operators.standing import has_living_owner, looked_at
from recovery.storage.reading import Whole

PERSON: Final = "a person"
NOBODY: Final = "nobody"
WORKER: Final = "a worker"


@dataclass(frozen=True, slots=True, kw_only=True)
class Last:
    """The last entry before the run stopped. step: "" for the run itself."""

    seq: int
    kind: str
    step: str


@dataclass(frozen=True, slots=True, kw_only=True)
class WholeRun:
    """Where a run stands as a whole. reason: why, "" where its status says it; since_us: since when.

    deaths: of a quarantined run, what is recorded of the workers that it ended. crashes: how many workers in a row have ended while they had the run, so far.
    acts: who acts next; advice: what to do; commands: with which, in order. steps: those that are not settled; last: what was recorded last before it was held."""

    run_id: str
    workflow: str
    status: Status
    reason: str
    since_us: int
    acts: str
    advice: str
    commands: tuple[str, ...]
    crashes: int
    parking: Parked | None = None
    deaths: Deaths | None = None
    steps: tuple[str, ...] = ()
    last: Last | None = None


async def whole_run(world: World, run_id: str) -> WholeRun:
    """Why a run stands where it stands. Raises what reading a run raises; claims and changes nothing."""
    loaded = await looked_at(run_id)
    held, run = loaded.history.held, loaded.run
    if held is not None and not run.status.settled:
        return _held(loaded, held)
    if run.status is Status.WAITING and (asked := [one for one in await awaited_by(loaded) if not one.said_by]):
        return _told(loaded, _answer(asked), run.reason, run.updated_at_us)
    return _told(loaded, _next(loaded, at_work=has_living_owner(world, run)), run.reason, run.updated_at_us)


@dataclass(frozen=True, slots=True)
class _Next:
    """Who acts next, what is to be done, and with which commands."""

    acts: str
    advice: str
    commands: tuple[str, ...]


def _told(loaded: Whole, then: _Next, reason: str, since_us: int) -> WholeRun:
    run = loaded.run
    return WholeRun(
        run_id=run.run_id,
        workflow=run.workflow,
        status=run.status,
        reason=reason,
        since_us=since_us,
        acts=then.acts,
        advice=then.advice,
        commands=then.commands,
        crashes=run.crashes,
        steps=tuple(step.step for step in loaded.history.unsettled),
    )


# -- held --------------------------------------------------------------------------------------------------------------

_MEND: Final = (
    "Find out what ended those workers (the log of the host says how their processes ended), and mend it. Then release the run: a worker takes it up, "
    "and the count begins at nothing. Released without that, it ends as many workers again."
)


def _held(loaded: Whole, held: Override) -> WholeRun:
    died, run_id = deaths(held), loaded.run.run_id
    release = (f"recover release {run_id} --by WHO --reason TEXT", f"recover --run-id {run_id}")
    if died is not None:
        then = _Next(PERSON, _MEND, release)
    elif held.verb is Verb.PAUSE:
        then = _Next(
            PERSON,
            "Whoever paused it lets it go on.",
            (f"recover resume {run_id} --by WHO --reason TEXT", f"recover --run-id {run_id}"),
        )
    else:
        then = _Next(PERSON, "Ask whoever holds it, and why. Whoever stopped it releases it.", release)
    told = _told(loaded, then, order_of(held) if died is None else held.reason, held.at_us)
    parking = ParkingReason.HELD if died is None else HoldReason.QUARANTINED
    return replace(told, parking=parking, deaths=died, last=_last_before(loaded, held))


def _last_before(loaded: Whole, held: Override) -> Last | None:
    seq = loaded.entries.index(held)
    if seq == 0:
        return None
    entry = loaded.entries[seq - 1]
    return Last(seq=seq, kind=kind_of(entry), step=getattr(entry, "step", ROOT))


# -- waiting for somebody ----------------------------------------------------------------------------------------------


def _answer(asked: Sequence[Awaited]) -> _Next:
    by = sorted({name for one in asked for name in one.by})
    who = f"Only {' or '.join(by)} may answer. " if by and all(one.by for one in asked) else ""
    advice = f"Somebody answers it; `recover waits` shows what is asked. {who}Then a worker takes the run up."
    return _Next(PERSON, advice, (*(one.command for one in asked), f"recover --run-id {asked[0].run_id}"))


# -- anything else -----------------------------------------------------------------------------------------------------


def _next(loaded: Whole, *, at_work: bool) -> _Next:
    status, run_id = loaded.run.status, loaded.run.run_id
    if status.settled:
        return _Next(NOBODY, "It is settled, and that is final.", (f"recover show {run_id}",))
    if at_work:
        return _Next(WORKER, "Somebody is at work on it.", (f"recover show {run_id}",))
    if status is Status.IN_DOUBT:
        asked = tuple(f"recover explain {run_id} {step.step}" for step in loaded.history.unsettled)
        return _Next(PERSON, "What it did is in doubt. Ask why of each step, and decide.", asked)
    if status is Status.DIVERGED:
        advice = "Its workflow no longer asks for what is recorded. See where, and pin, migrate or fork it."
        return _Next(PERSON, advice, (f"recover check-versions --run-id {run_id}",))
    dead = "" if loaded.run.owner is None else f"Its worker ({loaded.run.owner}) is dead. "
    next_look_us = loaded.run.next_look_us
    due = "now" if dead else f"from {iso(next_look_us)} on" if next_look_us else "when it is due"
    advice = f"{dead}It needs nobody's decision: a worker takes it up {due}."
    return _Next(WORKER, advice, (f"recover --run-id {run_id}",))
