"""Declaring a database restored: one behaviour on memory, SQLite and PostgreSQL."""

from __future__ import annotations

import pytest

from recovery.core.ids import Epoch
from recovery.ports import Appended, Evidence, Fenced, Journal
from recovery.storage import open_journal
from recovery.testing.pieces import in_one_piece
from tests.conformance.making import appended, member, opened, owner, stored


def test_an_incarnation_rises_once_and_says_what_holds(journal: Journal) -> None:
    assert journal.raise_incarnation(0, 7) == 7
    assert journal.incarnation() == 7
    assert journal.raise_incarnation(0, 7) == 7  # a repeat: the acknowledgement was lost
    assert journal.raise_incarnation(0, 9) == 7  # somebody else was faster
    assert journal.incarnation() == 7


@pytest.mark.parametrize("to", [3, 2])
def test_an_incarnation_never_falls(journal: Journal, to: int) -> None:
    with pytest.raises(ValueError, match="rises"):
        journal.raise_incarnation(3, to)
    assert journal.incarnation() == 0


def test_raising_is_durable_on_return(store_url: str) -> None:
    first, second = open_journal(store_url), open_journal(store_url)
    first.raise_incarnation(0, 1)
    assert second.incarnation() == 1
    first.close()
    second.close()


def test_raising_touches_no_run(journal: Journal) -> None:
    run = opened(journal)
    before = in_one_piece(journal, "run-1")
    journal.raise_incarnation(0, 1)
    assert in_one_piece(journal, "run-1") == before
    appended(journal, member(run))  # whoever holds a run goes on until it is claimed


def test_restored_a_claim_takes_an_epoch_that_no_worker_of_the_lost_time_can_hold(journal: Journal) -> None:
    """Restore reissues epoch 3; a lost-timeline worker holds 3 too: the claims of two timelines meet at (0, 3) without this."""
    run = opened(journal)
    for name in ("bob", "carol"):
        claimed = journal.claim(run, owner(name), lease_term_us=1, at_us=2)
        assert claimed is not None
        run = claimed
    lost = run
    assert lost.epoch == Epoch(0, 3)
    journal.raise_incarnation(0, 1)
    new = journal.claim(run, owner("dave"), lease_term_us=1, at_us=3)
    assert new is not None
    assert new.epoch == Epoch(1, 1) > lost.epoch
    [refused] = journal.append([member(lost)])
    assert isinstance(refused, Fenced)
    assert journal.append([member(new)]) == [Appended()]


def test_a_note_about_the_database_is_kept_under_no_run(journal: Journal) -> None:
    note = Evidence("", "", Epoch(5, 1), 1_000, "restored", '{"by":"kim"}')
    opened(journal)
    journal.add_evidence(note)
    journal.add_evidence(note)
    assert journal.evidence("") == [note]
    assert journal.evidence("run-1") == []
    assert "evidence" in stored(journal)
