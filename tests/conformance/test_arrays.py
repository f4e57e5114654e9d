"""Columns as PostgreSQL takes them in binary form: what comes out is what went in."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from recovery.core.chain import Row
from recovery.ports import Appended, RunRow
from recovery.storage import open_journal
from recovery.storage.arrays import Columns
from recovery.storage.sql import SqlJournal
from recovery.storage.staying import numbered
from recovery.testing.pieces import in_one_piece
from tests.conformance.making import claim_of, member, new_run, opened, row_after

ODD = ["", "NULL", "{}", '"', "\\", ",", "'; --", "\x01\x1f\t\n", "ä \U0001f600 \u2028", "x" * 4095, "x" * 4096, "ä" * 70_000]
OF_A_ROW = Columns("r", text="name", bigint="number", boolean="flag")


@pytest.fixture
def journal(postgres_url: str) -> Iterator[SqlJournal]:
    found = open_journal(postgres_url)
    assert isinstance(found, SqlJournal)
    yield found
    found.close()


def said(journal: SqlJournal, rows: list[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    text, names = numbered(f"SELECT encode(convert_to(name, 'UTF8'), 'hex'), number, flag FROM {OF_A_ROW.arrays}")
    values = OF_A_ROW.as_arrays(rows)
    result = journal._database._sessions.bare(text, [values[name] for name in names])  # type: ignore[attr-defined]  # PostgreSQL's
    assert result is not None
    found = [[result.get_value(at, column) for column in range(3)] for at in range(result.ntuples)]
    return [
        (bytes.fromhex(name.decode()).decode(), None if number is None else int(number), flag == b"t")
        for name, number, flag in found
    ]


def test_what_comes_out_is_what_went_in(journal: SqlJournal) -> None:
    numbers = [0, -1, None, 2**63 - 1, -(2**63)]
    rows = [(text, numbers[at % len(numbers)], at % 3 == 0) for at, text in enumerate(ODD)]
    assert said(journal, rows) == rows
    assert said(journal, rows[:1]) == rows[:1]


def test_no_rows_are_none(journal: SqlJournal) -> None:
    assert said(journal, []) == []


def test_a_text_of_which_utf_8_has_no_form_is_not_sent() -> None:
    with pytest.raises(UnicodeEncodeError):
        OF_A_ROW.as_arrays([("\ud800", 1, True)])


def whom(journal: SqlJournal) -> list[object]:
    """The server's processes behind the connections that stay: those on which nothing failed."""
    return [one.driver.info.backend_pid for one in journal._database._sessions._staying._idle]  # type: ignore[attr-defined]  # as above


def test_a_batch_and_new_runs_are_said_on_the_connection_that_stays(journal: SqlJournal) -> None:
    """What failed there would be said again by another way, and nobody would see it but who waits."""
    opened(journal, "first")
    [stays] = whom(journal)
    news = [new_run(journal, f"run-{number}") for number in range(len(ODD))]
    runs = journal.open_runs(news)
    assert None not in runs
    batch = []
    for run, odd in zip(runs, ODD, strict=True):
        assert run is not None
        rows = rows_of(run, odd)
        batch.append(member(run, *rows, keys=(claim_of(f"k {run.run_id}", step=odd[:99] or "s#1"),), contracts=(("d1", "{}"),)))
    assert journal.append(batch) == [Appended()] * len(batch)
    assert whom(journal) == [stays]
    for append in batch:
        loaded = in_one_piece(journal, append.run_id)
        assert loaded is not None
        assert loaded[1][1:] == list(append.rows)
        assert loaded[2] == {"d1": "{}"}


def rows_of(run: RunRow, odd: str) -> tuple[Row, ...]:
    first = row_after(run, body=odd, token=f"t {run.run_id}")
    then = row_after(replace(run, head=first.seq, head_digest=first.digest), step=odd, token=first.token)
    return first, then
