"""`crash_at`: a death in process, for tests without scenarios."""

from __future__ import annotations

from datetime import timedelta

import pytest

from recovery import Engine, Run, contracts, workflow
from recovery.testing import ManualClock, SimulatedEnvironment, connected, crash_at, reserving

take = reserving("take", contracts.Keyed(window=timedelta(hours=24)))


@workflow
def repair(run: Run) -> str:
    return run.perform(take(sku="A", qty=2), key="k1")["receipt"]


@pytest.mark.parametrize(
    "point", ["append.intent.after", "send.before", "send.after", "append.settled.before", "append.ended.before"]
)
def test_a_run_that_crashed_is_recovered(point: str) -> None:
    clock = ManualClock()
    outside = SimulatedEnvironment(clock, stock={"A": 10})
    connected(outside.connect("here"))
    with Engine("memory://", workflows=[repair], clock=clock, riding=None) as engine:  # else an outcome has no append of its own
        with crash_at(point) as crash:
            engine.run("r", repair)
            raise AssertionError("the block goes on")
        assert crash.happened
        assert engine.recover("r", wait_for_owner=timedelta(minutes=1)).value == "R1"
    assert outside.executions() == {"k1": 1}


def test_a_point_that_is_not_passed_lets_the_block_end() -> None:
    with crash_at("send.after", occurrence=2) as crash:
        pass
    assert not crash.happened


def test_a_point_that_does_not_exist_is_refused() -> None:
    with pytest.raises(ValueError, match=r"no crash point 'send\.between'"), crash_at("send.between"):
        pass
    with pytest.raises(ValueError, match="counts from 1"), crash_at("send.after", 0):
        pass
