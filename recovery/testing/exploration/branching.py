"""Branching: what can happen next, at a moment in which every process stands still, is dead or has ended.

Owns the choices of a search and what each costs. Must not know how they are carried out or what was seen. Invariants: the first choice is
what happens if nothing is done about it; choices are values of the scenario vocabulary, so that a path is a timeline.

Where nothing shared is used between two places, one of them is enough: a switch or a time that passes before a step that uses nothing
shared and reads no clock is the same behind it, a kill before a step that leaves nothing behind is the same as one after it, and a fault of
a write or of a request matters only before a step that makes one. So a choice says what the step that it stands before must do.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, replace
from datetime import timedelta
from enum import Enum
from functools import cache
from typing import Any, Final

from pydantic import BaseModel, TypeAdapter

from recovery.core.contracts import Contract, Replay
from recovery.definitions.effect import Effect
from recovery.ports import RunRow
from recovery.testing.exploration.bounds import FREE, Bounds
from recovery.testing.footprints import Footprint
from recovery.testing.moves import Fork, Move, Run, Word
from recovery.testing.scenario import Scenario
from recovery.testing.steps import Attempt, Decide, Fail, Gather, Perform, Return, Step, Try

WORKER: Final = "A"
RUN: Final = "run-1"

_MOVE: Final[TypeAdapter[Any]] = TypeAdapter(Move)

FAULT: Final = Bounds(1, 0)


def said(**move: Any) -> Move:
    """A move as a scenario says it."""
    made: Move = _MOVE.validate_python(move)
    return made


@cache
def _goes_on(actor: str) -> Move:
    return said(resume=actor)


@cache
def _dies(actor: str) -> Move:
    return said(kill=actor)


@cache
def _recovers(actor: str, run_id: str, wait: timedelta) -> Move:
    return said(recover=actor, id=run_id, wait=wait)


DELIVERED: Final = said(environment={"deliver": True})
CANCELLED: Final = said(order="cancel", by="canceller", reason="nobody wants it")
RESTOCKED: Final = 1000
"""Of everything that was declined: enough for whatever comes."""


class Before(Enum):
    """What the step that follows must do for a choice to make a difference."""

    ANY = "any"
    SHARED = "it uses something shared or reads a clock"
    TRACE = "it leaves something behind"
    WRITE = "it writes to the journal"
    SEND = "a request leaves"
    OUTSIDE = "it sends or asks something"
    TIMED = "it reads a clock"

    def met(self, step: Footprint, ended: bool) -> bool:
        match self:
            case Before.ANY:
                return True
            case Before.SHARED:
                return step.touched or step.timed
            case Before.TRACE:
                return step.wrote or step.sent or ended
            case Before.WRITE:
                return step.wrote
            case Before.SEND:
                return step.sent
            case Before.OUTSIDE:
                return step.outside
            case Before.TIMED:
                return step.timed


@dataclass(frozen=True, slots=True)
class Choice:
    """One thing that can happen next. rank: faults of one moment happen in this order, since their order does not matter."""

    move: Move
    cost: Bounds = FREE
    before: Before = Before.ANY
    rank: int = 0


@dataclass(frozen=True, slots=True)
class Moment:
    """What the choices depend on. active: who went on last, if it stands still. others: who stands still beside it. branches: those of its own that could
    go on, too. children: runs that the run has started and that are open. started: recoverers. said: how many words people have said. forks: the open
    runs that were made from others. ordering: those among active and others that are giving an order."""

    run: RunRow | None
    active: str | None
    others: tuple[str, ...]
    branches: tuple[int, ...]
    children: tuple[str, ...]
    started: int
    rank: int
    held: int
    declined: tuple[str, ...]
    now_us: int
    said: int
    forks: tuple[str, ...] = ()
    ordering: frozenset[str] = frozenset()


class Branching:
    """The choices of one subject: its scenario, of whose timeline nothing counts but the input of its first run and what people say, in its order."""

    def __init__(self, scenario: Scenario, effects: Collection[Effect[..., Any]]) -> None:
        self._input = next((move.input for move in scenario.timeline if isinstance(move, Run)), None)
        self._wait = scenario.lease.term * 2
        self._words = [_unasked(move) for move in scenario.timeline if isinstance(move, Word)]
        contracts = [effect.contract for effect in effects]
        timeout = max((effect.timeout for effect in effects), default=timedelta(0))
        self.settles = timeout + max((_settling(contract) for contract in contracts), default=timedelta(0))
        self._error = min((timedelta(microseconds=contract.clock_error_us) for contract in contracts), default=timedelta(0))
        self._quiet = self.settles + 2 * self._error
        self._ages = not all(_lasting(contract, 3 * self._quiet) for contract in contracts)
        self._sets_times = not isinstance(scenario.workflow, list) or not all(map(_timeless, scenario.workflow))
        self._cancels = scenario.cancels
        faults = [*self._of_requests(contracts), *self._of_writes(), *self._of_time(contracts)]
        # One of each, for all moments: that of a moment at which somebody is at work, and that of one at which nobody is.
        self._faults = [Choice(move, FAULT, before, rank) for rank, (move, before) in enumerate(faults, start=1)]
        quiet = [choice for choice in self._faults if choice.before in {Before.TIMED, Before.OUTSIDE}]
        self._quiet_faults = [replace(choice, before=Before.ANY) for choice in quiet]

    def is_silent(self, at: Moment) -> bool:
        """Whether nobody has anything left to say, and nobody is at work."""
        return at.said >= len(self._words) and at.active is None and not at.others

    def choices(self, at: Moment, left: Bounds) -> list[Choice]:
        """What can happen, the ordinary course first. Empty: this history is over."""
        found = [choice for choice in self._all(at, self._faults_at(at) if left.faults else ()) if left.pays(choice.cost)]
        return found if any(not choice.cost.faults and choice.rank == 0 for choice in found) else []

    def first(self) -> Choice:
        """A worker runs the workflow."""
        return Choice(said(run=WORKER, input=self._input))

    def _faults_at(self, at: Moment) -> Iterable[Choice]:
        return (choice for choice in (self._quiet_faults if at.active is None else self._faults) if choice.rank > at.rank)

    def _all(self, at: Moment, faults: Iterable[Choice]) -> Iterator[Choice]:
        """In order: who goes on and who says something, then what goes wrong."""
        speaks = at.rank == 0 and self._speaks(at)
        if speaks and at.active is None:
            yield Choice(self._words[at.said])
        if at.active is not None:
            yield Choice(_goes_on(at.active))
            if at.rank == 0:
                if speaks:
                    yield Choice(self._words[at.said], FREE, Before.SHARED)
                yield Choice(_dies(at.active), FAULT, Before.TRACE)
                yield from self._switches(at)
        else:
            yield from self._successors(at)
        if at.held and at.rank == 0 and (at.active is not None or at.declined):
            # What nobody asks about any more lands by itself, at the end at the latest; where it may be declined, stock may come before it.
            yield Choice(DELIVERED, FREE, Before.OUTSIDE if at.active is not None else Before.ANY)
        yield from faults
        if at.declined and at.rank == 0:
            before = Before.SEND if at.active is not None else Before.ANY
            yield Choice(said(environment={"restock": dict.fromkeys(at.declined, RESTOCKED)}), FAULT, before, 1000)
        if self._cancels and at.rank == 0 and at.run is not None and not at.run.status.settled:
            yield Choice(CANCELLED, FAULT, Before.SHARED if at.active is not None else Before.ANY, 1001)

    def _speaks(self, at: Moment) -> bool:
        """Whether the next word can be said: there is a run to say it of, and whoever says it is not still giving an order."""
        if at.said >= len(self._words) or at.run is None:
            return False
        word = self._words[at.said]
        return word.by not in {at.active, *at.others} and (isinstance(word, Fork) or not at.run.status.settled)

    def _switches(self, at: Moment) -> Iterator[Choice]:
        """Who went on last stands still, as under SIGSTOP, and another one goes on; or another one of its own branches does. Whoever gives an order
        and whoever is at work are two processes anyway: that one comes between any two steps of the other is no fault."""
        for branch in at.branches:
            yield Choice(said(resume=at.active, branch=branch), FAULT, Before.SHARED)
        for other in at.others:
            apart = other in at.ordering or at.active in at.ordering
            yield Choice(_goes_on(other), FREE if apart else FAULT, Before.SHARED)
        if at.run is not None and not at.run.status.settled:
            for run_id in (RUN, *at.children):
                yield Choice(self._recoverer(at, run_id), Bounds(1, 1), Before.SHARED)

    def _successors(self, at: Moment) -> Iterator[Choice]:
        """Nobody is at work: whoever stands still may go on, and the next recoverer may come."""
        for other in at.others:
            yield Choice(_goes_on(other))
        for fork in at.forks:
            yield Choice(self._recoverer(at, fork), Bounds(0, 1))
        if at.run is None or not at.run.status.settled:
            for run_id in (RUN, *at.children):  # anybody may recover a child by itself
                yield Choice(self._recoverer(at, run_id), Bounds(0, 1))
            if at.run is not None and at.run.next_look_us is not None and at.run.next_look_us > at.now_us and at.rank == 0:
                yield Choice(said(advance=timedelta(microseconds=at.run.next_look_us - at.now_us)), FREE, Before.ANY, 1)
            if self._ages and at.run is not None and at.rank == 0:  # that a process is gone is not noticed at once
                yield Choice(said(advance=self._quiet), FREE, Before.ANY, 2)

    def _recoverer(self, at: Moment, run_id: str = RUN) -> Move:
        name = chr(ord(WORKER) + 1 + at.started)
        return said(run=name, input=self._input) if at.run is None else _recovers(name, run_id, self._wait)

    def _of_requests(self, contracts: list[Contract]) -> Iterator[tuple[Move, Before]]:
        """A reply is lost, a request is delayed or, under a key, delivered twice; both arrive when it suits them, and within A2.

        A network that doubles requests breaks A5 where nothing tells a copy from its original, or where a refusal of one is forgotten before the
        other comes: no engine could keep I1 or I2 on it."""
        happening = [{"drop_replies": 1}, {"hold": self.settles}]
        if all(contract.keyed and contract.replay_rejection is Replay.ORIGINAL for contract in contracts):
            happening.append({"duplicate": self.settles})
        for happens in happening:
            yield said(environment=happens), Before.SEND

    def _of_writes(self) -> Iterator[tuple[Move, Before]]:
        for strikes in ({"refuse": 1}, {"lose": "repeated"}, {"lose": "unknown"}):
            yield said(journal=strikes), Before.WRITE

    def _of_time(self, contracts: list[Contract]) -> Iterator[tuple[Move, Before]]:
        """Past the moment after which no copy acts; as far as a key may still be sent again, and past its window; and a wall clock as wrong as A3 allows.

        Past a lease it passes without any fault: a recoverer waits for the lease of whoever stands still. A clock that was set stays wrong, so
        that of the moments between two readings one is enough; and between two requests, where nothing but stamps of entries is read: what is
        compared with a stamp is read behind it, and is as wrong as the clock may be if the clock is set in between."""
        error, quiet = self._error, self._quiet
        windows = [timedelta(microseconds=contract.window_us) for contract in contracts if contract.window_us is not None]
        last = timedelta(seconds=1)
        passing = {quiet, *(inside for window in windows if (inside := window - quiet - last) > quiet), *windows}
        for lasts in sorted(passing):
            yield said(advance=lasts), Before.TIMED
        if error:
            for sign in "+-":
                yield (
                    said(clock={"step": f"{sign}{error // timedelta(milliseconds=1)}ms"}),
                    Before.TIMED if self._sets_times else Before.OUTSIDE,
                )


def _timeless(step: Step) -> bool:
    """Whether a step, and what is in it, reads no clock for the workflow's own sake."""
    inside = [item for _, value in step if isinstance(value, list) for item in value]
    nested = [each for item in inside for each in (item if isinstance(item, list) else [item]) if isinstance(each, BaseModel)]
    return isinstance(step, Decide | Perform | Attempt | Try | Gather | Return | Fail) and all(map(_timeless, nested))  # type: ignore[arg-type]  # steps hold steps


def _unasked(word: Word) -> Word:
    """What somebody says, whatever comes of it."""
    return word.model_copy(update={"kill": None, "pause": None, "expect": None})


def _settling(contract: Contract) -> timedelta:
    return timedelta(microseconds=contract.settle_window_us)


def _lasting(contract: Contract, lasts: timedelta) -> bool:
    """Whether no verdict under this contract changes before so much time has passed: nothing is forgotten, and there is nothing to ask for."""
    window = contract.window_us
    remembered = contract.keyed and window is not None and timedelta(microseconds=window) > lasts
    return remembered and contract.lookup is None and contract.replay_rejection is Replay.ORIGINAL
