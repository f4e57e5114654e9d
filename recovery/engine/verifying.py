"""Verifying: every chain, and what the environments show of what is settled here.

Owns the walk over all runs and the questions about their applied effects. Procedures over operations. Invariants: nothing is repaired,
claimed, appended or sent; a run that does not verify is reported and not asked about; a scope that is not the intent's is not asked.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from typing import Any

from recovery.core.comparison import Compared, compare
from recovery.core.compensation import HAPPENED
from recovery.core.entries import JSON, Answered, Observation, Source
from recovery.core.errors import (
    ExitCode,
    IllegalHistory,
    IncompatibleVersion,
    JournalCorrupt,
    RecoveryError,
    RunForgotten,
    RunNotFound,
    StoreDamaged,
    UsageError,
)
from recovery.core.history import EffectStep
from recovery.core.ids import check_run_id
from recovery.core.key_errors import EncryptionKeyMissing, EncryptionKeyWrong
from recovery.core.operations import Ask, Now, Use
from recovery.core.policy import Budget
from recovery.core.trust import weakest
from recovery.definitions.effect import Bound
from recovery.definitions.registry import Workflows
from recovery.hindsight import reread
from recovery.ports import Journal
from recovery.storage.listing import listed
from recovery.storage.opening import check_payloads
from recovery.storage.reading import Whole, read

PAGE = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class Broken:
    """A run that does not verify. seq, field: the first entry that does not, and what of it; 0 and "" where it is the run's format, or what stands outside its chain."""

    run_id: str
    seq: int
    field: str
    problem: str
    exit_code: ExitCode


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparedEffect:
    """One applied effect beside its environment. answered: what a probe said just now, None where nothing was asked; `why` then says why."""

    run_id: str
    step: str
    effect: str
    environment: str
    scope: str
    key: str
    recorded: JSON
    verdict: Compared
    answered: Answered | None = None
    why: str = ""


@dataclass(slots=True)
class Verified:
    """What a verification found. asked: whether environments were compared. unopened: how many runs are encrypted under keys that are not here, so
    that their digests were verified, and their values not."""

    asked: bool = False
    runs: int = 0
    entries: int = 0
    unopened: int = 0
    broken: list[Broken] = field(default_factory=list)
    compared: list[ComparedEffect] = field(default_factory=list)

    def of(self, *verdicts: Compared) -> list[ComparedEffect]:
        """The compared effects with one of these verdicts."""
        return [one for one in self.compared if one.verdict in verdicts]

    @property
    def exit_code(self) -> ExitCode:
        """What `recover verify` ends with: 0 where everything verifies and agrees."""
        codes = [one.exit_code for one in self.broken]
        if self.of(Compared.LOST, Compared.MISMATCH):
            codes.append(ExitCode.IN_DOUBT)
        if self.of(Compared.UNTOLD, Compared.TOO_EARLY):
            codes.append(ExitCode.UNRESOLVED)
        return ExitCode.worst(codes)


async def verify(run_id: str | None, workflows: Workflows, budget: Budget, *, against_environment: bool) -> Verified:
    """Verify one run or all; with `against_environment` ask about every applied effect of those that verify. Raises RunNotFound."""
    found = Verified(asked=against_environment)
    ids = await Use(partial(_page, "", check_run_id(run_id) if run_id is not None else None))
    while ids:
        for one in ids:
            loaded = await _checked(one, found)
            if loaded is not None and against_environment:
                await _compare(loaded, workflows, budget, found)
        ids = await Use(partial(_page, ids[-1], None)) if run_id is None else []
    return found


def _page(after: str, only: str | None, journal: Journal) -> list[str]:
    if only is None:
        return [
            one.run_id for one in listed(journal, limit=PAGE, after=after)
        ]  # a damaged one is then reported as any other damage
    if journal.find(only) is None:
        raise RunNotFound(run_id=only, database=journal.url)
    return [only]


async def _checked(run_id: str, found: Verified) -> Whole | None:
    found.runs += 1
    try:
        loaded = await Use(lambda journal: _readable(journal, run_id))
    except JournalCorrupt as error:
        found.broken.append(_broken(run_id, error.seq, error.field, error))
    except IllegalHistory as error:
        found.broken.append(_broken(run_id, error.seq, "order", error))
    except (IncompatibleVersion, StoreDamaged, EncryptionKeyWrong) as error:
        found.broken.append(_broken(run_id, 0, "", error))
    except RunForgotten:
        pass  # nothing is left to verify, and that is on purpose
    else:
        found.entries += len(loaded.rows)
        found.unopened += bool(loaded.unopened)
        return None if loaded.unopened else loaded
    return None


def _readable(journal: Journal, run_id: str) -> Whole:
    """The run, whole; without the keys of what is encrypted, its chain and its payloads are verified all the same."""
    try:
        return read(journal, run_id)
    except EncryptionKeyMissing:
        loaded = read(journal, run_id, values=False)
        check_payloads(journal.payloads, run_id, loaded.rows)
        return loaded


def _broken(run_id: str, seq: int, field: str, error: RecoveryError) -> Broken:
    return Broken(run_id=run_id, seq=seq, field=field, problem=str(error), exit_code=error.exit_code)


async def _compare(loaded: Whole, workflows: Workflows, budget: Budget, found: Verified) -> None:
    applied = [step for step in loaded.history.effects if step.settled is not None and step.settled.outcome in HAPPENED]
    if not applied:
        return
    workflow = workflows.of(loaded.run.workflow, loaded.history.version)
    calls = await reread(workflow, loaded, budget) if workflow is not None else {}
    undone = {effect.intent.undoes for effect in applied}
    for step in applied:
        found.compared.append(await _compared(loaded, step, calls.get(step.step), undone=step.step in undone))


async def _compared(loaded: Whole, step: EffectStep, bound: Bound[Any] | None, *, undone: bool) -> ComparedEffect:
    """One effect, asked about if it can be. What was undone may well be gone."""
    intent, settled = step.intent, step.settled
    assert settled is not None
    verdict, answered = Compared.NOT_ASKED, None
    why = "it was undone" if undone else _not_askable(step, bound)
    if bound is not None and not why:
        asked_at_us = await Now()
        answered = await Ask(bound, intent, "")  # no epoch: a verification raises no fence
        seen = Observation(
            step=step.step, source=Source.PROBE, asked_at_us=asked_at_us, observed_at_us=await Now(), answer=answered
        )
        contract = weakest((loaded.contracts[intent.contract], bound.effect.contract))
        verdict = compare(step, contract, seen)
    return ComparedEffect(
        run_id=loaded.run.run_id,
        step=step.step,
        effect=intent.effect,
        environment=intent.environment,
        scope=intent.scope,
        key=intent.key,
        recorded=settled.value,
        verdict=verdict,
        answered=answered,
        why=why,
    )


def _not_askable(step: EffectStep, bound: Bound[Any] | None) -> str:
    if bound is None:
        return "the app does not ask for this effect in this way"
    if bound.effect.probe_body is None:
        return "the effect has no probe"
    try:
        scope = bound.effect.environment.current_scope()
    except UsageError as error:
        return str(error)
    if scope != step.intent.scope:
        return f"the scope here is {scope!r}, and another one cannot tell"
    return ""
