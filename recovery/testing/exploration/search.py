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
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import count
from random import Random

from recovery.core.errors import RecoveryError
from recovery.testing.exploration.bounds import FREE, Bounds
from recovery.testing.exploration.branching import Branching, Choice, said
from recovery.testing.exploration.playing import Play
from recovery.testing.exploration.states import Seen, State
from recovery.testing.moves import Move
from recovery.testing.promises import broken
from recovery.testing.scenario import Scenario
from recovery.testing.stage import Failed


@dataclass(frozen=True, slots=True)
class Violation:
    """A history that broke something: the promise's name (or "bug", "endless", "unreadable"), what is wrong, and the moves."""

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
    violations: list[Violation] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class _Branch:
    """Where a history may be gone on from otherwise. state: the moment at which the choice is taken."""

    timeline: tuple[Move, ...]
    choice: Choice
    left: Bounds
    state: State = b""
    rank: int = 0


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
        self._bounds = bounds
        self._is_async = is_async
        self._histories_max = histories_max
        self._violations_max = violations_max
        self._progress = progress
        self._random = Random(seed)  # noqa: S311  # an order, not a secret
        self._branching = Branching(scenario)
        self._seen = Seen()
        self._ends: set[State] = set()
        self._frontier: list[tuple[int, float, int, _Branch]] = []
        self._numbers = count()

    def go(self) -> Counts:
        """Search until everything within the bounds was seen, or as much as was asked for. Raises NotDeterministic."""
        began = time.monotonic()
        self._later(_Branch((), self._branching.first(), self._bounds))
        while self._frontier and not self._enough():
            branch = heapq.heappop(self._frontier)[-1]
            self._history(branch)
            counts = self.counts
            counts.states, counts.end_states = len(self._seen), len(self._ends)
            counts.waiting, counts.seconds = len(self._frontier), time.monotonic() - began
            if self._progress is not None:
                self._progress(counts)
        self.counts.complete = not self._frontier
        return self.counts

    def _enough(self) -> bool:
        counts = self.counts
        return len(counts.violations) >= self._violations_max or counts.histories == self._histories_max

    def _history(self, branch: _Branch) -> None:
        """Play one history to its end, to a state that was seen, or to a violation."""
        play = Play(self._scenario, self._is_async)
        self.counts.histories += 1
        try:
            play.redo(branch.timeline, branch.rank)
            if branch.state and play.state(play.moment) != branch.state:
                raise NotDeterministic(len(branch.timeline))
            self._go_on(play, branch.choice, branch.left)
        finally:
            play.stage.end()
        self.timelines.append(tuple(play.moves))

    def _go_on(self, play: Play, choice: Choice | None, left: Bounds) -> None:
        pending: list[_Branch] = []
        state: State = b""
        while choice is not None:
            paid = left.less(choice.cost)
            assert paid is not None, "choices that cannot be paid are not offered"
            left = paid
            try:
                step, report = play.make(choice.move, choice.rank)
            except Failed as failed:
                self._violated(play, [f"bug: {problem}" for problem in failed.problems])
                return
            ended = report is not None and report.state != "paused"
            for branch in pending:
                if step is None or branch.choice.before.met(step, ended):
                    self._later(branch)
            if step is not None:
                play.rank = 0
            moment = play.moment
            state = play.state(moment)
            known = state in self._seen
            if not self._seen.add(state, left):
                self.counts.merged += 1
                return
            problems = [] if known else _problems(play)
            if report is not None and report.state == "endless":
                problems.insert(0, "endless: a process passed more places than any that ends")
            if report is not None and report.ended is not None and report.ended.exit == "bug":
                problems.insert(0, f"bug: {report.ended.message}")
            if problems:
                self._violated(play, problems)
                return
            choices = self._branching.choices(moment, left)
            choice = choices[0] if choices else None
            pending = [_Branch(tuple(play.moves), other, left, state, moment.rank) for other in choices[1:]]
        if state not in self._ends:
            self._ends.add(state)
            self._end(play)
        for branch in pending:
            self._later(branch)

    def _end(self, play: Play) -> None:
        """I7 and I8: a recovery without news does nothing, and one after everything has landed leaves nothing hanging."""
        for last in (None, said(advance=self._branching.settles * 2)):
            try:
                if last is not None:
                    play.make(last, 0)
                play.stage.recover_again()
                problems = _problems(play)
            except Failed as failed:
                problems = [f"bug: {problem}" for problem in failed.problems]
            if problems:
                self._violated(play, problems)
                return

    def _violated(self, play: Play, problems: list[str]) -> None:
        promise, _, problem = problems[0].partition(": ")
        self.counts.violations.append(Violation(promise, problem, tuple(play.moves)))

    def _later(self, branch: _Branch) -> None:
        after = branch.left.less(branch.choice.cost) or FREE
        spent = sum(
            (self._bounds.faults - after.faults, self._bounds.recoverers - after.recoverers, self._bounds.switches - after.switches)
        )
        item = (spent, self._random.random(), next(self._numbers), branch)
        heapq.heappush(self._frontier, item)


def _problems(play: Play) -> list[str]:
    try:
        return broken(play.stage.world(), frozenset(play.scenario.exempt))
    except RecoveryError as error:
        return [f"unreadable: the journal cannot be read, {type(error).__name__}: {error}"]
