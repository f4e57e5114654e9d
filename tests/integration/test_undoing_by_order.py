"""What happened once too often is undone by a person's order, in a run of its own, and once."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import timedelta
from types import ModuleType
from typing import Any

import pytest

from recovery import (
    AsyncEngine,
    AsyncRun,
    Call,
    Effect,
    Engine,
    Environment,
    Found,
    Run,
    Status,
    contracts,
    effect,
    errors,
    workflow,
)
from recovery.cli import app as command
from recovery.core.contracts import Contract
from recovery.ports import Journal
from recovery.storage import open_journal
from recovery.testing import ManualClock, crash_at

from .world import DAY, QUICK, AnyWorkflow, keyed

WORD = {"by": "ann", "reason": "two were taken"}


@dataclass
class Depot:
    """Gives a receipt for each taking; what is put back is counted by its receipt. `fails`: what happens when something is put back."""

    is_async: bool = False
    put_back: list[str] = field(default_factory=list)
    fails: Callable[[], None] = lambda: None

    def take(self, undo: Contract | None) -> Effect[..., str]:
        define = effect(keyed(), environment=Environment("depot"), name="take", timeout=timedelta(seconds=30))

        def take(call: Call, *, units: int) -> str:
            return "R1"

        async def take_async(call: Call, *, units: int) -> str:
            return "R1"

        made: Effect[..., str] = define(take_async) if self.is_async else define(take)
        if undo is not None:
            compensated = made.compensation(undo, name="put_back")

            def back(call: Call, outcome: str, *, units: int) -> None:
                self.put_back.append(outcome)
                self.fails()

            async def back_async(call: Call, outcome: str, *, units: int) -> None:
                back(call, outcome, units=units)

            compensated(back_async if self.is_async else back)
        return made

    def order(self, undo: Contract | None = None) -> AnyWorkflow:
        take = self.take(undo)
        if self.is_async:

            @workflow(name="order")
            async def order_async(run: AsyncRun) -> str:
                return await run.perform(take(units=2))

            return order_async

        @workflow(name="order")
        def order(run: Run) -> str:
            return run.perform(take(units=2))

        return order

    def do(self, journal: Journal, order: AnyWorkflow, what: Callable[[Any], Any], clock: ManualClock | None = None) -> Any:
        """Does something with an engine of this colour."""
        clock = clock or ManualClock()
        if not self.is_async:
            with Engine(journal, workflows=[order], clock=clock, budget=QUICK) as engine:
                return what(engine)

        async def story() -> Any:
            async with AsyncEngine(journal, workflows=[order], clock=clock, budget=QUICK) as engine:
                return await what(engine)

        return asyncio.run(story())


@pytest.fixture(name="memory")
def _memory() -> Journal:
    return open_journal("memory://")


def twice(depot: Depot, journal: Journal, order: AnyWorkflow, clock: ManualClock) -> None:
    """It was taken once under the journal's eyes, and once more: the environment tells of a second receipt, long after."""
    depot.do(journal, order, lambda engine: engine.run("r", order), clock)
    clock.advance(timedelta(hours=1))
    depot.do(journal, order, lambda engine: engine.observe("r", "take#1", Found("R2", receipt="R2")), clock)


@pytest.mark.parametrize("is_async", [False, True], ids=["sync", "async"])
def test_a_duplicate_is_undone_by_its_own_receipt_and_once(journal: Journal, is_async: bool) -> None:
    depot, clock = Depot(is_async), ManualClock()
    order = depot.order(keyed())
    twice(depot, journal, order, clock)
    [offered] = depot.do(journal, order, lambda engine: engine.undoable("r", "take#1"), clock)
    assert (offered.proposal.effect, offered.proposal.arguments) == ("put_back", {"outcome": "R2", "units": 2})
    assert depot.put_back == [], "only said"
    for _ in range(2):
        [done] = depot.do(journal, order, lambda engine: engine.compensate("r", "take#1", **WORD), clock)
        assert (done.offered.run_id, done.recovered.status) == (offered.run_id, Status.COMPLETED)
    assert depot.put_back == ["R2"]
    assert depot.do(journal, order, lambda engine: engine.recover("r"), clock).value == "R1", "the outcome stands"
    opened = depot.do(journal, order, _history(offered.run_id), clock)[0]
    assert (opened.workflow, opened.input["order"]["by"], opened.input["order"]["run"]) == ("recovery.undo", "ann", "r")


def test_whoever_recovers_the_order_carries_it_on(journal: Journal) -> None:
    depot, clock = Depot(), ManualClock()
    order = depot.order(keyed())
    twice(depot, journal, order, clock)
    with crash_at("send.before") as crash:
        depot.do(journal, order, lambda engine: engine.compensate("r", "take#1", **WORD), clock)
    assert crash.happened
    assert depot.put_back == []
    [row] = [row for row in journal.runs() if row.run_id != "r"]
    with Engine(journal, workflows=[order], clock=clock, wait_for_owner=timedelta(minutes=2)) as engine:
        assert engine.recover(row.run_id).status is Status.COMPLETED
        assert engine.compensate("r", "take#1", by="bob", reason="again")[0].recovered.status is Status.COMPLETED
    assert depot.put_back == ["R2"]


def test_copies_of_the_step_are_waited_for(memory: Journal) -> None:
    depot, clock = Depot(), ManualClock()
    order = depot.order(keyed())
    depot.do(memory, order, lambda engine: engine.run("r", order), clock)
    depot.do(memory, order, lambda engine: engine.observe("r", "take#1", Found("R2", receipt="R2")), clock)
    [done] = depot.do(memory, order, lambda engine: engine.compensate("r", "take#1", **WORD), clock)
    assert (done.recovered.status, depot.put_back) == (Status.WAITING, [])
    clock.advance(timedelta(minutes=5))
    [done] = depot.do(memory, order, lambda engine: engine.compensate("r", "take#1", **WORD), clock)
    assert (done.recovered.status, depot.put_back) == (Status.COMPLETED, ["R2"])


def test_an_order_in_doubt_parks_in_its_own_run(memory: Journal) -> None:
    depot, clock = Depot(), ManualClock()
    order = depot.order(contracts.Opaque())
    twice(depot, memory, order, clock)

    def is_lost() -> None:
        raise ConnectionError

    depot.fails = is_lost
    [done] = depot.do(memory, order, lambda engine: engine.compensate("r", "take#1", **WORD), clock)
    assert done.recovered.status is Status.IN_DOUBT
    [doubt] = depot.do(memory, order, lambda engine: engine.doubt(), clock).doubts
    assert (doubt.run_id, doubt.step) == (done.offered.run_id, "put_back#1")
    [again] = depot.do(memory, order, lambda engine: engine.compensate("r", "take#1", **WORD), clock)
    assert (again.recovered.status, depot.put_back) == (Status.IN_DOUBT, ["R2"])


@pytest.mark.parametrize(
    ("undo", "told", "refusal"),
    [
        (keyed(), False, "no receipt speaks against its outcome"),
        (None, True, "take has no compensation"),
    ],
)
def test_what_cannot_be_ordered_is_refused(memory: Journal, undo: Contract | None, told: bool, refusal: str) -> None:
    depot, clock = Depot(), ManualClock()
    order = depot.order(undo)
    if told:
        twice(depot, memory, order, clock)
    else:
        depot.do(memory, order, lambda engine: engine.run("r", order), clock)
    before = len(list(memory.runs()))
    with pytest.raises(errors.OverrideRefused, match=refusal):
        depot.do(memory, order, lambda engine: engine.compensate("r", "take#1", **WORD), clock)
    with pytest.raises(errors.StepNotFound):
        depot.do(memory, order, lambda engine: engine.compensate("r", "none#1", **WORD), clock)
    assert len(list(memory.runs())) == before


def test_without_its_app_nothing_is_ordered(memory: Journal) -> None:
    depot, clock = Depot(), ManualClock()
    twice(depot, memory, depot.order(contracts.Keyed(window=DAY)), clock)
    with Engine(memory, clock=clock) as engine, pytest.raises(errors.OverrideRefused, match="the app that makes this call"):
        engine.compensate("r", "take#1", **WORD)


def test_the_engines_own_workflow_is_not_listed(memory: Journal) -> None:
    with Engine(memory) as engine:
        assert list(engine.workflows) == []
        assert "recovery.undo" in engine.workflows


def _history(run_id: str) -> Callable[[Any], Any]:
    return lambda engine: engine.history(run_id)


# -- the command -------------------------------------------------------------------------------------------------------


def test_the_command_says_what_it_would_undo_then_undoes_it(
    memory: Journal, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    depot, clock = Depot(), ManualClock()
    order = depot.order(keyed())
    depot.do(memory, order, lambda engine: engine.run("r", order), clock)
    depot.do(memory, order, lambda engine: engine.observe("r", "take#1", Found("R2", receipt="R2")), clock)
    module = ModuleType("depot_app")
    module.engine = Engine(memory, workflows=[order], clock=clock, budget=QUICK)  # type: ignore[attr-defined]  # a module of our own
    monkeypatch.setitem(sys.modules, "depot_app", module)

    def compensate(*more: str) -> tuple[int, str]:
        with pytest.raises(SystemExit) as ended:
            command(
                ["compensate", "r", "take#1", "--by", "ann", "--reason", "two were taken", "--app", "depot_app:engine", *more],
                prog_name="recover",
            )
        return int(ended.value.code or 0), capsys.readouterr().out

    code, said = compensate("--plan")
    assert code == 0
    assert 'put_back(outcome="R2", units=2)' in said
    assert "until then a copy of the step could still act" in said
    code, said = compensate()
    assert (code, depot.put_back) == (4, [])
    assert "waiting" in said
    clock.advance(timedelta(minutes=5))
    code, said = compensate("--json")
    document = json.loads(said)
    assert (code, depot.put_back) == (0, ["R2"])
    [undoing] = document["undoings"]
    assert (undoing["status"], undoing["receipt"], undoing["error"]) == ("completed", "R2", None)
    code, said = compensate()
    assert "recover acknowledge r take#1" in said
    assert depot.put_back == ["R2"]
