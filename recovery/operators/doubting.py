"""Doubts: everything that needs a person, oldest first.

Owns since when something waits for a person, and for what: runs that cannot go on, and outcomes that something speaks against. Invariant: one run that cannot be read hides no other.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Final

from recovery.claims import World
from recovery.core.contracts import Contract, microseconds
from recovery.core.contradictions import contradicted
from recovery.core.entries import Status, Verdict
from recovery.core.errors import ExitCode, RecoveryError
from recovery.core.history import EffectStep
from recovery.core.judgement import CONTRADICTED
from recovery.core.operations import Now, Use
from recovery.core.reasons import HoldReason, Parked, ParkingReason, parking
from recovery.definitions.recovered import Contradiction
from recovery.definitions.undoing import contradictions
from recovery.hindsight import reread
from recovery.operators.claiming import order_of
from recovery.operators.quarantining import deaths
from recovery.ports import Hold, RunRow
from recovery.storage.listing import Damaged, listed
from recovery.storage.reading import Loaded, legible

_PAGE: Final = 500
NEEDS: Final = (Status.IN_DOUBT, Status.HELD, Status.DIVERGED)
SETTLED: Final = tuple(status for status in Status if status.settled)


@dataclass(frozen=True, slots=True, kw_only=True)
class Doubt:
    """One thing that waits for a person. step, effect, environment, scope and key are "" where the whole run waits; parking: why a step
    is parked or the run held, None for anything else; problem: why the run cannot be read, "" if it can."""

    run_id: str
    workflow: str
    status: Status
    since_us: int
    age_us: int
    reason: str
    parking: Parked | None = None
    step: str = ""
    effect: str = ""
    environment: str = ""
    scope: str = ""
    key: str = ""
    contract: str = ""
    problem: str = ""
    exit_code: ExitCode = ExitCode.IN_DOUBT


@dataclass(frozen=True, slots=True, kw_only=True)
class Disputed:
    """A recorded outcome that something speaks against, and that nobody has acknowledged. The outcome stands. since: when the first item
    that was not acknowledged was heard."""

    run_id: str
    workflow: str
    status: Status
    since_us: int
    age_us: int
    contradiction: Contradiction


@dataclass(frozen=True, slots=True, kw_only=True)
class Doubts:
    """Doubts, oldest first; outcomes that something speaks against, oldest first; the contracts that are held; and runs whose own row is
    damaged, by id: how long they have waited cannot be told, so that neither `limit` nor `older` leaves one out."""

    doubts: tuple[Doubt, ...]
    contracts: tuple[Hold, ...]
    contradicted: tuple[Disputed, ...] = ()
    more: bool = False
    damaged: tuple[Damaged, ...] = ()

    @property
    def exit_code(self) -> ExitCode:
        """What `recover doubt` ends with: 0 where nothing waits for a person."""
        codes = [doubt.exit_code for doubt in self.doubts] + [ExitCode.CORRUPT for _one in self.damaged]
        return ExitCode.worst([*codes, ExitCode.IN_DOUBT] if self.contracts or self.contradicted else codes)


async def doubts(world: World, *, limit: int | None = None, older: timedelta = timedelta(0)) -> Doubts:
    """What needs a person. Reads every run in doubt, held or diverged, and every settled one whose outcomes something recorded speaks
    against; claims and changes nothing. older: only what has waited for at least so long. limit: of each list."""
    now_us, least_us = await Now(), microseconds(older)
    needing, settled = await _runs(NEEDS, None), await _runs(SETTLED, CONTRADICTED)
    rows = [row for row in needing if isinstance(row, RunRow)]
    found = [await _doubt(row, now_us) for row in rows]
    rows += [row for row in settled if isinstance(row, RunRow)]
    disputed = [one for row in rows for one in await _disputed(world, row, now_us)]
    damaged = tuple(row for row in [*needing, *settled] if isinstance(row, Damaged))
    found = sorted((one for one in found if one.age_us >= least_us), key=lambda one: (one.since_us, one.run_id))
    disputed = sorted((one for one in disputed if one.age_us >= least_us), key=lambda one: (one.since_us, one.run_id))
    holds = await Use(lambda journal: journal.holds())
    shown, told = found[:limit], disputed[:limit]
    more = len(shown) < len(found) or len(told) < len(disputed)
    return Doubts(doubts=tuple(shown), contradicted=tuple(told), contracts=tuple(holds), more=more, damaged=damaged)


async def _runs(statuses: tuple[Status, ...], reason: str | None) -> list[RunRow | Damaged]:
    """Every run of these statuses, page by page."""
    found = page = await _page(statuses, reason, "")
    while len(page) == _PAGE:
        page = await _page(statuses, reason, page[-1].run_id)
        found = [*found, *page]
    return found


async def _page(statuses: tuple[Status, ...], reason: str | None, after: str) -> list[RunRow | Damaged]:
    return await Use(lambda journal: listed(journal, statuses=statuses, reason=reason, limit=_PAGE, after=after))


async def _disputed(world: World, row: RunRow, now_us: int) -> list[Disputed]:
    """The outcomes of a run that something speaks against, with what would undo a surplus effect where the app is known."""
    try:
        loaded = await Use(lambda journal: legible(journal, row.run_id))
    except RecoveryError:
        return []  # a run that cannot be read is a doubt of its own
    open_since = dict(_open_since(loaded, now_us))
    if not open_since:
        return []
    workflow = world.workflows.of(row.workflow, loaded.history.version)
    calls = {} if workflow is None else await reread(workflow, loaded, world.budget)
    return [
        Disputed(
            run_id=row.run_id,
            workflow=row.workflow,
            status=row.status,
            since_us=open_since[one.step],
            age_us=max(0, now_us - open_since[one.step]),
            contradiction=one,
        )
        for one in contradictions(loaded.history, loaded.contracts, calls, now_us)
        if one.step in open_since
    ]


def _open_since(loaded: Loaded, now_us: int) -> Iterator[tuple[str, int]]:
    for effect in loaded.history.effects:
        one = contradicted(effect, loaded.contracts, now_us)
        if one is not None and one.open:
            yield effect.step, min(noted.observation.observed_at_us for noted in one.open)


async def _doubt(row: RunRow, now_us: int) -> Doubt:
    try:
        loaded = await Use(lambda journal: legible(journal, row.run_id))
    except RecoveryError as error:
        found = _of(row, now_us, row.updated_at_us, row.reason, [], {}, error.exit_code)
        return replace(found, problem=str(error))
    history = loaded.history
    if history.held is not None:
        found = _of(row, now_us, history.held.at_us, order_of(history.held), history.unsettled[:1], loaded.contracts)
        return replace(found, parking=ParkingReason.HELD if deaths(history.held) is None else HoldReason.QUARANTINED)
    if history.divergence is not None:
        return _of(row, now_us, history.divergence.at_us, history.divergence.reason, [], loaded.contracts, ExitCode.DIVERGED)
    waiting = [(step, step.verdicts[-1]) for step in history.unsettled if step.verdicts]
    if not waiting:
        return _of(row, now_us, row.updated_at_us, row.reason, history.unsettled[:1], loaded.contracts)
    step, verdict = min(waiting, key=lambda pair: pair[1].at_us)
    found = _of(row, now_us, _since(step, verdict), verdict.reason, [step], loaded.contracts)
    return replace(found, parking=parking(verdict.action, verdict.reason))


def _since(step: EffectStep, verdict: Verdict) -> int:
    """When the step was first parked without a verdict in between that was not."""
    since_us = verdict.at_us
    for earlier in reversed(step.verdicts):
        if earlier.action != verdict.action:
            break
        since_us = earlier.at_us
    return since_us


def _of(
    row: RunRow,
    now_us: int,
    since_us: int,
    reason: str,
    steps: list[EffectStep],
    contracts: dict[str, Contract],
    code: ExitCode = ExitCode.IN_DOUBT,
) -> Doubt:
    found = Doubt(
        run_id=row.run_id,
        workflow=row.workflow,
        status=row.status,
        since_us=since_us,
        age_us=max(0, now_us - since_us),
        reason=reason,
        exit_code=code,
    )
    if not steps:
        return found
    intent = steps[0].intent
    contract = contracts.get(intent.contract)
    return replace(
        found,
        step=intent.step,
        effect=intent.effect,
        environment=intent.environment,
        scope=intent.scope,
        key=intent.key,
        contract=(contract.name if contract is not None else "") or intent.contract,
    )
