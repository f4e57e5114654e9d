"""Limits of queues as workers keep them: two of them over one journal, woken by what makes room."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from datetime import timedelta

import pytest

from recovery import Call, Engine, Queue, Rate, Run, contracts, effect, workflow
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
