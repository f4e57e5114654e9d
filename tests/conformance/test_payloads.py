"""Values out of line: one behaviour on memory, SQLite and PostgreSQL."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import psycopg
import pytest

from recovery.core.entries import Status
from recovery.ports import Appended, Fenced, Journal, KeyTaken, Payload, RunRow, Stub
from recovery.storage import open_journal, payloads
from recovery.storage.sql import SqlJournal
from tests.conformance.blocking import in_thread, wait_until_blocked_by
from tests.conformance.making import appended, claim_of, member, new_run, opened, row_after, stored

STUB = Stub("run-1", "digest", "ann", "why", 7)
A, B = Payload("a" * 64, b"alpha \x00\xff"), Payload("b" * 64, b"beta" * 50_000)


def settled(journal: Journal, run_id: str, *items: Payload) -> RunRow:
    return appended(journal, member(opened(journal, run_id), status=Status.COMPLETED, payloads=items))


def forget(journal: Journal, run: RunRow) -> None:
    assert journal.forget(run, replace(STUB, run_id=run.run_id))


def test_payloads_are_stored_with_the_rows_that_refer_to_them(journal: Journal) -> None:
    journal.open_run(replace(new_run(journal), payloads=(A,)))
    assert journal.payloads([A.digest, B.digest]) == {A.digest: A.body}
    run = journal.find("run-1")
    assert run is not None
    appended(journal, member(run, payloads=(B, A)))
    assert journal.payloads([B.digest, A.digest, "c" * 64]) == {A.digest: A.body, B.digest: B.body}
    assert journal.payloads([]) == {}


def test_a_taken_run_id_and_a_refused_append_store_none(journal: Journal) -> None:
    run, other = opened(journal), opened(journal, "run-2")
    appended(journal, member(other, keys=(claim_of("K1"),)))
    before = stored(journal)
    assert journal.open_run(replace(new_run(journal), payloads=(A,))) is None
    batch = [
        member(run, keys=(claim_of("K1"),), payloads=(A,)),
        member(run, keys=(claim_of("K2"), claim_of("K1")), payloads=(A,)),
        member(replace(run, head=7), payloads=(A,)),
    ]
    assert [type(result) for result in journal.append(batch)] == [KeyTaken, KeyTaken, Fenced]
    assert stored(journal) == before


def test_members_of_one_batch_are_independent(journal: Journal) -> None:
    runs = [opened(journal, f"run-{n}") for n in range(4)]
    appended(journal, member(runs[3]))  # whoever still believes in the first row is fenced
    batch = [member(runs[0], payloads=(B, A)), member(runs[1]), member(runs[3], payloads=(A,)), member(runs[2], payloads=(A, B))]
    assert [type(result) for result in journal.append(batch)] == [Appended, Appended, Fenced, Appended]
    assert journal.payloads([A.digest, B.digest]) == {A.digest: A.body, B.digest: B.body}


def test_a_repeated_append_changes_nothing(journal: Journal) -> None:
    append = member(opened(journal), payloads=(A,))
    assert journal.append([append]) == [Appended()]
    before = stored(journal)
    assert journal.append([append]) == [Appended()]
    assert stored(journal) == before


def test_bytes_are_stored_once_and_go_with_the_last_run_that_refers_to_them(journal: Journal) -> None:
    first, second = settled(journal, "run-1", A, B), settled(journal, "run-2", A)
    assert len(stored(journal)["payload"]) == 2
    forget(journal, first)
    assert journal.payloads([A.digest, B.digest]) == {A.digest: A.body}
    forget(journal, second)
    assert stored(journal)["payload"] == stored(journal)["run_payload"] == []


def test_what_is_not_forgotten_keeps_its_payloads(journal: Journal) -> None:
    run = appended(journal, member(opened(journal), payloads=(A,)))
    assert not journal.forget(run, STUB)
    assert journal.payloads([A.digest]) == {A.digest: A.body}


# -- PostgreSQL: two that meet -------------------------------------------------------------------------------------------


@pytest.fixture
def meeting(postgres_url: str) -> Any:
    journal, watcher = open_journal(postgres_url), psycopg.connect(postgres_url, autocommit=True)
    assert isinstance(journal, SqlJournal)
    yield journal, watcher
    watcher.close()
    journal.close()


def test_who_begins_to_refer_to_bytes_waits_for_who_forgets_them_and_stores_them_again(meeting: Any) -> None:
    journal, watcher = meeting
    first, other = settled(journal, "run-1", A), opened(journal, "run-2")
    with journal._database.transaction() as connection:
        number = connection.exec_driver_sql("SELECT number FROM run WHERE run_id = 'run-1'").scalar_one()
        payloads.release(connection, number)
        pid = connection.exec_driver_sql("SELECT pg_backend_pid()").scalar_one()
        waiting = in_thread(lambda: journal.append([member(other, payloads=(A,))]))
        wait_until_blocked_by(watcher, pid)
    assert waiting.result(60) == [Appended()]
    assert journal.payloads([A.digest]) == {A.digest: A.body}
    assert first.run_id == "run-1"


def test_who_forgets_waits_for_who_begins_to_refer_to_the_same_bytes_and_leaves_them(meeting: Any) -> None:
    journal, watcher = meeting
    first = settled(journal, "run-1", A)
    opened(journal, "run-2")
    with journal._database.transaction() as connection:
        number = connection.exec_driver_sql("SELECT number FROM run WHERE run_id = 'run-2'").scalar_one()
        payloads.refer(connection, [(number, A)])
        pid = connection.exec_driver_sql("SELECT pg_backend_pid()").scalar_one()
        waiting = in_thread(lambda: journal.forget(first, STUB))
        wait_until_blocked_by(watcher, pid)
    assert waiting.result(60)
    assert journal.payloads([A.digest]) == {A.digest: A.body}
    assert len(stored(journal)["run_payload"]) == 1


def test_an_append_and_a_forgetting_of_the_same_run_meet_at_its_row_and_not_in_a_circle(meeting: Any) -> None:
    journal, watcher = meeting
    run = settled(journal, "run-1", A)
    late = member(run, row_after(run), status=Status.COMPLETED, payloads=(A,))
    with journal._database.transaction() as connection:
        connection.exec_driver_sql("SELECT 1 FROM run WHERE run_id = 'run-1' FOR UPDATE")
        pid = connection.exec_driver_sql("SELECT pg_backend_pid()").scalar_one()
        waiting = in_thread(lambda: journal.append([late]))
        wait_until_blocked_by(watcher, pid)
        connection.exec_driver_sql("UPDATE run SET owner_token = NULL, epoch_n = epoch_n + 1 WHERE run_id = 'run-1'")
        number = connection.exec_driver_sql("SELECT number FROM run WHERE run_id = 'run-1'").scalar_one()
        payloads.release(connection, number)
    assert isinstance(waiting.result(60)[0], Fenced)
    assert journal.payloads([A.digest]) == {}
