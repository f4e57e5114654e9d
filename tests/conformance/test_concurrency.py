"""What concurrent callers see: threads on all journals, processes on the databases that several can share."""

from __future__ import annotations

import multiprocessing
import sqlite3
import threading
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from recovery.ports import Append, Appended, AppendResult, Delivered, Fenced, Journal, KeyTaken, Message, RunRow
from recovery.storage import open_journal
from recovery.storage.sql import SqlJournal
from recovery.storage.sqlite import SqliteDatabase
from recovery.storage.turns import Turns
from recovery.testing.pieces import in_one_piece
from tests.conformance.blocking import in_thread, together, wait_for
from tests.conformance.making import appended, claim_of, member, new_run, opened, owner, row_after, verified
from tests.integration.cli_place import until

MANY = 8


def sound(journal: Journal, run_id: str = "run-1") -> int:
    """The head of a run whose chain verifies."""
    head = journal.stream(run_id, verified)
    assert head is not None
    return head


def test_one_of_many_openers_gets_the_run(journal: Journal) -> None:
    news = [new_run(journal) for _ in range(MANY)]
    rows = together([partial(journal.open_run, new) for new in news])
    winners = [(new, row) for new, row in zip(news, rows, strict=True) if row is not None]
    assert len(winners) == 1
    assert in_one_piece(journal, "run-1") == (winners[0][1], list(winners[0][0].rows), {})


def test_one_of_many_claimants_gets_the_run(journal: Journal) -> None:
    seen = opened(journal)
    rows = together([partial(journal.claim, seen, owner(), lease_term_us=1, at_us=1) for _ in range(MANY)])
    winners = [row for row in rows if row is not None]
    assert winners == [journal.find("run-1")]
    assert winners[0].epoch.n == 2


def test_one_of_many_appends_on_a_head_is_written(journal: Journal) -> None:
    run = opened(journal)
    results = together([partial(journal.append, [member(run)]) for _ in range(MANY)])
    assert Counter(type(result) for [result] in results) == {Appended: 1, Fenced: MANY - 1}
    assert sound(journal) == 2


def test_one_append_repeated_at_once_is_written_once(journal: Journal) -> None:
    append = member(opened(journal), keys=(claim_of("k1"),))
    results = together([partial(journal.append, [append]) for _ in range(MANY)])
    assert results == [[Appended()]] * MANY
    assert sound(journal) == 2


@pytest.mark.parametrize("count", [1, 2])
def test_one_of_many_runs_gets_a_key(journal: Journal, count: int) -> None:
    keys = tuple(claim_of(f"k{number}") for number in range(count))
    runs = [opened(journal, f"run-{number}") for number in range(MANY)]
    results = together([partial(journal.append, [member(run, keys=keys)]) for run in runs])
    winners = [run for run, [result] in zip(runs, results, strict=True) if result == Appended()]
    assert len(winners) == 1
    taken = KeyTaken(keys[0], winners[0].run_id, "reserve#1", "print")
    assert [result for [result] in results if result != Appended()] == [taken] * (MANY - 1)


def test_batches_over_the_same_runs_in_opposite_order_do_not_lock_each_other_out(journal: Journal) -> None:
    runs = [opened(journal, f"run-{number}") for number in range(12)]
    for _round in range(5):
        runs = [row for run in runs if (row := journal.find(run.run_id))]
        batches = [[member(run, keys=(claim_of(f"{run.run_id}-{run.head}"),)) for run in runs] for _ in range(4)]
        orders = [batch if number % 2 else batch[::-1] for number, batch in enumerate(batches)]
        results = together([partial(journal.append, batch) for batch in orders])
        written = Counter(
            append.run_id
            for batch, outcome in zip(orders, results, strict=True)
            for append, result in zip(batch, outcome, strict=True)
            if result == Appended()
        )
        assert written == {run.run_id: 1 for run in runs}
    assert {sound(journal, run.run_id) for run in runs} == {6}


def write_until_fenced(journal: Journal, run: RunRow, started: threading.Event) -> int:
    """Append on and on; the head that this writer was last told is durable."""
    while True:
        row = row_after(run)
        [result] = journal.append([member(run, row)])
        if isinstance(result, Fenced):
            return run.head
        run = replace(run, head=row.seq, head_digest=row.digest)
        if run.head == 5:
            started.set()


def test_a_claimant_that_loads_after_its_claim_sees_all_that_was_acknowledged(journal: Journal) -> None:
    """And nothing of the former owner is written behind its back."""
    run, started = opened(journal), threading.Event()
    writer = in_thread(lambda: write_until_fenced(journal, run, started))
    assert started.wait(20)
    seen = journal.find("run-1")
    assert seen is not None
    mine = journal.claim(seen, owner("bob"), lease_term_us=1, at_us=1)
    assert mine is not None
    loaded = in_one_piece(journal, "run-1")
    assert loaded is not None
    assert loaded[0].head == writer.result(20)
    assert sound(journal) == loaded[0].head
    assert appended(journal, member(loaded[0])).head == loaded[0].head + 1


def test_a_load_is_one_snapshot_while_appends_run(journal: Journal) -> None:
    run, started = opened(journal), threading.Event()
    writer = in_thread(lambda: write_until_fenced(journal, run, started))
    assert started.wait(20)
    heads = [sound(journal) for _ in range(20)]
    assert heads == sorted(heads)
    seen = journal.find("run-1")
    assert seen is not None
    assert journal.claim(seen, owner("bob"), lease_term_us=1, at_us=1)
    writer.result(20)


OVERTAKEN_MAX = 100


def test_an_owner_that_appends_without_a_pause_keeps_nobody_from_speaking_to_its_run(store_url: str) -> None:
    """On SQLite both want the file, on PostgreSQL the row of the run. Counted is by how many appends each of twenty messages was overtaken."""
    theirs, ours = open_journal(store_url), open_journal(store_url)
    run, members = opened(theirs), list[Append]()
    for _ in range(20 * OVERTAKEN_MAX):
        members.append(member(run))
        run = replace(run, head=run.head + 1, head_digest=members[-1].rows[-1].digest)
    spoken_to, written = threading.Event(), list[AppendResult]()

    def append() -> None:
        for each in members:
            if not spoken_to.is_set():
                written.extend(theirs.append([each]))

    busy = in_thread(append)
    wait_for(lambda: bool(written), "the first append")
    for number in range(20):
        told = ours.deliver(Message(run_id="run-1", kind="signal", name="stop", body="{}", at_us=50, token=f"m{number}"))
        assert isinstance(told, Delivered)
    spoken_to.set()
    busy.result(60)
    assert set(written) == {Appended()}
    assert len(written) < len(members), f"each was overtaken by more than {OVERTAKEN_MAX} appends"
    for journal in (theirs, ours):
        journal.close()


# -- processes ---------------------------------------------------------------------------------------------------------


def in_process(url: str, number: int, barrier: Any, results: Any) -> None:
    journal = open_journal(url)
    barrier.wait(60)
    run = opened(journal, f"run-{number}")
    for _ in range(5):
        run = appended(journal, member(run))
    [result] = journal.append([member(run, keys=(claim_of("shared"),))])
    results.put((number, journal.namespace(), type(result).__name__))
    journal.close()


def test_eight_processes_start_on_one_database_at_once(store_url: str) -> None:
    """On SQLite the file does not exist: one of them creates it, and nobody sees it half made."""
    context = multiprocessing.get_context("forkserver")  # each a process of its own, and none pays for the imports again
    context.set_forkserver_preload([__name__, "recovery.storage.postgres", "recovery.storage.sqlite"])
    barrier, results = context.Barrier(MANY), context.Queue()
    children = [context.Process(target=in_process, args=(store_url, number, barrier, results)) for number in range(MANY)]
    for child in children:
        child.start()
    told = [results.get(timeout=90) for _ in children]
    for child in children:
        child.join(30)
    assert [child.exitcode for child in children] == [0] * MANY
    journal = open_journal(store_url)
    assert {namespace for _, namespace, _ in told} == {journal.namespace()}
    assert Counter(result for _, _, result in told) == {"Appended": 1, "KeyTaken": MANY - 1}
    assert sorted(sound(journal, f"run-{number}") for number in range(MANY)) == [6] * (MANY - 1) + [7]
    journal.close()


def test_a_file_that_another_process_writes_to_is_waited_for(sqlite_url: str, tmp_path: Path) -> None:
    journal = open_journal(sqlite_url)
    run = opened(journal)
    other = sqlite3.connect(tmp_path / "recovery.db", isolation_level=None, check_same_thread=False)
    other.execute("BEGIN IMMEDIATE")
    waiting = in_thread(lambda: journal.append([member(run)]))
    assert journal.find("run-1") == run  # readers do not wait
    assert not waiting.done()
    other.execute("COMMIT")
    assert waiting.result(20) == [Appended()]
    other.close()
    journal.close()


WRITES: dict[str, Callable[[Journal, list[RunRow]], object]] = {
    "an append": lambda journal, runs: journal.append([member(runs[0])]),
    "a batch": lambda journal, runs: journal.append([member(run) for run in runs]),
    "a claim": lambda journal, runs: journal.claim(runs[0], owner("other"), lease_term_us=1, at_us=1),
    "an opening": lambda journal, _: opened(journal, "another"),
}


@pytest.mark.parametrize("write", WRITES)
def test_a_writer_waits_for_its_turn_at_the_file(sqlite_url: str, write: str) -> None:
    """Under SQLite's own lock alone, whoever asks again at the right moment writes, and another one starves."""
    journal = open_journal(sqlite_url)
    assert isinstance(journal, SqlJournal)
    assert isinstance(journal._database, SqliteDatabase)
    runs, mine = [opened(journal, name) for name in ("a", "b")], journal._database._turns
    others, order = Turns(Path(sqlite_url.removeprefix("sqlite:///")), 60), list[str]()
    with ThreadPoolExecutor(1) as thread:
        with others:
            writing = thread.submit(lambda: (WRITES[write](journal, runs), order.append("written")))
            until("a writer who waits for its turn", lambda: mine._waiting)
            order.append("the other's turn ended")
        writing.result(60)
    assert order == ["the other's turn ended", "written"]
    others.drop()
    journal.close()


def test_a_write_transaction_holds_the_file_from_its_first_moment(sqlite_url: str, tmp_path: Path) -> None:
    """One that began by reading would fail at its first write, whatever the busy timeout, had anybody written in between."""
    journal = open_journal(sqlite_url)
    assert isinstance(journal, SqlJournal)
    journal.namespace()
    other = sqlite3.connect(tmp_path / "recovery.db", isolation_level=None, timeout=0)
    with journal._database.writing(), pytest.raises(sqlite3.OperationalError, match="locked"):
        other.execute("BEGIN IMMEDIATE")
    other.execute("BEGIN IMMEDIATE")
    other.close()
    journal.close()


def test_a_write_is_synced_before_it_is_acknowledged(sqlite_url: str) -> None:
    journal = open_journal(sqlite_url)
    assert isinstance(journal, SqlJournal)
    journal.namespace()
    with journal._database.writing() as connection:
        found = {
            name: connection.exec_driver_sql(f"PRAGMA {name}").scalar() for name in ("journal_mode", "synchronous", "foreign_keys")
        }
    assert found == {"journal_mode": "wal", "synchronous": 2, "foreign_keys": 1}
    journal.close()
