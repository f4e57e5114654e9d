"""Compensating: a run undoes what it has applied, one effect after the other.

Owns the procedure: what is undone is noted, copies are waited for, then each undoing is an effect of its own, journaled like any other. Knows
neither definitions nor drivers: whoever binds the calls is passed in. Invariants: an undoing begins when the one before it has come to its end,
and its key is never the key of what it undoes; what cannot be undone is asked of a person, and nothing follows before they have answered.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Protocol, TypeVar

from recovery.core.compensation import Compensated, acts_until_us, own_effect, undo_order, unsettled
from recovery.core.entries import UNDOING, OutcomeKind, Settled
from recovery.core.errors import ConcurrentStep
from recovery.core.forgetting import remembered
from recovery.core.history import EffectStep
from recovery.core.ids import branch_of
from recovery.core.machine import Machine
from recovery.core.operations import Now
from recovery.core.request import Request
from recovery.core.trust import weakest

T = TypeVar("T")

QUIET: Final = "quiet"
"""The name of the timer that an undoing waits for."""

BY_HAND: Final = "by-hand"
"""The name of the step that asks a person, and of its effect."""

_UNDONE: Final = frozenset({OutcomeKind.APPLIED, OutcomeKind.APPLIED_WITHOUT_VALUE})


class Undoes(Protocol):
    """Binds calls. `request` is what the workflow asked for at that step; `stuck` is what a person is told."""

    def hindrance(self, effect: EffectStep, request: Request) -> str:
        """Why this effect has no compensation that could be called, in words; "" if it has one."""
        ...

    def name(self, request: Request) -> str:
        """The name of the step that undoes it."""
        ...

    def undo(self, step: str, effect: EffectStep, request: Request) -> Request: ...
    def ask(self, step: str, effect: EffectStep, problem: str, undone: str, left: str) -> Request: ...


@dataclass(slots=True)
class Compensating:
    """One undoing under way. step: its identity; reached: the effects that it is about, in the order in which they were reached."""

    machine: Machine
    step: str
    undoes: Undoes
    _came: dict[str, list[str]] = field(init=False, default_factory=lambda: {"undone": [], "by_hand": [], "left": []})

    async def run(self, reached: Sequence[str]) -> Compensated:
        """Undo what has happened of `reached`. Raises Unwind where something is in the way: doubt, a named time, a person's word."""
        self.machine.memory.undoings += 1
        try:
            await remembered(self.machine, reached)
            return await self._run(reached)
        finally:
            self.machine.memory.undoings -= 1

    async def _run(self, reached: Sequence[str]) -> Compensated:
        history = self.machine.history
        self.machine.undo(self.step)
        if (other := unsettled(history, reached)) is not None:
            raise self.machine.stop(ConcurrentStep(run_id=history.run_id, step=self.step, other=other), branch_of(self.step))
        now_us = await Now()
        plan = self.machine.stated(self.step, UNDOING, lambda: self._plan(reached, now_us))
        if plan["quiet_at_us"] is not None:
            await self._part(QUIET, lambda step: self.machine.sleep(step, plan["quiet_at_us"] + 1, 0))
        for number, name in enumerate(plan["undoes"]):
            await self._undo(name, plan["undoes"][number + 1 :])
        return Compensated(**{how: tuple(steps) for how, steps in self._came.items()})

    def _plan(self, reached: Iterable[str], now_us: int) -> dict[str, Any]:
        """What is undone, and until when a copy of it could still act. A person who is asked is told at once, and sees to that."""
        machine = self.machine
        effects = undo_order(machine.history, machine.contracts, reached)
        ends = [self._acts_until_us(effect, now_us) for effect in effects]
        ahead = max((at_us for at_us in ends if at_us is not None and at_us >= now_us), default=None)
        cancelled = machine.history.cancelled is not None
        return {"undoes": [effect.step for effect in effects], "quiet_at_us": ahead, "cancelled": cancelled}

    def _acts_until_us(self, effect: EffectStep, now_us: int) -> int | None:
        request = self.machine.requests[effect.step]
        if self.undoes.hindrance(effect, request):
            return None
        return acts_until_us(effect, weakest(self.machine.situation(request, effect, now_us).contracts))

    async def _undo(self, name: str, left: Sequence[str]) -> None:
        """Undo one effect, by its compensation if it can, else by hand."""
        effect, request = own_effect(self.machine.history, name), self.machine.requests.get(name)
        if request is None or effect is None:
            raise self.machine.diverge(self.step, f"an undoing of {name}", f"one at which {name} has not been reached")
        problem = self.undoes.hindrance(effect, request)
        if not problem:
            settled = await self._part(
                self.undoes.name(request), lambda step: self.machine.perform(step, self.undoes.undo(step, effect, request))
            )
            if settled.outcome in _UNDONE:
                self._came["undone"].append(name)
                return
            problem = f"its compensation {settled.step} ended as {_told(settled)}"
        before = ", ".join([*self._came["undone"], *self._came["by_hand"]]) or "nothing"
        after = ", ".join(left) or "nothing"
        settled = await self._part(
            BY_HAND, lambda step: self.machine.perform(step, self.undoes.ask(step, effect, problem, before, after))
        )
        self._came["by_hand" if settled.outcome in _UNDONE else "left"].append(name)

    async def _part(self, name: str, procedure: Callable[[str], Coroutine[Any, Any, T]]) -> T:
        """A step of this undoing, from its beginning to its end."""
        step = self.machine.begin(name, self.step)
        try:
            result = await procedure(step)
        except BaseException as error:  # an interrupted step has ended, too; raised again
            self.machine.finish(step, error)
            raise
        self.machine.finish(step)
        return result


def _told(settled: Settled) -> str:
    said = settled.outcome.value.replace("_", " ")
    return f"{said} ({settled.error})" if settled.error else said
