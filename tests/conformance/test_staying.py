"""The connection to PostgreSQL that stays with whoever commits: it is given back, and what broke on it is nobody's."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import psycopg
import pytest
import sqlalchemy as sa

from recovery.core.errors import InvariantViolated
from recovery.ports import Appended, RunRow
from recovery.storage import open_journal
from recovery.storage.sql import SqlJournal
from tests.conformance.making import appended, claim_of, member, opened

WAIT_SECONDS = 60
WHO = "SELECT pg_backend_pid()"


@pytest.fixture
def journal(postgres_url: str) -> Iterator[SqlJournal]:
    found = open_journal(postgres_url)
    assert isinstance(found, SqlJournal)
    yield found
    found.close()


def staying(journal: SqlJournal) -> list[int]:
    """The server's processes behind the connections that stay."""
    return [one.driver.info.backend_pid for one in journal._database._sessions._staying._idle]  # type: ignore[attr-defined]  # PostgreSQL's


def pool(journal: SqlJournal) -> sa.QueuePool:
    found = journal._database._sessions._pool.pool  # type: ignore[attr-defined]  # as above
    assert isinstance(found, sa.QueuePool)
    return found


def test_appends_of_one_run_after_the_other_use_one_connection(journal: SqlJournal) -> None:
    run = opened(journal)
    used = set()
    for _ in range(5):
        run = appended(journal, member(run))
        used |= set(staying(journal))
    assert len(used) == 1


def test_it_is_given_up_with_the_others_and_taken_anew(journal: SqlJournal) -> None:
    run = appended(journal, member(opened(journal)))
    [before] = staying(journal)
    journal.close()
    assert staying(journal) == []
    assert pool(journal).checkedout() == 0
    appended(journal, member(run))
    assert staying(journal) != [before]


def here(call: Callable[[], RunRow]) -> RunRow:
    return call()


def in_a_thread(call: Callable[[], RunRow]) -> RunRow:
    with ThreadPoolExecutor(1) as threads:
        return threads.submit(call).result(WAIT_SECONDS)


@pytest.mark.parametrize("where", [here, in_a_thread])
def test_one_that_the_server_has_ended_is_replaced_and_the_append_is_done(
    journal: SqlJournal, postgres_url: str, where: Callable[[Callable[[], RunRow]], RunRow]
) -> None:
    """Of the main thread, whose wait can be broken off, and of any other one, whose cannot."""
    run = where(lambda: appended(journal, member(opened(journal))))
    [before] = staying(journal)
    with psycopg.connect(postgres_url.replace("+psycopg", ""), autocommit=True) as other:
        assert other.execute("SELECT pg_terminate_backend(%s, 10000)", (before,)).fetchone() == (True,)
    now = where(lambda: appended(journal, member(run)))
    [after] = staying(journal) or [None]
    assert after != before
    where(lambda: appended(journal, member(now)))
    [stays] = staying(journal)
    assert stays != before


@contextmanager
def given_back(journal: SqlJournal) -> Iterator[None]:
    """The one that stays is in the pool again, and alone."""
    sessions = journal._database._sessions  # type: ignore[attr-defined]  # PostgreSQL's
    others = [sessions._pool.raw_connection() for _ in range(pool(journal).checkedin())]
    sessions._staying.close()
    assert staying(journal) == []
    yield
    for other in others:
        other.close()


def test_one_that_was_given_back_and_is_taken_again_knows_its_statements(journal: SqlJournal) -> None:
    run = appended(journal, member(opened(journal)))
    [before] = staying(journal)
    with given_back(journal):
        assert journal.append([member(run)]) == [Appended()]
        assert staying(journal) == [before]  # one whose statement was prepared twice, or not at all, would be gone


def test_one_whose_statements_somebody_let_go_of_is_replaced_and_the_append_is_done(journal: SqlJournal) -> None:
    """As the driver itself does when it rolls back."""
    run = appended(journal, member(opened(journal)))
    [before] = staying(journal)
    with given_back(journal):
        with journal._database.writing() as connection:
            connection.exec_driver_sql("DEALLOCATE ALL")
        run = appended(journal, member(run))
        appended(journal, member(run))
        [after] = staying(journal)
        assert after != before


def test_what_is_broken_off_leaves_nothing_behind(journal: SqlJournal, monkeypatch: pytest.MonkeyPatch) -> None:
    run = appended(journal, member(opened(journal)))
    sessions = journal._database._sessions  # type: ignore[attr-defined]  # PostgreSQL's
    [one] = sessions._staying._idle

    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as broken:
        broken.setattr(one.driver, "wait", interrupted)
        with pytest.raises(KeyboardInterrupt):
            journal.append([member(run)])
    assert one.driver.closed
    assert staying(journal) == []
    now = journal.find(run.run_id)
    assert now is not None
    assert pool(journal).checkedout() == 0
    assert journal.append([member(now)]) == [Appended()]


def test_callers_at_the_same_time_have_one_each_and_one_stays(journal: SqlJournal) -> None:
    """And one that is at work while all are given up goes back behind its use."""
    sessions = journal._database._sessions  # type: ignore[attr-defined]  # PostgreSQL's
    lock, came = threading.Barrier(3), list[object]()

    def sleeping() -> None:
        lock.wait(WAIT_SECONDS)
        came.append(sessions.bare(f"{WHO}, pg_advisory_lock_shared(7), pg_advisory_unlock_shared(7)", ()).get_value(0, 0))

    opened(journal)
    with psycopg.connect(
        sessions._pool.url.render_as_string(hide_password=False).replace("+psycopg", ""), autocommit=True
    ) as other:
        other.execute("SELECT pg_advisory_lock(7)")
        threads = [threading.Thread(target=sleeping) for _ in range(2)]
        for thread in threads:
            thread.start()
        lock.wait(WAIT_SECONDS)
        waiting = "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND objid = 7 AND NOT granted"
        while other.execute(waiting).fetchone() != (2,):
            pass
        journal.close()
        other.execute("SELECT pg_advisory_unlock(7)")
        for thread in threads:
            thread.join(WAIT_SECONDS)
    assert len(set(came)) == 2
    assert staying(journal) == []
    assert pool(journal).checkedout() == 0


def test_a_text_with_a_zero_is_refused_and_not_cut_there(journal: SqlJournal) -> None:
    """Which a server can store in no text, and the driver's library takes for the end of one."""
    run = opened(journal)
    with pytest.raises(InvariantViolated, match="Nothing was written"):
        journal.append([member(run, keys=(claim_of("a\0b"),))])
    assert journal.key_owner("inventory", "warehouse-1", "a") is None
