"""Children: the steps by which a run starts other runs and takes over what they come to.

Owns the order of what becomes durable: the start is in the parent's journal before the child is stored (I10), and the child's outcome is in the
child's journal before the parent adopts it. Procedures over a `Machine`; `Family` stores and runs. Knows no store, thread or event loop.
Invariants: an adopted outcome is the entry that settled the child, as it stands there; a child that is in doubt stops the branch that waits for
it (I9); a run ends only when every child that is not detached has.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from recovery.core.child_errors import ChildDiverged, ChildInDoubt, ChildOpen, ChildRefused, ChildWaits
from recovery.core.entries import ADOPTED, AWAITED, CHILD, OVERDUE, Decision, OutcomeKind, Settled, Status, decode, encode
from recovery.core.errors import DeadlinePassed, RecoveryError
from recovery.core.exitcodes import ExitCode
from recovery.core.gathering import Waiting
from recovery.core.history import DecisionStep, History
from recovery.core.ids import branch_of
from recovery.core.inheriting import check_start
from recovery.core.instants import iso
from recovery.core.kin import Ended, Family, NewChild, Open
from recovery.core.machine import Machine
from recovery.core.operations import Now, Turn
from recovery.core.orders import check_wanted, heed
from recovery.core.resting import Rest, RestsFor
from recovery.core.scopes import Limit

JOINED: Final = "joined"
"""The gather in which a run whose workflow has ended waits for the children that nobody has waited for."""

_BY_CODE: Final = {
    ExitCode.IN_DOUBT: ChildInDoubt,
    ExitCode.DIVERGED: ChildDiverged,
    ExitCode.WAITING: ChildWaits,
}


async def start(machine: Machine, step: str, child: NewChild) -> None:
    """Start a child, or come to one that was started. Its run is stored when this returns. Raises Unwind and ChildRefused."""
    kin = machine.kin
    await check_start(machine, step, child.workflow, child.recorded(0, CHILD).fingerprint)
    _hold(machine, child)
    recorded = machine.history.steps.get(step)
    if recorded is None:
        try:
            await _family(machine, step, f"start child {child.run_id}").check(child)
        except RecoveryError:  # no entry: a later step may hold this id
            del kin.started[child.run_id]
            raise
        await machine.append(step, [child.recorded(await Now(), CHILD)])
    else:
        _check_same(machine, step, machine.expected(step, recorded, CHILD), child)
    if (
        kin.family is not None and machine.steps.recorded_next(branch_of(step)) is None
    ):  # what follows was begun when the child was there
        try:
            await kin.family.store(child)
        except RecoveryError as error:
            raise machine.stop(error, branch_of(step)) from error
    await machine.turn(step)


def _hold(machine: Machine, child: NewChild) -> None:
    """Before anything is awaited: of two branches that start one id, the recorded one has it, else the first."""
    recorded = machine.history.children.get(child.run_id)
    holder = recorded.step if recorded else machine.kin.started.setdefault(child.run_id, child).step
    if holder == child.step:
        machine.kin.started[child.run_id] = child
        return
    raise ChildRefused(
        run_id=child.parent, step=child.step, child=child.run_id, problem=f"this run has started it at {holder}",
        advice="Wait for that one, or give this one a run id of its own.",
    )  # fmt: skip


def _check_same(machine: Machine, step: str, recorded: Decision, child: NewChild) -> None:
    wanted = child.recorded(0, CHILD)
    for what in ("run_id", "workflow", "detached"):
        if recorded.value[what] != wanted.value[what]:
            raise machine.diverge(step, f"a child with {what} {recorded.value[what]}", f"one with {wanted.value[what]}")
    if recorded.fingerprint != wanted.fingerprint:
        before, after = recorded.fingerprint[:12], wanted.fingerprint[:12]
        raise machine.diverge(step, f"a child with input {before}", f"one with {after}")


async def adopt(machine: Machine, step: str, run_id: str) -> Settled:
    """The outcome of a child, as it is recorded here, else as the child comes to it now. Raises Unwind where it has none."""
    if run_id not in machine.history.children:
        raise ChildRefused(
            run_id=machine.history.run_id,
            step=step,
            child=run_id,
            problem="it is no child of this run",
            advice="Wait for what `run.start` gave you.",
        )
    recorded = machine.history.steps.get(step)
    if recorded is None:
        decision = await _ending(machine, step, run_id)
        await machine.append(step, [decision])
    else:
        overdue = isinstance(recorded, DecisionStep) and recorded.decision.form == OVERDUE
        decision = machine.expected(step, recorded, OVERDUE if overdue else ADOPTED)
    if decision.value["run_id"] != run_id:
        raise machine.diverge(step, f"the outcome of {decision.value['run_id']}", f"that of {run_id}")
    await machine.turn(step)
    if decision.form == ADOPTED:
        return settlement(decision)
    about, at = (
        {"run_id": machine.history.run_id, "step": step, "deadline": decision.value["deadline"]},
        iso(decision.value["at_us"]),
    )
    raise DeadlinePassed(**about, at=at, fate=f"Its child {run_id} goes on, and its outcome can still be waited for")


async def _ending(machine: Machine, step: str, run_id: str) -> Decision:
    """What ends a wait for a child: its outcome, or the deadline of the scope that the wait was begun in. Raises Unwind where neither has come."""
    ended, about = await _ended(machine, step, run_id), {"run_id": run_id}
    if isinstance(ended, Limit):
        value, form = about | {"deadline": ended.step, "at_us": ended.at_us}, OVERDUE
    else:
        value, form = about | {"entry": ended.entry, "settled": encode(ended.settled)}, ADOPTED
    return Decision(step=step, fingerprint="", value=value, form=form, at_us=await Now())


def settlement(adopted: Decision) -> Settled:
    """The entry that settled the child."""
    settled = decode("settled", adopted.value["settled"])
    assert isinstance(settled, Settled)
    return settled


async def _ended(machine: Machine, step: str, run_id: str) -> Ended | Limit:
    """What a child has come to, or the deadline that came first; brought on by one step of this run at a time, while the others wait for that one."""
    while True:
        adopted = machine.history.adopted.get(run_id)
        if adopted is not None:
            return Ended(settlement(adopted), adopted.value["entry"])
        family = _family(machine, step, f"wait for child {run_id}", run_id)
        if run_id not in machine.kin.busy:
            return await _brought(machine, family, step, run_id)
        machine.kin.busy[run_id].append(waiting := Waiting())
        await Turn(waiting)


async def _brought(machine: Machine, family: Family, step: str, run_id: str) -> Ended | Limit:
    waiters, bound = machine.kin.busy.setdefault(run_id, []), machine.scopes.bound(branch_of(step))
    try:
        await machine.flush()
        limits = [at_us for at_us in (machine.deadline_us, None if bound is None else bound.at_us) if at_us is not None]
        came: Ended | Open | Limit = await family.bring(run_id, min(limits) if limits else None)
        if isinstance(came, Open):
            came = await _waited(machine, family, step, run_id, came)
        machine.rests.pop(branch_of(step), None)
        if (
            isinstance(came, Ended) and came.settled.outcome is OutcomeKind.CANCELLED
        ):  # if its parent was cancelled too, that comes first
            await heed(machine, step)
            check_wanted(machine, step)
        return came
    except RecoveryError as error:  # the child's journal, its code or its owner: nobody here can go on without it
        raise machine.stop(error, branch_of(step)) from error
    finally:
        del machine.kin.busy[run_id]
        for waiting in waiters:
            waiting.release()


async def _waited(machine: Machine, family: Family, step: str, run_id: str, stands: Open) -> Ended | Limit:
    """Say that the run waits, then look once more: who settles the child meanwhile either sees the wait and says so, or settled before that."""
    error = standing(machine.history.run_id, step, run_id, stands)
    now_us, bound = await Now(), machine.scopes.bound(branch_of(step))
    if bound is not None and now_us >= bound.at_us:
        return bound
    if bound is not None:
        stands = replace(stands, next_look_us=min(bound.at_us, stands.next_look_us or bound.at_us))
    waits, rest, is_news = noted(machine.history, step, run_id, error, stands, now_us)
    machine.rests[branch_of(step)] = rest
    if is_news or machine.understated(branch_of(step), rest, now_us):
        await machine.append(step, [waits], rest)
    ended = await family.ended(run_id)
    if ended is not None:
        return ended
    raise machine.stop(error, branch_of(step))


def open_children(history: History) -> list[str]:
    """The children whose outcome the run has not adopted and that are not detached, in the order in which they were started."""
    return [run_id for run_id, start in history.children.items() if run_id not in history.adopted and not start.value["detached"]]


def standing(run_id: str, step: str, child: str, stands: Open) -> ChildOpen:
    """Why a run cannot go on that waits for a child."""
    kind = _BY_CODE.get(stands.error.exit_code, ChildOpen)
    at = stands.error.fields.get("step", "")
    return kind(run_id=run_id, step=step, child=child, child_step=at, because=str(stands.error))


def noted(history: History, step: str, child: str, error: ChildOpen, stands: Open, at_us: int) -> tuple[Decision, Rest, bool]:
    """That a run waits for a child, as an entry and as what its row says; and whether that is news. A next look that was said and lies ahead stays: who owns
    a child is asked again then, and not ever later."""
    value = {"run_id": child, "why": type(error).__name__}
    said, looks_us = history.awaited.get(step), stands.next_look_us
    same = said is not None and value.items() <= said.value.items()
    before_us = said.value["next_look_us"] if same else None  # type: ignore[union-attr]  # it is there
    if before_us is not None and looks_us is not None and at_us < before_us <= looks_us:
        looks_us = before_us
    status = Status.IN_DOUBT if isinstance(error, ChildInDoubt) else Status.WAITING
    waits = Decision(step=step, fingerprint="", value=value | {"next_look_us": looks_us}, form=AWAITED, at_us=at_us)
    what, rests_for = ("an answer to child", RestsFor.CHILD_ANSWER) if isinstance(error, ChildWaits) else ("child", RestsFor.CHILD)
    if status is Status.IN_DOUBT:
        rests_for = RestsFor.NOTHING
    return waits, Rest(status, looks_us, f"{what} {child}", rests_for), not same or before_us != looks_us


def _family(machine: Machine, step: str, to: str, child: str = "") -> Family:
    """Raises Unwind where this execution only reads."""
    if machine.kin.family is None:
        raise machine.beyond(step, to, child)
    return machine.kin.family


def unawaited(machine: Machine) -> list[str]:
    """The children that are not detached and that no step of the workflow itself has waited for, in the order of the steps that started them."""
    adopted = machine.history.adopted
    return [
        run_id
        for _, run_id in sorted((child.step, run_id) for run_id, child in machine.kin.started.items() if not child.detached)
        if run_id not in adopted or adopted[run_id].step.startswith(f"{JOINED}#")
    ]
