"""Undoing: what a run has applied, bound to what undoes it, and the stretches of a workflow that are undone together.

Owns the compensating calls and their keys, and which stretches are open. Does no I/O; both colours use it. Invariants: a compensation is given
the settled outcome of what it undoes; its key is made for this undoing, from the original's own where that is a business key.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from recovery import codec
from recovery.core.compensating import Compensating
from recovery.core.compensation import Compensated, undo_order
from recovery.core.contracts import Kind
from recovery.core.effect_errors import KeyReused
from recovery.core.entries import OutcomeKind, Status
from recovery.core.errors import DefinitionError, ReplayError, StepInterrupted, UsageError
from recovery.core.history import EffectStep
from recovery.core.ids import KEY_LENGTH_MAX, derive_key
from recovery.core.order_errors import RunCancelled
from recovery.core.request import Request
from recovery.core.showing import shown
from recovery.core.steps import lies_in
from recovery.definitions.answer import clipped
from recovery.definitions.by_hand import by_hand
from recovery.definitions.effect import Bound, Effect

if TYPE_CHECKING:
    from recovery.core.machine import Machine

Ask = Callable[[str, Bound[Any], str | None], Request]
"""Makes the request of a call at a step, under a key of its own or a derived one."""


@dataclass(slots=True)
class Stretch:
    """A part of a workflow that is undone together. begun: how many effects the run had reached; keeps: names of those that stay; when: an
    exception leaves it, or the run is cancelled inside."""

    name: str
    branch: str
    keeps: frozenset[str]
    when: frozenset[Status] = frozenset({Status.FAILED, Status.CANCELLED})
    begun: int = 0

    def reached(self, machine: Machine) -> list[str]:
        """The effects that have been reached in it, and are to be undone with it."""
        later = list(machine.requests)[self.begun :]
        return [step for step in later if lies_in(step, self.branch) and machine.requests[step].effect not in self.keeps]

    def refuses(self, step: str, effect: Effect[..., Any]) -> bool:
        """Whether an effect must not be performed in it: it could not be undone."""
        undoable = effect.compensated_by is not None or effect.contract.kind is Kind.READ or effect.name in self.keeps
        return not undoable and lies_in(step, self.branch)


@dataclass(slots=True)
class Stretches:
    """Those that a run is in, the outermost first."""

    machine: Machine
    open: list[Stretch] = field(default_factory=list)

    def enter(self, stretch: Stretch) -> None:
        """Raises Unwind where its branch has been stopped."""
        self.machine.steps.check(stretch.branch)
        stretch.begun = len(self.machine.requests)
        self.machine.memory.stretches += 1
        self.open.append(stretch)

    def leave(self, stretch: Stretch) -> None:
        self.machine.memory.stretches -= sum(other is stretch for other in self.open)
        self.open = [other for other in self.open if other is not stretch]

    def check(self, step: str, effect: Effect[..., Any]) -> None:
        """Raises DefinitionError, before anything is sent, for an effect that the stretch around it could not undo."""
        for stretch in self.open:
            if stretch.refuses(step, effect):
                raise DefinitionError(
                    what="effect", name=effect.name, problem=f"it is performed in saga {stretch.name!r} and has no compensation",
                    advice=f"Define one with `@{effect.name}.compensation(contract)`, or say that it stays: keeps=({effect.name},).",
                )  # fmt: skip

    def is_due(self, stretch: Stretch, error: BaseException | None) -> bool:
        """Whether a stretch that is left now is to be undone. error: what leaves it. Raises Unwind where the code was wrong and nothing has
        happened, so that better code can still go on from here: whoever swallowed the error would leave effects that nobody undoes. For the same
        reason an interrupt, such as the end of an `asyncio.timeout`, lets nothing follow on a stretch in which something was applied."""
        stopped = self.machine.steps.stopped_at(stretch.branch)
        if stopped is not None:
            return isinstance(stopped.error, RunCancelled) and Status.CANCELLED in stretch.when
        if isinstance(error, UsageError | ReplayError | KeyReused):
            raise self.machine.stop(error, stretch.branch) from error
        if error is not None and not isinstance(error, Exception) and Status.FAILED in stretch.when and self._to_undo(stretch):
            about = {"run_id": self.machine.history.run_id, "step": f"saga {stretch.name}", "reason": type(error).__name__}
            self.machine.stop(StepInterrupted(**about), stretch.branch)
        return isinstance(error, Exception) and Status.FAILED in stretch.when

    def _to_undo(self, stretch: Stretch) -> bool:
        """Whether something was applied in it; of a step that was forgotten, it is believed."""
        reached, history = stretch.reached(self.machine), self.machine.history
        return any(name not in history.steps for name in reached) or bool(undo_order(history, self.machine.contracts, reached))


@dataclass(frozen=True, slots=True)
class Undoing:
    """Binds what undoes a run's effects. `ask`: as the session makes requests."""

    machine: Machine
    namespace: str
    ask_for: Ask

    async def run(self, step: str, reached: Sequence[str]) -> Compensated:
        return await Compensating(self.machine, step, self).run(reached)

    def hindrance(self, effect: EffectStep, request: Request) -> str:
        undone: Effect[..., Any] = request.definition
        if undone.compensated_by is None:
            return f"{undone.name} has no compensation"
        if _settled(effect).outcome is OutcomeKind.APPLIED_WITHOUT_VALUE and not undone.accepts_none:
            return f"{undone.name} happened and its outcome is not known, so its compensation cannot be told what to undo"
        return ""

    def name(self, request: Request) -> str:
        return _compensation(request).name

    def undo(self, step: str, effect: EffectStep, request: Request) -> Request:
        forgotten = request.subject is None
        bound: Bound[Any] = request.definition.bind(effect.intent.arguments) if forgotten else request.subject
        outcome = bound.effect.decode_value(_settled(effect).value)
        undone = bound.effect.compensate(bound, outcome)
        made = self.ask_for(step, undone, self._key(effect, undone.effect))
        return replace(made, undoes=effect.step)

    def ask(self, step: str, effect: EffectStep, problem: str, undone: str, left: str) -> Request:
        settled, intent = _settled(effect), effect.intent
        value = shown(settled.value)  # what is asked of a person tells them no secret
        bound = by_hand(step=effect.step, effect=intent.effect, key=intent.key, outcome=value)
        bound.taken()
        told = f"{settled.outcome.value.replace('_', ' ')} {codec.dumps(value)}" if value is not None else settled.outcome.value
        about = {"undoes": effect.step, "problem": problem, "outcome": clipped(told), "undone": undone, "left": left}
        return replace(self.ask_for(step, bound, None), undoes=effect.step, by_hand=about)

    def _key(self, effect: EffectStep, undo: Effect[..., Any]) -> str | None:
        """The original's own key with a word behind it, where it is a business key and its carrier takes that much; else a derived one."""
        intent = effect.intent
        key = f"{intent.key}/comp/1"
        history = self.machine.history
        derived = intent.key == derive_key(self.namespace, history.run_id, history.places.key_name(effect.step))
        fits = len(key) <= min(KEY_LENGTH_MAX, undo.contract.key_length_max)
        return key if fits and not derived else None


def _settled(effect: EffectStep) -> Any:
    assert effect.settled is not None, "only what is settled is undone"
    return effect.settled


def _compensation(request: Request) -> Effect[..., Any]:
    compensation = request.definition.compensated_by
    assert compensation is not None, "asked before whether it has one"
    return compensation  # type: ignore[no-any-return]  # a session's request is of an effect
