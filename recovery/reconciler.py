"""The reconciler: takes a run and brings it to its end, or as far as can be proven.

Owns the order of a recovery: claim, then load in a new transaction, then run the workflow from its beginning, whose recorded steps replay
and whose unsettled ones are judged; then settle the run. Procedures over operations, so both drivers and the simulation share them.
Invariants: nothing of a run is read for acting before its claim has committed; a run that is not settled is given up on the way out.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, TypeGuard

from recovery import codec
from recovery.core.chain import chained, genesis
from recovery.core.contracts import Contract, microseconds
from recovery.core.entries import JSON, Decision, Opened, OutcomeKind, Settled, Status, Verdict, encode
from recovery.core.errors import (
    DecisionFailed,
    Diverged,
    EffectInDoubt,
    JournalCorrupt,
    LeaseUnavailable,
    RecoveryError,
    ReplayError,
    RunDiverged,
    RunFailed,
    RunHeld,
    RunInDoubt,
    RunInputDiffers,
    RunNotFound,
    RunUnsettled,
    Unresolved,
    UsageError,
    WorkflowUnknown,
)
from recovery.core.history import History, fold
from recovery.core.ids import ROOT, Epoch, check_run_id
from recovery.core.instants import moment
from recovery.core.machine import Machine
from recovery.core.operations import Append, Boot, Execute, Now, Raised, Returned, Sleep, Use
from recovery.core.policy import Budget, Lease
from recovery.core.request import Unwind
from recovery.core.rows import Action
from recovery.crashpoints import around
from recovery.definitions.recovered import Contradiction, Recovered, StepVerdict
from recovery.definitions.undoing import contradictions
from recovery.definitions.workflow import Workflow
from recovery.hindsight import record
from recovery.ports import Journal, NewRun, Owner, RunRow
from recovery.storage.reading import Loaded, read
from recovery.storage.writer import Writer

POLL = timedelta(milliseconds=250)
"""How often a lease that is waited for is looked at."""


@dataclass(frozen=True, slots=True, kw_only=True)
class World:
    """What a reconciler is given. `hold` and `drop` keep the lease of a run alive; `raise_mark` lifts the clock to a journaled time."""

    workflows: Mapping[str, Workflow[..., Any]]
    budget: Budget
    lease: Lease
    wait_for_owner: timedelta
    token: Callable[[], str]
    identify: Callable[[str], Owner]
    proven_dead: Callable[[Owner], bool]
    raise_mark: Callable[[int], None]
    hold: Callable[[RunRow], None]
    drop: Callable[[RunRow], None]

    def owner(self) -> Owner:
        return self.identify(self.token())

    @property
    def lease_term_us(self) -> int:
        return microseconds(self.lease.term)


async def run(world: World, run_id: str, workflow: Workflow[..., Any], given: JSON) -> Recovered[Any]:
    """Start a run, or continue the one of this id. Raises RunInputDiffers, LeaseUnavailable, and what the store raises."""
    check_run_id(run_id)
    digest = workflow.digest(given)
    row = await _find(run_id)
    if row is None:
        opened = Opened(workflow=workflow.name, version=workflow.version, input=given, input_digest=digest, at_us=await Now())
        mine = await _open(world, run_id, opened)
        if mine is not None:
            return await _held_while(world, mine, lambda: _go(world, mine, fold(run_id, [opened]), {}, workflow))
        row = await _find(run_id)
        assert row is not None, "a run id that is taken stays taken"
    if row.workflow != workflow.name:
        raise RunInputDiffers(run_id=run_id, what="workflow", recorded=row.workflow, given=workflow.name)
    if row.input_digest != digest:
        raise RunInputDiffers(run_id=run_id, what="input", recorded=row.input_digest[:12], given=digest[:12])
    return await _continue(world, row)


async def recover(world: World, run_id: str) -> Recovered[Any]:
    """Bring an existing run as far as it can be brought. Raises RunNotFound, LeaseUnavailable, and what the store raises."""
    check_run_id(run_id)
    row = await _find(run_id)
    if row is None:
        raise RunNotFound(run_id=run_id, database=await Use(lambda journal: journal.url))
    return await _continue(world, row)


async def look(world: World, run_id: str) -> Recovered[Any]:
    """Where a run stands, from one verified snapshot; claims and changes nothing. Raises RunNotFound."""
    loaded = await Use(lambda journal: read(journal, check_run_id(run_id)))
    row = loaded.run
    if loaded.history.ended is not None:
        return _settled(world, row, loaded.history, against=contradictions(loaded.history, loaded.contracts, {}, row.updated_at_us))
    kind = {Status.IN_DOUBT: RunInDoubt, Status.DIVERGED: RunDiverged}.get(row.status, RunUnsettled)
    error = kind(run_id=run_id, status=row.status.value, reason=f", {row.reason}" if row.reason else "")
    against = contradictions(loaded.history, loaded.contracts, {}, row.updated_at_us)
    return _report(run_id, row.workflow, row.status, error=error, next_look_us=row.next_look_us, against=against)


async def _open(world: World, run_id: str, opened: Opened) -> RunRow | None:
    """Store the run and its first entry, owned by us. None: somebody else took the run id."""
    namespace, incarnation = await Use(lambda journal: (journal.namespace(), journal.incarnation()))
    owner = world.owner()
    row = chained(genesis(namespace, run_id), 1, "opened", ROOT, codec.dumps(encode(opened)), Epoch(incarnation, 1), world.token())
    new = NewRun(run_id, opened.workflow, opened.input_digest, Status.RUNNING, owner, world.lease_term_us, opened.at_us, (row,))
    with around("open"):
        return await _owned(run_id, owner, lambda journal: journal.open_run(new))


async def _continue(world: World, row: RunRow) -> Recovered[Any]:
    """A settled run's original outcome, or the rest of an unsettled one."""
    if row.status is Status.HELD:
        return _report(row.run_id, row.workflow, Status.HELD, error=RunHeld(run_id=row.run_id, reason=row.reason))
    if not row.status.settled:
        if row.workflow not in world.workflows:
            raise WorkflowUnknown(run_id=row.run_id, workflow=row.workflow, known=", ".join(sorted(world.workflows)) or "none")
        row = await _take(world, row)
    if row.status.settled:
        loaded = await record(await _load(row.run_id), world.owner(), world.token, world.raise_mark)
        return _settled(world, loaded.run, loaded.history, against=await _against(world, loaded))

    workflow = world.workflows[row.workflow]

    async def rest() -> Recovered[Any]:
        loaded = await _load(row.run_id)
        if loaded.run.epoch <= loaded.rows[-1].epoch:  # a claim is above every entry before it, or the fence tells nobody apart
            raise JournalCorrupt(run_id=row.run_id, seq=loaded.run.head, field="the run's epoch")
        world.raise_mark(loaded.highest_us)
        return await _go(world, loaded.run, loaded.history, loaded.contracts, workflow, restored=loaded.restored)

    return await _held_while(world, row, rest)


async def _against(world: World, loaded: Loaded) -> tuple[Contradiction, ...]:
    """What speaks against a settled run's outcomes. Only then is its workflow read again, to bind what would undo a surplus effect."""
    found = contradictions(loaded.history, loaded.contracts, {}, loaded.run.updated_at_us)
    workflow = world.workflows.get(loaded.run.workflow)
    if not found or workflow is None:
        return found
    machine = Machine(
        history=loaded.history, epoch=loaded.run.epoch, budget=world.budget, deadline_us=0, contracts=dict(loaded.contracts)
    )
    with suppress(Unwind, BaseExceptionGroup):  # other code by now: what it still asked for the same way is bound
        await Execute(workflow, loaded.opened.input, machine, None)
    return contradictions(loaded.history, loaded.contracts, machine.calls, loaded.run.updated_at_us)


async def _find(run_id: str) -> RunRow | None:
    return await Use(lambda journal: journal.find(run_id))


async def _load(run_id: str) -> Loaded:
    with around("load"):
        return await Use(lambda journal: read(journal, run_id))


async def _take(world: World, row: RunRow) -> RunRow:
    """Claim the run: at once where its owner is gone, else when its lease has ended on our own boot clock.

    Returns the claimed row, or a row that was settled meanwhile. Raises LeaseUnavailable when the wait is over."""
    began_us = since_us = await Boot()
    while not row.status.settled:
        now_us = await Boot()
        if row.owner is None or world.proven_dead(row.owner) or now_us - since_us >= row.lease_term_us:
            claimed = await _claim(world, row)
            if claimed is not None:
                return claimed
        elif now_us - began_us >= microseconds(world.wait_for_owner):
            raise LeaseUnavailable(run_id=row.run_id, owner=str(row.owner), epoch=str(row.epoch))
        else:
            await Sleep(await Now() + microseconds(POLL), f"{row.run_id}: waiting for {row.owner} to finish or its lease to end")
        seen = await _find(row.run_id)
        assert seen is not None, "runs are never deleted"
        if (seen.epoch, seen.lease_counter) != (row.epoch, row.lease_counter):
            since_us = await Boot()
        row = seen
    return row


async def _claim(world: World, seen: RunRow) -> RunRow | None:
    world.raise_mark(seen.updated_at_us)  # before the claim writes its own clock over it
    owner, at_us = world.owner(), await Now()
    with around("claim"):
        term_us = world.lease_term_us
        return await _owned(seen.run_id, owner, lambda journal: journal.claim(seen, owner, lease_term_us=term_us, at_us=at_us))


async def _owned(run_id: str, owner: Owner, take: Callable[[Journal], RunRow | None]) -> RunRow | None:
    """Take the run. Interrupted, that may have been done all the same: a run that nobody works on is then given up at once."""
    try:
        return await Use(take)
    except Exception:
        raise
    except BaseException:
        with around("release"):
            await Use(lambda journal: _give_up(journal, run_id, owner.token))
        raise


async def _held_while(world: World, row: RunRow, work: Callable[[], Any]) -> Recovered[Any]:
    """Keep the lease alive during the work, and give the run up afterwards unless it is settled."""
    world.hold(row)
    settled = False
    try:
        recovered: Recovered[Any] = await work()
        settled = recovered.status.settled
        return recovered
    finally:
        world.drop(row)
        if not settled:
            assert row.owner is not None
            token = row.owner.token
            with around("release"):
                await Use(lambda journal: _release(journal, row.run_id, token, row.epoch))


def _give_up(journal: Journal, run_id: str, token: str) -> None:
    row = journal.find(run_id)
    if row is not None and row.owner is not None and row.owner.token == token:
        _release(journal, run_id, token, row.epoch)


def _release(journal: Journal, run_id: str, token: str, epoch: Epoch) -> None:
    """Best effort on the way out: where it fails, the dead process or the ended lease says the same."""
    try:
        journal.release(run_id, token, epoch)
    except RecoveryError:
        return


async def _go(
    world: World,
    row: RunRow,
    history: History,
    contracts: dict[str, Contract],
    workflow: Workflow[..., Any],
    *,
    restored: bool = False,
) -> Recovered[Any]:
    """Run the workflow from its beginning and settle the run, under our claim."""
    max_wait = world.budget.max_wait
    assert history.opened is not None
    machine = Machine(
        history=history,
        epoch=row.epoch,
        budget=world.budget,
        deadline_us=None if max_wait is None else await Now() + microseconds(max_wait),
        contracts=contracts,
        restored=restored,
        same_bytes=history.opened.version == workflow.version,
    )
    assert row.owner is not None
    writer = Writer(row.run_id, row.owner.token, row.epoch, row.head, row.head_digest, world.token, contracts)
    came = await _executed(workflow, history.opened.input, machine, writer)
    if came is None:
        assert machine.stopped is not None
        return await _stopped(row, machine, writer, machine.stopped.error)
    if _can_be_better(came, machine):
        raise came.error
    ended = await _ending(workflow, came)
    entries: tuple[Decision | Settled, ...] = (*machine.unsaid(), ended)
    await writer.commit(Append(entries, Status.COMPLETED if ended.outcome is OutcomeKind.APPLIED else Status.FAILED))
    for entry in entries:
        history.add(entry)
    against = contradictions(history, machine.contracts, machine.calls, row.updated_at_us)
    return _settled(world, row, history, machine, against=against)


async def _executed(workflow: Workflow[..., Any], given: JSON, machine: Machine, writer: Writer) -> Returned | Raised | None:
    """What the workflow's function did; None if it was stopped, whether it let the Unwind through or swallowed it."""
    came = None
    try:
        came = await Execute(workflow, given, machine, writer)
        if machine.stopped is None and not _can_be_better(came, machine):
            machine.check_complete()
    except Unwind as unwind:
        if isinstance(came, Raised):
            unwind.error.__cause__ = came.error  # what ended the workflow too early
        return None
    except BaseExceptionGroup:
        if machine.stopped is None:
            raise
        return None  # a TaskGroup wrapped the Unwind
    return came if machine.stopped is None else None


def _can_be_better(came: Returned | Raised, machine: Machine) -> TypeGuard[Raised]:
    """Whether a later try can still end this run: the code was wrong and nothing happened, or a decision could not be made this time."""
    if not isinstance(came, Raised):
        return False
    undecided = [entry.step for entry in machine.unsaid()]
    return isinstance(came.error, UsageError | ReplayError) or (
        isinstance(came.error, DecisionFailed) and came.error.step in undecided
    )


async def _ending(workflow: Workflow[..., Any], came: Returned | Raised) -> Settled:
    """The run's own outcome. Raises ValueNotStorable: the run then stays open, and better code can end it."""
    now_us = await Now()
    if isinstance(came, Returned):
        return Settled(step=ROOT, outcome=OutcomeKind.APPLIED, at_us=now_us, value=workflow.encode_result(came.value))
    failure = workflow.encode_failure(came.error)
    return Settled(step=ROOT, outcome=OutcomeKind.FAILED, at_us=now_us, value=failure.to_json(), error=failure.error)


async def _stopped(row: RunRow, machine: Machine, writer: Writer, error: RecoveryError) -> Recovered[Any]:
    """The run cannot go on now. Doubt, divergence and "look again" are reports; everything else is raised."""
    match error:
        case EffectInDoubt():
            status = Status.IN_DOUBT
        case Unresolved():
            status = Status.WAITING
        case Diverged():
            status = Status.DIVERGED
            reason = f"recorded {error.recorded}, attempted {error.attempted}"
            verdict = Verdict(step=error.step, row="diverged", action=Action.DIVERGE.value, reason=reason, at_us=await Now())
            if not machine.history.is_diverged_by(verdict):
                await writer.commit(Append((verdict,), status, None, reason))
        case _:
            raise error
    against = contradictions(machine.history, machine.contracts, machine.calls, row.updated_at_us)
    return _report(row.run_id, row.workflow, status, machine=machine, error=error, against=against)


def _settled(
    world: World, row: RunRow, history: History, machine: Machine | None = None, *, against: tuple[Contradiction, ...]
) -> Recovered[Any]:
    ended = history.ended
    assert ended is not None, "a settled run has an ending"
    if ended.outcome is not OutcomeKind.APPLIED:
        message = ended.value["message"].removesuffix(".")
        failure = RunFailed(run_id=row.run_id, error=ended.error, message=message, rejection=ended.value.get("fields"))
        return _report(row.run_id, row.workflow, Status.FAILED, machine=machine, error=failure, against=against)
    workflow = world.workflows.get(row.workflow)
    value = workflow.decode_result(ended.value) if workflow else ended.value
    return _report(row.run_id, row.workflow, Status.COMPLETED, machine=machine, value=value, against=against)


def _report(
    run_id: str,
    workflow: str,
    status: Status,
    *,
    machine: Machine | None = None,
    value: Any = None,
    error: RecoveryError | None = None,
    next_look_us: int | None = None,
    against: tuple[Contradiction, ...] = (),
) -> Recovered[Any]:
    judgements = machine.judgements if machine else []
    if judgements and not status.settled:
        next_look_us = judgements[-1][1].next_look_us
    return Recovered(
        run_id=run_id,
        workflow=workflow,
        status=status,
        value=value,
        error=error,
        contradictions=against,
        next_look=None if next_look_us is None else moment(next_look_us),
        verdicts=tuple(
            StepVerdict(
                step=effect.step,
                effect=effect.intent.effect,
                key=effect.intent.key,
                row=judgement.row.name,
                action=judgement.action.value,
                reason=judgement.reason.value,
                assumptions=judgement.assumptions,
                next_look=None if judgement.next_look_us is None else moment(judgement.next_look_us),
            )
            for effect, judgement in judgements
        ),
    )
