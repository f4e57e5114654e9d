"""Runs whose models have changed since they were recorded: they go on with what is stored, and nothing stored changes."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from pydantic import BaseModel

from recovery import AsyncEngine, AsyncRun, Call, Engine, Environment, Run, effect, errors, upcaster, versioned, workflow
from recovery.core.entries import Decision, Intent
from recovery.ports import Journal
from recovery.storage import open_journal
from recovery.testing.pieces import in_one_piece

from .world import QUICK, TIMEOUT, AnyWorkflow, Killed, keyed

SENT: list[str] = []


@versioned(1, name="plan")
class Plan1(BaseModel):
    sku: str
    qty: int


@versioned(2, name="plan")
class Plan2(BaseModel):
    sku: str
    units: int
    urgent: bool


@upcaster(Plan2, from_version=1)
def plan_2(old: dict[str, Any]) -> dict[str, Any]:
    return {"sku": old["sku"], "units": old["qty"], "urgent": False}


def booking(model: Any, *, colour: str, die: bool) -> AnyWorkflow:
    """A plan goes in, is decided upon, is an argument and an outcome."""

    def body(call: Call, *, plan: model) -> model:
        SENT.append(call.key)
        return plan

    async def async_body(call: Call, *, plan: model) -> model:
        return body(call, plan=plan)

    chosen = async_body if colour == "async" else body
    chosen.__annotations__ |= {"call": Call, "plan": model, "return": model}
    book = effect(keyed(), environment=Environment("shop"), name="book", timeout=TIMEOUT)(chosen)  # type: ignore[call-overload, arg-type]

    def better(plan: model) -> model:
        return plan

    better.__annotations__ = {"plan": model, "return": model}

    def order(run: Run, plan: model) -> model:
        decided = run.decide("better", better, plan)
        came = run.perform(book(plan=decided), key="k")
        if die:
            raise Killed
        return came

    async def async_order(run: AsyncRun, plan: model) -> model:
        decided = await run.decide("better", better, plan)
        came = await run.perform(book(plan=decided), key="k")
        if die:
            raise Killed
        return came

    flow: Any = async_order if colour == "async" else order
    flow.__annotations__ = {"run": AsyncRun if colour == "async" else Run, "plan": model, "return": model}
    return workflow(name="order")(flow)  # type: ignore[no-any-return]


def finished(came: Any) -> Any:
    return asyncio.run(came) if asyncio.iscoroutine(came) else came


def engine_of(journal: Journal, flow: AnyWorkflow) -> Any:
    return (AsyncEngine if flow.is_async else Engine)(journal, workflows=[flow], budget=QUICK)


def recorded(journal: Journal, colour: str) -> None:
    SENT.clear()
    flow = booking(Plan1, colour=colour, die=True)
    with pytest.raises(Killed):
        finished(engine_of(journal, flow).run("r", flow, Plan1(sku="A", qty=2)))
    assert SENT == ["k"]


@pytest.mark.parametrize("colour", ["sync", "async"])
def test_a_run_goes_on_with_values_of_an_older_version(colour: str, journal: Journal) -> None:
    recorded(journal, colour)
    rows = in_one_piece(journal, "r")[1]  # type: ignore[index]  # it is there
    flow = booking(Plan2, colour=colour, die=False)
    engine = engine_of(journal, flow)
    assert [fit.fits for fit in finished(engine.check()).fits] == [True]
    came = Plan2(sku="A", units=2, urgent=False)
    assert finished(engine.recover("r")).result() == came
    assert SENT == ["k"]
    assert in_one_piece(journal, "r")[1][: len(rows)] == rows  # type: ignore[index]
    assert finished(engine.get("r")).result() == came
    assert finished(engine.run("r", flow, came)) == came  # the same input, in today's form


def test_a_value_of_another_meaning_still_diverges() -> None:
    journal = open_journal("memory://")
    recorded(journal, "sync")

    @versioned(2, name="plan")
    class Other(BaseModel):
        sku: str
        units: int

    upcaster(Other, from_version=1)(lambda old: {"sku": old["sku"], "units": old["qty"] + 1})
    flow = booking(Other, colour="sync", die=False)
    assert engine_of(journal, flow).recover("r").result().units == 3  # all of it is read alike
    steps = [entry for entry in Engine(journal).history("r") if isinstance(entry, Intent | Decision)]
    assert len(steps) == 2


def test_other_arguments_of_the_same_version_diverge() -> None:
    journal = open_journal("memory://")
    recorded(journal, "sync")

    @workflow(name="order")
    def order(run: Run, plan: Plan1) -> None:
        run.decide("better", lambda _plan: plan, Plan1(sku="B", qty=2))

    assert isinstance(engine_of(journal, order).recover("r").error, errors.Diverged)


@pytest.mark.parametrize(
    ("gone", "seq", "path"),
    [("input", 1, "plan"), ("decision", 2, r"\$"), ("outcome", 4, "result")],
)  # fmt: skip
def test_a_value_that_nothing_brings_up_to_date_names_its_entry_and_changes_nothing(gone: str, seq: int, path: str) -> None:
    journal = open_journal("memory://")
    recorded(journal, "sync")

    @versioned(2, name="plan")
    class Stuck(BaseModel):
        sku: str

    reader: dict[str, Any] = dict.fromkeys(("input", "decision", "outcome"), Plan1) | {gone: Stuck}

    def book(call: Call, *, plan: Plan1) -> Any:
        raise AssertionError

    book.__annotations__ = {"call": Call, "plan": Plan1, "return": reader["outcome"]}
    booked: Any = effect(keyed(), environment=Environment("shop"), name="book", timeout=TIMEOUT)(book)

    def better(plan: Plan1) -> Any:
        raise AssertionError

    better.__annotations__ = {"plan": Plan1, "return": reader["decision"]}

    def order(run: Run, plan: Any) -> None:
        run.perform(booked(plan=run.decide("better", better, plan)), key="k")

    order.__annotations__ = {"run": Run, "plan": reader["input"], "return": None}
    flow = workflow(name="order")(order)
    rows = in_one_piece(journal, "r")[1]  # type: ignore[index]
    with pytest.raises(errors.ValueUnreadable, match=f"entry {seq}, .*at {path}.*nothing brings version 1 up to 2") as refused:
        engine_of(journal, flow).recover("r")
    assert refused.value.seq == seq
    assert "@versioned" in str(refused.value)
    assert in_one_piece(journal, "r")[1] == rows  # type: ignore[index]
    [fit] = engine_of(journal, flow).check().fits
    assert isinstance(fit.error, errors.ValueUnreadable)
