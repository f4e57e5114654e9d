"""Exploring: the one call that searches, and what it says.

Owns the face of the explorer. Must not know files or a command line. Invariant: what is reported as a violation is a scenario that breaks the
same promise when it is played by itself.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta

from recovery.testing.exploration.bounds import Bounds
from recovery.testing.exploration.search import Progress, Search, Violation
from recovery.testing.exploration.writing import scenario_of, written
from recovery.testing.scenario import Scenario


@dataclass(frozen=True, slots=True)
class Found:
    """A broken promise: its name, what is wrong, and the text of a scenario that shows it."""

    promise: str
    problem: str
    scenario: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Explored:
    """What was explored. histories: timelines that were played; states: moments that differ; end_states: how they ended.

    complete: everything within the bounds was seen, and not only as many histories as were asked for.
    """

    histories: int
    states: int
    end_states: int
    faults: int
    recoverers: int
    switches: int
    seconds: float
    complete: bool
    violations: tuple[Found, ...]


def explore_scenario(
    scenario: Scenario,
    *,
    bounds: Bounds | None = None,
    seed: int = 0,
    histories_max: int | None = None,
    violations_max: int = 1,
    is_async: bool = False,
    progress: Progress | None = None,
) -> Explored:
    """Explore a scenario's workflow in its environment; of its timeline, only the input of the first run is used.

    Raises NotDeterministic, and ValueError for a bound below zero.
    """
    within, subject = bounds or Bounds(), _bounded(scenario)
    search = Search(
        subject, within, seed=seed, is_async=is_async, histories_max=histories_max, violations_max=violations_max, progress=progress
    )
    counts = search.go()
    return Explored(
        histories=counts.histories,
        states=counts.states,
        end_states=counts.end_states,
        faults=within.faults,
        recoverers=within.recoverers,
        switches=within.switches,
        seconds=counts.seconds,
        complete=counts.complete,
        violations=tuple(_found(subject, violation) for violation in counts.violations),
    )


def _bounded(scenario: Scenario) -> Scenario:
    """With assumption A2 enforced: who stands still inside the environment for ever would break it."""
    outside = scenario.environment
    if outside.acts_within is not None:
        return scenario
    windows = [timedelta(microseconds=effect.built().settle_window_us) for effect in outside.effects.values()]
    return (
        scenario.model_copy(update={"environment": outside.model_copy(update={"acts_within": min(windows)})})
        if windows
        else scenario
    )


def _found(subject: Scenario, violation: Violation) -> Found:
    story = f"Found by exploring: {violation.promise}, {violation.problem}"
    found = scenario_of(subject, violation.timeline, name=f"{violation.promise} is broken", story=story)
    return Found(violation.promise, violation.problem, written(found))
