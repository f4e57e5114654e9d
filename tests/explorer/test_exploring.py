"""The explorer: what it reaches, what it finds, and that what it finds is true."""

from __future__ import annotations

from typing import Any

import pytest

from recovery.core import evidence
from recovery.core.facts import Absence
from recovery.drivers.asynchronous import AsyncDriver
from recovery.testing.exploration.exploring import explore
from tests.explorer.subjects import CONTRACTS, subject
from tests.scenarios.playing import played, written

SMALL: Any = {"faults": 1, "recoverers": 1}


@pytest.mark.parametrize("contract", CONTRACTS)
def test_no_promise_is_broken_within_a_small_bound(contract: str) -> None:
    explored = explore(subject(contract, effects=1), **SMALL)
    assert [found.problem for found in explored.violations] == []
    assert explored.complete
    assert explored.histories > 30
    assert explored.states > explored.histories


def test_nor_where_outcomes_ride() -> None:
    """Fewer places to die at, and no history that a strict engine does not have."""
    explored = explore(subject("keyed").model_copy(update={"riding": True}), **SMALL)
    assert [found.problem for found in explored.violations] == []
    assert explored.complete
    assert explored.histories > 60


def test_a_sample_comes_to_the_same_journal_on_postgresql(empty_postgres_url: str) -> None:
    explored = explore(subject("keyed", effects=1), stores=["sqlite", empty_postgres_url], histories_max=25)
    assert explored, explored.violations[0].problem
    assert explored.repeated == 20


def test_a_history_that_comes_to_something_else_in_the_other_colour_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """An async driver that dawdles before each request."""
    calls = AsyncDriver._call

    async def dawdling(self: Any, ask: Any, is_async: bool, seconds: float | None) -> Any:
        self.surroundings.clock.skip(1.0)
        return await calls(self, ask, is_async, seconds)

    assert explore(subject("keyed", effects=1), faults=0, stores=["sqlite"]).colours == ("sync", "async")
    monkeypatch.setattr(AsyncDriver, "_call", dawdling)
    [found] = explore(subject("keyed", effects=1), faults=0, stores=["sqlite"]).violations
    assert found.promise == "store"
    assert "as `def` it came to" in found.problem


def test_the_async_colour_is_explored_alike() -> None:
    one, two = (explore(subject("keyed", effects=1), faults=1, recoverers=1, is_async=is_async) for is_async in (False, True))
    assert (one.histories, one.states, one.end_states) == (two.histories, two.states, two.end_states)


def test_the_same_seed_explores_the_same() -> None:
    one, two = (explore(subject("probeable", effects=1), **SMALL, seed=3, histories_max=25) for _ in range(2))
    assert (one.histories, one.states, one.end_states) == (two.histories, two.states, two.end_states)
    assert not one.complete


def test_what_is_found_is_a_scenario_that_fails_by_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    """An early absence is taken for proof: the second attempt begins while the first may still act."""
    weigh_absence = evidence._Weighing.absence

    def rash(self: Any, *given: Any) -> Absence:
        found = weigh_absence(self, *given)
        return found if found is Absence.NONE else Absence.ENFORCED

    monkeypatch.setattr(evidence._Weighing, "absence", rash)
    [found] = explore(subject("probeable", effects=1)).violations
    assert found.promise == "I1"
    again = played(written(found.scenario))
    assert any(f"I1: {found.problem}" in problem for problem in again.problems)


def test_a_run_is_cancelled_at_every_moment_of_it_and_no_promise_is_broken() -> None:
    explored = explore(subject("keyed", effects=1), faults=1, recoverers=1, cancels=True)
    assert explored, explored.violations[0].scenario
    without = explore(subject("keyed", effects=1), faults=1, recoverers=1)
    assert explored.complete
    assert explored.histories > without.histories
