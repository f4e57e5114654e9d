"""Batches on SQLite of every kind of size: what their statements are filled up with stands for nothing."""

from __future__ import annotations

from recovery.ports import Appended, Fenced
from recovery.storage import open_journal
from recovery.storage.together import ROWS_MAX, whole
from recovery.testing.pieces import in_one_piece
from tests.conformance.making import claim_of, member, opened, row_after


def test_few_sizes_hold_every_number_of_rows() -> None:
    sizes = {rows: whole(rows) for rows in range(1, ROWS_MAX + 1)}
    assert all(rows <= size < max(rows * 3 // 2, rows + 1) for rows, size in sizes.items())
    assert sorted(set(sizes.values())) == [1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64]


def test_a_batch_of_any_size_writes_its_members_and_nothing_else(sqlite_url: str) -> None:
    journal = open_journal(sqlite_url)
    for size in (2, 3, 5, 6, 7, 9, 13, 25, 33, 49, 65):
        runs = [opened(journal, f"run-{size}-{number}") for number in range(size)]
        batch = [member(run, row_after(run), keys=(claim_of(run.run_id),) if number % 2 else ()) for number, run in enumerate(runs)]
        assert journal.append(batch) == [Appended()] * size
        assert {type(result) for result in journal.append([member(run, row_after(run, body="{}")) for run in runs])} == {Fenced}
        for run in runs:
            loaded = in_one_piece(journal, run.run_id)
            assert loaded is not None
            assert [row.seq for row in loaded[1]] == [1, 2]
        owned = [journal.key_owner("inventory", "warehouse-1", run.run_id) is not None for run in runs]
        assert owned == [bool(number % 2) for number in range(size)]
    journal.close()
