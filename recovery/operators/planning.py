"""Plans: what a recovery would do next, without doing it.

Owns the plan of one run: the workflow is rehearsed, and where its next act would be a question, the question is asked, because that changes
nothing. Without the workflow each unsettled intent is judged from the journal alone, and the plan says what that leaves unknown. Invariant: a
plan claims nothing, appends nothing and sends nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Final, NamedTuple

from recovery.claims import World, find
from recovery.core.entries import Answered, Observation, Override, Source, Status, Verb
from recovery.core.errors import Diverged, RecoveryError
from recovery.core.exitcodes import ExitCode
from recovery.core.history import EffectStep, Noted
from recovery.core.ids import ROOT
from recovery.core.judgement import Judgement, conclude
from recovery.core.operations import Ask, Now
from recovery.core.policy import Budget
from recovery.core.request import Request
from recovery.core.resting import waits_for_somebody
from recovery.core.rows import Action
from recovery.operators.awaiting import awaited_by
from recovery.operators.claiming import order_of
from recovery.operators.rehearsal import Rehearsal, held_now, rehearsed
from recovery.operators.standing import ALONE, alone, has_living_owner, looked_at
from recovery.storage.reading import Loaded

QUESTIONS_MAX: Final = 3
"""How often one step is asked in one plan: more answers at the same time would say nothing new."""

_CANCELLED: Final = "then nothing new would be begun, and the run would end as cancelled"
_UNTOLD: Final = "then the workflow would continue; the journal alone cannot tell how"
_DIVERGED: Final = "its code has asked for other steps than are recorded; the journal alone cannot tell whether it was mended"
_PARKED: Final = "then the run would be in doubt, and a person must look"


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedStep:
    """What would be done about one effect, and why. asked: what its probe answered just now; `unknown`: what this rests on without having
    been checked; `new`: no intent yet."""

    step: str
    effect: str
    environment: str
    scope: str
    key: str
    action: str
    row: str
    reason: str
    assumptions: tuple[str, ...]
    next_look_us: int | None
    asked: tuple[Answered, ...] = ()
    unknown: tuple[str, ...] = ()
    new: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """The next steps of one run, as of `at_us` and of the journal with this head. `then`: what would follow, or what stops it. exit_code: where the run stands,
    as `recover --run-id` would end if nobody else had it and nothing came meanwhile."""

    run_id: str
    head: int
    head_digest: str
    at_us: int
    steps: tuple[PlannedStep, ...]
    then: str
    from_journal_alone: bool
    exit_code: ExitCode


class Beforehand(NamedTuple):
    """What was read for many plans in one go: a run, and what is held."""

    loaded: Loaded
    holds: frozenset[str]


async def plan(
    world: World,
    run_id: str,
    *,
    probe: bool = True,
    cancel: tuple[str, str] | None = None,
    beforehand: Beforehand | None = None,
) -> Plan:
    """What a recovery would do next. probe: ask read-only questions where the table would. cancel: if it were cancelled before that, by whom and
    why. Raises RunNotFound, JournalCorrupt, and ValueUnreadable where the app's types no longer fit the journal."""
    loaded = await looked_at(run_id) if beforehand is None else beforehand.loaded
    if cancel is not None and loaded.history.ended is None:
        loaded.history.overrides.append(Override(step=ROOT, verb=Verb.CANCEL, by=cancel[0], at_us=await Now(), reason=cancel[1]))
    workflow = world.workflows.of(loaded.run.workflow, loaded.history.version)
    if loaded.history.ended is not None:
        then = f"the run is {loaded.run.status.value}; its outcome would be printed again"
        code = ExitCode.SETTLED if loaded.run.status is Status.COMPLETED else ExitCode.FAILED
        return _plan(loaded, await Now(), (), then, code, alone=workflow is None)
    if loaded.history.held is not None or workflow is None:
        subjects = await held_now() if beforehand is None else beforehand.holds
        return from_journal(loaded, now_us=await Now(), budget=world.budget, holds=subjects)
    holds = None if beforehand is None else beforehand.holds
    return await _by_rehearsal(world, loaded, await rehearsed(world, loaded, workflow, holds), probe=probe)


def from_journal(loaded: Loaded, *, now_us: int, budget: Budget, holds: frozenset[str] = frozenset()) -> Plan:
    """Each unsettled intent, judged by its stored contract. Pure."""
    steps = tuple(_alone(loaded, step, now_us, budget, holds) for step in loaded.history.unsettled)
    then, code = _from_row(loaded, steps)
    return _plan(loaded, now_us, steps, then, code, alone=True)


def _from_row(loaded: Loaded, steps: Sequence[PlannedStep]) -> tuple[str, ExitCode]:
    """What would follow, and where the run stands: what its intents leave open is told by how its row says that it rests."""
    history, run = loaded.history, loaded.run
    if history.held is not None:
        return f"nothing would be done: {order_of(history.held)}", ExitCode.IN_DOUBT
    if _parked(steps):
        return _PARKED, ExitCode.IN_DOUBT
    if history.cancelled is not None:
        return _CANCELLED, ExitCode.UNRESOLVED
    if run.status is Status.DIVERGED:
        return _DIVERGED, ExitCode.DIVERGED
    if not steps and run.status in {Status.IN_DOUBT, Status.HELD}:  # a child's doubt, or a contract's hold
        return _UNTOLD, ExitCode.IN_DOUBT
    waits = not steps and waits_for_somebody(run.status, run.rests_for)
    return _UNTOLD, ExitCode.WAITING if waits else ExitCode.UNRESOLVED


async def _by_rehearsal(world: World, loaded: Loaded, machine: Rehearsal, *, probe: bool) -> Plan:
    now_us = await Now()
    judged: dict[str, PlannedStep] = {}
    for effect, judgement in machine.judgements:
        if effect.settled is None and judgement is not None:
            request = machine.requests[effect.step]
            judged[effect.step] = await _asked(
                machine, request, effect, judgement, QUESTIONS_MAX if probe else 0, str(loaded.run.epoch)
            )
    for effect in loaded.history.unsettled:
        judged.setdefault(effect.step, _alone(loaded, effect, now_us, world.budget, machine.holds()))
    then, code = await _follows(world, loaded, machine, tuple(judged.values()), now_us)
    return _plan(loaded, now_us, tuple(judged.values()), then, code, alone=False)


async def _follows(
    world: World, loaded: Loaded, machine: Rehearsal, steps: Sequence[PlannedStep], now_us: int
) -> tuple[str, ExitCode]:
    """What would follow, and where the run stands: as the gravest of what stops its branches."""
    error = machine.stopped.error if machine.stopped is not None else None
    if isinstance(error, Diverged):
        return str(error), ExitCode.DIVERGED
    if _parked(steps):
        return _PARKED, ExitCode.IN_DOUBT
    if loaded.history.cancelled is not None:
        return _CANCELLED, ExitCode.UNRESOLVED
    codes = [await _child(world, child) for child in machine.children]
    if steps or machine.then or not machine.waits():
        return machine.then or "then the workflow would continue from there", ExitCode.worst([*codes, ExitCode.UNRESOLVED])
    if goes_on := await _goes_on(loaded, now_us):
        return goes_on, ExitCode.worst([*codes, ExitCode.UNRESOLVED])
    return machine.waits(), ExitCode.worst([*codes, ExitCode.WAITING] if machine.mail.waits else codes)


async def _child(world: World, run_id: str) -> ExitCode:
    """How a child stands for whose end the run would wait: that is how the run stands. Raises nothing: who asks for the child's own plan is told."""
    row = await find(run_id)
    if row is None or row.status.settled or has_living_owner(world, row):
        return ExitCode.UNRESOLVED
    try:
        return (await plan(world, run_id, probe=False)).exit_code
    except RecoveryError as error:
        return error.exit_code


def _parked(steps: Iterable[PlannedStep]) -> bool:
    return any(step.action == Action.PARK.value for step in steps)


async def _goes_on(loaded: Loaded, now_us: int) -> str:
    """What ends a wait of the run that no workflow has taken in yet; "" where nothing does."""
    for wait in await awaited_by(loaded):
        if wait.said_by:
            return f"then the workflow would take in what {wait.said_by} has said to {wait.name}"
        if wait.until_us is not None and wait.until_us <= now_us:
            return f"then the workflow would go on without an answer to {wait.name}, whose time is over"
    return ""


async def _asked(
    machine: Rehearsal, request: Request, effect: EffectStep, judgement: Judgement, questions: int, asker: str
) -> PlannedStep:
    """The step's verdict once its next questions are answered. The answers are kept nowhere but in the plan.

    asker: the epoch that the run has, so that an environment which fences by epochs fences nobody because of a plan."""
    answers: list[Answered] = []
    while judgement.action is Action.ASK and not judgement.cancels and len(answers) < questions:
        asked_at_us = await Now()
        answer = await Ask(request.subject, effect.intent, asker)
        answers.append(answer)
        seen = Observation(
            step=effect.step,
            source=Source.PROBE,
            asked_at_us=asked_at_us,
            observed_at_us=await Now(),
            answer=answer,
            epoch=str(machine.epoch),
        )
        effect = replace(effect, observations=(*effect.observations, Noted(None, seen)))
        judgement = conclude(effect, machine.situation(request, effect, await Now()))
    return replace(_judged(effect, judgement), asked=tuple(answers))


def _plan(
    loaded: Loaded,
    now_us: int,
    steps: tuple[PlannedStep, ...],
    then: str,
    code: ExitCode,
    *,
    alone: bool,
) -> Plan:
    run = loaded.run
    return Plan(
        run_id=run.run_id,
        head=run.head,
        head_digest=run.head_digest,
        at_us=now_us,
        steps=steps,
        then=then,
        from_journal_alone=alone,
        exit_code=code,
    )


def _alone(loaded: Loaded, step: EffectStep, now_us: int, budget: Budget, holds: frozenset[str]) -> PlannedStep:
    return _judged(step, conclude(step, alone(loaded, step, now_us, budget, holds)), ALONE)


def _judged(step: EffectStep, judgement: Judgement, unknown: Iterable[str] = ()) -> PlannedStep:
    intent = step.intent
    return PlannedStep(
        step=step.step,
        effect=intent.effect,
        environment=intent.environment,
        scope=intent.scope,
        key=intent.key,
        action=judgement.action.value,
        row=judgement.row.name,
        reason=judgement.reason.value,
        assumptions=judgement.assumptions,
        next_look_us=judgement.next_look_us,
        unknown=tuple(unknown),
        new=step.seq == 0,
    )
