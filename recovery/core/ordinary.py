"""Ordinary: the one way of an effect that is asked for, sent once and answered in time, which is what nearly every effect is.

Owns that way, from the intent to the outcome, and where it is left. Knows no rule of the table: what is to be made of such a step is its course's
(`straight`). Invariant: it asks for the same operations, with the same values and in the same order, as the procedure of every step (`Machine`); wherever
a step is not ordinary, or is not any more, that procedure takes it over where it stands.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from recovery.core.entries import Attempt, Observation, Settled, Source
from recovery.core.history import EffectStep
from recovery.core.ids import ROOT
from recovery.core.operations import Now, Send
from recovery.core.request import Request
from recovery.core.straight import Course, adopting, outcome, sending
from recovery.core.timing import SENDING

if TYPE_CHECKING:
    from recovery.core.machine import Machine


async def outright(machine: Machine, step: str, request: Request) -> Settled:
    """The outcome of an effect of which nothing is recorded yet. Raises Unwind where none can be had."""
    now_us = await Now()
    course = course_of(machine, request)
    if course is None:
        draft = EffectStep(0, request.intent(step, now_us))
        return await machine.settle(request, draft, draft.intent)
    me, tells = machine.me, machine.tells
    attempt = Attempt(step, 1, SENDING, now_us, now_us + course.lasts_us, me)
    intent = request.intent(step, now_us, attempt)
    if tells:
        machine.judgements.append((EffectStep(0, intent), sending(course, step, now_us)))
    await machine.write(intent)
    made = made_of(machine, step)
    answer = await Send(request.subject, intent, attempt, now_us, made.heard)
    seen_us = await Now()
    reply = Observation(step, Source.REPLY, now_us, seen_us, answer, 1, me)
    settled = outcome(course, intent, reply, seen_us) if _undisturbed(machine) else None
    if settled is None:  # an order came in the meantime, or the answer is to be weighed
        return await machine.settle(request, made, reply)
    if tells:
        machine.judgements.append((made, adopting(course, attempt, settled)))
    await machine.write(settled, rides=_rides(machine, request, course, now_us, seen_us))
    return settled


def course_of(machine: Machine, request: Request) -> Course | None:
    """The course of a step that begins now; None where something is known that sets it apart."""
    contract = request.contract
    if not machine.straight or machine.restored or machine.steps.stopped_at(ROOT) is not None or not _undisturbed(machine):
        return None
    bounded = request.valid_until_us is not None or request.deadline_us is not None or contract.valid_for_us is not None
    if bounded or request.rate is not None or request.retry is not None:
        return None
    same_bytes = machine.same_bytes and request.same_bytes
    kind = (contract.digest, request.timeout_us, request.can_probe, request.can_close, same_bytes)
    return machine.foreseen.course(kind, contract, machine.budget)


def made_of(machine: Machine, step: str) -> EffectStep:
    """An effect of which an attempt has just become durable."""
    made = machine.history.steps[step]
    assert isinstance(made, EffectStep)
    return made


def _undisturbed(machine: Machine) -> bool:
    """Whether nobody has ordered anything about the run, nor holds a contract."""
    return not (machine.heard() or machine.history.overrides or machine.holds())


def _rides(machine: Machine, request: Request, course: Course, sent_us: int, seen_us: int) -> bool:
    """`may_ride`, of what nothing bounds but its key."""
    horizon_us, for_us = machine.horizon_us, course.rides_for_us
    return horizon_us is not None and for_us is not None and request.rides and seen_us + horizon_us < sent_us + for_us
