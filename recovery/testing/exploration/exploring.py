"""Exploring: the one call that searches, and what it says.

Owns the face of the explorer. Must not know files or a command line. Invariant: what is reported as a violation of a promise is a scenario
that breaks the same promise when it is played by itself.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any, Generic, ParamSpec, TypeVar

from recovery.core.policy import Budget, Lease
from recovery.definitions.effect import Effect
from recovery.definitions.workflow import Workflow
from recovery.storage import open_journal
from recovery.testing.casting import Cast, coloured_cast, contracted
from recovery.testing.contracted import ContractedEnvironment
from recovery.testing.exploration.bounds import Bounds
from recovery.testing.exploration.naming import found_by_name, name_of
from recovery.testing.exploration.repeating import sampled
from recovery.testing.exploration.search import Counts, Progress, Search, Violation
from recovery.testing.exploration.sharing import differing, shared
from recovery.testing.exploration.shrinking import shrunk
from recovery.testing.exploration.writing import duration_text, expecting_no_divergence, plain, scenario_of, written
from recovery.testing.moves import Move, Word
from recovery.testing.promises import PROMISES
from recovery.testing.replay import COLOURS, has_colour
from recovery.testing.scenario import Scenario
from recovery.testing.scripted import ScriptedEnvironment
from recovery.testing.stage import Stage

P = ParamSpec("P")
R = TypeVar("R")

_SIGNS = {"bug": "Traceback", "diverged": "diverged", "endless": "never ended", "unreadable": "the journal cannot be read"}
"""What a play says where no promise has a name for it."""

FAULTS_DEFAULT = Bounds().faults
RECOVERERS_DEFAULT = Bounds().recoverers


@dataclass(frozen=True, slots=True)
class Found:
    """Something broken. promise: its name, such as "I1"; or "bug", "endless", "unreadable", "diverged", or "store" where two stores, or the two colours, differ. problem: what is
    wrong. scenario: the text of the smallest history that shows it; `recover replay` plays it. moves: how long that is."""

    promise: str
    problem: str
    scenario: str
    moves: int

    @property
    def title(self) -> str:
        """What is the matter, in a word or two."""
        return _title(self.promise)


@dataclass(frozen=True, slots=True, kw_only=True)
class Explored:
    """What was explored.

    histories: timelines that were played, no two alike; merged: those of them that came to a state which was seen before, and were not gone on
    with. states: moments that differ; end_states: those in which nobody has anything left to do. seconds: of real time. repeated: histories
    that were played again on each of `stores`, and in both `colours` where the subject has both. complete: everything within the bounds was seen. interrupted: Ctrl-C ended it, and
    this is what was found until then. unanswered: what the run waits for from outside and nobody said in any history: what comes behind it was not played.
    """

    histories: int
    merged: int
    states: int
    end_states: int
    faults: int
    recoverers: int
    seconds: float
    complete: bool
    interrupted: bool
    promises: tuple[str, ...]
    repeated: int
    stores: tuple[str, ...]
    colours: tuple[str, ...]
    violations: tuple[Found, ...]
    unanswered: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        """Whether nothing was violated."""
        return not self.violations


class Exploration(Generic[P, R]):
    """A workflow, its input, and what acts in the place of real services: what `recover explore module:name` explores.

    effects: by effect, a function of its arguments, or AS_IT_STANDS; or a `ScriptedEnvironment`. None: each effect that the workflow's code names
    is acted by its contract, and gives examples of what it returns. says: what people say to the run, at any moment and in this order, made by `answers`,
    `sends`, `orders`, `restarts` and `forks`; others go on between any two places of an order. budget and lease: of every engine.
    Raises ValueNotStorable for an input that cannot be stored, NotCast for an effect of whose value no example can be made.
    """

    def __init__(
        self,
        workflow: Workflow[P, R],
        /,
        *args: Any,
        effects: Mapping[Effect[..., Any], Callable[..., Any]] | ScriptedEnvironment | None = None,
        says: Sequence[Word] = (),
        budget: Budget | None = None,
        lease: Lease | None = None,
    ) -> None:
        self.workflow = workflow
        self.says = tuple(says)
        self.input = workflow.bind(*args)  # type: ignore[call-arg]  # checked by the workflow itself, which says what is wrong
        if effects is None:
            self.environment: ScriptedEnvironment = contracted(workflow)
        else:
            self.environment = effects if isinstance(effects, ScriptedEnvironment) else ScriptedEnvironment(effects)
        self.budget = budget or Budget()
        self.lease = lease or Lease()

    @classmethod
    def given(cls, workflow: Workflow[P, R], arguments: Mapping[str, Any]) -> Exploration[P, R]:
        """A workflow by its contracts alone, with its arguments by name, as plain JSON. Raises ValueNotStorable for what does not fit, NotCast."""
        stored = workflow.signature.parse(arguments)
        made = cls.__new__(cls)
        made.workflow, made.input, made.environment = workflow, stored, contracted(workflow)
        made.says, made.budget, made.lease = (), Budget(), Lease()
        return made

    def scenario(self) -> Scenario:
        """As a scenario, with the names under which its modules have it. Where they have none, it can be explored and not replayed."""
        wait = self.budget.max_wait
        colour = "async" if self.workflow.is_async else "sync"
        acting = [self.workflow] if isinstance(self.environment, ContractedEnvironment) else []  # it can be made of that alone
        budget = {"attempts": self.budget.attempts, "probes": self.budget.probes}
        return Scenario.model_validate(
            {
                "scenario": "explored",
                "name": f"{self.workflow.name}, explored",
                "story": f"The workflow {self.workflow.name}, with its effects acted by {'their contracts' if acting else 'scripts'}.",
                "environment": {"scripted": name_of(self, self.environment, *acting, near=self.workflow.fn)},
                "workflow": {colour: name_of(self.workflow, self, near=self.workflow.fn)},
                "timeline": [{"run": "A", "input": self.input}, *plain(self.says)],
                "lease": {"term": duration_text(self.lease.term)},
                "budget": budget | ({} if wait is None else {"max_wait": duration_text(wait)}),
                "expect": {},
            }
        )

    def cast(self) -> Cast:
        return Cast(self.environment.effects, self.environment, self.workflow)


def explore(
    workflow: Workflow[P, R] | Exploration[P, R] | Scenario,
    /,
    *args: Any,
    effects: Mapping[Effect[..., Any], Callable[..., Any]] | ScriptedEnvironment | None = None,
    says: Sequence[Word] = (),
    faults: int = FAULTS_DEFAULT,
    recoverers: int = RECOVERERS_DEFAULT,
    seed: int = 0,
    histories_max: int | None = None,
    violations_max: int = 1,
    stores: Sequence[str] = (),
    is_async: bool = False,
    jobs: int = 1,
    progress: Progress | None = None,
    interruptible: bool = False,
    cancels: bool = False,
) -> Explored:
    """Play every history of a workflow within bounds, and look in every state whether the promises I1 to I10 hold.

    workflow: with its arguments behind it, `effects` that say what each effect comes to, and what people say, as an Exploration has them; or an Exploration; or a Scenario, of whose
    timeline only the input of the first run is used, and what people say, which then comes at any moment, in its order. faults: kills, pauses, lost and doubled messages, steps of time, all together, in one
    history. recoverers: how many processes may take the run up. seed: picks the order, and with histories_max, which stops the search, the
    sample. violations_max: after how many of them it stops, too. stores: "sqlite" or PostgreSQL URLs on which a sample of the histories is
    repeated. jobs: how many processes search, where the subject can be imported by name. is_async: of a Scenario, its `async def` form.
    cancels: somebody may also cancel the run, at every moment, which counts as a fault.

    Raises NotDeterministic where the same history comes to two ends, TypeError and ValueError for what cannot be explored.
    """
    bounds = Bounds(faults, recoverers)
    if isinstance(workflow, Workflow):
        workflow = Exploration(workflow, *args, effects=effects, says=says)
    if isinstance(workflow, Exploration):
        subject, cast, is_async = workflow.scenario(), workflow.cast(), workflow.workflow.is_async
    else:
        subject, cast = workflow, coloured_cast(workflow, is_async)
    subject = _settling(subject.model_copy(update={"cancels": cancels or subject.cancels}), cast)
    search = Search(
        subject,
        cast,
        bounds,
        seed=seed,
        is_async=is_async,
        histories_max=histories_max,
        violations_max=violations_max,
        progress=progress,
    )
    jobs = jobs if found_by_name(written(subject)) else 1
    counts = search.go(spent_max=max(0, faults - 1) if jobs > 1 else None, interruptible=interruptible)
    if counts.waiting and not search.enough:
        shared(search, subject, jobs, seed, progress)
        counts = search.finished()
    again = sampled(search.timelines, seed, counts.histories) if stores and not counts.violations and not counts.interrupted else []
    other = coloured_cast(subject, not is_async) if again and has_colour(subject, COLOURS[not is_async]) else None
    differences = differing(subject, cast, is_async, other, again, stores, jobs)[:violations_max]
    broken = [*counts.violations, *(Violation("store", item.problem, item.timeline) for item in differences)]
    colours = tuple(COLOURS[one] for one in ((is_async,) if other is None else (False, True)))
    explored = _explored(
        counts, bounds, len(again), stores, colours, [_told(subject, cast, is_async, violation) for violation in broken]
    )
    return replace(explored, unanswered=search.waits.unanswered)


def _explored(
    counts: Counts, bounds: Bounds, again: int, stores: Sequence[str], colours: tuple[str, ...], violations: list[Found]
) -> Explored:
    return Explored(
        histories=counts.histories,
        merged=counts.merged,
        states=counts.states,
        end_states=counts.end_states,
        faults=bounds.faults,
        recoverers=bounds.recoverers,
        seconds=counts.seconds,
        complete=counts.complete,
        interrupted=counts.interrupted,
        promises=tuple(PROMISES),
        repeated=again,
        stores=tuple(stores),
        colours=colours,
        violations=tuple(violations),
    )


def _settling(subject: Scenario, cast: Cast) -> Scenario:
    """With assumption A2 enforced: whoever stands still inside the environment for ever would break it."""
    outside = subject.environment
    windows = [timedelta(microseconds=effect.contract.settle_window_us) for effect in cast.sent]
    if outside.acts_within is not None or not windows:
        return subject
    return subject.model_copy(update={"environment": outside.model_copy(update={"acts_within": min(windows)})})


def _title(promise: str) -> str:
    return f"{promise} is broken" if promise in PROMISES else promise


def _told(subject: Scenario, cast: Cast, is_async: bool, violation: Violation) -> Found:
    """The violation with its smallest history. One that only a store shows is not shrunk: in memory it holds."""
    story = f"Found by exploring. {violation.promise}: {violation.problem.partition(chr(10))[0]}"

    sign = _SIGNS.get(violation.promise, f": {violation.promise}: ")

    def alone(timeline: tuple[Move, ...]) -> Scenario:
        timeline = expecting_no_divergence(timeline) if violation.promise == "diverged" else timeline
        return scenario_of(subject, timeline, name=_title(violation.promise), story=story)

    def breaks(timeline: tuple[Move, ...]) -> bool:
        if not timeline:
            return False
        stage = Stage(alone(timeline), open_journal("memory://"), is_async=is_async, cast=cast)
        return any(sign in problem for problem in stage.play())

    timeline = violation.timeline
    if violation.promise != "store" and breaks(timeline):
        timeline = shrunk(timeline, breaks)
    return Found(violation.promise, violation.problem, written(alone(timeline)), len(timeline))
