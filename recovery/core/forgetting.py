"""Forgetting: what a run's memory lets go of once a step is behind it, and how that is got back.

Owns which steps those are, and when: a run of a thousand steps is to need no more memory than its next one. Knows no store: what reads the journal is
passed in. Invariants: what is forgotten is settled, nothing speaks against it, and it is durable; whoever needs it reads it back, and never does without.
What was declared secret in it is not forgotten, since no message may ever show it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final

from recovery.core.contradictions import unopposed
from recovery.core.entries import ANSWER, NOW, PUBLISHED, RANDOM, UUID
from recovery.core.errors import RecoveryError
from recovery.core.history import DecisionStep, EffectStep, History, Step
from recovery.core.operations import Use
from recovery.core.request import Request

if TYPE_CHECKING:
    from recovery.core.machine import Machine

_ANSWERED: Final = frozenset({"", NOW, RANDOM, UUID, ANSWER, PUBLISHED})
"""Forms of decisions that nobody asks for once their step has ended. The others say how the run goes on."""

AT_HAND: Final = 256
"""Steps that are kept while a stretch is open. A saga of so many undoes without reading the journal; a longer one has at least as many undoings in front of
it as make up for that."""


@dataclass(slots=True)
class Memory:
    """What one execution has behind it.

    recall: reads the run's whole history from its journal; None: everything is kept. stretches: how many are open whose effects may be undone: some steps
    are kept for them. undoings: how many are under way: until there are none, nothing is forgotten. requests: the machine's own."""

    recall: Callable[[Any], History] | None = None
    stretches: int = 0
    undoings: int = 0
    requests: dict[str, Request] = field(default_factory=dict)
    _behind: deque[str] = field(default_factory=deque)  # steps that have ended and are not forgotten yet, in order
    _alike: dict[Any, Request] = field(default_factory=dict)  # what the requests of one effect have in common, by its definition

    def pass_by(self, step: str, history: History, durable: int) -> None:
        """A step has ended. durable: how many entries of the run are."""
        if self.recall is None:
            return
        behind, steps = self._behind, history.steps
        behind.append(step)
        while len(behind) > (AT_HAND if self.stretches else 0) and not self.undoings:
            name = behind[0]
            there = steps.get(name)
            if there is not None and (there.settled_seq if isinstance(there, EffectStep) else there.seq) > durable:
                return  # it rides
            behind.popleft()
            if there is not None and _is_past(there) and (isinstance(there, DecisionStep) or self._lets_go(name)):
                history.forget(name)

    def pass_over(self, step: str, history: History, durable: int) -> None:
        """A step has ended that was only replayed. It is durable, and its request is already what all of its effect have in common."""
        if self._behind or self.stretches or self.undoings:
            self.pass_by(step, history, durable)
        elif self.recall is not None:
            history.forget(step)

    def _lets_go(self, name: str) -> bool:
        """Keep of a request what all of its effect have in common. Whether its call can be bound again."""
        request = self.requests.get(name)
        if request is None or (definition := request.definition) is None:
            return False
        found = self._alike.get(definition)
        if found is None:
            found = self._alike[definition] = in_common(request)
        self.requests[name] = found
        return True

    def leave(self, steps: Iterable[str]) -> None:
        """These are behind the run, too, once the next step has ended: parts of steps, what was published, what was read back."""
        if self.recall is not None:
            self._behind.extend(steps)


def in_common(request: Request) -> Request:
    """What the requests of one effect have in common."""
    return replace(request, key="", fingerprint="", arguments=None, subject=None, valid_until_us=None, deadline_us=None)


def _is_past(step: Step) -> bool:
    if isinstance(step, DecisionStep):
        return step.decision.form in _ANSWERED
    if step.unread is not None:
        return step.is_settled
    settled = step.settled
    if settled is None or step.overrides or step.intent.undoes:
        return False
    observations = step.observations
    return (len(observations) == 1 and observations[0].observation is settled.observation) or unopposed(step, settled)


async def remembered(machine: Machine, steps: Iterable[str]) -> None:
    """Have these steps of the run in its history, whole. Raises Unwind where the journal cannot be read."""
    history, memory = machine.history, machine.memory
    wanted = {name for name in steps if name not in history.steps}
    if not wanted or not history.past or memory.recall is None:
        return
    try:
        found = await Use(memory.recall)
    except RecoveryError as error:
        raise machine.stop(error) from error
    back = history.recall(found, wanted)
    memory.leave(back)
