"""Recorded steps: what a journal says about one step of a run.

Owns the facts that are kept per step. Knows nothing of the order of entries, which is the history's. Invariants: nothing here is judged; what is
listed is listed in the order in which it became durable; an effect that is unread, whose entries nobody has made yet, is for everybody who asks for one
of its facts the same as one that is read.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Protocol

from recovery.core.entries import (
    JSON,
    PATCHED,
    UNFIT,
    Answered,
    AnswerKind,
    Attempt,
    Decision,
    Intent,
    Observation,
    Override,
    Settled,
    Source,
    Verdict,
)
from recovery.core.heartbeats import Heard

_UNSPENT: Final = {
    Source.PROBE: frozenset({AnswerKind.UNREACHABLE}),
    Source.CANCEL: frozenset({AnswerKind.UNREACHABLE, AnswerKind.NOT_SENT}),
}
"""Sources of answers to a question, and the answers that spend none."""


@dataclass(slots=True)
class Noted:
    """An observation and where it stands; `seq` is None for late evidence, which is outside the chain."""

    seq: int | None
    observation: Observation

    @property
    def answer(self) -> Answered:
        return self.observation.answer


class Asking(Protocol):
    """How intents are read of which that alone was kept which changes from step to step: each with its first attempt. `pattern`: one of them."""

    pattern: Intent

    def read(self, step: str, kept: str) -> Intent: ...
    def key(self, kept: str) -> str: ...
    def is_of(self, kept: str, key: str, arguments: str) -> bool:
        """Whether it was asked for under this key with these arguments, as they are stored."""
        ...


class Giving(Protocol):
    """How settlements are read of which that alone was kept which changes from step to step: each with the reply that it rests on, and with nothing
    else to rest on."""

    pattern: Settled

    def read(self, step: str, kept: str) -> Settled: ...
    def value(self, kept: str) -> JSON: ...


@dataclass(slots=True)
class Unread:
    """The entries of one effect as what was kept of them, which was seen to be what their forms read. `given`: of its settlement."""

    step: str
    asking: Asking
    asked: str
    giving: Giving | None = None
    given: str = ""


@dataclass(slots=True)
class EffectStep:
    """What is known about one intent. Attempts and observations are in the order in which they became durable.

    unread: what all of it but `seq` and `settled_seq` is read from once it is asked for; None: it is read."""

    seq: int
    intent: Intent
    attempts: tuple[Attempt, ...] = ()
    observations: tuple[Noted, ...] = ()
    verdicts: tuple[Verdict, ...] = ()
    settled: Settled | None = None
    overrides: tuple[Override, ...] = ()
    heard: Heard = field(default_factory=Heard, compare=False)  # heartbeats of its attempts, which decide nothing
    settled_seq: int = 0  # of the entry that settles it
    unread: Unread | None = field(default=None, compare=False, repr=False)  # the last field, since to compare or copy one reads it

    @classmethod
    def of(cls, seq: int, unread: Unread) -> EffectStep:
        """An effect whose intent is entry `seq`, not read yet. Nearly every step of a long run that is replayed is never read."""
        step = cls.__new__(cls)
        step.seq, step.unread, step.settled_seq = seq, unread, 0
        return step

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            """Asked for what a slot does not hold yet."""
            if name not in _READ:
                raise AttributeError(name)
            self._read()
            return object.__getattribute__(self, name)

    def _read(self) -> None:
        unread = self.unread
        if unread is None:
            return  # by somebody else, since it was asked for
        intent = unread.asking.read(unread.step, unread.asked)
        settled = None if unread.giving is None else unread.giving.read(unread.step, unread.given)
        assert intent.attempt is not None
        self.attempts, self.observations, self.verdicts, self.overrides = (intent.attempt,), (), (), ()
        if settled is not None and settled.observation is not None:
            self.observations = (Noted(self.settled_seq, settled.observation),)
        self.heard, self.intent, self.settled = Heard(), intent, settled
        self.unread = None

    @property
    def step(self) -> str:
        unread = self.unread
        return self.intent.step if unread is None else unread.step

    @property
    def is_settled(self) -> bool:
        """Whether it has an outcome, without reading it."""
        unread = self.unread
        return self.settled is not None if unread is None else unread.giving is not None

    @property
    def effect(self) -> str:
        """The name of its intent's, without reading it."""
        unread = self.unread
        return self.intent.effect if unread is None else unread.asking.pattern.effect

    @property
    def key(self) -> str:
        """Its intent's, without reading it."""
        unread = self.unread
        return self.intent.key if unread is None else unread.asking.key(unread.asked)

    @property
    def contract(self) -> str:
        """The digest of its intent's, without reading it."""
        unread = self.unread
        return self.intent.contract if unread is None else unread.asking.pattern.contract

    @property
    def beside(self) -> bool:
        """Whether it has no place in the order of a branch."""
        return False

    @property
    def probes(self) -> int:
        """How many questions were answered (they count against the durable budget; an outage spends nothing, nor does a cancel that never
        left, nor what a person had asked)."""
        ours = [noted for noted in self.observations if not noted.observation.by_operator]
        return sum(noted.answer.kind not in _UNSPENT.get(noted.observation.source, AnswerKind) for noted in ours)

    @property
    def attempts_allowed(self) -> int:
        """How many attempts may be spent by a person's order; 0 without one."""
        return max((order.attempts or 0 for order in self.overrides), default=0)


_READ: Final = frozenset({"intent", "attempts", "observations", "verdicts", "settled", "overrides", "heard"})
"""What of an effect is read once it is asked for."""


@dataclass(slots=True)
class DecisionStep:
    seq: int
    decision: Decision

    @property
    def step(self) -> str:
        return self.decision.step

    @property
    def beside(self) -> bool:
        """Whether it has no place in the order of a branch: a replay meets it wherever it asks."""
        return self.decision.form in {PATCHED, UNFIT}


Step = EffectStep | DecisionStep
