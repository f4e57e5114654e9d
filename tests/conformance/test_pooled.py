"""Behind a pooler in transaction mode: each transaction may have another session of the server, and whatever is left in one is met by somebody else."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from datetime import timedelta
from pathlib import Path

import psycopg
import pytest
import sqlalchemy as sa
from hypothesis import settings
from hypothesis.stateful import run_state_machine_as_test

from recovery import Call, Engine, Run, contracts, effect, workflow
from recovery.core.errors import StoreUrlError
from recovery.storage import open_journal
from recovery.storage.memory import MemoryJournal
from recovery.storage.migrate import migrate
from recovery.storage.postgres import PostgresDatabase
from recovery.storage.sessions import pooled
from recovery.storage.sql import SqlJournal
from tests.conformance.making import opened
from tests.conformance.test_against_model import Twins, ours
from tests.pooler import PGBOUNCER, SESSIONS, pooling, through
from tests.postgres import PostgresServer

WHY_NOT = "PgBouncer is a server of its own, and not installed here (Debian: pgbouncer)"
pytestmark = pytest.mark.skipif(PGBOUNCER is None, reason=WHY_NOT)  # a part of the machine; .ci/run installs it where it may


@pytest.fixture(scope="module")
def pooler(postgres_server: PostgresServer) -> Iterator[Path]:
    server = sa.make_url(postgres_server.url("postgres")).query["host"]
    with pooling(Path(str(server))) as directory:
        yield directory


@pytest.fixture
def pooled_url(pooler: Path, postgres_url: str) -> Iterator[str]:
    yield through(pooler, postgres_url)
    with psycopg.connect(postgres_url, autocommit=True) as server:  # or its database could not be lent again
        server.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()"
        )


def sessions(url: str, query: str) -> list[object]:
    """What each session of the server that the pooler keeps says."""
    with ExitStack() as stack:
        clients = [stack.enter_context(psycopg.connect(url, prepare_threshold=None)) for _ in range(SESSIONS)]
        found = []
        for client in clients:  # each in a transaction of its own, which it keeps: no session can answer twice
            row = client.execute(query).fetchone()
            assert row is not None
            found.append(row[0])
        return found


@effect(contracts.Keyed(window=timedelta(hours=24)))
def echo(call: Call, *, number: int) -> int:
    return number


@workflow
def total(run: Run, first: int) -> int:
    return sum(run.perform(echo(number=first + step)) for step in range(3))


def test_a_pooler_is_seen_and_a_server_is_not_taken_for_one(pooled_url: str, postgres_url: str) -> None:
    for url, is_pooled in ((pooled_url, True), (postgres_url, False)):
        with psycopg.connect(url) as client:
            assert pooled(client) is is_pooled
        journal = open_journal(url)
        opened(journal, f"run-{is_pooled}")
        assert isinstance(journal, SqlJournal)
        assert isinstance(journal._database, PostgresDatabase)
        assert journal._database._sessions.shared is is_pooled
        journal.close()


def test_it_answers_as_the_model_does(pooled_url: str) -> None:
    real, model = open_journal(pooled_url), MemoryJournal()
    model._namespace = real.namespace()
    machine = type("Pooled", (Twins,), {"model": model, "real": real})
    run_state_machine_as_test(machine, settings=settings(ours, max_examples=4))
    real.close()


def test_many_clients_share_few_sessions_and_leave_nothing_in_them(pooled_url: str) -> None:
    engines = [Engine(pooled_url, workflows=[total]) for _ in range(2)]

    def work(number: int) -> int:
        return engines[number % 2].run(f"r-{number}", total, number)

    with ThreadPoolExecutor(8) as threads:
        assert list(threads.map(work, range(24))) == [3 * number + 3 for number in range(24)]
    assert len(engines[0].list()) == 24
    assert sessions(pooled_url, "SHOW lock_timeout") == ["0"] * SESSIONS
    assert sessions(pooled_url, "SHOW enable_seqscan") == ["on"] * SESSIONS
    assert sessions(pooled_url, "SELECT count(*) FROM pg_prepared_statements") == [0] * SESSIONS
    assert sessions(pooled_url, "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory'") == [0] * SESSIONS
    for engine in engines:
        engine.close()


def test_what_somebody_else_left_in_a_session_is_met_before_anything_is_written(pooled_url: str) -> None:
    journal = open_journal(pooled_url)
    opened(journal)
    assert sessions(pooled_url, "SELECT set_config('synchronous_commit', 'off', false)") == ["off"] * SESSIONS
    with ExitStack() as stack:  # set for good: the sessions above were given back without a commit
        for client in [stack.enter_context(psycopg.connect(pooled_url, prepare_threshold=None)) for _ in range(SESSIONS)]:
            client.execute("SET synchronous_commit = off")
    with pytest.raises(StoreUrlError, match="its synchronous_commit is off"):
        opened(journal, "run-2")
    assert [row.run_id for row in journal.runs()] == ["run-1"]
    journal.close()


def test_a_place_is_migrated_and_used_through_a_pooler(pooler: Path, empty_postgres_url: str) -> None:
    url = f"{through(pooler, empty_postgres_url)}&schema=jobs&table_prefix=app_"
    assert migrate(url)[0] is None
    journal = open_journal(url)
    opened(journal)
    assert [row.run_id for row in journal.runs()] == ["run-1"]
    assert sessions(url.partition("&schema")[0], "SHOW search_path") == ['"$user", public'] * SESSIONS
    journal.close()
    with psycopg.connect(empty_postgres_url, autocommit=True) as server:
        server.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()"
        )
