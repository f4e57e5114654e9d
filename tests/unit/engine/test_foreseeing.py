"""Foreseeing: the plans of many runs are those that each gets by itself."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

from recovery import AsyncEngine, AsyncRun, Call, Engine, Run, contracts, effect, workflow
from recovery.engine import foreseeing
from recovery.engine.foreseeing import foreseen
from recovery.operators.planning import Plan

KEYED = contracts.Keyed(window=timedelta(hours=24))


@effect(KEYED)
def book(call: Call, *, number: int) -> int:
    if number % 2:
        raise KeyboardInterrupt
    return number


@workflow
def books(run: Run, number: int) -> int:
    return run.perform(book(number=number))


def at_no_time(plan: Plan) -> Plan:
    return replace(plan, at_us=0, steps=tuple(replace(step, next_look_us=None) for step in plan.steps))


def test_the_plans_of_many_are_those_of_each(tmp_path: Path) -> None:
    with Engine(f"sqlite:///{tmp_path / 'plans.db'}", workflows=[books]) as engine:
        for number in range(foreseeing.TOGETHER + 6):
            engine.enqueue(books(number), run_id=f"run-{number:03}")
        for number in (1, 3):  # an attempt of which nobody knows
            try:
                engine.recover(f"run-{number:03}")
            except KeyboardInterrupt:
                continue
        engine.hold_contract(book.contract.digest, by="eve", reason="no")
        rows = engine.journal.runs()
        before = [engine.journal.find(row.run_id) for row in rows]
        came = list(foreseen(engine, iter(rows), probe=True))
        assert [each.row for each in came] == rows
        assert [at_no_time(each.plan()) for each in came] == [at_no_time(engine.plan(row.run_id)) for row in rows]
        assert [engine.journal.find(row.run_id) for row in rows] == before


def test_so_are_those_of_an_async_app() -> None:
    @effect(KEYED)
    async def book_async(call: Call, *, number: int) -> int:
        return number

    @workflow
    async def books_async(run: AsyncRun, number: int) -> int:
        return await run.perform(book_async(number=number))

    engine = AsyncEngine("memory://", workflows=[books_async])

    async def stored() -> None:
        for number in range(3):
            await engine.enqueue(books_async(number), run_id=f"run-{number}")

    asyncio.run(stored())
    rows = engine.journal.runs()
    came = [each.plan() for each in foreseen(engine, iter(rows), probe=True)]
    assert [each.run_id for each in came] == ["run-0", "run-1", "run-2"]
    assert [at_no_time(each) for each in came] == [at_no_time(asyncio.run(engine.plan(row.run_id))) for row in rows]
    engine.flush()
