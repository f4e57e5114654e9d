"""The sample of a search is repeated by as many processes as searched: what differs is found in each of them, and a store that cannot be had is told in words."""

from __future__ import annotations

import pytest

from recovery import AsyncRun, Run, workflow
from recovery.storage.urls import StoreUrlError
from recovery.testing import explore
from recovery.testing.scenario import Scenario


@workflow(name="uneven")
def shorter(run: Run, given: object) -> int:
    return run.decide("one", lambda: 1)


@workflow(name="uneven")
async def longer(run: AsyncRun, given: object) -> int:
    return await run.decide("one", lambda: 1) + await run.decide("two", lambda: 0)


def subject() -> Scenario:
    return Scenario.model_validate(
        {
            "scenario": "X",
            "name": "two colours",
            "story": "The two colours of a workflow are played beside each other.",
            "workflow": {"sync": f"{__name__}:shorter", "async": f"{__name__}:longer"},
            "environment": {"stock": {"A": 1}, "effects": {"reserve": {"contract": "keyed", "window": "1d"}}},
            "timeline": [{"run": "A"}],
            "expect": {},
        }
    )


@pytest.mark.parametrize("jobs", [1, 2])
def test_colours_that_differ_are_found_by_any_number_of_processes(jobs: int) -> None:
    explored = explore(subject(), faults=1, recoverers=1, stores=("sqlite",), jobs=jobs)
    assert explored.repeated >= jobs
    assert [violation.promise for violation in explored.violations] == ["store"]
    assert "as `def` it came to" in explored.violations[0].problem


def test_a_store_that_cannot_be_had_is_told_by_who_was_asked_for_it() -> None:
    with pytest.raises(StoreUrlError, match="no store for scenarios"):
        explore(subject(), faults=1, recoverers=1, stores=("mysql://nobody",), jobs=2)
