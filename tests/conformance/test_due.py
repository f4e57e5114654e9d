"""What is due: one behaviour on memory, SQLite and PostgreSQL, and what it costs where nearly everything waits or is settled."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import pytest
import sqlalchemy as sa
from sqlalchemy import event

from recovery.core.entries import Status
from recovery.ports import Due, Journal, RunRow, Standing, Wanted
from recovery.storage import open_journal
from recovery.storage.schema import run as run_table
from recovery.storage.sql import SqlJournal
from tests.conformance.making import appended, member, new_run, opened, owner, stored

NOW_US = 1_000_000
TERM_US = 30_000_000


def wanted(**changes: Any) -> Wanted:
    return replace(Wanted(now_us=NOW_US, limit=10), **changes)


def let_go(journal: Journal, run_id: str, status: Status = Status.RUNNING, next_look_us: int | None = None, **new: Any) -> RunRow:
    """A run that nobody has any more, as it was left."""
    row = journal.open_run(replace(new_run(journal, run_id), **new))
    assert row is not None
    row = appended(journal, member(row, status=status, next_look_us=next_look_us))
    assert row.owner is not None
    assert journal.release(run_id, row.owner.token, row.epoch)
    return row


def names(due: Due) -> list[str]:
    return [row.run_id for row in due.runs]


def test_due_are_runs_that_nobody_has_and_that_can_go_on_now(journal: Journal) -> None:
    let_go(journal, "queued", Status.QUEUED)
    let_go(journal, "orphaned", Status.RUNNING)
    let_go(journal, "woken", Status.WAITING, NOW_US)
    let_go(journal, "told", Status.IN_DOUBT, NOW_US - 1)
    let_go(journal, "later", Status.WAITING, NOW_US + 1)
    let_go(journal, "much-later", Status.WAITING, NOW_US + 2)
    let_go(journal, "asleep", Status.WAITING)
    for status in Status:
        if status not in {Status.QUEUED, Status.RUNNING}:
            let_go(journal, f"at-rest-{status.value}", status)
    opened(journal, "at-work")
    assert set(names(journal.due(wanted()))) == {"queued", "orphaned", "woken", "told"}
    assert journal.due(wanted()).next_due_us == NOW_US + 1
    assert names(journal.due(wanted(now_us=NOW_US + 2)))[-2:] == ["later", "much-later"]


def test_nothing_is_due_in_a_database_that_is_not_there(store_url: str) -> None:
    journal = open_journal(store_url)
    assert journal.due(wanted()) == Due((), None)
    assert journal.claim_due(wanted(), owner(), lease_term_us=TERM_US) == Due((), None)
    assert journal.owned() == []
    assert journal.standing(NOW_US) == []
    journal.close()


def test_a_higher_priority_goes_first_then_what_has_been_due_for_longest(journal: Journal) -> None:
    let_go(journal, "timer", Status.WAITING, 500_000)
    let_go(journal, "fresh", Status.QUEUED)
    let_go(journal, "urgent", Status.WAITING, 900_000, priority=2)
    let_go(journal, "last", Status.QUEUED, priority=-1)
    assert names(journal.due(wanted())) == ["urgent", "fresh", "timer", "last"]
    assert names(journal.due(wanted(limit=2))) == ["urgent", "fresh"]


def test_of_one_priority_no_queue_stands_in_front_of_another(journal: Journal) -> None:
    for number in range(3):
        let_go(journal, f"a{number}", Status.WAITING, 600_000 + number, queue="a")
    let_go(journal, "b", Status.WAITING, 500_000, queue="b")
    let_go(journal, "below", Status.WAITING, 1, queue="a", priority=-1)
    assert names(journal.due(wanted(limit=2))) == ["b", "a0"]
    assert names(journal.claim_due(wanted(limit=1), owner(), lease_term_us=TERM_US)) == ["b"]


def test_a_worker_sees_the_queues_and_workflows_that_it_serves(journal: Journal) -> None:
    let_go(journal, "a", queue="mail")
    let_go(journal, "b", queue="cards", workflow="charge")
    let_go(journal, "c")
    assert set(names(journal.due(wanted()))) == {"a", "b", "c"}
    assert names(journal.due(wanted(queues=("mail",)))) == ["a"]
    assert set(names(journal.due(wanted(queues=("", "cards"))))) == {"b", "c"}
    assert names(journal.due(wanted(workflows=("charge",)))) == ["b"]
    assert set(names(journal.due(wanted(passed_over=frozenset({"a"}))))) == {"b", "c"}


def test_a_claim_of_due_runs_is_a_claim_of_each(journal: Journal) -> None:
    before = [let_go(journal, name) for name in ("a", "b", "c")]
    us = owner("worker")
    found = journal.claim_due(wanted(limit=2), us, lease_term_us=TERM_US)
    assert names(found) == ["a", "b"]
    for row, old in zip(found.runs, before[:2], strict=True):
        assert row.owner == us
        assert row.epoch == replace(old.epoch, n=old.epoch.n + 1)
        assert (row.lease_counter, row.lease_term_us, row.crashes) == (0, TERM_US, 0)
        assert journal.find(row.run_id) == row
    assert names(journal.due(wanted())) == ["c"]
    assert [row.run_id for row in journal.owned()] == ["a", "b"]
    assert [row.run_id for row in journal.owned(after=("", "a"))] == ["b"]
    assert names(journal.claim_due(wanted(), owner("other"), lease_term_us=TERM_US)) == ["c"]
    assert journal.claim_due(wanted(), owner("third"), lease_term_us=TERM_US) == Due((), None)


def test_what_is_claimed_from_an_owner_who_had_not_let_go_counts_until_it_is_let_go(journal: Journal) -> None:
    row = opened(journal)
    for crashes in (1, 2):
        again = journal.claim(row, owner(), lease_term_us=TERM_US, at_us=NOW_US)
        assert again is not None
        assert again.crashes == crashes
        row = again
    row = appended(journal, member(row))
    assert row.crashes == 2
    assert row.owner is not None
    journal.release(row.run_id, row.owner.token, row.epoch)
    [claimed] = journal.claim_due(wanted(), owner(), lease_term_us=TERM_US).runs
    assert claimed.crashes == 0


def test_claimants_at_the_same_time_share_what_is_due(store_url: str) -> None:
    journals = [open_journal(store_url) for _ in range(4)]
    every = {f"run-{number:02}" for number in range(40)}
    for name in sorted(every):
        let_go(journals[0], name)
    taken: list[list[str]] = [[] for _ in journals]

    def work(number: int) -> None:
        while found := names(journals[number].claim_due(wanted(limit=3), owner(f"w{number}"), lease_term_us=TERM_US)):
            taken[number] += found

    threads = [threading.Thread(target=work, args=(number,)) for number in range(len(journals))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(name for mine in taken for name in mine) == sorted(every)
    for journal in journals:
        journal.close()


def test_a_run_that_somebody_has_their_hands_on_is_passed_over_and_not_waited_for(postgres_url: str) -> None:
    journal = open_journal(postgres_url)
    assert isinstance(journal, SqlJournal)
    for name in ("a", "b"):
        let_go(journal, name)
    with journal._database.transaction() as connection:
        connection.execute(sa.select(run_table).where(run_table.c.run_id == "a").with_for_update())
        assert names(journal.claim_due(wanted(), owner(), lease_term_us=TERM_US)) == ["b"]
    assert names(journal.claim_due(wanted(), owner(), lease_term_us=TERM_US)) == ["a"]
    journal.close()


def test_one_row_that_cannot_be_read_hides_no_other(store_url: str) -> None:
    journal = open_journal(store_url)
    assert isinstance(journal, SqlJournal)
    for name in ("a", "b"):
        let_go(journal, name)
    with journal._database.writing() as connection:
        connection.execute(sa.update(run_table).where(run_table.c.run_id == "a").values(created_at_us=-5))
    assert names(journal.due(wanted())) == ["b"]
    assert names(journal.claim_due(wanted(), owner(), lease_term_us=TERM_US)) == ["b"]
    journal.close()


def test_looking_changes_nothing(journal: Journal) -> None:
    let_go(journal, "a")
    opened(journal, "b")
    before = stored(journal)
    journal.due(wanted())
    journal.owned()
    assert stored(journal) == before


def test_what_stands_in_each_queue_is_counted(journal: Journal) -> None:
    for name, at_us in (("b", 400_000), ("a", 300_000), ("now", NOW_US)):
        let_go(journal, name, Status.WAITING, at_us, queue="mail")
    let_go(journal, "queued", Status.QUEUED, queue="mail", priority=3)
    for name, at_us in (("later", 3_000_000), ("first", 2_000_000)):
        let_go(journal, name, Status.WAITING, at_us, queue="mail")
    let_go(journal, "alone", Status.IN_DOUBT, 5_000_000, queue="cards")
    opened(journal, "at-work")
    at_work = journal.open_run(replace(new_run(journal, "at-work-too"), queue="mail"))
    assert at_work is not None
    for status in Status:
        if status not in {Status.QUEUED, Status.RUNNING}:
            let_go(journal, f"at-rest-{status.value}", status, queue="at-rest")
    settled = journal.open_run(replace(new_run(journal, "settled"), queue="at-rest"))
    assert settled is not None
    appended(journal, member(settled, status=Status.COMPLETED))
    assert journal.standing(NOW_US) == [
        Standing(queue="", at_work=1),
        Standing(queue="cards", later=1, next_due_us=5_000_000),
        Standing(queue="mail", due=4, later=2, at_work=1, due_since_us=2_000, next_due_us=2_000_000),
    ]


# -- what it costs -----------------------------------------------------------------------------------------------------


@contextmanager
def explained(journal: SqlJournal, begins: str = "SELECT run") -> Iterator[list[str]]:
    """The plans of the statements that read runs meanwhile, as the database makes them for these values."""
    plans: list[str] = []
    busy = threading.local()

    def explain(connection: Any, cursor: Any, statement: str, parameters: Any, *_: Any) -> None:
        if getattr(busy, "now", False) or not statement.lstrip().startswith(begins):
            return
        busy.now = True
        sqlite = connection.dialect.name == "sqlite"
        rows = connection.exec_driver_sql(f"EXPLAIN {'QUERY PLAN ' if sqlite else ''}{statement}", parameters).fetchall()
        plans.append("\n".join(str(row[-1]) for row in rows))
        busy.now = False

    database: Any = journal._database
    engines = [database._reader, database._writer] if hasattr(database, "_reader") else [database._sessions._pool]
    for engine in engines:
        event.listen(engine, "before_cursor_execute", explain)
    yield plans
    for engine in engines:
        event.remove(engine, "before_cursor_execute", explain)


@pytest.mark.parametrize("analyzed", [False, True])
def test_a_look_goes_by_the_indexes_of_what_is_due_and_owned(store_url: str, analyzed: bool) -> None:
    journal = open_journal(store_url)
    assert isinstance(journal, SqlJournal)
    let_go(journal, "a")
    with journal._database.transaction() as connection:
        [template] = connection.execute(sa.select(run_table)).mappings().all()
        same = {name: value for name, value in template.items() if name != "number"}
        settled = [same | {"run_id": f"s{number}", "status": "completed", "owner_token": "x"} for number in range(3_000)]
        asleep = [same | {"run_id": f"w{number}", "status": "waiting", "next_look_us": NOW_US * 2} for number in range(500)]
        connection.execute(sa.insert(run_table), settled + asleep)
        if analyzed:
            connection.exec_driver_sql("ANALYZE run" if connection.dialect.name == "postgresql" else "ANALYZE")
    with explained(journal) as plans:
        for changes in ({}, {"queues": ("",), "workflows": ("resolve",), "passed_over": frozenset({"x"})}):
            found = journal.due(wanted(**changes))
            assert (names(found), found.next_due_us) == (["a"], NOW_US * 2)
        assert names(journal.claim_due(wanted(), owner(), lease_term_us=TERM_US)) == ["a"]
        assert [row.run_id for row in journal.owned()] == ["a"]
        standing = Standing(queue="", later=500, at_work=1, next_due_us=NOW_US * 2)
        assert journal.standing(NOW_US) == [standing]
    assert len(plans) == 18  # five a look, the owned, and the two that count what stands
    for plan in plans:
        assert "run_due" in plan or "run_owned" in plan, plan
        assert "SCAN run\n" not in f"{plan}\n", plan
    journal.close()
