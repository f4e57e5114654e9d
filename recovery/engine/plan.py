"""Plans: what a recovery would do next, without doing it.

Owns the dry replay: the workflow runs from its beginning, recorded steps replay, and the first operation that would append, send, ask,
decide or wait ends it. Without the workflow each unsettled intent is judged from the journal alone, and the plan says what that leaves
unknown. Invariant: a plan claims nothing, appends nothing and sends nothing.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final

from recovery.core.entries import Entry, Observation, Verdict
from recovery.core.errors import Diverged, RunUnsettled
from recovery.core.evidence import Situation
from recovery.core.history import EffectStep
from recovery.core.judgement import Judgement, conclude
from recovery.core.machine import Machine
from recovery.core.operations import Append, Decide, Now, Op
from recovery.core.policy import Budget
from recovery.core.request import Unwind
from recovery.core.rows import Action
from recovery.definitions.workflow import Workflow
from recovery.drivers.asking import Surroundings
from recovery.drivers.asynchronous import AsyncDriver
from recovery.drivers.loop import Driver
from recovery.drivers.session import Session
from recovery.drivers.sync import SyncDriver, finish
from recovery.engine.wiring import Wiring
from recovery.storage.reading import Loaded
from recovery.storage.writer import OUTSIDE

ALONE: Final = (
    "whether the app still asks for this with the same arguments, contract and scope",
    "whether the app can ask or close, beyond what the stored contract says",
)
"""What the journal alone cannot tell about an unsettled intent."""

_PARKED: Final = "then the run would be in doubt, and a person must look"


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedStep:
    """What would be done about one effect, and why. `unknown`: what this rests on without having been checked; `new`: no intent yet."""

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
    unknown: tuple[str, ...] = ()
    new: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """The next steps of one run, as of `at_us` and of the journal with this head. `then`: what would follow, or what stops it."""

    run_id: str
    head: int
    head_digest: str
    at_us: int
    steps: tuple[PlannedStep, ...]
    then: str
    from_journal_alone: bool
    diverged: bool = False


def from_journal(loaded: Loaded, *, now_us: int, budget: Budget) -> Plan:
    """Each unsettled intent, judged by its stored contract. Pure."""
    steps = tuple(_alone(loaded, step, now_us, budget) for step in loaded.history.unsettled)
    parked = any(step.action == Action.PARK.value for step in steps)
    then = _PARKED if parked else "then the workflow would continue; the journal alone cannot tell how"
    return _plan(loaded, now_us, steps, then, alone=True)


def by_replay(engine: Wiring, loaded: Loaded) -> Plan:
    """What the workflow itself would do next. Raises ValueUnreadable where its types no longer fit the journal."""
    workflow = engine.workflows[loaded.run.workflow]
    dry = _replayed(engine, loaded, workflow)
    machine, now_us = dry.machine, engine.clock.wall_us()
    judged = {effect.step: _judged(effect, judgement) for effect, judgement in machine.judgements if effect.settled is None}
    for step in loaded.history.unsettled:
        judged.setdefault(step.step, _alone(loaded, step, now_us, engine.budget))
    error = machine.stopped.error if machine.stopped is not None else None
    diverged = isinstance(error, Diverged)
    return _plan(loaded, now_us, tuple(judged.values()), str(error) if diverged else dry.then, alone=False, diverged=diverged)


def _plan(loaded: Loaded, now_us: int, steps: tuple[PlannedStep, ...], then: str, *, alone: bool, diverged: bool = False) -> Plan:
    run = loaded.run
    return Plan(
        run_id=run.run_id,
        head=run.head,
        head_digest=run.head_digest,
        at_us=now_us,
        steps=steps,
        then=then,
        from_journal_alone=alone,
        diverged=diverged,
    )


def _alone(loaded: Loaded, step: EffectStep, now_us: int, budget: Budget) -> PlannedStep:
    contract = loaded.contracts[step.intent.contract]
    situation = Situation(
        now_us=now_us,
        contracts=(contract,),
        budget=budget,
        can_probe=contract.lookup is not None,
        can_close=contract.close,
        restored=loaded.restored,
        incarnation=loaded.run.epoch.incarnation,
        held=False,
        scope_changed=False,
        replay_fingerprint=step.intent.fingerprint,
    )
    return _judged(step, conclude(step, situation), ALONE)


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


# -- the dry replay ----------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class _Dry:
    """Where a dry replay ended."""

    machine: Machine
    reached: list[Op[Any]] = field(default_factory=list)
    then: str = ""

    def reach(self, operation: Op[Any]) -> Unwind:
        self.reached.append(operation)
        return self.machine.stop(RunUnsettled(run_id=self.machine.history.run_id, status="planned", reason=""))


class _StopsThere(Driver):
    """Carries out nothing but the reading of the clock."""

    def __init__(self, surroundings: Surroundings, dry: _Dry) -> None:
        super().__init__(surroundings)
        self._dry = dry

    async def _carry_out(self, operation: Op[Any]) -> Any:
        if isinstance(operation, Now):
            return self.surroundings.clock.wall_us()
        if isinstance(operation, Append) and all(_only_recorded(entry) for entry in operation.entries):
            return None  # late evidence is weighed in the plan as the recovery would weigh it
        raise self._dry.reach(operation)


def _only_recorded(entry: Entry) -> bool:
    if isinstance(entry, Observation):
        return entry.source in OUTSIDE
    return isinstance(entry, Verdict) and entry.action == Action.KEEP.value


class _DrySync(_StopsThere, SyncDriver):
    pass


class _DryAsync(_StopsThere, AsyncDriver):
    pass


def _replayed(engine: Wiring, loaded: Loaded, workflow: Workflow[..., Any]) -> _Dry:
    now_us = engine.clock.wall_us()
    machine = Machine(
        history=loaded.history,
        epoch=loaded.run.epoch,
        budget=engine.budget,
        deadline_us=now_us,
        contracts=dict(loaded.contracts),
        restored=loaded.restored,
        same_bytes=loaded.opened.version == workflow.version,
    )
    dry = _Dry(machine)
    session = Session(machine, engine.journal.namespace())
    invoke = partial(workflow.invoke, stored=loaded.opened.input)
    try:
        if workflow.is_async:
            asyncio.run(_DryAsync(engine.surroundings(), dry).run_workflow(session, invoke))
        else:
            finish(_DrySync(engine.surroundings(), dry).run_workflow(session, invoke))
        if machine.stopped is None:
            machine.check_complete()
            dry.then = "then the workflow would return, and the run would be completed"
    except Unwind:
        pass
    except Exception as error:  # noqa: BLE001  # the workflow's own failure, unless it swallowed a stop on its way
        if machine.stopped is None:
            dry.then = f"then the workflow would fail with {type(error).__name__}"
    dry.then = dry.then or _then(dry)
    return dry


def _then(dry: _Dry) -> str:
    if dry.machine.judgements and dry.machine.judgements[-1][1].action is Action.PARK:
        return _PARKED
    if dry.reached and isinstance(dry.reached[-1], Decide):
        return f"then the workflow would decide {dry.reached[-1].subject.name!r}"
    return "then the workflow would continue from there"
