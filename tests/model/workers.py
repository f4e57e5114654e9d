"""Workers of the model: the shipped machine, carried from one answer of the outside world to the next.

Owns journals as numbers (equal journals are one number) and the stretch between two answers, in which the machine judges and appends.
Knows nothing of the environment. Invariant: nothing here decides; a stretch is `Machine.perform`, or its loop resumed with the answer
that a worker was waiting for, run on the entries that are durable. Stretches are pure, so each is run once.
"""

from __future__ import annotations

from collections.abc import Coroutine
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any, ClassVar, NamedTuple

from recovery.core.contracts import Contract
from recovery.core.entries import Answered, Attempt, Entry, Intent, Observation, Opened, Settled, Source, Verdict
from recovery.core.evidence import Situation
from recovery.core.history import EffectStep, History, fold
from recovery.core.ids import Epoch
from recovery.core.judgement import KEPT
from recovery.core.machine import Machine, Unwind
from recovery.core.operations import Append, Ask, Cancel, Close, HoldContract, Now, Op, Send, Sleep
from recovery.core.policy import Budget
from recovery.core.request import Request
from tests.model.environment import Fields

STEP = "reserve#1"
TIMEOUT = 1
OPENED = Opened(workflow="w", version="1", input=None, input_digest="d", at_us=0)
OPERATIONS_MAX = 40


class Violated(AssertionError):
    """A promise does not hold in this state."""


@dataclass(slots=True)
class Unwanted(Machine):
    """The machine in a situation that the workflow face cannot bring about yet, which is no ordinary one."""

    straight: ClassVar[bool] = False

    def situation(self, request: Request, effect: EffectStep, now_us: int) -> Situation:
        return replace(Machine.situation(self, request, effect, now_us), wanted=False)


class Flags(NamedTuple):
    """What a stretch is judged in, beside journal and time."""

    wanted: bool = True
    scope: str = "here"
    incarnation: int = 0
    claim: int = 0  # counted only where the environment looks at epochs
    upgraded: bool = False

    @property
    def epoch(self) -> Epoch:
        return Epoch(self.incarnation, self.claim)


class Stretch(NamedTuple):
    """What a worker did between two answers. rows: what was concluded on the way. ends: send, close, cancel, ask, sleep, park or settled."""

    journal: int
    ends: str
    rows: tuple[str, ...]
    attempt: Attempt | None = None
    until: int = 0
    settled: Settled | None = None
    appended: int = 0


@dataclass(frozen=True, slots=True)
class Journal:
    entries: tuple[Entry, ...]
    late: tuple[Observation, ...] = ()


class Journals:
    """Journals as numbers. What no later judgement looks at is left out, so that more states are one."""

    def __init__(self) -> None:
        self._numbers: dict[tuple[int, Any], int] = {}
        self.all: list[Journal] = [Journal((OPENED,))]
        self._known = {self.all[0]: 0}
        self._steps: dict[int, EffectStep | None] = {}

    def number(self, journal: Journal) -> int:
        number = self._known.setdefault(journal, len(self.all))
        if number == len(self.all):
            self.all.append(journal)
        return number

    def append(self, number: int, entries: tuple[Entry, ...]) -> int:
        for entry in map(_hashable, entries):
            key = (number, entry)
            if key not in self._numbers:
                self._numbers[key] = self.number(_appended(self.all[number], entry))
            number = self._numbers[key]
        return number

    def add_late(self, number: int, observation: Observation) -> int:
        journal = self.all[number]
        late = replace(observation, source=Source.LATE)
        return number if late in journal.late else self.number(replace(journal, late=(*journal.late, late)))

    def history(self, number: int) -> History:
        journal = self.all[number]
        return fold("run", journal.entries, journal.late)

    def step(self, number: int) -> EffectStep | None:
        """What the journal holds about the effect. Not to be changed."""
        if number not in self._steps:
            self._steps[number] = self.history(number).steps.get(STEP)  # type: ignore[assignment]
        return self._steps[number]

    def prefixes(self, number: int) -> list[int]:
        """The journals that an older backup may hold. Late evidence is lost with it."""
        entries = self.all[number].entries
        return [self.number(Journal(entries[:length])) for length in range(1, len(entries))]


def _hashable(entry: Entry) -> Entry:
    reconstructed = isinstance(entry, Settled) and type(entry.value) is dict
    return replace(entry, value=Fields(entry.value)) if reconstructed else entry  # type: ignore[arg-type, call-arg]


def _appended(journal: Journal, entry: Entry) -> Journal:
    entries = journal.entries
    if isinstance(entry, Verdict):
        entry = replace(entry, at_us=0, assumptions=())
        if entry.action != "keep":
            entries = tuple(kept for kept in entries if not isinstance(kept, Verdict))
    return replace(journal, entries=(*entries, entry))


class Workers:
    """All workers of one setting: they differ only in what they know."""

    def __init__(
        self, contracts: tuple[Contract, ...], budget: Budget, *, can_probe: bool, can_close: bool, can_cancel: bool = False
    ) -> None:
        self.journals = Journals()
        self.contracts = contracts
        self.budget = budget
        self.can_probe = can_probe
        self.can_close = can_close
        self.can_cancel = can_cancel
        self._stretches: dict[tuple[int, Observation | None, int, Flags], Stretch] = {}

    def stretch(self, journal: int, pending: Observation | None, now: int, flags: Flags) -> Stretch:
        key = (journal, pending, now, flags)
        if key not in self._stretches:
            self._stretches[key] = self._run(journal, pending, now, flags)
        return self._stretches[key]

    def _run(self, journal: int, pending: Observation | None, now: int, flags: Flags) -> Stretch:
        machine = self._machine(journal, flags)
        request = self._request(flags)
        effect = machine.history.steps.get(STEP)
        if pending is None:
            procedure = machine.perform(STEP, request)
        else:
            assert isinstance(effect, EffectStep)
            procedure = machine.settle(request, effect, pending)
        try:
            return self._drive(machine, procedure, journal, now)
        except Unwind:
            return self._parked(machine)
        finally:
            procedure.close()

    def _machine(self, journal: int, flags: Flags) -> Machine:
        return (Machine if flags.wanted else Unwanted)(
            history=self.journals.history(journal),
            epoch=flags.epoch,
            budget=self.budget,
            deadline_us=None,
            contracts={self.contracts[0].digest: self.contracts[0]},
            restored=flags.incarnation > 0,
            same_bytes=not flags.upgraded,
        )

    def _request(self, flags: Flags) -> Request:
        return Request(
            effect="reserve", environment="inventory", scope=flags.scope, key="k", fingerprint="f", arguments=_ARGUMENTS,
            contract=self.contracts[-1], timeout_us=TIMEOUT, can_probe=self.can_probe, can_close=self.can_close, subject=None,
            can_cancel=self.can_cancel,
        )  # fmt: skip

    def _drive(self, machine: Machine, procedure: Coroutine[Op[Any], Any, Settled], journal: int, now: int) -> Stretch:
        feed: Any = None
        self._at, self._appends = journal, 0
        for _ in range(OPERATIONS_MAX):
            try:
                operation = procedure.send(feed)
            except StopIteration as stop:
                return self._ended(machine, "settled", settled=stop.value)
            feed = now if isinstance(operation, Now) else None
            if isinstance(operation, Append):
                self._at = self.journals.append(self._at, tuple(self._pinned(entry) for entry in operation.entries))
                self._appends += len(operation.entries)
            elif not isinstance(operation, Now | HoldContract):
                return self._asked(machine, operation, now)
        raise Violated("I8: the machine goes on and on without asking anything of the world")

    def _pinned(self, entry: Entry) -> Entry:
        """An intent is written under the first contract, whatever later code says."""
        return replace(entry, contract=self.contracts[0].digest) if isinstance(entry, Intent) else entry

    def _asked(self, machine: Machine, operation: Op[Any], now: int) -> Stretch:
        step = self.journals.step(self._at)
        match operation:
            case Send(attempt=attempt) | Close(attempt=attempt) | Cancel(attempt=attempt):
                if step is None or not step.attempts or step.attempts[-1] != attempt:
                    raise Violated(f"I4: attempt {attempt.number} leaves, and is not durable")
                ends = {Close: "close", Cancel: "cancel"}.get(type(operation), "send")
                return self._ended(machine, ends, attempt=attempt, until=attempt.send_until_us)
            case Ask():
                return self._ended(machine, "ask", until=now + TIMEOUT)
            case Sleep(until_us=until):
                if until <= now:
                    raise Violated(f"I8: waits at {now} for {until}, which is over")
                return self._ended(machine, "sleep", until=until)
        raise AssertionError(operation)

    def _parked(self, machine: Machine) -> Stretch:
        return self._ended(machine, "park")

    def _ended(self, machine: Machine, ends: str, **more: Any) -> Stretch:
        rows = tuple((KEPT if judgement is None else judgement.row).name for _, judgement in machine.judgements)
        return Stretch(journal=self._at, ends=ends, rows=rows, appended=self._appends, **more)


_ARGUMENTS = Fields(units=2)


def observation(answer: Answered, source: Source, asked: int, observed: int, attempt: int | None, incarnation: int) -> Observation:
    """As the machine writes it when its worker is answered."""
    return Observation(step=STEP, source=source, asked_at_us=asked, observed_at_us=observed, answer=answer, attempt=attempt,
                       epoch=f"{incarnation}.0")  # fmt: skip


def budget_of(attempts: int, probes: int) -> Budget:
    return Budget(attempts=attempts, probes=probes, backoff=timedelta(microseconds=1), backoff_max=timedelta(microseconds=2))
