"""Sagas, explored: whatever dies, stands still or is lost, no promise is broken, and nothing is undone over a doubt or twice."""

from __future__ import annotations

from typing import Any

import pytest

from recovery.testing import Scenario
from recovery.testing.exploration.exploring import explore

DAY = {"contract": "keyed", "window": "24h"}


def saga(done: dict[str, Any], undone: dict[str, Any], *, effects: int) -> Scenario:
    """So many effects that happen, and a failure behind them."""
    performed = [{"perform": "reserve", "with": {"sku": "A", "qty": number + 1}, "key": f"k{number}"} for number in range(effects)]
    return Scenario.model_validate(
        {
            "scenario": "explored",
            "name": "a saga, explored",
            "story": "Some effects happen, the workflow fails behind them, and they are undone.",
            "environment": {"stock": {"A": 10}, "effects": {"reserve": {**done, "compensation": undone}}},
            "workflow": [{"saga": "booking", "do": [*performed, {"fail": "on purpose"}]}],
            "timeline": [{"run": "A"}],
            "expect": {},
        }
    )


def test_no_promise_is_broken_by_an_undoing_within_a_small_bound() -> None:
    explored = explore(saga(DAY, DAY, effects=1), faults=1, recoverers=1)
    assert [found.problem for found in explored.violations] == []
    assert explored.complete
    assert explored.histories > 30


@pytest.mark.explore
@pytest.mark.parametrize(
    ("done", "undone"),
    [
        (DAY, DAY),
        (DAY, {"contract": "probeable"}),
        (DAY, {"contract": "opaque"}),
        ({"contract": "probeable", "settle_window": "5m"}, DAY),  # its copies are waited for
    ],
    ids=["keyed", "asked", "opaque", "waits"],
)
def test_no_promise_is_broken_by_two_undoings(done: dict[str, Any], undone: dict[str, Any]) -> None:
    explored = explore(saga(done, undone, effects=2), faults=1, recoverers=2)
    assert [found.problem for found in explored.violations] == []
    assert explored.complete
    assert explored.histories > 100
