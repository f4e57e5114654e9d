"""A run as it comes in portions: of one moment, in order, and from its first row on whenever it has to be asked for again."""

from __future__ import annotations

from dataclasses import replace

from sqlalchemy.exc import OperationalError

from recovery.ports import Journal, Stored
from recovery.storage import open_journal
from recovery.storage.portions import PORTION
from recovery.testing.pieces import in_one_piece, joined
from tests.conformance.making import appended, member, opened, row_after, verified


def test_what_comes_is_of_the_moment_in_which_it_was_asked_for(journal: Journal) -> None:
    run = appended(journal, member(opened(journal)))
    before = in_one_piece(journal, "run-1")

    def meanwhile(stored: Stored) -> object:
        appended(journal, member(run, contracts=(("c1", "{}"),)))
        return joined(stored)

    assert journal.stream("run-1", meanwhile) == before
    assert journal.stream("run-1", verified) == 3


def test_rows_come_in_order_in_portions_that_are_bounded(journal: Journal) -> None:
    run = last = opened(journal)
    rows = []
    while last.head <= 2 * PORTION:
        rows.append(row_after(last, token="one"))
        last = replace(last, head=rows[-1].seq, head_digest=rows[-1].digest)
    appended(journal, member(run, *rows))
    sizes = journal.stream("run-1", lambda stored: [len(portion) for portion in stored.portions])
    assert sizes == [PORTION, PORTION, 1]
    assert journal.stream("run-1", verified) == 2 * PORTION + 1


def test_nobody_is_streamed_who_is_not_there(journal: Journal) -> None:
    assert journal.stream("nobody", verified) is None


def test_what_has_to_be_asked_for_again_comes_from_its_first_row_on(store_url: str) -> None:
    journal = open_journal(store_url)
    appended(journal, member(opened(journal)))
    lost = OperationalError("SELECT", None, Exception("gone"), connection_invalidated=True)
    came: list[int] = []

    def broken_off(stored: Stored) -> int:
        came.append(verified(stored))
        if len(came) == 1:
            raise lost
        return came[-1]

    assert journal.stream("run-1", broken_off) == 2
    assert came == [2, 2]
    came.clear()
    assert journal.stream_many(["run-1"], broken_off) == {"run-1": 2}
    assert came == [2, 2]
    journal.close()
