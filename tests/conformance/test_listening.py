"""Who listens to a journal is woken by what makes a run due: in this process on every store, and by other processes on PostgreSQL."""

from __future__ import annotations

import logging
import os
import resource
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import psycopg
import pytest
import sqlalchemy as sa

from recovery import Call, Engine, Lease, Run, contracts, effect, workflow
from recovery.core.entries import Status
from recovery.engine.working import Working
from recovery.ports import Appended, Journal
from recovery.storage import open_journal
from recovery.storage.listening import _CHANNEL, Listener
from recovery.storage.urls import parsed
from tests.conformance.making import appended, member, new_run, opened
from tests.conformance.test_inbox import message, waiting
from tests.integration.test_workers import working
from tests.pooler import PGBOUNCER, pooling, through
from tests.postgres import PostgresServer

SECONDS = 60
FAR_US = 2**52


@effect(contracts.Opaque())
def post(call: Call, *, name: str) -> str:
    return f"posted {name}"


@workflow
def letter(run: Run, name: str) -> str:
    return run.perform(post(name=name))


def enqueued(journal: Journal, run_id: str, next_look_us: int | None = None) -> None:
    journal.open_run(replace(new_run(journal, run_id, status=Status.QUEUED), let_go=True, next_look_us=next_look_us))


def told(journal: Journal) -> None:
    waiting(journal, opened(journal, "told"))
    journal.deliver(message(run_id="told"))


def let_go(journal: Journal) -> None:
    run = opened(journal, "let-go")
    assert run.owner is not None
    assert journal.release("let-go", run.owner.token, run.epoch)


def child_ended(journal: Journal) -> None:
    waiting(journal, opened(journal, "parent"))
    ends = replace(member(opened(journal, "child"), status=Status.COMPLETED), words=(message(run_id="parent"),))
    assert journal.append([ends]) == [Appended()]


WAKING = [lambda journal: enqueued(journal, "queued"), told, let_go, child_ended]


@pytest.mark.parametrize("act", WAKING, ids=["enqueued", "told", "let go", "a child's end"])
def test_what_makes_a_run_due_wakes_who_listens_in_this_process(journal: Journal, act: Callable[[Journal], None]) -> None:
    opened(journal, "first")  # a database that is there
    woken = threading.Event()
    end = journal.listen(woken.set)
    act(journal)
    assert woken.wait(SECONDS)
    end()
    end()
    woken.clear()
    enqueued(journal, "later")
    assert not woken.is_set()


@contextmanager
def heard(url: str) -> Iterator[Callable[[], int]]:
    """How often others were told something so far."""
    with psycopg.connect(url, autocommit=True) as client:
        row = client.execute(f"SELECT {_CHANNEL}", ("", "")).fetchone()  # type: ignore[arg-type]  # ours
        assert row is not None
        client.execute(psycopg.sql.SQL("LISTEN {}").format(psycopg.sql.Identifier(row[0])))

        def count() -> int:
            client.execute("SELECT pg_notify(%s, 'end')", (row[0],))
            return next(before for before, said in enumerate(client.notifies()) if said.payload == "end")

        yield count


def test_other_processes_are_told_of_each_and_of_nothing_that_is_not_due(postgres_url: str) -> None:
    with closing(open_journal(postgres_url)) as journal, heard(postgres_url) as count:
        for act in WAKING:
            act(journal)
            assert count() == 1
        run = opened(journal, "at-work")
        appended(journal, member(run, status=Status.COMPLETED))
        enqueued(journal, "in-a-century", FAR_US)
        asleep = waiting(journal, opened(journal, "asleep"), FAR_US)
        assert asleep.owner is not None
        assert journal.release("asleep", asleep.owner.token, asleep.epoch)
        assert count() == 0


def test_a_connection_that_was_lost_is_made_again_with_a_look_in_between(postgres_url: str) -> None:
    woken = threading.Event()
    with closing(open_journal(postgres_url)) as here, closing(open_journal(postgres_url)) as elsewhere:
        end = here.listen(woken.set)
        assert woken.wait(SECONDS)  # it listens
        woken.clear()
        enqueued(elsewhere, "queued")
        assert woken.wait(SECONDS)
        woken.clear()
        with psycopg.connect(postgres_url, autocommit=True) as server:
            server.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE query LIKE 'LISTEN %'")
        assert woken.wait(SECONDS)
        woken.clear()
        enqueued(elsewhere, "queued-too")
        assert woken.wait(SECONDS)
        end()


def test_it_ends_although_a_forked_child_lives_on_and_the_childs_end_is_not_its_own(postgres_url: str) -> None:
    woken = threading.Event()
    ending, end_it = os.pipe()
    told, telling = os.pipe()
    with closing(open_journal(postgres_url)) as here, closing(open_journal(postgres_url)) as elsewhere:
        end = here.listen(woken.set)
        assert woken.wait(SECONDS)
        woken.clear()
        child = os.fork()
        if child == 0:
            end()
            os.write(telling, b"1")
            os.close(end_it)
            os.read(ending, 1)
            os._exit(0)
        assert os.read(told, 1) == b"1"
        enqueued(elsewhere, "queued")
        assert woken.wait(SECONDS)
        second = os.fork()
        if second == 0:
            os.close(end_it)
            os.read(ending, 1)
            os._exit(0)
        ends = threading.Thread(target=end, daemon=True)
        ends.start()
        ends.join(SECONDS)
        ended = not ends.is_alive()
        os.close(end_it)
        for each in (child, second):
            os.waitpid(each, 0)
        assert ended
    for file in (ending, told, telling):
        os.close(file)


@pytest.fixture
def many_files() -> Iterator[None]:
    """Whatever is opened has a number that a plain `select` refuses."""
    files, (soft, hard) = 1100, resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, 2 * files) if hard < 0 else min(hard, max(soft, 2 * files)), hard))
    opened_files = [os.open(os.devnull, os.O_RDONLY) for _ in range(files)]
    yield
    for file in opened_files:
        os.close(file)
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_a_process_with_more_than_a_thousand_files_hears_too(postgres_url: str, many_files: None) -> None:
    woken = threading.Event()
    with closing(open_journal(postgres_url)) as here, closing(open_journal(postgres_url)) as elsewhere:
        end = here.listen(woken.set)
        assert woken.wait(SECONDS)  # it listens
        woken.clear()
        enqueued(elsewhere, "queued")
        assert woken.wait(SECONDS)
        end()


@pytest.mark.skipif(PGBOUNCER is None, reason="PgBouncer is a server of its own, and not installed here (Debian: pgbouncer)")
def test_nobody_listens_behind_a_pooler(postgres_server: PostgresServer, postgres_url: str) -> None:
    server = sa.make_url(postgres_server.url("postgres")).query["host"]
    with pooling(Path(str(server))) as directory:
        listener = Listener(parsed(through(directory, postgres_url)), lambda: None)
        listener._thread.join(SECONDS)
        assert not listener._thread.is_alive()
        listener.close()


def test_nobody_listens_over_an_engine_of_a_services_own_and_its_log_says_so_once(
    postgres_url: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, logger="recovery")
    service = sa.create_engine(postgres_url.replace("postgresql://", "postgresql+psycopg://"))
    with closing(Engine(service, workflows=[letter])) as engine:
        engine.enqueue(letter("a"), run_id="a")
        engine.enqueue(letter("b"), run_id="b")
        assert engine.worker(Working(until_idle=True)).run()
    service.dispose()
    said = [record.recovery for record in caplog.records if record.name == "recovery.storage.listening"]  # type: ignore[attr-defined]  # the fields
    assert [each["event"] for each in said] == [
        "an engine of a service's own listens to nothing: what is due is found by looking now and then"
    ]


def test_a_worker_does_not_wait_for_its_next_look(journal: Journal, request: pytest.FixtureRequest) -> None:
    never = timedelta(hours=6)
    engine = Engine(journal, workflows=[letter], lease=Lease(term=never, renew_every=never / 2))
    other = Engine(open_journal(request.getfixturevalue("postgres_url"))) if journal.url.startswith("postgresql") else engine
    with working(engine, Working(poll=never)) as (worker, told):
        while not worker.reached:
            threading.Event().wait(0.01)
        other.enqueue(letter("a"), run_id="a")
        told.until("brought on", run_id="a", status="completed")
    other.flush()
    engine.flush()
