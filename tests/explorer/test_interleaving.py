"""Branches of one `def` workflow: the explorer lets each of them go on at each place, within the bound."""

from __future__ import annotations

from datetime import timedelta

import pytest

from recovery import Call, Run, contracts, effect, workflow
from recovery.core.gathering import Gate
from recovery.testing import Exploration, explore


@effect(contracts.Keyed(window=timedelta(hours=24)))
def reserve(call: Call, *, units: int) -> int:
    raise AssertionError("a real service must not be reached")


@workflow
def beside(run: Run) -> list[str]:
    """What its branches learn is shared, in the order in which they learn it."""
    learnt: list[str] = []

    def left(branch: Run) -> None:
        branch.perform(reserve(units=1), name="left")
        learnt.append("left")

    def right(branch: Run) -> None:
        branch.perform(reserve(units=2), name="right")
        learnt.append("right")

    run.gather(left, right)
    return run.decide("in-order", lambda seen: seen, list(learnt))


exploration = Exploration(beside, effects={reserve: lambda units: units})


def test_branches_go_on_in_either_order() -> None:
    explored = explore(exploration, faults=1, recoverers=0)
    assert explored, explored.violations
    assert explored.complete


@pytest.mark.explore
@pytest.mark.parametrize("kept", [True, False])
def test_an_order_that_a_replay_does_not_keep_is_found(kept: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """The right branch learns first, which takes a change of turns; the worker dies, and whoever recovers it must learn in that order again."""
    if not kept:
        monkeypatch.setattr(Gate, "arrive", lambda gate, step: None)
    explored = explore(exploration, histories_max=1_500 if kept else 6_000, recoverers=1)
    assert [found.promise for found in explored.violations] == ([] if kept else ["diverged"])
    assert kept or "branch: 2" in explored.violations[0].scenario
