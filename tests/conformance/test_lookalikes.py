"""Shapes of an append that look fenced and are not, each shown to race on PostgreSQL, and ours, which refuses.

Two real connections in an explicit order; where one must wait, the server is asked whether it does. On SQLite, where writers are serial,
most of these would be safe: a suite that is green there proves nothing here.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import LiteralString

import psycopg
import pytest
from psycopg.errors import UniqueViolation

from recovery.ports import Append, Appended, Fenced, Journal, RunRow
from recovery.storage import open_journal
from recovery.storage.batches import APPEND, appending
from recovery.storage.postgres import PostgresDatabase
from recovery.storage.sql import SqlJournal
from recovery.testing.pieces import in_one_piece
from tests.conformance.blocking import in_thread, wait_until_blocked_by
from tests.conformance.making import appended, claim_of, member, opened, owner

CLAIM: LiteralString = "UPDATE run SET epoch_n = epoch_n + 1, owner_token = 'bob' WHERE epoch_n = 1 RETURNING epoch_n"
"""The same claim for every shape; ours has the same WHERE and SET."""


@dataclass
class Stage:
    """A run at epoch 1, its present writer's connection, a claimant's, and somebody who watches."""

    journal: Journal
    run: RunRow
    writer: psycopg.Connection
    claimant: psycopg.Connection
    watcher: psycopg.Connection

    def tokens(self, table: str = "bare") -> list[tuple[int, str]]:
        return self.watcher.execute(f"SELECT seq, token FROM {table} ORDER BY seq").fetchall()  # type: ignore[arg-type]


@pytest.fixture
def stage(postgres_url: str) -> Iterator[Stage]:
    journal = open_journal(postgres_url)
    run = opened(journal)
    with (
        psycopg.connect(postgres_url) as writer,
        psycopg.connect(postgres_url) as claimant,
        psycopg.connect(postgres_url, autocommit=True) as watcher,
    ):
        # Two journals in their plainest form, so that nothing but the shape decides.
        watcher.execute("CREATE TABLE bare (run bigint, seq bigint, token text, PRIMARY KEY (run, seq))")
        watcher.execute("CREATE TABLE linked (run bigint REFERENCES run (number), seq bigint, token text, PRIMARY KEY (run, seq))")
        yield Stage(journal, run, writer, claimant, watcher)
    journal.close()


def stale_wins(stage: Stage, table: LiteralString) -> None:
    """The writer's append is open; the claim does not wait for it, and the sequence number goes to the writer."""
    assert stage.claimant.execute(CLAIM).fetchone() == (2,)
    stage.claimant.commit()
    owners = in_thread(lambda: stage.claimant.execute(f"INSERT INTO {table} SELECT number, 2, 'owner' FROM run WHERE epoch_n = 2"))
    wait_until_blocked_by(stage.watcher, stage.writer.info.backend_pid)
    stage.writer.commit()
    with pytest.raises(UniqueViolation):
        owners.result(20)
    assert stage.tokens(table) == [(2, "stale")]


def test_selecting_the_epoch_first_lets_a_stale_append_commit_after_the_claim(stage: Stage) -> None:
    assert stage.writer.execute("SELECT epoch_n FROM run").fetchone() == (1,)
    assert stage.claimant.execute(CLAIM).fetchone() == (2,)
    stage.claimant.commit()
    stage.writer.execute("INSERT INTO bare SELECT number, 2, 'stale' FROM run")
    stage.writer.commit()
    assert stage.tokens() == [(2, "stale")]


JOINED: LiteralString = "SELECT number, 2, 'stale' FROM run WHERE epoch_n = 1"


@pytest.mark.parametrize(
    ("table", "select"),
    [
        ("bare", JOINED),
        ("linked", JOINED),
        ("bare", JOINED + " FOR KEY SHARE"),
        ("linked", JOINED + " FOR KEY SHARE"),
    ],
    ids=["joined", "joined, with a foreign key", "for key share", "for key share, with a foreign key"],
)
def test_naming_the_epoch_in_the_insert_lets_a_stale_append_win_the_sequence_number(
    stage: Stage, table: LiteralString, select: LiteralString
) -> None:
    assert stage.writer.execute(f"INSERT INTO {table} {select}").rowcount == 1
    stale_wins(stage, table)


def test_claiming_and_loading_in_one_snapshot_misses_what_was_appended_before_the_claim(stage: Stage) -> None:
    """FOR SHARE makes the claim wait for the append, and the claimant still does not see it."""
    stage.writer.execute("INSERT INTO bare " + JOINED + " FOR SHARE")
    stage.claimant.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
    claim = in_thread(lambda: stage.claimant.execute(CLAIM).fetchone())
    wait_until_blocked_by(stage.watcher, stage.writer.info.backend_pid)
    stage.writer.commit()
    assert claim.result(20) == (2,)
    assert stage.claimant.execute("SELECT * FROM bare").fetchall() == []
    stage.claimant.commit()
    assert stage.tokens() == [(2, "stale")]  # the writer was told that it is durable, and acts on it


def test_ignoring_conflicts_leaves_a_mixture_of_two_writers(stage: Stage) -> None:
    assert stage.claimant.execute(CLAIM).fetchone() == (2,)
    stage.claimant.execute("INSERT INTO bare SELECT number, 2, 'owner' FROM run")
    stage.claimant.commit()
    stage.writer.execute(
        "INSERT INTO bare SELECT number, seq, 'stale' FROM run CROSS JOIN (VALUES (2), (3)) AS rows (seq) ON CONFLICT DO NOTHING"
    )
    stage.writer.commit()
    assert stage.tokens() == [(2, "owner"), (3, "stale")]


def test_looking_for_the_token_proves_nothing(stage: Stage) -> None:
    """The connection broke, the old backend is still committing: it is not there, and a moment later it is."""
    stage.writer.execute("INSERT INTO bare " + JOINED)
    lookup = "SELECT token FROM bare WHERE token = 'stale'"
    assert stage.watcher.execute(lookup).fetchall() == []
    stage.writer.commit()
    assert stage.watcher.execute(lookup).fetchall() == [("stale",)]


# -- ours --------------------------------------------------------------------------------------------------------------


def hold_append(stage: Stage, append: Append) -> None:
    """Run our statement on the writer's connection and leave its transaction open."""
    text = str(APPEND.core.compile(dialect=_dialect()))
    values = APPEND.as_json(appending([append], [0]))
    assert [member for member, _run in stage.writer.execute(text, values)] == [0]  # type: ignore[arg-type]


def _dialect():
    from sqlalchemy.dialects.postgresql.psycopg import dialect

    return dialect()


@pytest.mark.parametrize("keys", [(), (claim_of("k1"),), (claim_of("k1"), claim_of("k2"))], ids=["0", "1", "2"])
def test_our_append_waits_for_an_open_claim_and_is_refused(stage: Stage, keys) -> None:
    stage.claimant.execute(CLAIM)
    append = member(stage.run, keys=keys, contracts=(("d1", "{}"),))
    waiting = in_thread(lambda: stage.journal.append([append]))
    wait_until_blocked_by(stage.watcher, stage.claimant.info.backend_pid)
    stage.claimant.commit()
    [result] = waiting.result(20)
    now = stage.journal.find("run-1")
    assert result == Fenced(now)
    assert now is not None
    assert (now.epoch.n, now.head) == (2, 1)
    assert stage.tokens("journal") == [(1, stage.tokens("journal")[0][1])]
    assert stage.journal.key_owner("inventory", "warehouse-1", "k1") is None


def test_a_claim_waits_for_our_open_append_and_the_claimant_sees_it(stage: Stage) -> None:
    append = member(stage.run)
    hold_append(stage, append)
    waiting = in_thread(lambda: stage.journal.claim(stage.run, owner("bob"), lease_term_us=1, at_us=1))
    wait_until_blocked_by(stage.watcher, stage.writer.info.backend_pid)
    stage.writer.commit()
    claimed = waiting.result(20)
    assert claimed is not None
    assert (claimed.epoch.n, claimed.head) == (2, 2)
    loaded = in_one_piece(stage.journal, "run-1")
    assert loaded is not None
    assert loaded[1][1:] == list(append.rows)
    assert appended(stage.journal, member(loaded[0])).head == 3


@pytest.mark.parametrize("keys", [(), (claim_of("k1"),), (claim_of("k1"), claim_of("k2"))], ids=["0", "1", "2"])
def test_our_append_that_waited_for_a_renewal_is_written(stage: Stage, keys) -> None:
    """The row moved, and epoch, owner and head did not: the fence looks at it again and finds it as it was."""
    stage.claimant.execute("UPDATE run SET lease_counter = lease_counter + 1")
    append = member(stage.run, keys=keys, contracts=(("d1", "{}"),))
    waiting = in_thread(lambda: stage.journal.append([append]))
    wait_until_blocked_by(stage.watcher, stage.claimant.info.backend_pid)
    stage.claimant.commit()
    assert waiting.result(20) == [Appended()]
    now = stage.journal.find("run-1")
    assert now is not None
    assert (now.lease_counter, now.head) == (1, 2)


def test_one_fenced_member_does_not_keep_the_others_of_its_batch_from_committing(stage: Stage) -> None:
    other = opened(stage.journal, "run-2")
    stage.claimant.execute("UPDATE run SET epoch_n = 2, owner_token = 'bob' WHERE run_id = 'run-1'")
    waiting = in_thread(lambda: stage.journal.append([member(stage.run), member(other)]))
    wait_until_blocked_by(stage.watcher, stage.claimant.info.backend_pid)
    stage.claimant.commit()
    results = waiting.result(20)
    assert [type(result) for result in results] == [Fenced, Appended]


@pytest.mark.parametrize("end", ["commit", "rollback"])
def test_our_retry_queues_behind_the_old_backend_and_is_decided_by_it(stage: Stage, end: str) -> None:
    """Whichever way the lost commit ends, the rows are there once and the writer is told so."""
    append = member(stage.run, keys=(claim_of("k1"),))
    hold_append(stage, append)
    waiting = in_thread(lambda: stage.journal.append([append]))
    wait_until_blocked_by(stage.watcher, stage.writer.info.backend_pid)
    getattr(stage.writer, end)()
    assert waiting.result(20) == [Appended()]
    loaded = in_one_piece(stage.journal, "run-1")
    assert loaded is not None
    assert loaded[1][1:] == list(append.rows)


def test_a_new_token_after_a_lost_commit_is_refused(stage: Stage) -> None:
    """What a writer would do who believed the look-up: it does not double the step."""
    hold_append(stage, member(stage.run))
    waiting = in_thread(lambda: stage.journal.append([member(stage.run)]))
    wait_until_blocked_by(stage.watcher, stage.writer.info.backend_pid)
    stage.writer.commit()
    [result] = waiting.result(20)
    assert isinstance(result, Fenced)
    assert len(stage.tokens("journal")) == 2


def test_a_key_that_an_open_append_takes_is_waited_for(stage: Stage) -> None:
    hold_append(stage, member(stage.run, keys=(claim_of("k1"),)))
    other = opened(stage.journal, "run-2")
    waiting = in_thread(lambda: stage.journal.append([member(other, keys=(claim_of("k1"),))]))
    wait_until_blocked_by(stage.watcher, stage.writer.info.backend_pid)
    stage.writer.rollback()
    assert waiting.result(20) == [Appended()]
    assert stage.journal.key_owner("inventory", "warehouse-1", "k1") == ("run-2", "reserve#1", "print")


def test_locks_are_taken_in_one_order_whatever_the_order_of_a_batch(stage: Stage) -> None:
    """A batch that waits for the first run holds no later one: two batches cannot wait for each other in a circle."""
    runs = [stage.run, opened(stage.journal, "run-2"), opened(stage.journal, "run-3")]
    stage.claimant.execute("SELECT FROM run WHERE run_id = 'run-1' FOR NO KEY UPDATE")
    waiting = in_thread(lambda: stage.journal.append([member(run) for run in reversed(runs)]))
    wait_until_blocked_by(stage.watcher, stage.claimant.info.backend_pid)
    free = stage.watcher.execute("SELECT run_id FROM run WHERE run_id <> 'run-1' ORDER BY 1 FOR NO KEY UPDATE SKIP LOCKED")
    assert free.fetchall() == [("run-2",), ("run-3",)]
    stage.claimant.commit()
    assert waiting.result(20) == [Appended()] * 3


def test_isolation_is_read_committed_even_where_the_server_says_otherwise(postgres_url: str) -> None:
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        connection.execute(
            "DO $$ BEGIN EXECUTE 'ALTER DATABASE ' || current_database() || ' SET default_transaction_isolation = serializable'; END $$"
        )
    journal = open_journal(postgres_url)
    assert isinstance(journal, SqlJournal)
    assert isinstance(journal._database, PostgresDatabase)
    for connected in (journal._database.writing(), journal._database.transaction()):
        with connected as connection:
            assert connection.exec_driver_sql("SHOW transaction_isolation").scalar() == "read committed"
    journal.close()
