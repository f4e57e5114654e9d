"""Limits of queues as workers keep them: two of them over one journal, woken by what makes room."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from recovery import Call, Engine, Lease, Queue, Rate, Run, contracts, effect, workflow
from recovery.core.entries import Status
from recovery.engine.working import Working
from recovery.ports import Journal
from tests.integration.test_workers import working

_LOCK = threading.Lock()
AT_WORK: list[str] = []
PEAK: list[int] = []
ARRIVED = threading.Semaphore(0)
GATE = threading.Event()


@effect(contracts.Opaque())
def print_page(call: Call, *, name: str) -> str:
    with _LOCK:
        AT_WORK.append(name)
        PEAK.append(sum(each.startswith("p") for each in AT_WORK))
    ARRIVED.release()
    assert GATE.wait(60)
    with _LOCK:
        AT_WORK.remove(name)
    return name


@workflow
def page(run: Run, name: str) -> str:
    return run.perform(print_page(name=name))


@pytest.fixture(autouse=True)
def _clean() -> Iterator[None]:
    GATE.clear()
    yield
    PEAK.clear()


def test_two_workers_have_no_more_of_a_queue_at_work_than_its_limit(journal: Journal) -> None:
    first, second = (Engine(journal, workflows=[page], queues=[Queue("printer", concurrency=2)]) for _ in range(2))
    for number in range(6):
        first.enqueue(page(f"p{number}"), run_id=f"p{number}", queue="printer")
    how = Working(poll=timedelta(milliseconds=20), concurrency=4)
    with working(first, how), working(second, how):
        for _ in range(2):
            assert ARRIVED.acquire(timeout=60)
        for number in (6, 7):  # of another queue: taken while this one is full
            first.enqueue(page(f"other-{number}"), run_id=f"p{number}")
            assert ARRIVED.acquire(timeout=60)
        GATE.set()
        for _ in range(4):
            assert ARRIVED.acquire(timeout=60)
    assert max(PEAK) == 2
    assert {first.get(f"p{number}").status for number in range(8)} == {Status.COMPLETED}


def test_the_end_of_a_run_lets_another_worker_of_the_process_begin_the_next(journal: Journal) -> None:
    """It looks every hour, and whose run has ended takes a more urgent one."""
    urgent, may_end = threading.Event(), threading.Event()

    @workflow
    def keeps_busy(run: Run) -> None:
        urgent.set()
        may_end.wait(60)

    lease = Lease(term=timedelta(hours=6), renew_every=timedelta(hours=1))  # nor does it look for runs of the dead
    limit = [Queue("printer", concurrency=1)]
    first, second = (Engine(journal, workflows=[page, keeps_busy], queues=limit, lease=lease) for _ in range(2))
    how = Working(poll=timedelta(hours=1), concurrency=1)
    first.enqueue(page("p0"), run_id="p0", queue="printer")
    looked = threading.Event()

    def claim_due(*given: Any, **about: Any) -> Any:
        came = type(journal).claim_due(journal, *given, **about)
        if not came.runs:
            looked.set()
        return came

    with working(first, how):
        assert ARRIVED.acquire(timeout=60)
        first.enqueue(keeps_busy(), run_id="urgent", priority=1)
        first.enqueue(page("p1"), run_id="p1", queue="printer")
        journal.claim_due = claim_due  # type: ignore[method-assign]  # watched, not changed
        with working(second, replace(how, queues=("printer",))):
            assert looked.wait(60), "it finds its queue full"
            GATE.set()
            assert urgent.wait(60)
            assert ARRIVED.acquire(timeout=60), "it hears that there is room"
            may_end.set()
        del journal.claim_due
    assert {first.get(name).status for name in ("p0", "p1", "urgent")} == {Status.COMPLETED}


def test_a_worker_sleeps_until_its_queue_lets_the_next_one_begin(journal: Journal) -> None:
    """It looks every hour: what wakes it is the time that the claim has told."""
    GATE.set()
    engine = Engine(journal, workflows=[page], queues=[Queue("printer", rate=Rate(1, per=timedelta(milliseconds=300)))])
    for number in range(3):
        engine.enqueue(page(f"p{number}"), run_id=f"p{number}", queue="printer")
    with working(engine, Working(poll=timedelta(hours=1), concurrency=4)) as (_, told):
        for number in range(3):
            told.until("brought on", run_id=f"p{number}", status="completed")


def test_a_run_has_the_priority_of_its_queue_where_none_is_stated(journal: Journal) -> None:
    engine = Engine(journal, workflows=[page], queues=[Queue("printer", priority=7)])
    engine.enqueue(page("a"), run_id="a", queue="printer")
    engine.enqueue(page("b"), run_id="b", queue="printer", priority=0)
    engine.enqueue(page("c"), run_id="c")
    assert [row.priority for run_id in "abc" if (row := journal.find(run_id))] == [7, 0, 0]


def test_an_engine_on_another_database_keeps_the_same_limits(journal: Journal) -> None:
    queues = [Queue("printer", concurrency=2)]
    assert list(Engine(journal, queues=queues).on("memory://").queues.values()) == queues
