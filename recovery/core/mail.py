"""Mail: what a run waits for from outside, as values.

Owns what a wait is, which message it looks at next and which place in the inbox its one answer has. Knows neither stores nor types: whether an answer
fits is asked of the definition. Invariant: of the messages for one wait the first counts, its lapse included; one that did not fit opens another place.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from recovery.core.entries import ANSWER, JSON, LAPSED, UNFIT, WAIT, Decision
from recovery.core.errors import RecoveryError
from recovery.core.history import DecisionStep, History
from recovery.core.ids import branch_of, step_id
from recovery.core.resting import RestsFor

SIGNAL: Final = "signal"
"""The kind of a message that answers one wait."""

LAPSE: Final = "lapse"
"""The kind of a message that ends one wait unanswered, so that whoever comes later is refused."""

NOTE: Final = "note"
"""The kind of a message that waits in line under its topic."""

SETTLED: Final = "settled"
"""The kind of a message that says that a child has settled."""

APPROVED_UNTIL: Final = "stands_until_us"


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """What a workflow waits for now.

    queue: the next message of a topic, else the one answer to this wait. fingerprint: of the call that is approved, "" for none.
    read: what a message says, as an answer is stored; raises RecoveryError where it does not fit. said: what else the entry tells people.
    """

    name: str
    queue: bool
    read: Callable[[Any], dict[str, JSON]]
    fingerprint: str = ""
    until_us: int | None = None
    lasts_us: int | None = None
    said: dict[str, JSON] = field(default_factory=dict)

    def wait(self, step: str, now_us: int, bound_us: int | None) -> Decision:
        """The entry. When the wait ends is written once: the sooner of what was asked for and the deadline of its scope."""
        until_us = sooner(self.until_us, bound_us, None if self.lasts_us is None else now_us + self.lasts_us)
        value = {"name": self.name, "queue": self.queue, "until_us": until_us, **self.said}
        return Decision(step=step, fingerprint=self.fingerprint, value=value, form=WAIT, at_us=now_us)

    @property
    def known_as(self) -> str:
        """For people."""
        return f"{'the next message of' if self.queue else 'the answer to'} {self.name}"

    @property
    def rests_for(self) -> RestsFor:
        return RestsFor.MESSAGE if self.queue else RestsFor.ANSWER


@dataclass(slots=True)
class Open:
    """A wait without an answer: its entry, and what the workflow asked for."""

    wait: Decision
    wanted: Wanted


@dataclass(slots=True)
class Mail:
    """What one execution has to do with its inbox.

    answers_until_us: until when this call may look for answers that have no named time; None: not at all. dry: it waits for nothing.
    waits: those that are open, by step. approved: until when the calls that were approved may be sent, by their fingerprints.
    used: until when a call may be sent that has used up its approval, by the step that performs it.
    come: the messages that were read and that nobody has taken, by their numbers. read_to: the last number that was read.
    taken: numbers that some branch has taken, perhaps not durably yet.
    """

    answers_until_us: int | None = None
    dry: bool = False
    waits: dict[str, Open] = field(default_factory=dict)
    approved: dict[str, list[int | None]] = field(default_factory=dict)
    used: dict[str, int | None] = field(default_factory=dict)
    come: dict[int, Any] = field(default_factory=dict)
    read_to: int = 0
    taken: set[int] = field(default_factory=set)

    def arrived(self, messages: Iterable[Any]) -> None:
        """These were read behind `read_to`. Each message is read once: the inbox of a run may hold thousands."""
        for message in messages:
            if message.number not in self.taken:  # two branches may read the same
                self.come[message.number] = message
            self.read_to = max(self.read_to, message.number)

    def approval_of(self, step: str, fingerprint: str) -> int | None:
        """Until when a call that is performed now may be sent by its approval, which it uses up; None: no approval says so.

        What follows on its rejection, below its step, is the same call once more: it goes by that approval, and by no other one."""
        if not self.approved and not self.used:
            return None
        if (outer := branch_of(step)) in self.used:
            return self.used[outer]
        approvals = self.approved.get(fingerprint)
        if not approvals:
            return None
        self.used[step] = approvals.pop(0)
        return self.used[step]

    def next(self, history: History, open_: Open, tried: int = 0) -> Any | None:
        """The first message that a wait has not looked at. tried: how many of them did not fit and are not recorded yet."""
        wait, wanted = open_.wait, open_.wanted
        if wanted.queue:
            until_us = wait.value["until_us"]
            line = (m for m in self.come.values() if (m.kind, m.name) == (NOTE, wanted.name) and m.number not in history.heard)
            return next((m for m in line if until_us is None or m.at_us < until_us), None)
        slot = slot_of(history, wait.step, tried)
        return next((m for m in self.come.values() if m.slot == slot and m.kind in {SIGNAL, LAPSE}), None)

    def take_in(self, history: History, open_: Open, now_us: int) -> list[Decision]:
        """The entries that messages give to a wait, in order: answers that do not fit, then the one that ends it, if it has come."""
        wait, until_us = open_.wait, open_.wait.value["until_us"]
        entries: list[Decision] = []
        while (message := self.next(history, open_, len(entries))) is not None:
            if message.kind == LAPSE or (until_us is not None and message.at_us >= until_us):
                return [*entries, lapsed(wait, now_us)]
            self.taken.add(message.number)
            del self.come[message.number]
            come = {"number": message.number, "by": message.by, "at_us": message.at_us}
            try:
                said = open_.wanted.read(message)
            except RecoveryError as error:
                step = step_id(wait.step, UNFIT, unfit(history, wait.step) + len(entries) + 1)
                value = {**come, "problem": str(error)}
                entries.append(Decision(step=step, fingerprint="", value=value, form=UNFIT, at_us=now_us))
                continue
            step = step_id(wait.step, ANSWER, 1)
            return [*entries, Decision(step=step, fingerprint="", value={**come, **said}, form=ANSWER, at_us=now_us)]
        return entries


def sooner(*moments: int | None) -> int | None:
    """The first of these; None stands for no moment at all."""
    return min((at_us for at_us in moments if at_us is not None), default=None)


def unfit(history: History, step: str) -> int:
    """How many answers to a wait did not fit."""
    number = 0
    while step_id(step, UNFIT, number + 1) in history.steps:
        number += 1
    return number


def slot_of(history: History, step: str, tried: int = 0) -> str:
    """The place in the inbox of the one answer to a wait: a new one for each answer that did not fit."""
    number = unfit(history, step) + tried
    return step if not number else f"{step}!{number + 1}"


def lapsed(wait: Decision, now_us: int) -> Decision:
    """The entry that ends a wait which nobody has answered."""
    return Decision(step=step_id(wait.step, ANSWER, 1), fingerprint="", value=wait.value["until_us"], form=LAPSED, at_us=now_us)


class Known(NamedTuple):
    """A wait as its run's journal tells it. ended: how it ended; None while it is open."""

    wait: Decision
    ended: Decision | None

    @property
    def step(self) -> str:
        return self.wait.step


def told_with(run_id: str, step: str, name: str, *, queue: bool, fingerprint: str) -> str:
    """The command that gives what is waited for."""
    about = f" --about {fingerprint[:12]}" if fingerprint else ""
    return f"recover {'send' if queue else 'signal'} {run_id} {name if queue else step} --value JSON --by WHO{about}"


def waits_in(history: History) -> list[Known]:
    """Every wait of a run, in order."""
    found = []
    for step in history.steps.values():
        if isinstance(step, DecisionStep) and step.decision.form == WAIT:
            ended = history.steps.get(step_id(step.step, ANSWER, 1))
            found.append(Known(step.decision, ended.decision if isinstance(ended, DecisionStep) else None))
    return found
