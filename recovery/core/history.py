"""History: the fold of a run's entries into what is known about each step.

Owns which sequences of entries are legal. Knows nothing of digests, storage or the present time. Invariant: folding is a pure
function of the entries; an illegal sequence raises IllegalHistory and is never repaired.
"""

from __future__ import annotations

from collections.abc import Iterable, Set
from dataclasses import dataclass, field, replace
from typing import Final

from recovery.core.entries import (
    ADOPTED,
    ANEW,
    ANSWER,
    AWAITED,
    BRANCHES,
    CHILD,
    JSON,
    PATCHED,
    PUBLISHED,
    TIMER,
    UNDOING,
    UNFIT,
    WAIT,
    Attempt,
    Decision,
    Entry,
    Intent,
    Observation,
    Opened,
    Override,
    Settled,
    Verb,
    Verdict,
)
from recovery.core.errors import IllegalHistory
from recovery.core.ids import ROOT, branch_of
from recovery.core.late import hear as hear
from recovery.core.moving import Places, moved
from recovery.core.recorded import DecisionStep as DecisionStep
from recovery.core.recorded import EffectStep as EffectStep
from recovery.core.recorded import Giving, Unread
from recovery.core.recorded import Noted as Noted
from recovery.core.recorded import Step as Step
from recovery.core.showing import is_plain, secrets_in, without
from recovery.core.superseding import ENDS_OF_RESTS, heard_by, still_completed, superseded

DIVERGE: Final = "diverge"
"""The action of a verdict about the whole run: its replay and its record do not fit."""


_BEGUN: Final = frozenset({ANEW, BRANCHES, TIMER, PATCHED, UNDOING, WAIT, UNFIT, PUBLISHED})
"""Forms of decisions after which no step has come to its outcome."""


@dataclass(slots=True)
class History:
    """A run as far as its journal knows it. `steps` keeps the order in which steps were first recorded.

    superseded: the steps that a restart left behind, by their own names: they stay known, and nobody judges them any more."""

    run_id: str
    opened: Opened | None = None
    steps: dict[str, Step] = field(default_factory=dict)
    ended: Settled | None = None
    ended_seq: int = 0  # of that entry
    divergence: Verdict | None = None  # while nothing but orders came after it
    overrides: list[Override] = field(default_factory=list)  # about the run itself
    completed: list[str] = field(default_factory=list)  # steps with an outcome, in the order in which they came to it
    children: dict[str, Decision] = field(default_factory=dict)  # the starts of children, by their run id
    adopted: dict[str, Decision] = field(default_factory=dict)  # the first adoption of each child's outcome, by its run id
    awaited: dict[str, Decision] = field(default_factory=dict)  # what was last said of a wait for a child, by step: no step itself
    heard: set[int] = field(default_factory=set)  # numbers of the messages that were taken in, fit or not
    unheard: int = 1  # the lowest number of a message that was not taken in
    superseded: dict[str, Step] = field(default_factory=dict)
    past: int = 0  # steps that were forgotten: they are in the journal, and nowhere here but in `completed`
    hidden: set[str] = field(default_factory=set)  # what was declared secret in those
    length: int = 0
    places: Places = field(default_factory=Places)  # what orders to change its version made of its steps

    @property
    def version(self) -> str:
        """The version of the workflow that the run goes by: the one that it started with, or that it was moved to since."""
        assert self.opened is not None
        return self.places.version or self.opened.version

    @property
    def in_order(self) -> list[str]:
        """Every recorded step in the order in which code must ask for them, with those that a change of version left room for."""
        return self.places.in_order(step for step, recorded in self.steps.items() if not recorded.beside)

    def known(self, step: str) -> Step | None:
        """A recorded step, superseded or not."""
        return self.steps.get(step) or self.superseded.get(step)

    @property
    def generation(self) -> int:
        """From 1; each restart begins another one."""
        return 1 + sum(order.verb is Verb.RESTART for order in self.overrides)

    @property
    def held(self) -> Override | None:
        """The order that holds or pauses the run, until another one lets it go on."""
        return held_by(self.overrides)

    @property
    def cancelled(self) -> Override | None:
        """The order that cancelled the run: the first one."""
        return next((order for order in self.overrides if order.verb is Verb.CANCEL), None)

    @property
    def unsettled(self) -> list[EffectStep]:
        return [step for step in self.steps.values() if isinstance(step, EffectStep) and not step.is_settled]

    @property
    def effects(self) -> list[EffectStep]:
        return [step for step in self.steps.values() if isinstance(step, EffectStep)]

    def without_secrets(self, text: str) -> str:
        """A text, such as an exception's message, with what was declared secret in any value of the run cut out of it."""
        return without(text, self.hidden | secrets_in([self.opened and self.opened.input, *map(_values, self.steps.values())]))

    def forget(self, step: str) -> None:
        """Let go of a step that is durable, and that nobody judges any more."""
        there = self.steps.pop(step)
        self.past += 1
        for value in _values(there):
            if not is_plain(value):  # almost all are
                self.hidden |= secrets_in(value)

    def recall(self, whole: History, steps: Set[str]) -> list[str]:
        """Take back some of the steps that were forgotten, in their places. whole: as the journal tells it. Which of them there are."""
        back = [name for name in whole.steps if name in steps and name not in self.steps]
        self.steps = {
            name: self.steps.get(name, step) for name, step in whole.steps.items() if name in self.steps or name in steps
        } | self.steps
        self.past -= len(back)
        return back

    def lies_in_a_step(self, path: str) -> bool:
        """Whether this is a part of an effect or a decision, such as the pause before it is tried again, and no step of a branch's own."""
        outer = branch_of(path)
        recorded = self.steps.get(outer)
        begins = isinstance(recorded, DecisionStep) and recorded.decision.form == BRANCHES
        return "#" in outer.rpartition("/")[2] and not begins

    def add(self, entry: Entry) -> None:
        """Take the next entry. Raises IllegalHistory if it cannot follow what is there."""
        self.length += 1
        if isinstance(entry, Override) and entry.step == ROOT:
            self._ordered(entry)
            return
        self.divergence = entry if isinstance(entry, Verdict) and entry.action == DIVERGE else None
        if self.divergence is not None:
            return
        if isinstance(entry, Opened):
            self._require(self.length == 1, "a run is opened by its first entry only")
            self.opened = entry
            return
        if self.opened is None:
            raise self._illegal("the first entry must open the run")
        if self.ended is not None:
            self._require(isinstance(entry, Observation | Verdict) or _acknowledges(entry), "the run has ended")
        if isinstance(entry, Intent):
            if entry.step in self.steps and not self._is_anew(entry.step):
                raise self._illegal(f"step {entry.step} is recorded twice")
            self.steps[entry.step] = effect = EffectStep(self.length, entry)
            if entry.attempt is not None:
                self._attempt(effect, entry.attempt)
        elif isinstance(entry, Decision):
            self._decided(entry)
        elif isinstance(entry, Settled) and entry.step == "":
            self._require(not self.unsettled, "the run ended with unsettled steps")
            self.ended, self.ended_seq = entry, self.length
        else:
            self._about_effect(entry)

    def add_unread(self, unread: Unread) -> None:
        """Take the next entry, an intent with its first attempt that is left unread. Raises IllegalHistory as `add` does."""
        self.length, self.divergence, step = self.length + 1, None, unread.step
        if self.opened is None or self.ended is not None:
            raise self._illegal("the run has ended" if self.opened else "the first entry must open the run")
        if step in self.steps and not self._is_anew(step):
            raise self._illegal(f"step {step} is recorded twice")
        self.steps[step] = EffectStep.of(self.length, unread)

    def settle_unread(self, step: str, giving: Giving, given: str) -> bool:
        """Take the next entry, a settlement that is left unread. False, and nothing is taken, where its step is read already or settled."""
        effect = self.steps.get(step)
        if (
            not isinstance(effect, EffectStep)
            or (unread := effect.unread) is None
            or unread.giving is not None
            or self.ended is not None
        ):
            return False
        self.length += 1
        self.divergence = None
        unread.giving, unread.given = giving, given
        effect.settled_seq = self.length
        self._complete(unread.step)
        return True

    def _decided(self, entry: Decision) -> None:
        if self._repeats_a_rest(entry):
            return
        if entry.step in self.steps:
            raise self._illegal(f"step {entry.step} is recorded twice")
        if entry.form in {CHILD, AWAITED, ADOPTED} and self._about_child(entry):
            return
        self.steps[entry.step] = DecisionStep(self.length, entry)
        if entry.form not in _BEGUN:
            self.completed.append(branch_of(entry.step) if entry.form in ENDS_OF_RESTS else entry.step)
        if entry.form in {ANSWER, UNFIT}:
            self._hear(entry.value["number"])

    def _ordered(self, order: Override) -> None:
        """Take an order about the run itself."""
        self._require(self.opened is not None, "the first entry must open the run")
        self.overrides.append(order)
        if order.message is not None:
            self._hear(order.message)
        if order.verb in (Verb.MOVE, Verb.RESTART):
            self.hidden |= secrets_in([*map(_values, self.steps.values())])  # some of them are left behind
            (self._move if order.verb is Verb.MOVE else self._restart)(order)

    def _hear(self, *numbers: int) -> None:
        self.heard.update(numbers)
        while self.unheard in self.heard:
            self.unheard += 1

    def _move(self, order: Override) -> None:
        """The run goes by another version of its code from here on, under whose names its steps are known."""
        assert not self.past, "nobody moves a run that is at work"
        self._require(self.ended is None and not self.unsettled, "only a run whose steps are all settled can change its version")
        try:
            self.steps, self.completed = moved(self.places, self.steps, self.completed, order)
        except ValueError as error:
            raise self._illegal(str(error)) from error
        self.divergence = None

    def _restart(self, order: Override) -> None:
        """Leave behind what was recorded from a step on."""
        assert not self.past, "nobody restarts a run that is at work"
        self._require(self.ended is None, "a run that has ended begins no generation")
        try:
            gone = superseded(self.steps, order.from_step)
        except ValueError as error:
            raise self._illegal(str(error)) from error
        self.superseded |= gone
        self.completed = still_completed(self.completed, gone)
        self.steps = {name: step for name, step in self.steps.items() if name not in gone}
        self.children = {run_id: start for run_id, start in self.children.items() if start.step not in gone}
        self.adopted = {run_id: end for run_id, end in self.adopted.items() if end.step not in gone}
        self.awaited = {step: said for step, said in self.awaited.items() if step in self.steps}
        self.heard -= heard_by(gone)
        self.unheard = 1
        self._hear()
        self.divergence = None

    def _is_anew(self, step: str) -> bool:
        """Whether a fork recorded that this inherited effect is to be done anew: its intent then stands in the place of that."""
        there = self.steps.get(step)
        return isinstance(there, DecisionStep) and there.decision.form == ANEW

    def _repeats_a_rest(self, entry: Decision) -> bool:
        """Whether this says once more what the run rests for, so that its row says it too. It may never say otherwise."""
        there = self.steps.get(entry.step)
        if entry.form not in {TIMER, WAIT} or not isinstance(there, DecisionStep):
            return False
        return replace(there.decision, at_us=entry.at_us) == entry

    def _about_child(self, entry: Decision) -> bool:
        """Keep what this says of a child; whether that is all, since a wait is no step: code that no longer waits has done nothing by it."""
        run_id = entry.value.get("run_id") if isinstance(entry.value, dict) else None
        if not isinstance(run_id, str):
            raise self._illegal(f"step {entry.step} names no child")
        if entry.form == AWAITED:
            self.awaited[entry.step] = entry
            return True
        if entry.form == CHILD:
            self._require(run_id not in self.children, f"child {run_id} is started twice")
            self.children[run_id] = entry
        else:
            self._require(run_id in self.children, f"the outcome of {run_id}, which is no child of this run")
            self.adopted.setdefault(run_id, entry)
        return False

    def is_diverged_by(self, verdict: Verdict) -> bool:
        """Whether this very divergence is what the journal ends with (saying it again would be no news)."""
        return self.divergence is not None and replace(self.divergence, at_us=0) == replace(verdict, at_us=0)

    def _about_effect(self, entry: Attempt | Observation | Verdict | Settled | Override) -> None:
        effect = self.steps.get(entry.step)
        if not isinstance(effect, EffectStep):
            raise self._illegal(f"step {entry.step} has no intent")
        if isinstance(entry, Settled):
            self._settle(effect, entry)
        elif isinstance(entry, Attempt):
            self._require(effect.settled is None, f"step {entry.step} is settled and cannot be attempted")
            self._attempt(effect, entry)
        elif isinstance(entry, Observation):
            self._observe(effect, entry)
        elif isinstance(entry, Verdict):
            effect.verdicts += (entry,)
        else:
            if _acknowledges(entry):
                self._require(
                    effect.settled is not None, f"step {entry.step} is not settled, so nothing can speak against its outcome"
                )
            else:
                self._require(effect.settled is None, f"step {entry.step} is settled and cannot be overridden")
            effect.overrides += (entry,)

    def _settle(self, effect: EffectStep, entry: Settled) -> None:
        if effect.settled is not None:
            raise self._illegal(f"step {entry.step} is settled twice")
        if entry.observation is not None:
            self._observe(effect, entry.observation)
        if entry.evidence:
            self._require(all(0 < seq < self.length for seq in entry.evidence), "evidence must stand earlier in the journal")
        effect.settled, effect.settled_seq = entry, self.length
        self._complete(entry.step)

    def _complete(self, step: str) -> None:
        """An effect has come to its outcome."""
        self.completed.append(step)
        outer = branch_of(step)
        if outer and self._has_come_to_an_outcome(outer):  # it was rejected, and comes to its outcome with what followed on that
            self.completed.remove(outer)
            self.completed.append(outer)

    def _has_come_to_an_outcome(self, path: str) -> bool:
        """Whether this is a completed step. Asked of what lies above each effect, which is mostly a branch: only a step is looked for among them all."""
        there = self.steps.get(path)
        begun = there is None or (isinstance(there, DecisionStep) and there.decision.form in _BEGUN)
        return not begun and path in self.completed

    def _attempt(self, effect: EffectStep, attempt: Attempt) -> None:
        if attempt.number != len(effect.attempts) + 1:
            raise self._illegal(f"attempt {attempt.number} of step {attempt.step} is out of order")
        self._require(attempt.send_until_us >= attempt.sent_at_us, "an attempt's deadline lies before its start")
        effect.attempts += (attempt,)

    def _observe(self, effect: EffectStep, observation: Observation) -> None:
        number = observation.attempt
        if number is not None and not 1 <= number <= len(effect.attempts):
            raise self._illegal(f"a reply to an attempt that was never made ({number})")
        for noted in effect.observations:
            if noted.seq is None and noted.observation == observation:  # late evidence that is now taken into the chain
                noted.seq = self.length
                return
        effect.observations += (Noted(self.length, observation),)

    def _require(self, condition: bool, problem: str) -> None:
        if not condition:
            raise self._illegal(problem)

    def _illegal(self, problem: str) -> IllegalHistory:
        return IllegalHistory(run_id=self.run_id, seq=self.length, problem=problem)


def held_by(orders: Iterable[Override]) -> Override | None:
    """The order that holds or pauses a run, behind all of these. A cancel ends a pause, since what is open is then to be settled; a hold it does not."""
    held, cancelled = None, False
    for order in orders:
        cancelled = cancelled or order.verb is Verb.CANCEL
        if order.verb is Verb.HOLD or (order.verb is Verb.PAUSE and not cancelled):
            held = order
        elif order.verb in {Verb.RELEASE, Verb.RESUME} or (
            order.verb is Verb.CANCEL and held is not None and held.verb is Verb.PAUSE
        ):
            held = None
    return held


def _values(step: Step) -> list[JSON]:
    if isinstance(step, DecisionStep):
        return [step.decision.value]
    if step.unread is not None:
        return []  # what is declared secret is read at once
    return [step.intent.arguments] + [noted.observation.answer.value for noted in step.observations]


def _acknowledges(entry: Entry) -> bool:
    """Whether this order is one about an outcome that stands: the only kind that may follow it."""
    return isinstance(entry, Override) and entry.verb is Verb.ACKNOWLEDGE


def fold(run_id: str, entries: Iterable[Entry], late: Iterable[Observation] = ()) -> History:
    """The history of a run, with late evidence. Raises IllegalHistory."""
    history = History(run_id)
    for entry in entries:
        history.add(entry)
    hear(history, late)
    return history
