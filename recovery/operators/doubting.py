"""Doubts: everything that needs a person, oldest first.

Owns since when something waits for a person, and for what. Invariant: one run that cannot be read hides no other.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

from recovery.claims import World
from recovery.core.contracts import Contract
from recovery.core.entries import Status, Verdict
from recovery.core.errors import ExitCode, RecoveryError
from recovery.core.history import EffectStep
from recovery.core.operations import Now, Use
from recovery.core.reasons import ParkingReason, parking
from recovery.operators.claiming import order_of
from recovery.ports import Hold, RunRow
from recovery.storage.reading import read

_PAGE: Final = 500
NEEDS: Final = (Status.IN_DOUBT, Status.HELD, Status.DIVERGED)


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
    parking: ParkingReason | None = None
    step: str = ""
    effect: str = ""
    environment: str = ""
    scope: str = ""
    key: str = ""
    contract: str = ""
    problem: str = ""
    exit_code: ExitCode = ExitCode.IN_DOUBT


@dataclass(frozen=True, slots=True, kw_only=True)
class Doubts:
    """Doubts, oldest first, and the contracts that are held."""

    doubts: tuple[Doubt, ...]
    contracts: tuple[Hold, ...]
    more: bool = False

    @property
    def exit_code(self) -> ExitCode:
        codes = [doubt.exit_code for doubt in self.doubts]
        return ExitCode.worst([*codes, ExitCode.IN_DOUBT] if self.contracts else codes)


async def doubts(world: World, *, limit: int | None = None) -> Doubts:  # noqa: ARG001  # every verb takes the world
    """What needs a person. Reads every run in doubt, held or diverged; claims and changes nothing."""
    now_us, after, found = await Now(), "", list[Doubt]()
    while True:
        page = await _page(after)
        for row in page:
            found.append(await _doubt(row, now_us))
        if len(page) < _PAGE:
            break
        after = page[-1].run_id
    found.sort(key=lambda doubt: (doubt.since_us, doubt.run_id))
    holds = await Use(lambda journal: journal.holds())
    shown = found if limit is None else found[:limit]
    return Doubts(doubts=tuple(shown), contracts=tuple(holds), more=len(shown) < len(found))


async def _page(after: str) -> list[RunRow]:
    return await Use(lambda journal: journal.runs(statuses=NEEDS, limit=_PAGE, after=after))


async def _doubt(row: RunRow, now_us: int) -> Doubt:
    try:
        loaded = await Use(lambda journal: read(journal, row.run_id))
    except RecoveryError as error:
        found = _of(row, now_us, row.updated_at_us, row.reason, [], {}, error.exit_code)
        return replace(found, problem=str(error))
    history = loaded.history
    if history.held is not None:
        found = _of(row, now_us, history.held.at_us, order_of(history.held), history.unsettled[:1], loaded.contracts)
        return replace(found, parking=ParkingReason.HELD)
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
