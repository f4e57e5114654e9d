"""Steps: what each step of a run is called, whether it may begin, and what stops whom.

Owns identities, the order of each branch's steps against its record, and the poison of doubt. Knows nothing of entries' contents. A branch
is named by its path: "" is the run's own, `gather#1/0` the first of a gather's, `left#1` one of a name; a step is its branch's path and
`name#n`. Invariants: identities do not depend on scheduling; a branch's recorded steps are a prefix of those that it begins; what stops a
branch stops every branch that it was begun from, since any of them may have learnt of it, and none of its siblings (I9).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from recovery.core.errors import ConcurrentStep, RecoveryError, StepNotAwaited
from recovery.core.exitcodes import ExitCode
from recovery.core.ids import ROOT, branch_of, check_step_name, of_generation, step_id


class Unwind(BaseException):
    """Leaves a workflow that must not go on. Not an Exception, so that `except Exception` cannot swallow doubt; the machine
    remembers it too, so that whoever swallows it all the same raises it again with the next step."""

    def __init__(self, error: RecoveryError) -> None:
        self.error = error
        super().__init__(str(error))


class OutOfOrder(Exception):
    """The replay asks for another step than the one that is recorded in this place. The machine says so as a divergence."""

    def __init__(self, step: str, at: str, attempted: str) -> None:
        """at: the step that is recorded in this place."""
        self.step, self.at, self.attempted = step, at, attempted
        super().__init__(step)


def upwards(branch: str) -> Iterator[str]:
    """The branch itself and every path above it, the run's own last."""
    while branch:
        yield branch
        branch = branch_of(branch)
    yield ROOT


def lies_in(path: str, branch: str) -> bool:
    """Whether a path is a branch, or below it."""
    return branch == ROOT or path == branch or path.startswith(f"{branch}/")


@dataclass(slots=True)
class Steps:
    """The steps of one execution.

    whole: why nothing at all may begin any more. stops: why nothing may begin in a branch, or where it was begun from.
    generation: of the run. A step that no earlier generation has recorded carries its number.
    unrecorded: why a step ended and left no entry. Its branch may end with that, but no later step may follow: its record would stand where
    a replay expects this one. latest: what began last, by branch.
    """

    run_id: str
    whole: Unwind | None = None
    generation: int = 1
    stops: dict[str, Unwind] = field(default_factory=dict)
    _gravest: dict[str, Unwind] = field(default_factory=dict)  # of the stops at or below each path: asked for at every step
    unrecorded: dict[str, RecoveryError] = field(default_factory=dict)
    latest: dict[str, str] = field(default_factory=dict)
    _recorded: dict[str, list[str]] = field(default_factory=dict)
    _positions: dict[str, int] = field(default_factory=dict)
    _occurrences: dict[tuple[str, str], int] = field(default_factory=dict)
    _under_way: dict[str, str] = field(default_factory=dict)

    @classmethod
    def of(cls, run_id: str, recorded: Iterable[str], generation: int = 1) -> Steps:
        """recorded: the steps of the history, in the order in which they were first recorded."""
        by_branch = defaultdict(list)
        for step in recorded:
            by_branch[branch_of(step)].append(step)
        return cls(run_id, generation=generation, _recorded=dict(by_branch))

    def begin(self, name: str, branch: str, *, awaited: bool = True, despite: type[RecoveryError] | None = None) -> str:
        """The identity of what begins now. awaited: it is a step, and nothing else of its branch may begin before it has ended. despite: it
        begins although its branch was stopped by an error of this kind.

        Raises Unwind, ConcurrentStep, InvalidName and OutOfOrder."""
        if self.whole is not None or self._gravest or self.unrecorded:  # almost never
            self.check(branch, despite)
        check_step_name(name)
        if branch in self._under_way:
            raise ConcurrentStep(run_id=self.run_id, step=name, other=self._under_way[branch])
        occurrence = self._occurrences.get((branch, name), 0) + 1
        step, recorded = step_id(branch, name, occurrence), self.recorded_next(branch)
        if recorded is None:
            step = of_generation(step, self.generation)
        elif recorded == step or recorded.startswith(f"{step}@"):
            step = recorded
            self._positions[branch] = self._positions.get(branch, 0) + 1
        else:
            raise OutOfOrder(step, recorded, f"step {step}")
        self._occurrences[branch, name] = occurrence
        self.latest[branch] = step
        if awaited:
            self._under_way[branch] = step
        return step

    def recorded_next(self, branch: str) -> str | None:
        """The step that the record of a branch goes on with; None where it has been replayed to its end."""
        recorded = self._recorded.get(branch)
        if recorded is None:
            return None
        position = self._positions.get(branch, 0)
        return recorded[position] if position < len(recorded) else None

    def check(self, branch: str, despite: type[RecoveryError] | None = None) -> None:
        """Raises the Unwind of whatever stops this branch, unless it is of the kind `despite`."""
        if (stopped := self.stopped_at(branch)) is not None and (despite is None or not isinstance(stopped.error, despite)):
            raise stopped
        for path, error in self.unrecorded.items():
            if lies_in(path, branch):
                raise self.stop(error, branch)

    def finish(self, branch: str) -> None:
        """The step that is under way in a branch has ended."""
        self._under_way.pop(branch, None)

    def stop(self, error: RecoveryError, branch: str | None = None) -> Unwind:
        """Let nothing begin in a branch any more, nor where it was begun from; without one, nothing at all. The first reason stays."""
        if branch is None:
            self.whole = self.whole or Unwind(error)
            return self.whole
        if self.whole is None and branch not in self.stops:
            self.stops[branch] = Unwind(error)
            for path in upwards(branch):
                self._gravest[path] = _graver(self._gravest.get(path), self.stops[branch])
        return self.whole or self.stops[branch]

    def stopped_at(self, branch: str) -> Unwind | None:
        """What stops this branch: the gravest, where there are several."""
        return self.whole or self._gravest.get(branch)

    def check_replayed(self, branch: str) -> None:
        """A branch has ended: each of its recorded steps, and of those begun from it, must have been replayed. Raises OutOfOrder."""
        for path in self._recorded:
            if lies_in(path, branch) and (missing := self.recorded_next(path)) is not None:
                raise OutOfOrder(missing, missing, f"the end of {f'branch {branch}' if branch else 'the workflow'}")

    def check_awaited(self) -> None:
        """The workflow has ended: everything that it began must have ended before. Raises Unwind."""
        for step in self._under_way.values():
            raise self.stop(StepNotAwaited(run_id=self.run_id, step=step))


def _graver(before: Unwind | None, other: Unwind) -> Unwind:
    """The first, unless the other is worse."""
    if before is None:
        return other
    codes = [before.error.exit_code, other.error.exit_code]
    return before if ExitCode.worst(codes) is codes[0] else other
