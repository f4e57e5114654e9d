"""The reconciler: takes a run and brings it to its end, or as far as can be proven.

Owns the order of a recovery: claim, then load in a new transaction, then run the workflow from its beginning, whose recorded steps replay
and whose unsettled ones are judged; then settle the run. Procedures over operations, so both drivers and the simulation share them.
Invariants: nothing of a run is read for acting before its claim has committed; a run that is not settled is given up on the way out.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Any, TypeGuard

from recovery.claims import Taken, World, check_head, existing, find, hear, held_while, in_hand, load, sealing, take, visit
from recovery.core.child_errors import ChildInDoubt, ChildOpen
from recovery.core.contracts import Contract, microseconds
from recovery.core.contradictions import need_a_person
from recovery.core.effect_errors import EffectInDoubt, Unresolved
from recovery.core.entries import JSON, Decision, Opened, OutcomeKind, Override, Settled, Status, Verdict
from recovery.core.errors import (
    AnswerPending,
    Diverged,
    RecoveryError,
    RunFailed,
    RunHeld,
    RunInputDiffers,
    RunUnsettled,
    TimerPending,
    WorkflowUnknown,
)
from recovery.core.forgetting import Memory
from recovery.core.history import History, fold
from recovery.core.ids import ROOT, check_run_id
from recovery.core.instants import moment
from recovery.core.judgement import CONTRADICTED
from recovery.core.kin import Kin
from recovery.core.looking_errors import RunDiverged, RunInDoubt, RunWaits
from recovery.core.machine import Machine, Unwind
from recovery.core.mail import Mail
from recovery.core.operations import Append, Execute, Now, Raised, Returned, Use
from recovery.core.order_errors import RunCancelled
from recovery.core.orders import held_back
from recovery.core.resting import GRAVEST_FIRST, waits_for_somebody
from recovery.core.rows import Action, ParkingReason
from recovery.core.waiting import RESTS, heard_meanwhile, rest_again
from recovery.definitions.recovered import Contradiction, Recovered, verdict_of
from recovery.definitions.undoing import contradictions
from recovery.definitions.workflow import Workflow
from recovery.hindsight import record, reread
from recovery.obeying import cancelled_end, disobeyed, may_end, obeyed, orders
from recovery.offspring import Offspring, cancel_down, opened
from recovery.ports import Owner, RunRow
from recovery.storage.reading import ENDS, Loaded, recalled
from recovery.storage.resting import is_digest
from recovery.storage.writer import Writer


async def run(world: World, run_id: str, workflow: Workflow[..., Any], given: JSON) -> Recovered[Any]:
    """Start a run, or continue the one of this id. Raises RunInputDiffers, LeaseUnavailable, and what the store raises."""
    check_run_id(run_id)
    digest = workflow.digest(given)
    row = await find(run_id)
    if row is None:
        first = Opened(workflow=workflow.name, version=workflow.version, input=given, input_digest=digest, at_us=await Now())
        owner = world.owner()
        came = await in_hand(world, run_id, owner, _first_run(world, run_id, first, workflow, owner))
        if came is not None:
            return came
        row = await find(run_id)
        assert row is not None, "a run id that is taken stays taken"
    await check_same(world, row, workflow, digest)
    return await _continue(world, row)


async def check_same(world: World, row: RunRow, workflow: Workflow[..., Any], digest: str) -> None:
    """Whether a run that is there is the one that is asked for. Raises RunInputDiffers."""
    if row.workflow != workflow.name:
        raise RunInputDiffers(run_id=row.run_id, what="workflow", recorded=row.workflow, given=workflow.name)
    if not is_digest(world.vault, row.input_digest, digest) and not workflow.reads_as(
        (await load(row.run_id)).opened.input, digest
    ):
        recorded, given = (row.input_digest[:12], digest[:12]) if world.vault is None else ("encrypted", "another")
        raise RunInputDiffers(run_id=row.run_id, what="input", recorded=recorded, given=given)


async def recover(world: World, run_id: str, if_head: str | None = None) -> Recovered[Any]:
    """Bring an existing run as far as it can be brought. Raises RunNotFound, LeaseUnavailable, and what the store raises.

    if_head: the digest of the only head to go on from, as a plan names it (or its beginning). Raises HeadMoved at any other one."""
    return await _continue(replace(world, tells=True), await existing(run_id), if_head)


async def carry(world: World, taken: Taken) -> Recovered[Any]:
    """Bring on a run that was just claimed, and whose workflow is known here. Raises what `recover` raises."""
    return await visit(world, taken.row, lambda loaded: _obeying(world, loaded, taken), taken.loaded)


async def look(world: World, run_id: str) -> Recovered[Any]:
    """Where a run stands, from one verified snapshot; claims and changes nothing. Raises RunNotFound."""
    loaded = await Use(lambda journal: recalled(journal, check_run_id(run_id)))
    row = loaded.run
    against = contradictions(loaded.history, loaded.contracts, {}, loaded.highest_us)
    if loaded.history.ended is not None:
        return _settled(world, row, loaded.history, against=against)
    if loaded.history.held is not None:
        return _held(row, loaded.history.held, against)
    waits = waits_for_somebody(row.status, row.rests_for)
    kind = RunWaits if waits else {Status.IN_DOUBT: RunInDoubt, Status.DIVERGED: RunDiverged}.get(row.status, RunUnsettled)
    error = kind(run_id=run_id, status=row.status.value, reason=f", {row.reason}" if row.reason else "")
    return _report(run_id, row.workflow, row.status, error=error, next_look_us=row.next_look_us, against=against)


async def _continue(world: World, row: RunRow, if_head: str | None = None) -> Recovered[Any]:
    """A settled run's original outcome, or the rest of an unsettled one."""
    check_head(row, if_head)
    if row.status is Status.HELD:
        history = (await load(row.run_id)).history
        if history.held is not None and not await disobeyed(history):
            return _held(row, history.held)  # nothing is claimed; where only a contract is held, the run is judged again
    if not row.status.settled:
        if row.workflow not in world.workflows:
            raise WorkflowUnknown(run_id=row.run_id, workflow=row.workflow, known=", ".join(sorted(world.workflows)) or "none")
        owner = world.owner()
        return await in_hand(world, row.run_id, owner, _taken_up(world, row, if_head, owner))
    loaded = await record(world, await load(row.run_id))
    return _settled(world, loaded.run, loaded.history, against=await _against(world, loaded))


async def _taken_up(world: World, row: RunRow, if_head: str | None, owner: Owner) -> Recovered[Any]:
    """The rest of a run, once it is claimed, or the outcome that somebody else has given it meanwhile."""
    row = await take(world, row, owner)
    if row.status.settled:
        return await _continue(world, row)

    async def rest(loaded: Loaded) -> Recovered[Any]:
        check_head(loaded.run, if_head)
        return await _obeying(world, loaded)

    return await visit(world, row, rest)


async def _first_run(world: World, run_id: str, first: Opened, workflow: Workflow[..., Any], owner: Owner) -> Recovered[Any] | None:
    """Store the run and bring it on. None: somebody else took the run id."""
    mine = await opened(world, run_id, first, Status.RUNNING, owner=owner)
    return None if mine is None else await held_while(world, mine, partial(_begun, world, mine, first, workflow))


async def _begun(world: World, row: RunRow, first: Opened, workflow: Workflow[..., Any]) -> Recovered[Any]:
    """A run that we have just stored. Whoever gives it up reads its inbox once more."""
    history = fold(row.run_id, [first])
    await hear(world)
    came = await _go(world, row, history, {}, workflow)
    return came if came.status.settled or not await disobeyed(history) else await _obeying(world, await load(row.run_id))


async def _obeying(world: World, loaded: Loaded, taken: Taken | None = None) -> Recovered[Any]:
    """Go on with a run that is ours, and again for orders that came meanwhile. taken: what was read with the run."""
    if loaded.history.ended is not None:  # by its owner, between our look and our claim, of which neither epoch nor lease tells
        return _settled(world, loaded.run, loaded.history, against=await _against(world, loaded))
    while True:
        if taken is None or taken.spoken_to:
            loaded = await obeyed(world, loaded)
        if loaded.history.held is not None:
            return _held(loaded.run, loaded.history.held)
        workflow = world.workflows.of(loaded.run.workflow, loaded.history.version)
        assert workflow is not None, "asked before the claim"
        if taken is None or taken.loaded is None:
            await hear(world)
        came = await _go(world, loaded.run, loaded.history, loaded.contracts, workflow, restored=loaded.restored)
        if came.status.settled or not await disobeyed(loaded.history):
            return came
        loaded, taken = await load(loaded.run.run_id), None


def _held(row: RunRow, held: Override, against: tuple[Contradiction, ...] = ()) -> Recovered[Any]:
    return _report(row.run_id, row.workflow, Status.HELD, error=held_back(row.run_id, held), against=against)


async def _against(world: World, loaded: Loaded) -> tuple[Contradiction, ...]:
    """What speaks against a settled run's outcomes. Only then is its workflow read again, to bind what would undo a surplus effect."""
    found = contradictions(loaded.history, loaded.contracts, {}, loaded.highest_us)
    workflow = world.workflows.of(loaded.run.workflow, loaded.history.version)
    if not found or workflow is None:
        return found
    calls = await reread(workflow, loaded, world.budget)
    return contradictions(loaded.history, loaded.contracts, calls, loaded.highest_us)


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
    machine = await _machine(world, row, history, contracts, same_code=history.version == workflow.version, restored=restored)
    assert history.opened is not None
    assert row.owner is not None
    writer = Writer(row.run_id, row.owner.token, row.epoch, row.head, row.head_digest, world.token, contracts)
    writer.parent, writer.sealing = history.opened.parent, await sealing(world, row.run_id)
    came = await _ran(world, row, machine, writer, workflow)
    if isinstance(came, Recovered):
        return came
    if may_end(machine):
        if (waits := await cancel_down(world, machine, writer)) is not None:
            return await _stopped(row, machine, writer, waits)
        return await _end(world, row, machine, writer, await cancelled_end(history))
    if came is None:
        assert machine.stopped is not None
        error = machine.stopped.error
        if isinstance(error, RESTS) and await _has_come(row, machine, writer):
            history = (await load(row.run_id)).history if history.past else history
            await hear(world)
            return await _go(world, writer.row(row), history, contracts, workflow, restored=restored)
        return await _stopped(row, machine, writer, error)
    assert isinstance(came, Raised), "what has an outcome has ended"
    raise came.error


async def _has_come(row: RunRow, machine: Machine, writer: Writer) -> bool:
    """Whether what a resting run waits for has come, while another branch still went on. If not, its row says when to look at it next; who spoke while that was
    being written made the row due in vain, so that it is asked once more."""
    if await heard_meanwhile(machine):
        return True
    if row.status not in GRAVEST_FIRST or row.head != writer.head:
        return False
    again = rest_again(machine, row.next_look_us, await Now())
    if again is None:
        return False
    await writer.commit(again)
    return await heard_meanwhile(machine)


async def _machine(
    world: World, row: RunRow, history: History, contracts: dict[str, Contract], *, same_code: bool, restored: bool
) -> Machine:
    """The state of a run under our claim, as it begins anew."""
    max_wait, answer_wait = world.budget.max_wait, world.budget.max_answer_wait
    assert history.opened is not None
    began_us = await Now()
    return Machine(
        history=history,
        stands=row.status,
        looks_us=row.next_look_us,
        epoch=row.epoch,
        budget=world.budget,
        deadline_us=None if max_wait is None else began_us + microseconds(max_wait),
        mail=Mail(began_us + microseconds(answer_wait) if answer_wait else None),
        horizon_us=None if world.riding is None else microseconds(world.riding.horizon),
        contracts=contracts,
        restored=restored,
        same_bytes=same_code,
        holds=world.held_contracts,
        tells=world.tells,
        memory=Memory(lambda journal: recalled(journal, row.run_id).history),
        heard=lambda: orders(came) if (came := world.messages(row.run_id)) else (),
        kin=Kin(history.opened.depth, Offspring(world, row.run_id, _continue)),
    )


async def _ran(
    world: World, row: RunRow, machine: Machine, writer: Writer, workflow: Workflow[..., Any]
) -> Recovered[Any] | Returned | Raised | None:
    """What the workflow's function did, or, where that settles the run, its settlement. Nothing rides behind it: the run's outcome has taken that
    along, or the run is about to be given up."""
    history = machine.history
    assert history.opened is not None
    try:
        came = await _executed(workflow, history.opened.input, machine, writer)
        if came is not None and not may_end(machine) and not _can_be_better(came, machine):
            return await _end(world, row, machine, writer, await _ending(workflow, came, history))
        await writer.flush()
    except BaseException:  # the run stays open; raised again
        with suppress(RecoveryError):
            await writer.flush()
        raise
    return came


async def _end(world: World, row: RunRow, machine: Machine, writer: Writer, ended: Settled) -> Recovered[Any]:
    """Make the run's outcome durable."""
    history = machine.history
    entries: tuple[Decision | Settled, ...] = (*machine.unsaid(ended.at_us), ended)
    status = ENDS[ended.outcome]
    disputed = need_a_person(history, machine.contracts, ended.at_us)
    await writer.commit(Append(entries, status, None, CONTRADICTED if disputed else ""))
    for entry in entries:
        history.add(entry)
    against = contradictions(history, machine.contracts, machine.calls, ended.at_us)
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
    except BaseExceptionGroup:  # a TaskGroup wraps the Unwind; others are raised again
        if machine.stopped is None:
            raise
        return None  # a TaskGroup wrapped the Unwind
    return came if machine.stopped is None else None


def _can_be_better(came: Returned | Raised, machine: Machine) -> TypeGuard[Raised]:
    return isinstance(came, Raised) and machine.leaves_open(came.error)


async def _ending(workflow: Workflow[..., Any], came: Returned | Raised, history: History) -> Settled:
    """The run's own outcome. Raises ValueNotStorable: the run then stays open, and better code can end it."""
    now_us = await Now()
    if isinstance(came, Returned):
        return Settled(step=ROOT, outcome=OutcomeKind.APPLIED, at_us=now_us, value=workflow.encode_result(came.value))
    failure = workflow.encode_failure(came.error, history.without_secrets)
    return Settled(step=ROOT, outcome=OutcomeKind.FAILED, at_us=now_us, value=failure.to_json(), error=failure.error)


async def _stopped(row: RunRow, machine: Machine, writer: Writer, error: RecoveryError) -> Recovered[Any]:
    """The run cannot go on now. Doubt, divergence and "look again" are reports; everything else is raised."""
    match error:
        case EffectInDoubt():
            status = Status.HELD if error.reason is ParkingReason.HELD else Status.IN_DOUBT
        case ChildInDoubt():
            status = Status.IN_DOUBT
        case ChildOpen() | Unresolved() | TimerPending() | AnswerPending():
            status = Status.WAITING
        case RunHeld():
            status = Status.HELD
        case RunCancelled() if machine.history.unsettled:
            raise machine.interrupted(machine.history.unsettled[0], "the cancelled workflow did not come back to it")
        case Diverged():
            status = Status.DIVERGED
            reason = f"recorded {error.recorded}, attempted {error.attempted}"
            verdict = Verdict(
                step=error.step,
                row="diverged",
                action=Action.DIVERGE.value,
                reason=reason,
                at_us=await Now(),
                evidence=(error.seq,),
            )
            if not machine.history.is_diverged_by(verdict):
                await writer.commit(Append((verdict,), status, None, reason))
        case _:
            raise error
    against = contradictions(machine.history, machine.contracts, machine.calls, await Now())
    return _report(row.run_id, row.workflow, status, machine=machine, error=error, against=against)


def _settled(
    world: World, row: RunRow, history: History, machine: Machine | None = None, *, against: tuple[Contradiction, ...]
) -> Recovered[Any]:
    ended = history.ended
    assert ended is not None, "a settled run has an ending"
    if ended.outcome is OutcomeKind.CANCELLED:
        stopped = RunCancelled(run_id=row.run_id, by=ended.value["by"], reason=ended.value["reason"])
        return _report(row.run_id, row.workflow, Status.CANCELLED, machine=machine, error=stopped, against=against)
    if ended.outcome is not OutcomeKind.APPLIED:
        # A rejection's text begins with its name.
        message = ended.value["message"].removeprefix(f"{ended.error}: ").removesuffix(".")
        failure = RunFailed(run_id=row.run_id, error=ended.error, message=message, rejection=ended.value.get("fields"))
        return _report(row.run_id, row.workflow, Status.FAILED, machine=machine, error=failure, against=against)
    workflow = world.workflows.of(row.workflow, history.version) if history.opened is not None else None
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
    if machine is not None and not status.settled:
        next_look_us = machine.rests.next_look_us
    return Recovered(
        run_id=run_id,
        workflow=workflow,
        status=status,
        value=value,
        error=error,
        contradictions=against,
        next_look=None if next_look_us is None else moment(next_look_us),
        verdicts=tuple(verdict_of(*each) for each in machine.judgements) if machine else (),
    )
