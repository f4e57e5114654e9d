"""Recovery costs what is open: what a plan, a drain and a worker read among settled runs, as the databases themselves count it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

import psycopg
import pytest
import sqlalchemy as sa
from sqlalchemy import event

from recovery import Call, Engine, Run, contracts, effect, workflow
from recovery.cli.draining import _planning, _recovering
from recovery.engine.draining import drain
from recovery.engine.working import Worker, Working
from recovery.storage.sql import SqlJournal
from tests.benchmarks.building import settled
from tests.integration.cli_place import until

OPEN = 12
SETTLED = 3_000


@effect(contracts.Keyed(window=timedelta(hours=24)))
def touch(call: Call, *, number: int) -> int:
    return number


@workflow
def small(run: Run, number: int) -> int:
    return run.perform(touch(number=number))


def plan(engine: Engine) -> int:
    return len(drain(engine, _planning(engine, probe=True)).brought)


def recover(engine: Engine) -> int:
    return len(drain(engine, _recovering(engine, timedelta(0), 1)).brought)


def work(engine: Engine) -> int:
    brought: list[str] = []
    Worker(engine, Working(until_idle=True, concurrency=1), lambda said, _: brought.append(said)).work()
    return brought.count("brought on")


class Steps:
    """Those that SQLite's virtual machine takes: for each row that it looks at, some."""

    EVERY = 10

    def __init__(self) -> None:
        self._steps = 0

    def step(self) -> int:
        self._steps += self.EVERY
        return 0

    @contextmanager
    def counted(self) -> Iterator[Callable[[], int]]:
        def watch(connection: Any, _record: object) -> None:
            connection.set_progress_handler(self.step, self.EVERY)

        event.listen(sa.pool.Pool, "connect", watch)
        try:
            yield lambda: self._steps
        finally:
            event.remove(sa.pool.Pool, "connect", watch)


class Rows:
    """Those that PostgreSQL reads of the tables that grow with what is stored. A session's counts are there when it has ended."""

    QUERY = """SELECT coalesce(sum(seq_tup_read + coalesce(idx_tup_fetch, 0)), 0) FROM pg_stat_user_tables
        WHERE relname IN ('run', 'journal', 'key', 'run_contract')"""
    OTHERS = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()"

    def __init__(self, url: str) -> None:
        self._url = url

    def read(self) -> int:
        with psycopg.connect(self._url, autocommit=True) as connection:
            until("the end of all sessions", lambda: connection.execute(self.OTHERS).fetchone() == (0,))
            [rows] = connection.execute(self.QUERY).fetchone() or [0]
            return int(rows)

    @contextmanager
    def counted(self) -> Iterator[Callable[[], int]]:
        before = self.read()
        yield lambda: self.read() - before


TURNS = (plan, recover, work)


def counting(url: str) -> Steps | Rows:
    return Rows(url) if url.startswith("postgresql") else Steps()


def cost(url: str, named: str) -> dict[str, int]:
    """Of each turn among so many new runs; the plan's are those that the next one then brings on."""
    found = {}
    for turn in TURNS:
        with Engine(url, workflows=[small]) as engine:
            for number in range(0 if turn is recover else OPEN):
                engine.enqueue(small(number), run_id=f"{named}-{turn.__name__}-{number}")
        with counting(url).counted() as counted:
            with Engine(url, workflows=[small]) as engine:
                assert turn(engine) == OPEN
            found[turn.__name__] = counted()
    return found


@pytest.mark.parametrize("analyzed", [False, True], ids=["unknown to the planner", "analyzed"])
def test_what_is_settled_is_not_read(store_url: str, analyzed: bool) -> None:
    alone = cost(store_url, "alone")
    with Engine(store_url, workflows=[small]) as engine:
        assert isinstance(engine.journal, SqlJournal)
        settled(engine.journal, "alone-work-0", SETTLED)
        if analyzed:
            with engine.journal._database.transaction() as connection:
                connection.exec_driver_sql("ANALYZE")
    among = cost(store_url, "among")
    # A plan that is another one looks into an index a few times more; one that goes over what is settled reads each of them.
    assert all(0 < among[turn] < alone[turn] + SETTLED / 2 for turn in alone), (alone, among)
