"""Limits of queues, and rates: one behaviour on memory, SQLite and PostgreSQL, claimants at the same time included."""

from __future__ import annotations

import threading
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
import sqlalchemy as sa

from recovery.core.entries import Status
from recovery.core.limits import Queue, Rate
from recovery.ports import Due, Journal, RunRow, Wanted
from recovery.storage import open_journal
from recovery.storage.schema import quota
from recovery.storage.schema import run as run_table
from recovery.storage.sql import SqlJournal
from tests.conformance.making import member, owner, stored
from tests.conformance.test_due import NOW_US, TERM_US, explained, let_go, names

MINUTE_US = 60_000_000


def wanted(*limits: Queue, **changes: Any) -> Wanted:
    return replace(Wanted(now_us=NOW_US, limit=10, limits=limits), **changes)


def claimed(journal: Journal, asked: Wanted, by: str = "worker") -> Due:
    """What was claimed; looking said the same, and changed nothing."""
    before = stored(journal)
    seen = journal.due(asked)
    assert stored(journal) == before
    due = journal.claim_due(asked, owner(by), lease_term_us=TERM_US)
    assert names(seen) == names(due)
    assert seen.next_due_us == due.next_due_us
    return due


def given_up(journal: Journal, row: RunRow) -> None:
    assert row.owner is not None
    assert journal.release(row.run_id, row.owner.token, row.epoch)


def queued(journal: Journal, *run_ids: str, **new: Any) -> None:
    for run_id in run_ids:
        let_go(journal, run_id, Status.QUEUED, **{"queue": "mail"} | new)


def per_minute(count: int) -> Rate:
    return Rate(count, timedelta(minutes=1))


def test_no_more_of_a_queue_are_claimed_than_may_be_at_work(journal: Journal) -> None:
    queued(journal, "a", "b", "c", "d")
    mail = Queue("mail", concurrency=2)
    first = claimed(journal, wanted(mail, limit=1))
    assert names(first) == ["a"]
    assert names(claimed(journal, wanted(mail))) == ["b"]
    assert claimed(journal, wanted(mail)) == Due((), None)
    given_up(journal, first.runs[0])
    assert names(claimed(journal, wanted(mail))) == ["a"]
    assert names(claimed(journal, wanted())) == ["c", "d"]  # who states no limit keeps none


def test_a_run_that_has_ended_makes_room_at_once(journal: Journal) -> None:
    queued(journal, "a", "b")
    mail = Queue("mail", concurrency=1)
    [row] = claimed(journal, wanted(mail)).runs
    journal.append([member(row, status=Status.COMPLETED)])
    assert names(claimed(journal, wanted(mail))) == ["b"]


def test_a_full_queue_hides_no_other_whatever_its_priority(journal: Journal) -> None:
    queued(journal, "a", "b", "c", priority=5)
    queued(journal, "low", queue="slow", priority=-5)
    let_go(journal, "plain", Status.QUEUED)
    limits = (Queue("mail", concurrency=1), Queue("slow", concurrency=1))
    assert names(claimed(journal, wanted(*limits, limit=3))) == ["a", "plain", "low"]


def test_lanes_of_one_queue_share_its_room(journal: Journal) -> None:
    queued(journal, "low", priority=-1)
    queued(journal, "high", priority=1)
    queued(journal, "middle")
    queued(journal, "other", queue="cards")
    assert names(claimed(journal, wanted(Queue("mail", concurrency=2)))) == ["high", "middle", "other"]


def test_the_queue_of_runs_without_one_has_limits_too(journal: Journal) -> None:
    queued(journal, "a", "b", queue="")
    assert names(claimed(journal, wanted(Queue("", concurrency=1)))) == ["a"]


def test_a_crashed_workers_run_takes_up_room_until_it_is_taken_over_and_no_more_then(journal: Journal) -> None:
    queued(journal, "a", "b")
    mail = Queue("mail", concurrency=1)
    [row] = claimed(journal, wanted(mail)).runs
    assert claimed(journal, wanted(mail)).runs == ()
    again = journal.claim(row, owner("second"), lease_term_us=TERM_US, at_us=NOW_US)
    assert again is not None
    assert claimed(journal, wanted(mail)).runs == ()
    given_up(journal, again)
    assert names(claimed(journal, wanted(mail))) == ["a"]


def test_a_run_that_was_let_go_meanwhile_is_not_taken_over(journal: Journal) -> None:
    """Its room may be another run's by now."""
    queued(journal, "a", "b")
    mail = Queue("mail", concurrency=1)
    [seen] = claimed(journal, wanted(mail)).runs
    given_up(journal, seen)
    assert names(claimed(journal, wanted(mail, passed_over=frozenset({"a"})))) == ["b"]
    assert journal.claim(seen, owner("late"), lease_term_us=TERM_US, at_us=NOW_US) is None


def test_no_more_of_a_queue_begin_than_its_rate_says_and_the_claim_says_when_the_next_may(journal: Journal) -> None:
    queued(journal, "a", "b", "c", "d", "e")
    mail = Queue("mail", rate=per_minute(2))
    due = claimed(journal, wanted(mail))
    assert (names(due), due.next_due_us) == (["a", "b"], NOW_US + MINUTE_US)
    just_before = NOW_US + MINUTE_US - 1
    assert claimed(journal, wanted(mail, now_us=just_before)) == Due((), NOW_US + MINUTE_US)
    later = claimed(journal, wanted(mail, now_us=NOW_US + MINUTE_US))
    assert (names(later), later.next_due_us) == (["c", "d"], NOW_US + 2 * MINUTE_US)


def test_what_goes_on_is_not_held_up_by_what_may_not_begin(journal: Journal) -> None:
    queued(journal, "a", "b", "c")
    let_go(journal, "woken", Status.WAITING, NOW_US - 1, queue="mail")
    let_go(journal, "left", Status.RUNNING, queue="mail")
    let_go(journal, "told", Status.IN_DOUBT, NOW_US - 2, queue="mail")
    mail = Queue("mail", rate=per_minute(1))
    assert set(names(claimed(journal, wanted(mail)))) == {"a", "woken", "left", "told"}
    let_go(journal, "woken-too", Status.WAITING, NOW_US, queue="mail")
    assert names(claimed(journal, wanted(mail))) == ["woken-too"]


def test_a_rate_and_room_hold_together(journal: Journal) -> None:
    queued(journal, "a", "b", "c", "d")
    let_go(journal, "woken", Status.WAITING, 1, queue="mail")
    mail = Queue("mail", concurrency=2, rate=per_minute(2))
    due = claimed(journal, wanted(mail))
    assert names(due) == ["woken", "a"]  # the one whose look has been due since 1970, and one more
    assert due.next_due_us is None  # only an end makes room
    for row in due.runs:
        given_up(journal, row)
    assert len(names(claimed(journal, wanted(mail)))) == 2


def test_a_queue_whose_rate_is_used_up_hides_no_other(journal: Journal) -> None:
    queued(journal, "a", "b", priority=9)
    queued(journal, "other", queue="cards")
    mail = Queue("mail", rate=per_minute(1))
    assert names(claimed(journal, wanted(mail))) == ["a", "other"]


def test_a_rate_is_taken_until_it_is_used_up(journal: Journal) -> None:
    rate = per_minute(2)
    assert journal.take("environment:a", rate, NOW_US) is None
    assert journal.take("environment:b", rate, NOW_US) is None
    assert journal.take("environment:a", rate, NOW_US + 5) is None
    assert journal.take("environment:a", rate, NOW_US + 6) == NOW_US + MINUTE_US
    assert journal.take("environment:b", rate, NOW_US + 6) is None
    assert journal.take("environment:a", rate, NOW_US + MINUTE_US) is None
    assert journal.take("environment:a", rate, NOW_US + MINUTE_US) == NOW_US + MINUTE_US + 5


def test_what_a_clock_far_ahead_has_taken_of_a_rate_comes_back_after_a_period(journal: Journal) -> None:
    rate, ahead_us = per_minute(2), NOW_US + 1_000_000 * MINUTE_US
    for _ in range(2):
        assert journal.take("environment:a", rate, ahead_us) is None
    assert journal.take("environment:a", rate, NOW_US) == NOW_US + MINUTE_US
    assert journal.take("environment:a", rate, NOW_US + MINUTE_US - 1) is not None
    assert journal.take("environment:a", rate, NOW_US + MINUTE_US) is None


def test_what_a_clock_far_ahead_has_begun_of_a_queue_comes_back_after_a_period(journal: Journal) -> None:
    queued(journal, "a", "b")
    mail = Queue("mail", rate=per_minute(1))
    assert names(claimed(journal, wanted(mail, now_us=NOW_US + 1_000_000 * MINUTE_US))) == ["a"]
    assert claimed(journal, wanted(mail)) == Due((), NOW_US + MINUTE_US)
    assert claimed(journal, wanted(mail, now_us=NOW_US + MINUTE_US - 1)) == Due((), NOW_US + MINUTE_US)
    assert names(claimed(journal, wanted(mail, now_us=NOW_US + MINUTE_US))) == ["b"]


def test_claimants_at_the_same_time_keep_the_limits_together(store_url: str) -> None:
    """Each lets go of what it has claimed once it has seen how much there is: nobody ever saw more than may be."""
    journals = [open_journal(store_url) for _ in range(4)]
    every = {f"run-{number:02}" for number in range(24)}
    queued(journals[0], *sorted(every))
    limits = (Queue("mail", concurrency=3, rate=Rate(8, timedelta(minutes=1))),)
    begun: list[list[str]] = [[] for _ in journals]
    at_work: list[int] = []

    def work(number: int) -> None:
        mine = journals[number]
        for minute in range(12):
            now_us = NOW_US + minute * MINUTE_US
            for _ in range(4):
                due = mine.claim_due(wanted(*limits, limit=2, now_us=now_us), owner(f"w{number}"), lease_term_us=TERM_US)
                at_work.append(len(mine.owned()))
                for row in due.runs:
                    begun[number].append(row.run_id)
                    mine.append([member(row, status=Status.COMPLETED)])

    threads = [threading.Thread(target=work, args=(number,)) for number in range(len(journals))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert max(at_work) <= 3
    assert sorted(name for mine in begun for name in mine) == sorted(every)
    for journal in journals:
        journal.close()


def test_takers_at_the_same_time_never_take_more_than_the_rate(store_url: str) -> None:
    journals = [open_journal(store_url) for _ in range(4)]
    journals[0].namespace()
    got: list[object] = []

    def take(mine: Journal) -> None:
        for _ in range(10):
            got.append(mine.take("environment:a", per_minute(7), NOW_US))

    threads = [threading.Thread(target=take, args=(journal,)) for journal in journals]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert got.count(None) == 7
    assert len(got) == 40
    for journal in journals:
        journal.close()


@pytest.mark.parametrize("spoilt", ["", "{", "[[1]]", '[["x", 2]]', "7"])
def test_what_cannot_be_read_of_a_rate_counts_for_nothing_and_is_written_anew(store_url: str, spoilt: str) -> None:
    journal = open_journal(store_url)
    assert isinstance(journal, SqlJournal)
    journal.take("environment:a", per_minute(1), NOW_US)
    with journal._database.writing() as connection:
        connection.execute(sa.update(quota).values(taken=spoilt))
    assert journal.take("environment:a", per_minute(1), NOW_US) is None
    assert journal.take("environment:a", per_minute(1), NOW_US) == NOW_US + MINUTE_US
    journal.close()


@pytest.mark.parametrize("analyzed", [False, True])
def test_where_a_rate_is_used_up_a_look_does_not_go_through_what_queues_up(store_url: str, analyzed: bool) -> None:
    journal = open_journal(store_url)
    assert isinstance(journal, SqlJournal)
    queued(journal, "a")
    let_go(journal, "woken", Status.WAITING, 1, queue="mail")
    with journal._database.transaction() as connection:
        template = connection.execute(sa.select(run_table).where(run_table.c.run_id == "a")).mappings().one()
        same = {name: value for name, value in template.items() if name != "number"}
        waiting = [same | {"run_id": f"q{number}"} for number in range(1_000)]
        settled = [same | {"run_id": f"s{number}", "status": "completed", "owner_token": "x"} for number in range(4_000)]
        connection.execute(sa.insert(run_table), settled + waiting)
        if analyzed:
            connection.exec_driver_sql("ANALYZE run" if connection.dialect.name == "postgresql" else "ANALYZE")
    mail = Queue("mail", concurrency=5, rate=per_minute(1))
    assert names(journal.claim_due(wanted(mail, limit=1), owner(), lease_term_us=TERM_US)) == ["woken"]
    with explained(journal, "SELECT ") as plans:
        assert names(journal.claim_due(wanted(mail), owner(), lease_term_us=TERM_US)) == ["a"]
        due = journal.claim_due(wanted(mail), owner(), lease_term_us=TERM_US)
    assert due == Due((), NOW_US + MINUTE_US)
    last = plans[len(plans) // 2 :]
    assert sum("run_owned" in plan for plan in plans) == 2  # what is at work is counted
    assert any("run_resumed" in plan for plan in last)
    for plan in plans:
        assert any(index in plan for index in ("run_due", "run_owned", "run_resumed", "quota")), plan
        assert "SCAN run\n" not in f"{plan}\n", plan
        assert "Seq Scan" not in plan, plan
    journal.close()
