"""The default bound, for every class of contract: as much of it as a minute has room for. `make explore` runs these."""

from __future__ import annotations

from pathlib import Path

import pytest

from recovery.testing import explore
from recovery.testing.loading import load
from tests.explorer.subjects import CONTRACTS, subject

SCENARIOS = Path(__file__).parents[2] / "scenarios"

pytestmark = pytest.mark.explore

SAMPLE = 300
"""Histories of each class, the ones with the fewest faults first."""


@pytest.mark.parametrize("contract", CONTRACTS)
def test_no_promise_is_broken_within_the_default_bound(contract: str, empty_postgres_url: str) -> None:
    """And a sample of the histories comes to the same journals on SQLite, on PostgreSQL and in the other colour."""
    explored = explore(subject(contract, effects=1), histories_max=SAMPLE, stores=["sqlite", empty_postgres_url])
    assert explored, explored.violations[0].scenario
    assert explored.histories == SAMPLE
    assert explored.repeated >= 20
    assert explored.colours == ("sync", "async")


@pytest.mark.parametrize("contract", CONTRACTS)
def test_a_run_may_be_cancelled_at_every_moment(contract: str) -> None:
    explored = explore(subject(contract, effects=1), histories_max=SAMPLE, cancels=True)
    assert explored, explored.violations[0].scenario
    assert explored.histories == SAMPLE


@pytest.mark.parametrize("name", ["canonical", "w02-branches", "w06-effect-wait-effect", "w07-child", "s30-compensation-half-way"])
def test_a_scenario_s_run_may_be_cancelled_at_every_moment(name: str) -> None:
    [scenario, *_] = load(SCENARIOS / f"{name}.yaml")
    explored = explore(scenario, faults=1, recoverers=1, cancels=True)
    assert explored, explored.violations[0].scenario
    assert explored.complete
