"""The search: every history within the bounds, each state gone on from once.

Owns the order of the search and what is counted. Must not know how a history is played or what a promise means. Invariants: the same
subject, bounds and seed give the same histories in the same order; a state is judged when it is first seen, and a history is stopped
where it comes to a state that was seen with as much left to do.

A stateless search: what is kept of a history is its timeline, and to branch from one of its moments the timeline is played again. The
histories with the fewest faults come first, so that the first violation is a small one.
"""

from __future__ import annotations

import heapq
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from itertools import count
from random import Random
from typing import Any

from recovery.testing.casting import Cast
from recovery.testing.exploration.bounds import Bounds
from recovery.testing.exploration.branching import Branching, Choice, said
from recovery.testing.exploration.judging import Judge
from recovery.testing.exploration.playing import Play
from recovery.testing.exploration.saying import Waits
from recovery.testing.exploration.states import Seen, State
from recovery.testing.exploration.writing import moves_of, plain
from recovery.testing.moves import Move
from recovery.testing.process import Report
from recovery.testing.scenario import Scenario
from recovery.testing.stage import Failed


@dataclass(frozen=True, slots=True)
class Violation:
    """A history that broke something: the promise's name (or "bug", "endless", "unreadable", "diverged"), what is wrong, and the moves."""

    promise: str
    problem: str
    timeline: tuple[Move, ...]


@dataclass(slots=True)
class Counts:
    """What was done so far. histories: timelines that were played. merged: those of them that ended in a state seen before."""

    histories: int = 0
    merged: int = 0
    states: int = 0
    end_states: int = 0
    waiting: int = 0
    seconds: float = 0.0
    complete: bool = False
    interrupted: bool = False
    violations: list[Violation] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Branch:
    """Where a history may be gone on from otherwise. state: the moment at which the choice is taken."""

    timeline: tuple[Move, ...]
    choice: Choice
    left: Bounds
    state: State = b""
    rank: int = 0

    def told(self) -> dict[str, Any]:
        """As plain data."""
        choice = {
            "move": plain(self.choice.move),
            "cost": [self.choice.cost.faults, self.choice.cost.recoverers],
            "rank": self.choice.rank,
        }
        left = [self.left.faults, self.left.recoverers]
        return {"timeline": plain(self.timeline), "choice": choice, "left": left, "state": self.state.hex(), "rank": self.rank}


def heard(told: dict[str, Any]) -> Branch:
    """The branch that was told."""
    choice = told["choice"]
    [move] = moves_of([choice["move"]])
    made = Choice(move, Bounds(*choice["cost"]), rank=choice["rank"])
    return Branch(moves_of(told["timeline"]), made, Bounds(*told["left"]), bytes.fromhex(told["state"]), told["rank"])


class NotDeterministic(Exception):
    """The same moves led somewhere else: the workflow or an effect reads a clock, draws at random or keeps something between runs."""

    def __init__(self, moves: int) -> None:
        self.moves = moves
        super().__init__(
            f"The same {moves} moves, played again, led to another state, so that nothing can be concluded. Code that is explored reads no clock, "
            "draws nothing at random and keeps nothing from one run to the next. Make each decision and effect a function of its arguments."
        )


Progress = Callable[[Counts], None]


class Search:
    """One exploration, on the dict, in one colour."""

    def __init__(
        self,
        scenario: Scenario,
        cast: Cast,
        bounds: Bounds,
        *,
        seed: int = 0,
        is_async: bool = False,
        histories_max: int | None = None,
        violations_max: int = 1,
        progress: Progress | None = None,
    ) -> None:
        self.counts = Counts()
        self.timelines: list[tuple[Move, ...]] = []
        self._scenario = scenario
        self._cast = cast
        self.bounds = bounds
        self.is_async = is_async
        self._histories_max = histories_max
        self.violations_max = violations_max
        self._progress = progress
        self._random = Random(seed)  # noqa: S311  # an order, not a secret
        self._branching = Branching(scenario, cast.sent)
        self._judge = Judge()
        self.waits = Waits()
        self.seen = Seen()
        self.ends: set[State] = set()
        self._frontier: list[tuple[int, float, int, Branch]] = []
        self._numbers = count()
        self._began = time.monotonic()

    def go(self, *, spent_max: int | None = None, interruptible: bool = False) -> Counts:
        """Search until everything within the bounds was seen, or as much as was asked for.

        spent_max: only histories with so many faults and recoverers. interruptible: Ctrl-C ends it, too. Raises NotDeterministic."""
        self._later(Branch((), self._branching.first(), self.bounds))
        return self._guarded(spent_max, interruptible)

    def go_on(self, branches: Iterable[dict[str, Any]]) -> Counts:
        """Search behind branches that were told, interruptibly."""
        for told in branches:
            self._later(heard(told))
        return self._guarded(None, True)

    def taken(self) -> list[Branch]:
        """The branches that are left, in order: somebody else goes on with them."""
        branches = [item[-1] for item in sorted(self._frontier, key=lambda item: item[:-1])]
        self._frontier.clear()
        self.counts.waiting = 0
        return branches

    def histories_left(self) -> int | None:
        return None if self._histories_max is None else self._histories_max - self.counts.histories

    def elapsed(self) -> float:
        """Seconds since it began."""
        return time.monotonic() - self._began

    def finished(self) -> Counts:
        """What there is, counted."""
        counts = self.counts
        counts.states, counts.end_states, counts.seconds = len(self.seen), len(self.ends), self.elapsed()
        counts.complete = not self._frontier and not counts.waiting and not counts.interrupted
        return counts

    @property
    def enough(self) -> bool:
        """Whether it stops before everything was seen."""
        counts = self.counts
        return counts.interrupted or len(counts.violations) >= self.violations_max or counts.histories == self._histories_max

    def _guarded(self, spent_max: int | None, interruptible: bool) -> Counts:
        try:
            self._all(spent_max)
        except KeyboardInterrupt:
            if not interruptible:
                raise
            self.counts.interrupted = True
        self.counts.waiting = len(self._frontier)
        return self.finished()

    def _all(self, spent_max: int | None) -> None:
        counts = self.counts
        while self._frontier and not self.enough and (spent_max is None or self._frontier[0][0] <= spent_max):
            self._history(heapq.heappop(self._frontier)[-1])
            counts.states, counts.end_states = len(self.seen), len(self.ends)
            counts.waiting, counts.seconds = len(self._frontier), self.elapsed()
            if self._progress is not None:
                self._progress(counts)

    def _history(self, branch: Branch) -> None:
        """Play one history to its end, to a state that was seen, or to a violation."""
        play = Play(self._scenario, self._cast, self.is_async)
        self.counts.histories += 1
        try:
            self._come_back(play, branch)
            self._go_on(play, branch.choice, branch.left)
        except Failed as failed:
            self._violated(play, [f"bug: {problem}" for problem in failed.problems])
        finally:
            play.stage.end()
        self.timelines.append(tuple(play.moves))

    def _come_back(self, play: Play, branch: Branch) -> None:
        """To where the history branches off. Raises NotDeterministic."""
        try:
            play.redo(branch.timeline, branch.rank)
        except Failed as elsewhere:  # a process did not pass the place at which it stood, or ended where it did not
            raise NotDeterministic(len(branch.timeline)) from elsewhere
        if branch.state and play.state(play.moment) != branch.state:
            raise NotDeterministic(len(branch.timeline))

    def _go_on(self, play: Play, choice: Choice | None, left: Bounds) -> None:
        pending: list[Branch] = []
        state: State = b""
        while choice is not None:
            left = left.less(choice.cost)
            report = self._made(play, choice, pending)
            moment = play.moment
            state = play.state(moment)
            known = state in self.seen
            if not self.seen.add(state, left):
                self.counts.merged += 1
                return
            if problems := _told(report) + ([] if known else self._judge.problems(play.stage)):
                self._violated(play, problems)
                return
            if (
                left.faults == self.bounds.faults
                and report is not None
                and report.ended is not None
                and report.ended.exit == "usage"
                and not moment.said
            ):
                raise ValueError(f"Undisturbed, the run ends: {report.ended.message}")
            if not known and self._branching.is_silent(moment):
                self.waits.note(self._judge.read, moment)
            choices = self._branching.choices(moment, left)
            choice = choices[0] if choices else None
            pending = [Branch(tuple(play.moves), other, left, state, moment.rank) for other in choices[1:]]
        if state not in self.ends:
            self.ends.add(state)
            self._end(play)
        for branch in pending:
            self._later(branch)

    def _made(self, play: Play, choice: Choice, pending: list[Branch]) -> Report | None:
        """Take a choice. What could have happened before it is kept where it makes a difference to what the step then did."""
        step, report = play.make(choice.move, choice.rank)
        ended = report is not None and report.state != "paused"
        for branch in pending:
            if step is None or branch.choice.before.met(step, ended):
                self._later(branch)
        if step is not None:
            play.rank = 0
        return report

    def _end(self, play: Play) -> None:
        """I7 and I8: a recovery without news does nothing, and one after everything has landed leaves nothing hanging."""
        for last in (None, said(advance=self._branching.settles * 2)):
            moment = play.moment
            if last is not None and not moment.held and (moment.run is None or moment.run.status.settled):
                return  # nothing will ever become known that is not
            try:
                if last is not None:
                    play.make(last, 0)
                play.stage.recover_again()
                problems = self._judge.problems(play.stage)
            except Failed as failed:
                problems = [f"bug: {problem}" for problem in failed.problems]
            if problems:
                self._violated(play, problems)
                return

    def _violated(self, play: Play, problems: list[str]) -> None:
        promise, _, problem = problems[0].partition(": ")
        self.counts.violations.append(Violation(promise, problem, tuple(play.moves)))

    def _later(self, branch: Branch) -> None:
        after = branch.left.less(branch.choice.cost)
        spent = self.bounds.faults - after.faults + self.bounds.recoverers - after.recoverers
        item = (spent, self._random.random(), next(self._numbers), branch)
        heapq.heappush(self._frontier, item)


def _told(report: Report | None) -> list[str]:
    """What is wrong with how a process ended, whatever the promises say. Code that does not change between two processes must not diverge."""
    if report is not None and report.state == "endless":
        return ["endless: a process passed more places than any that ends"]
    if report is not None and report.ended is not None and report.ended.exit in {"bug", "diverged"}:
        return [f"{report.ended.exit}: {report.ended.message}"]
    return []
