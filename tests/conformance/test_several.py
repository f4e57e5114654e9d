"""Many runs in one go: the same as one after the other, on memory, SQLite and PostgreSQL."""

from __future__ import annotations

import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from recovery.core.entries import Status
from recovery.core.ids import Epoch
from recovery.ports import Evidence, Fenced, Journal, Message, Owner, RunRow, Stub
from recovery.storage import open_journal
from recovery.testing.pieces import in_one_piece, joined
from tests.conformance.making import appended, member, opened, owner, raise_incarnation, verified

TERM_US = 5_000_000
AT_US = 3_000


BOB, EVE = owner("bob"), owner("eve")


def claimed(journal: Journal, seen: list[RunRow], by: Owner = BOB) -> list[RunRow]:
    return journal.claim_many(seen, by, lease_term_us=TERM_US, at_us=AT_US)


def released(journal: Journal, run_id: str) -> RunRow:
    row = opened(journal, run_id)
    assert row.owner is not None
    assert journal.release(run_id, row.owner.token, row.epoch)
    found = journal.find(run_id)
    assert found is not None
    return found


def test_each_is_claimed_as_by_itself(journal: Journal) -> None:
    free, owned = released(journal, "free"), opened(journal, "owned")
    raise_incarnation(journal)
    nobody = replace(free, run_id="nobody")
    came = claimed(journal, [free, owned])
    assert [row.run_id for row in came] == ["free", "owned"]
    assert came == [journal.find("free"), journal.find("owned")]
    assert [(row.owner, row.lease_counter, row.lease_term_us, row.crashes) for row in came] == [
        (BOB, 0, TERM_US, 0),
        (BOB, 0, TERM_US, 1),
    ]
    assert {row.epoch for row in came} == {Epoch(1, 1)}
    assert claimed(journal, [nobody]) == []


def test_whoever_moved_since_is_left_out_and_the_others_are_not(journal: Journal) -> None:
    seen = [opened(journal, name) for name in ("renewed", "claimed", "released", "still")]
    tokens = [row.owner.token for row in seen if row.owner is not None]
    assert journal.renew("renewed", tokens[0], seen[0].epoch)
    other = journal.claim(seen[1], EVE, lease_term_us=TERM_US, at_us=AT_US)
    assert journal.release("released", tokens[2], seen[2].epoch)
    assert [row.run_id for row in claimed(journal, seen)] == ["still"]
    assert journal.find("claimed") == other


def test_the_last_owner_is_fenced(journal: Journal) -> None:
    before = opened(journal, "run-1")
    [row] = claimed(journal, [before])
    assert [type(result) for result in journal.append([member(before)])] == [Fenced]
    assert appended(journal, member(row)).head == before.head + 1


def test_a_repeat_finds_what_it_has_claimed_and_claims_nothing_of_another(journal: Journal) -> None:
    seen = [opened(journal, "a"), opened(journal, "b")]
    first = claimed(journal, seen)
    assert claimed(journal, seen) == first
    assert claimed(journal, seen, EVE) == []
    assert claimed(journal, [], EVE) == []


def test_of_two_who_saw_the_same_each_run_is_one_s(store_url: str) -> None:
    journal = open_journal(store_url)
    seen = [opened(journal, f"run-{number:02}") for number in range(20)]
    came, start = dict[Owner, list[RunRow]](), threading.Barrier(2)

    def take(by: Owner, rows: list[RunRow]) -> None:
        start.wait()
        came[by] = claimed(journal, rows, by)

    threads = [threading.Thread(target=take, args=each) for each in ((BOB, seen), (EVE, seen[::-1]))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not {row.run_id for row in came[BOB]} & {row.run_id for row in came[EVE]}
    for by, rows in came.items():
        assert all(row.owner == by for row in rows)
        assert rows == [journal.find(row.run_id) for row in rows]
    journal.close()


def late(run_id: str) -> Evidence:
    return Evidence(run_id, "step#1", Epoch(0, 1), 5, "observation", "{}")


def test_each_is_loaded_as_by_itself(journal: Journal) -> None:
    long = opened(journal, "long")
    for _ in range(3):
        long = appended(journal, member(long, contracts=(("c1", "{}"),)))
    opened(journal, "short")
    spoken = appended(journal, member(opened(journal, "spoken"), status=Status.WAITING))
    journal.add_evidence(late("short"))
    journal.deliver(Message(run_id="spoken", kind="signal", name="s", body="{}", at_us=7, token="t"))
    came = journal.stream_many(
        ["spoken", "long", "nobody", "short"], lambda stored: (joined(stored), stored.late, stored.spoken_to)
    )
    assert set(came) == {"spoken", "long", "short"}
    for run_id, stored in came.items():
        loaded = in_one_piece(journal, run_id)
        assert loaded is not None
        assert stored == (loaded, journal.evidence(run_id), run_id == spoken.run_id)
    assert journal.stream_many([], joined) == {}


def test_nothing_is_claimed_or_loaded_in_a_database_that_is_not_there(store_url: str) -> None:
    journal = open_journal(store_url)
    assert journal.stream_many(["run-1"], joined) == {}
    journal.close()


@pytest.mark.parametrize(
    ("table", "changes"),
    [("run", {"workflow": b"\xff"}), ("journal", {"body": b"\xff"}), ("evidence", {"body": "[]"})],
)
def test_what_cannot_be_read_hides_no_other(tmp_path: Path, table: str, changes: dict[str, Any]) -> None:
    """On SQLite, which stores any type in any column."""
    store_url = f"sqlite:///{tmp_path / 'spoilt.db'}"
    journal = open_journal(store_url)
    seen = [opened(journal, "spoilt"), opened(journal, "whole")]
    journal.add_evidence(late("spoilt"))
    engine = sa.create_engine(store_url)
    with engine.begin() as connection:
        columns = sa.MetaData()
        columns.reflect(connection)
        where = "run = (SELECT number FROM run WHERE run_id = 'spoilt')" if table == "journal" else "run_id = 'spoilt'"
        connection.execute(sa.update(columns.tables[table]).where(sa.text(where)).values(**changes))
    engine.dispose()
    assert set(journal.stream_many(["spoilt", "whole"], verified)) == {"whole"}
    assert {row.run_id for row in claimed(journal, seen)} >= {"whole"}
    journal.close()


def test_a_forgotten_run_is_not_loaded(journal: Journal) -> None:
    done = appended(journal, member(opened(journal, "done"), status=Status.COMPLETED))
    assert journal.forget(done, Stub("done", "d", "eve", "old", 9))
    assert journal.stream_many(["done"], joined) == {}
    assert claimed(journal, [done]) == []
