"""Rehearsals: the workflow from its beginning, up to the first thing that it would do.

Owns the dry replay: recorded steps replay, and the first step that would append, send, ask or decide ends it; one that would wait ends its branch. So a step's
bound call, its scope and its contract are those of the code that would go on. Invariant: a rehearsal appends nothing and asks nobody.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

from recovery.claims import HOLDS, World
from recovery.core.entries import Decision, Entry, Intent, Observation, Settled
from recovery.core.errors import RunUnsettled
from recovery.core.history import EffectStep
from recovery.core.ids import Epoch, branch_of
from recovery.core.instants import iso
from recovery.core.judgement import conclude
from recovery.core.machine import Machine, Unwind
from recovery.core.mail import Mail
from recovery.core.operations import Decided, Execute, Now, Op, Raised, Use
from recovery.core.request import Request
from recovery.core.resting import GOES_ON, Rest
from recovery.core.rows import Action
from recovery.definitions.workflow import Workflow
from recovery.storage.reading import Loaded


@dataclass(slots=True)
class Rehearsal(Machine):
    """A machine that stops where it would act. `then`: what would follow, "" where nothing but waits for somebody or for a child. children: for whose end it
    would wait."""

    straight: ClassVar[bool] = False
    then: str = ""
    children: list[str] = field(default_factory=list)
    mail: Mail = field(default_factory=lambda: Mail(dry=True))

    def waits(self) -> str:
        """What would follow where only waits ended it; "" where none did."""
        waits = [*(each.wanted.known_as for each in self.mail.waits.values()), *(f"child {child}" for child in self.children)]
        return f"then the workflow would wait for {', '.join(waits)}" if waits else ""

    async def chosen(
        self, step: str, fingerprint: str, form: str, choose: Callable[[], Coroutine[Op[Any], Any, Decided]]
    ) -> Decision:
        if step not in self.history.steps:
            self.then = f"then the workflow would decide {step.rpartition('#')[0]!r}"
            raise self._stop(step)
        return await Machine.chosen(self, step, fingerprint, form, choose)

    async def _until(self, step: str, due_us: int) -> None:
        self.then = self.then or f"then the workflow would sleep until {iso(due_us)}"
        raise self._rests(step)

    async def settle(self, request: Request, effect: EffectStep, pending: Intent | Observation | None) -> Settled:
        if effect.settled is not None:
            return await Machine.settle(self, request, effect, pending)  # super() does not work in a slotted dataclass
        judgement = conclude(effect, self.situation(request, effect, await Now()))
        self.judgements.append((effect, judgement))
        if judgement.action is Action.DIVERGE:
            raise self.differs(effect, request)
        self.then = "then the workflow would continue from there"
        raise self._stop(effect.step)

    async def append(
        self,
        step: str,
        wanted: Sequence[Entry] | Callable[[int], Sequence[Entry]],
        rest: Rest = GOES_ON,
        *,
        rides: bool = False,
    ) -> None:
        """Nothing: what would be recorded here is late evidence, which is weighed as if it were."""

    def beyond(self, step: str, would: str, child: str = "") -> Unwind:
        if child:
            self.children.append(child)
            return self._rests(step)
        self.then = f"then the workflow would {would}"
        return self._stop(step)

    def _stop(self, step: str) -> Unwind:  # noqa: ARG002  # for whoever goes on in other branches
        """Nothing goes on any more."""
        return self.stop(RunUnsettled(run_id=self.history.run_id, status="rehearsed", reason=""))

    def _rests(self, step: str) -> Unwind:
        """This branch goes no further: others may have more to do than to wait."""
        return self.stop(RunUnsettled(run_id=self.history.run_id, status="rehearsed", reason=""), branch_of(step))


async def held_now() -> frozenset[str]:
    """The contracts that are held, by digest or name."""
    return frozenset(hold.subject for hold in await Use(HOLDS, alike=True))


async def rehearsed(world: World, loaded: Loaded, workflow: Workflow[..., Any], holds: frozenset[str] | None = None) -> Rehearsal:
    """What the workflow asks for now. holds: what is held, where that was just read. Raises ValueUnreadable where its types no longer fit the journal."""
    held = await held_now() if holds is None else holds
    machine = Rehearsal(
        history=loaded.history,
        epoch=max(loaded.run.epoch, Epoch(loaded.incarnation, 1)),
        budget=world.budget,
        deadline_us=await Now(),
        contracts=dict(loaded.contracts),
        restored=loaded.restored,
        same_bytes=loaded.history.version == workflow.version,
        holds=lambda: held,
    )
    try:
        came = await Execute(workflow, loaded.opened.input, machine, None)
        if machine.stopped is None:
            machine.then = _ended(came)
            machine.check_complete()
    except Unwind:
        pass
    except BaseExceptionGroup:  # a TaskGroup wraps the Unwind; others are raised again
        if machine.stopped is None:
            raise
    return machine


def _ended(came: object) -> str:
    if isinstance(came, Raised):
        return f"then the workflow would fail with {type(came.error).__name__}"
    return "then the workflow would return, and the run would be completed"
