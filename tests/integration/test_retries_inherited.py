"""Runs that tried again, forked and restarted: what was tried below a step is inherited with it, or begun anew with it."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from tenacity import wait_fixed

from recovery import Call, Engine, Environment, NewKey, Rejection, Retry, Run, effect, errors, workflow
from recovery.core.entries import Intent
from recovery.ports import Journal
from recovery.testing import ManualClock

from .world import QUICK, TIMEOUT, keyed

HOUR = timedelta(hours=1)


class Busy(Rejection):
    queue: int


class Place:
    """A run that decided at the second try, was granted at the second key, and now sleeps."""

    def __init__(self, journal: Journal) -> None:
        self.journal = journal
        self.clock = ManualClock()
        self.keys: list[str] = []
        self.asked = 0
        policy = Retry(on={Busy: Retry(wait=wait_fixed(1))})

        @effect(keyed(), environment=Environment("house"), rejects=(Busy,), timeout=TIMEOUT, retry=policy)
        def post(call: Call) -> str:
            self.keys.append(call.key)
            if len(self.keys) % 2:
                raise Busy(queue=1)
            return f"grant {len(self.keys)}"

        def oracle() -> str:
            self.asked += 1
            if self.asked == 1:
                raise TimeoutError
            return f"plan {self.asked}"

        @workflow
        def order(run: Run) -> list[str]:
            plan = run.decide("plan", Retry(wait=wait_fixed(1))(oracle))
            granted = run.perform(post())
            run.sleep(HOUR)
            return [plan, granted]

        self.order: Any = order

    def engine(self) -> Engine:
        return Engine(self.journal, workflows=[self.order], clock=self.clock, budget=QUICK)

    def until_it_sleeps(self, engine: Engine, run_id: str) -> None:
        for _ in range(4):
            came = engine.recover(run_id) if self.journal.find(run_id) else None
            if came is None:
                with pytest.raises(errors.TimerPending):
                    engine.run(run_id, self.order)
            elif isinstance(came.error, errors.TimerPending) and came.error.step.startswith("sleep"):
                return
            self.clock.advance(timedelta(seconds=1))
        raise AssertionError(f"it does not sleep: {came}")


def test_a_fork_inherits_what_was_tried_below_its_steps(journal: Journal) -> None:
    place = Place(journal)
    with place.engine() as engine:
        place.until_it_sleeps(engine, "old")
        engine.fork("old", "new", at="sleep#1", by="ann", reason="another way")
        place.until_it_sleeps(engine, "new")
        place.clock.advance(HOUR)
        assert engine.recover("new").value == engine.recover("old").value == ["plan 2", "grant 2"]
    assert (len(place.keys), place.asked) == (2, 2)


def test_a_restart_begins_a_step_and_what_is_below_it_anew(journal: Journal) -> None:
    place = Place(journal)
    with place.engine() as engine:
        place.until_it_sleeps(engine, "r")
        steps = [entry.step for entry in engine.history("r") if isinstance(entry, Intent)]
        engine.restart("r", "post#1", policies={step: NewKey("once more") for step in steps}, by="ann", reason="again")
        place.until_it_sleeps(engine, "r")
        place.clock.advance(HOUR)
        assert engine.recover("r").value == ["plan 2", "grant 4"]
    assert (len(set(place.keys)), place.asked) == (4, 2)
