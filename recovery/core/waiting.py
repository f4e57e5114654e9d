"""Waiting: how a run waits for what is said from outside, and takes in what comes.

Owns the order of a wait: it is durable before anybody could miss it, then the inbox is read, then the run rests. Knows nothing of threads and stores.
Invariants: one entry takes a message in, so that a replay finds the same answer; after the entry that says that the run waits the inbox is read once
more, so that no answer is overlooked; nothing follows on a wait whose end is not recorded.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from recovery.core.child_errors import ChildOpen
from recovery.core.effect_errors import EffectInDoubt, Unresolved
from recovery.core.entries import ANSWER, LAPSED, TIMER, WAIT, Decision, Status, Verdict
from recovery.core.errors import AnswerPending, DeadlinePassed, RecoveryError, RunUnsettled, TimerPending
from recovery.core.history import DecisionStep
from recovery.core.ids import branch_of
from recovery.core.instants import iso
from recovery.core.machine import Machine
from recovery.core.mail import APPROVED_UNTIL, LAPSE, SETTLED, Open, Wanted, lapsed, slot_of, told_with
from recovery.core.operations import Append, Deliver, Now, Poll, Use
from recovery.core.orders import check_wanted, heed
from recovery.core.resting import GOES_ON, Rest

_ENDS = frozenset({ANSWER, LAPSED})

RESTS = (AnswerPending, ChildOpen, TimerPending, Unresolved, EffectInDoubt)
"""What stops a run that goes on by itself once something has come."""


async def answered(machine: Machine, step: str, wanted: Wanted) -> Decision:
    """The entry that ends a wait: an answer, or its lapse. Raises Unwind where there is none yet, and DeadlinePassed where the deadline of its scope
    ended it."""
    recorded, bound = machine.history.steps.get(step), machine.scopes.bound(branch_of(step))
    if recorded is not None:
        wait = machine.expected(step, recorded, WAIT)
        _check_same(machine, wait, wanted)
    else:
        wait = wanted.wait(step, await Now(), None if bound is None else bound.at_us)
    done = machine.history.steps.get(machine.begin(ANSWER, step, awaited=False))
    if isinstance(done, DecisionStep):
        ended = done.decision
    else:
        open_ = machine.mail.waits[step] = Open(wait, wanted)
        if machine.mail.dry:
            raise machine.stop(RunUnsettled(run_id=machine.history.run_id, status="rehearsed", reason=""), branch_of(step))
        try:
            ended = await _come(machine, open_)
        except RecoveryError as error:
            raise machine.stop(error) from error
        del machine.mail.waits[step]
    machine.rests.pop(branch_of(step), None)
    if wanted.fingerprint and ended.form == ANSWER:
        machine.mail.approved.setdefault(wanted.fingerprint, []).append(ended.value.get(APPROVED_UNTIL))
    await machine.turn(step)
    machine.memory.leave([ended.step])
    if ended.form == LAPSED and bound is not None and ended.value >= bound.at_us:
        fate = "Nobody had answered"
        raise DeadlinePassed(run_id=machine.history.run_id, step=step, deadline=bound.step, at=iso(bound.at_us), fate=fate)
    return ended


async def heard_meanwhile(machine: Machine) -> bool:
    """Whether something has come for a wait that this call has left, a child's end included: then the run can go on at once. Another branch may have
    said since when to look at the run, and put that off."""
    mail, children = machine.mail, _awaited(machine)
    if not mail.waits and not children:
        return False
    await _read_on(machine)
    if any(message.kind == SETTLED and message.name in children for message in mail.come.values()):
        return True
    return any(mail.next(machine.history, open_) is not None for open_ in mail.waits.values())


def _awaited(machine: Machine) -> set[str]:
    """The children for which a branch rests."""
    history = machine.history
    found = {said.value["run_id"] for step, said in history.awaited.items() if branch_of(step) in machine.rests}
    return found - history.adopted.keys()


def rest_again(machine: Machine, looks_us: int | None, now_us: int) -> Append | None:
    """How a run that has done nothing says once more when to look at it: a message that nobody waits for has brought its next look forward, and it would be
    looked at again and again. None: its row says so already. looks_us: when it says to look."""
    own_us = machine.rests.next_look_us
    if looks_us is None or (own_us is not None and looks_us >= own_us):
        return None
    for branch, rest in machine.rests.items():
        if (entry := _last_said(machine, branch)) is not None:
            return Append((replace(entry, at_us=now_us),), *machine.rests.standing(branch, rest))
    return None


def _last_said(machine: Machine, branch: str) -> Decision | Verdict | None:
    """What a branch that rests said of it, and may say once more."""
    history = machine.history
    for step, said in reversed(history.awaited.items()):
        if branch_of(step) == branch and step not in history.steps:
            return said
    last = history.steps.get(machine.steps.latest.get(branch, ""))
    if isinstance(last, DecisionStep):
        return last.decision if last.decision.form in {TIMER, WAIT} else None
    return last.verdicts[-1] if last is not None and last.verdicts else None


def _check_same(machine: Machine, wait: Decision, wanted: Wanted) -> None:
    """Raises Unwind where the code waits for something else than its record says."""
    was = replace(wanted, name=wait.value["name"], queue=wait.value["queue"]).known_as
    if was != wanted.known_as:
        raise machine.diverge(wait.step, f"a wait for {was}", f"one for {wanted.known_as}")
    if wait.fingerprint != wanted.fingerprint:
        before, after = (text[:12] or "no call" for text in (wait.fingerprint, wanted.fingerprint))
        raise machine.diverge(wait.step, f"a wait about {before}", f"one about {after}")


async def _come(machine: Machine, open_: Open) -> Decision:
    wait, until_us = open_.wait, open_.wait.value["until_us"]
    branch, rest = branch_of(wait.step), Rest(Status.WAITING, until_us, open_.wanted.known_as, open_.wanted.rests_for)
    while True:
        now_us = await Now()
        found = [] if wait.step in machine.history.steps else [wait]
        await _read_on(machine)
        found += machine.mail.take_in(machine.history, open_, now_us)
        if found:
            ended = found[-1].form in _ENDS
            await machine.append(wait.step, found, GOES_ON if ended else rest)
            if ended:
                return found[-1]
            continue  # whoever spoke before that was durable has woken nobody
        if until_us is not None and now_us >= until_us:
            if (end := await _lapse(machine, open_, now_us)) is not None:
                return end
            continue
        await heed(machine, wait.step)
        check_wanted(machine, wait.step)
        machine.rests[branch] = rest
        limit_us = _patience_us(machine, until_us)
        if limit_us is None or now_us >= limit_us:
            if machine.understated(branch, rest, now_us):
                await machine.append(wait.step, [replace(wait, at_us=now_us)], rest)
                continue
            raise machine.stop(_pending(machine.history.run_id, open_), branch)
        await machine.flush()
        await Poll(limit_us, partial(_news, machine.history.run_id, _seen(machine)), f"{wait.step}: it waits for {rest.reason}")


async def _lapse(machine: Machine, open_: Open, now_us: int) -> Decision | None:
    """End a wait unanswered. None: the inbox says how it ends, since an answer may have been faster."""
    wait, wanted = open_.wait, open_.wanted
    if not wanted.queue:
        slot = slot_of(machine.history, wait.step)
        await machine.flush()
        await Deliver(LAPSE, wanted.name, slot, by="the run itself", at_us=now_us, token=f"{LAPSE}:{slot}")
        await _read_on(machine)
        if machine.mail.next(machine.history, open_) is not None:
            return None
    end = lapsed(wait, now_us)
    await machine.append(wait.step, [end])
    return end


def _patience_us(machine: Machine, until_us: int | None) -> int | None:
    """Until when this call goes on looking; None: not at all. A named time that it may wait for is waited for; nothing else is, unless the
    budget says so."""
    if until_us is not None and (machine.deadline_us is None or until_us <= machine.deadline_us):
        return until_us
    return machine.mail.answers_until_us


def _pending(run_id: str, open_: Open) -> AnswerPending:
    wait, wanted = open_.wait, open_.wanted
    until_us = wait.value["until_us"]
    until = "" if until_us is None else f", until {iso(until_us)} at the latest"
    how = told_with(run_id, wait.step, wanted.name, queue=wanted.queue, fingerprint=wanted.fingerprint)
    return AnswerPending(run_id=run_id, step=wait.step, what=wanted.known_as, until=until, how=how)


async def _read_on(machine: Machine) -> None:
    """Read what has come since this execution read last; at first, what may not have been taken in."""
    machine.mail.arrived(await Use(partial(_behind, machine.history.run_id, _seen(machine))))


def _seen(machine: Machine) -> int:
    return max(machine.mail.read_to, machine.history.unheard - 1)


def _behind(run_id: str, after: int, journal: Any) -> Sequence[Any]:
    return journal.inbox(run_id, after)  # type: ignore[no-any-return]  # the port's messages, which the core reads as they are


def _news(run_id: str, after: int, journal: Any) -> bool:
    return bool(journal.inbox(run_id, after))
