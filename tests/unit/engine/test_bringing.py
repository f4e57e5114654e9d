"""Bringing on: several runs at a time, each once, and what an interrupt leaves."""

from __future__ import annotations

import asyncio
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from recovery import AsyncEngine, AsyncRun, Call, Engine, Run, contracts, effect, workflow
from recovery.cli.draining import _recovering
from recovery.core.entries import Status
from recovery.core.errors import ExitCode
from recovery.engine.bringing import Bringing, Came
from recovery.engine.draining import Brought, drain
from recovery.ports import Owner, RunRow

KEYED = contracts.Keyed(window=timedelta(hours=24))
PATIENT_SECONDS = 60


def stored(engine: Engine | AsyncEngine, bound: Callable[[int], Any], many: int) -> list[RunRow]:
    """So many runs that nobody has."""
    for number in range(many):
        came = engine.enqueue(bound(number), run_id=f"run-{number:03}")
        if asyncio.iscoroutine(came):
            asyncio.run(came)
    return engine.journal.runs(limit=many)


def brought(engine: Engine | AsyncEngine, rows: list[RunRow], at_once: int) -> list[Came]:
    return list(Bringing(engine, engine.world(), at_once).bring(iter(rows)))


def statuses(engine: Engine | AsyncEngine) -> Counter[Status]:
    return Counter(row.status for row in engine.journal.runs())


def drained(engine: Engine | AsyncEngine, at_once: int) -> list[Brought]:
    return drain(engine, _recovering(engine, timedelta(0), at_once)).brought


class Meeting:
    """Where runs meet: each says that it has come, and goes on once so many are here."""

    def __init__(self, many: int) -> None:
        self._barrier = threading.Barrier(many)
        self._lock = threading.Lock()
        self._here = 0
        self.most = 0

    def come(self) -> None:
        with self._lock:
            self._here += 1
            self.most = max(self.most, self._here)
        self._barrier.wait(PATIENT_SECONDS)
        with self._lock:
            self._here -= 1


def test_as_many_are_at_work_at_a_time_as_was_asked_for_and_no_more() -> None:
    meeting = Meeting(4)

    @effect(KEYED)
    def meet(call: Call, *, number: int) -> int:
        meeting.come()
        return number

    @workflow
    def meets(run: Run, number: int) -> int:
        return run.perform(meet(number=number))

    with Engine("memory://", workflows=[meets]) as engine:
        rows = stored(engine, meets, 12)
        came = brought(engine, rows, 4)
        assert sorted(each.row.run_id for each in came) == [row.run_id for row in rows]
        assert {each.result().status for each in came} == {Status.COMPLETED}
        assert meeting.most == 4


def test_so_are_those_of_an_async_app() -> None:
    here, most = 0, 0

    @effect(KEYED)
    async def meet(call: Call, *, number: int) -> int:
        nonlocal here, most
        here += 1
        most = max(most, here)
        for _ in range(3):
            await asyncio.sleep(0)
        here -= 1
        return number

    @workflow
    async def meets(run: AsyncRun, number: int) -> int:
        return await run.perform(meet(number=number))

    engine = AsyncEngine("memory://", workflows=[meets])
    came = brought(engine, stored(engine, meets, 12), 4)
    assert {each.result().status for each in came} == {Status.COMPLETED}
    assert 1 <= most <= 4
    engine.flush()


@workflow
def returns(run: Run, number: int) -> int:
    if number % 3 == 0:
        raise ValueError(number)
    return number


def test_one_at_a_time_is_brought_on_in_the_caller_s_thread_and_in_order() -> None:
    threads = list[str]()

    @workflow
    def notes(run: Run, number: int) -> int:
        threads.append(threading.current_thread().name)
        return number

    with Engine("memory://", workflows=[notes]) as engine:
        rows = stored(engine, notes, 9)
        assert [each.row.run_id for each in brought(engine, rows, 1)] == [row.run_id for row in rows]
        assert set(threads) == {threading.current_thread().name}


def test_what_is_said_does_not_depend_on_which_run_ended_first() -> None:
    with Engine("memory://", workflows=[returns]) as one, Engine("memory://", workflows=[returns]) as many:
        for engine in (one, many):
            stored(engine, returns, 40)
        assert drained(one, 1) == drained(many, 8)
        assert statuses(many) == {Status.COMPLETED: 26, Status.FAILED: 14}


def test_one_run_that_cannot_be_read_or_is_unknown_here_stops_no_other() -> None:
    @workflow
    def unknown(run: Run, number: int) -> int:
        return number

    with Engine("memory://", workflows=[returns, unknown]) as engine:
        engine.enqueue(unknown(1), run_id="unknown")
        stored(engine, returns, 3)
        here = Engine(engine.journal, workflows=[returns])
        said = {each.run_id: each.code for each in drained(here, 4)}
        settled, failed = ExitCode.SETTLED, ExitCode.FAILED
        assert said == {"run-000": failed, "run-001": settled, "run-002": settled, "unknown": ExitCode.USAGE}


def test_an_interrupt_lets_go_of_what_was_claimed_and_begins_nothing() -> None:
    begun, may_end = threading.Event(), threading.Event()
    bodies = list[int]()

    @effect(KEYED)
    def stands(call: Call, *, number: int) -> int:
        bodies.append(number)
        begun.set()
        may_end.wait(PATIENT_SECONDS)
        return number

    @workflow
    def stays(run: Run, number: int) -> int:
        return run.perform(stands(number=number))

    class Interrupting(Bringing):
        def _until(self, many: int) -> Iterator[Came]:
            begun.wait(PATIENT_SECONDS)
            self._interrupted = True
            may_end.set()
            raise KeyboardInterrupt

    with Engine("memory://", workflows=[stays]) as engine:
        rows = stored(engine, stays, 6)
        bringing = Interrupting(engine, engine.world(), 2)
        bringing._ahead = 6
        with pytest.raises(KeyboardInterrupt):
            list(bringing.bring(iter(rows)))
        assert len(bodies) <= 2
        assert {row.owner for row in engine.journal.runs() if not row.status.settled} == {None}
        assert statuses(engine)[Status.QUEUED] >= 4
        assert {each.code for each in drained(engine, 2)} == {ExitCode.SETTLED}
        assert sorted(bodies) == list(range(6))


def test_a_parent_is_brought_to_its_end_although_its_child_is_at_work_beside_it() -> None:
    interrupts = {0, 1, 2}

    @workflow
    def child(run: Run, number: int) -> int:
        if number in interrupts:
            interrupts.discard(number)
            raise KeyboardInterrupt
        return number

    @workflow
    def parent(run: Run, number: int) -> int:
        return run.await_child(run.start(child(number)))

    with Engine("memory://", workflows=[parent, child]) as engine:
        for row in stored(engine, parent, 3):
            with pytest.raises(KeyboardInterrupt):
                engine.recover(row.run_id)
        assert statuses(engine) == {Status.RUNNING: 3, Status.QUEUED: 3}
        said = drained(engine, 8)
        assert [each.run_id for each in said] == sorted(each.run_id for each in said)
        assert [each.code for each in said] == [ExitCode.SETTLED] * 6
        assert statuses(engine) == {Status.COMPLETED: 6}


def test_what_has_ended_several_owners_is_brought_on_with_nothing_beside_it() -> None:
    with Engine("memory://", workflows=[returns]) as engine:
        rows = stored(engine, returns, 5)
        dead = replace(engine.identify("dead"), process_start=1)
        for _ in range(2):  # the second death is the first that it is claimed from
            seen = engine.journal.find(rows[2].run_id)
            assert seen is not None
            assert engine.journal.claim(seen, replace(dead, token=engine.new_token()), lease_term_us=1, at_us=1)
        claims = list[list[str]]()
        claim_many = engine.journal.claim_many

        def noted(seen: Any, owner: Owner, **about: Any) -> list[RunRow]:
            claims.append([row.run_id for row in seen])
            return claim_many(seen, owner, **about)

        engine.journal.claim_many = noted  # type: ignore[method-assign]  # watched, not changed
        came = brought(engine, engine.journal.runs(), 4)
        assert came[-1].row.run_id == rows[2].run_id
        assert rows[2].run_id not in {run_id for claim in claims for run_id in claim}
        assert statuses(engine) == {Status.COMPLETED: 3, Status.FAILED: 2}
