"""Again: a step that failed, and is done once more after a pause that is durable.

Owns the two loops that begin something new below a step: a decision that is made again, and a rejected effect that is wanted again, each time as
another logical effect with a key of its own. Knows nothing of functions or of how policies compute. Invariants: what failed, how long it is
waited and that it was waited are entries below the step, so that a replay neither counts anew nor waits anew; a step that the workflow has
gone on from does not begin again, whatever its policy says by now.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from dataclasses import replace
from functools import partial
from typing import Any, Final

from recovery.core.entries import Decision, OutcomeKind, Settled
from recovery.core.errors import RecoveryError
from recovery.core.history import DecisionStep, EffectStep, Step
from recovery.core.ids import branch_of
from recovery.core.machine import Machine
from recovery.core.operations import Decide, Decided, Draw, Now
from recovery.core.policy import Policy
from recovery.core.repeating import AGAIN
from recovery.core.request import Request

PAUSE: Final = "pause"


async def decided(machine: Machine, step: str, fingerprint: str, subject: Any, policy: Policy) -> Decision:
    """The recorded decision, or one that is made now, by a function that is called until it gives one or the policy has had enough.

    The last failure is then the decision, durable before it is returned."""
    if step in machine.history.steps:
        await _replayed(machine, step)
    return await machine.chosen(step, fingerprint, "", partial(_made, machine, step, subject, policy))


async def _made(machine: Machine, step: str, subject: Any, policy: Policy) -> Decided:
    causes, began_us = await _replayed(machine, step)
    while True:
        await machine.flush()
        made = await Decide(subject)
        if not made.error:
            return made
        now_us = await Now()
        began_us = now_us if began_us is None else began_us
        causes.append("" if made.raised is None else policy.cause_of(made.raised))
        pause_us = policy.pause_us(causes, now_us - began_us, await Draw(), made.raised)
        if pause_us is None:
            return replace(made, final=True)
        await machine.sleep(machine.begin(PAUSE, step, awaited=False), None, pause_us, causes[-1] or made.error)


async def _replayed(machine: Machine, step: str) -> tuple[list[str], int | None]:
    """The failures before each recorded pause below a step, and when the first of them was noted. The last pause may not be over yet."""
    causes: list[str] = []
    began_us = None
    while machine.steps.recorded_next(step) is not None:
        pause = machine.begin(PAUSE, step, awaited=False)
        recorded = machine.history.steps[pause]
        if isinstance(recorded, DecisionStep):
            causes.append(recorded.decision.error)
            began_us = recorded.decision.at_us if began_us is None else began_us
        await machine.sleep(pause, None, 0)
    return causes, began_us


async def performed(
    machine: Machine,
    step: str,
    policy: Policy,
    make: Callable[[str, int], Request],
    cause_of: Callable[[Settled], str],
) -> Settled:
    """The outcome of an effect, or of the last of those that followed on its rejections.

    make: the request of a step, of the first logical effect or a later one. cause_of: the class of a rejection after which the effect is wanted again;
    "" for any other outcome."""
    settled, generation = await machine.perform(step, make(step, 1)), 1
    began_us = _began_us(machine.history.steps[step])
    causes: list[str] = []
    while True:
        cause = cause_of(settled) if settled.outcome is OutcomeKind.REJECTED else ""
        causes.append(cause)
        recorded = machine.steps.recorded_next(step) is not None
        if not recorded and (not cause or _gone_on(machine, step)):
            return settled
        pause_us: int | None = 0
        if not recorded:
            pause_us = policy.pause_us(causes, await Now() - began_us, await Draw())
        if pause_us is None:
            return settled
        await machine.sleep(machine.begin(PAUSE, step, awaited=False), None, pause_us, cause)
        generation += 1
        settled = await _unless_refused(machine, step, _next(machine, step, generation, make))


async def _next(machine: Machine, step: str, generation: int, make: Callable[[str, int], Request]) -> Settled:
    again = machine.begin(AGAIN, step, awaited=False)
    settled = await machine.perform(again, make(again, generation))
    machine.memory.leave([again])
    return settled


async def _unless_refused(machine: Machine, step: str, performing: Coroutine[Any, Any, Settled]) -> Settled:
    """An error of ours leaves no record of the further effect, while its step has one: so the workflow may end with it, and begin nothing more."""
    try:
        return await performing
    except RecoveryError as error:
        machine.steps.unrecorded[branch_of(step)] = error
        raise


def _began_us(recorded: Step) -> int:
    """When an effect was first wanted, or taken over from another run."""
    return recorded.intent.at_us if isinstance(recorded, EffectStep) else recorded.decision.at_us


def _gone_on(machine: Machine, step: str) -> bool:
    """Whether the workflow went on from this step, or ended with it, when it was recorded."""
    return machine.history.ended is not None or machine.steps.recorded_next(branch_of(step)) is not None
