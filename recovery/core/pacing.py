"""Pacing: an attempt waits until the rate of its environment lets it be made.

Owns when that is asked, and what is durable of the wait. Knows nothing of how takers are counted. Invariants: what is made durable of an attempt, its deadline and
its first byte come behind the wait; after a wait the step is judged anew, so that whatever ran out meanwhile counts; without a passed named time nothing is
taken, and nothing appended, by who looks again (I7).
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Final

from recovery.core.effect_errors import Unresolved
from recovery.core.entries import Entry, Intent, Observation, Status, Verdict
from recovery.core.history import EffectStep
from recovery.core.ids import branch_of
from recovery.core.instants import iso
from recovery.core.judgement import Judgement
from recovery.core.operations import Sleep, Use
from recovery.core.orders import ordered
from recovery.core.request import Request
from recovery.core.resting import Rest, RestsFor
from recovery.core.rows import Action
from recovery.core.steps import Unwind

if TYPE_CHECKING:
    from recovery.core.machine import Machine

RATE_LIMITED: Final = "rate-limited"
"""Why an attempt waits that the table would make now. Recorded as a verdict of that row, put off."""


_ATTEMPTS: Final = frozenset({Action.SEND, Action.RESEND, Action.CLOSE})


def subject_of(request: Request) -> str:
    """What attempts are counted under: all those of one environment and scope, whatever the effect."""
    return f"environment:{request.environment}/{request.scope}"


def concerns(judgement: Judgement) -> bool:
    """Whether an attempt is to be made: what a rate counts."""
    return judgement.cancels or judgement.action in _ATTEMPTS


async def let_out(
    machine: Machine, request: Request, effect: EffectStep, judgement: Judgement, pending: Intent | Observation | None
) -> bool:
    """Take one of the rate, or wait until it may be asked again. Whether the attempt may be made. Raises Unwind where the wait is beyond what this
    call may wait for: the run is due then."""
    assert request.rate is not None
    again_us = _put_off_until(effect)
    if again_us is None or again_us <= judgement.at_us:
        subject, rate, now_us = subject_of(request), request.rate, judgement.at_us
        again_us = await Use(lambda journal: journal.take(subject, rate, now_us))
    if again_us is None:
        return True
    for until_us in (effect.intent.valid_until_us, effect.intent.attempts_until_us):
        if until_us is not None and until_us > judgement.at_us:  # what may not leave any more then is not waited for longer
            again_us = min(again_us, until_us)
    if machine.deadline_us is not None and again_us > machine.deadline_us:
        raise await _left(machine, request, effect, judgement, pending, again_us)
    await machine.flush()
    await Sleep(again_us, f"{effect.step}: {RATE_LIMITED}", partial(ordered, machine))
    return False


async def _left(
    machine: Machine,
    request: Request,
    effect: EffectStep,
    judgement: Judgement,
    pending: Intent | Observation | None,
    again_us: int,
) -> Unwind:
    """Leave the run to a later look. What is noted once is not noted again."""
    step, rest = effect.step, Rest(Status.WAITING, again_us, RATE_LIMITED, RestsFor.TIME)
    entries: list[Entry] = [pending] if pending else []
    if entries or _put_off_until(effect) != again_us or machine.understated(branch_of(step), rest, judgement.at_us):
        entries.append(_put_off(judgement, again_us))
    await machine.append(step, entries, rest)
    about = {"run_id": machine.history.run_id, "step": step, "effect": request.effect, "key": effect.intent.key}
    return machine.stop(Unresolved(**about, reason=RATE_LIMITED, next_look=iso(again_us)), branch_of(step))


def _put_off(judgement: Judgement, again_us: int) -> Verdict:
    return replace(judgement.recorded(), action=Action.WAIT.value, reason=RATE_LIMITED, next_look_us=again_us)


def _put_off_until(effect: EffectStep) -> int | None:
    last = effect.verdicts[-1] if effect.verdicts else None
    return last.next_look_us if last is not None and last.reason == RATE_LIMITED else None
