"""Rereading: a run's code read again against its journal, for the calls that it makes, and for nothing else.

Owns where that stops: at the first step that is not settled as the code asks for it now. Invariant: no operation but the clock's is asked
for, so nothing is decided, sent, asked, appended or waited for, whatever the code has become.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

from recovery.core.entries import Decision, Entry, Intent, Observation, Settled
from recovery.core.errors import RunUnsettled
from recovery.core.history import DecisionStep, EffectStep
from recovery.core.machine import Machine, Unwind
from recovery.core.mail import Mail
from recovery.core.operations import Decided, Op
from recovery.core.request import Request
from recovery.core.resting import GOES_ON, Rest


@dataclass(slots=True)
class Rereading(Machine):
    """A machine that only reads. `found`: the requests of the settled effects that the code still asks for the same way, by step."""

    straight: ClassVar[bool] = False
    found: dict[str, Request] = field(default_factory=dict)
    mail: Mail = field(default_factory=lambda: Mail(dry=True))

    @property
    def calls(self) -> dict[str, Any]:
        return {step: request.subject for step, request in self.found.items()}

    async def chosen(
        self, step: str, fingerprint: str, form: str, choose: Callable[[], Coroutine[Op[Any], Any, Decided]]
    ) -> Decision:
        if not isinstance(self.history.steps.get(step), DecisionStep):
            raise self._end()
        return await Machine.chosen(self, step, fingerprint, form, choose)

    async def append(
        self,
        step: str,  # noqa: ARG002  # one signature
        wanted: Sequence[Entry] | Callable[[int], Sequence[Entry]],
        rest: Rest = GOES_ON,  # noqa: ARG002
        *,
        rides: bool = False,  # noqa: ARG002
    ) -> None:
        """Something new would become durable: the code goes on from here as the run never did."""
        if wanted:
            raise self._end()

    async def _until(self, step: str, due_us: int) -> None:  # noqa: ARG002  # one signature
        raise self._end()

    async def settle(self, request: Request, effect: EffectStep, pending: Intent | Observation | None) -> Settled:  # noqa: ARG002
        if effect.settled is None or request.fingerprint != effect.intent.fingerprint:
            raise self._end()
        self.found[effect.step] = request
        return effect.settled

    def _end(self) -> Unwind:
        return self.stop(RunUnsettled(run_id=self.history.run_id, status="read again", reason=""))
