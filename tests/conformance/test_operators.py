"""Holds of contracts and forgotten runs: one behaviour on memory, SQLite and PostgreSQL."""

from __future__ import annotations

from dataclasses import replace
from itertools import count

import pytest

from recovery.core.entries import Status
from recovery.ports import Append, Appended, Evidence, Fenced, Hold, Journal, KeyTaken, RunRow, Stub
from recovery.testing.pieces import in_one_piece
from tests.conformance.making import appended, claim_of, member, new_run, opened, owner, row_after, stored

_tokens = count(1)


def word(subject: str, *, held: bool = True, by: str = "ann", at_us: int = 10, token: str = "") -> Hold:
    return Hold(subject, held, by, "why", at_us, token or f"word-{next(_tokens)}")


# -- holds -------------------------------------------------------------------------------------------------------------


def test_the_last_word_about_a_subject_counts(journal: Journal) -> None:
    assert journal.holds() == []
    first, second, again = word("stripe"), word("adyen"), word("stripe", by="bob")
    journal.namespace()
    journal.add_hold(first)
    journal.add_hold(second)
    assert journal.holds() == [first, second]
    journal.add_hold(word("stripe", held=False))
    assert journal.holds() == [second]
    journal.add_hold(again)
    assert journal.holds() == [second, again]


def test_a_repeated_word_changes_nothing(journal: Journal) -> None:
    """Its acknowledgement was lost; meanwhile somebody released the contract. The repeat must not hold it again."""
    hold = word("stripe")
    journal.add_hold(hold)
    journal.add_hold(word("stripe", held=False))
    journal.add_hold(hold)
    assert journal.holds() == []


def test_a_hold_is_seen_by_every_journal_on_the_database(store_url: str) -> None:
    from recovery.storage import open_journal

    one, other = open_journal(store_url), open_journal(store_url)
    hold = word("stripe")
    one.add_hold(hold)
    assert other.holds() == [hold]
    one.close()
    other.close()


# -- forgetting --------------------------------------------------------------------------------------------------------

STUB = Stub("run-1", "digest", "ann", "retention", 99)


def settled_run(journal: Journal) -> RunRow:
    run = opened(journal)
    contracts = (("c" * 64, "{}"),)
    return appended(journal, member(run, status=Status.COMPLETED, keys=(claim_of("K1"),), contracts=contracts))


def test_forgetting_leaves_the_row_the_key_and_a_stub(journal: Journal) -> None:
    run = settled_run(journal)
    journal.add_evidence(Evidence("run-1", "s#1", run.epoch, 5, "observation", "{}"))
    assert journal.stub("run-1") is None
    assert journal.forget(run, STUB)
    assert journal.stub("run-1") == STUB
    loaded = in_one_piece(journal, "run-1")
    assert loaded is not None
    assert loaded[1:] == ([], {})
    row = loaded[0]
    assert (row.status, row.head, row.head_digest, row.owner) == (Status.COMPLETED, run.head, run.head_digest, None)
    assert journal.evidence("run-1") == []
    assert journal.open_run(new_run(journal)) is None  # the id is taken for ever
    assert journal.key_owner("inventory", "warehouse-1", "K1") == ("run-1", "reserve#1", "print")


def test_w16_the_key_of_a_forgotten_run_is_refused_when_it_arrives_again(journal: Journal) -> None:
    assert journal.forget(settled_run(journal), STUB)
    other = opened(journal, "run-2")
    [result] = journal.append([member(other, keys=(claim_of("K1"),))])
    assert isinstance(result, KeyTaken)
    assert (result.owner_run, result.owner_step) == ("run-1", "reserve#1")
    assert journal.find("run-2") == other


@pytest.mark.parametrize("status", [status for status in Status if not status.settled])
def test_a_run_that_is_not_settled_is_not_forgotten(journal: Journal, status: Status) -> None:
    run = appended(journal, member(opened(journal), status=status))
    before = stored(journal)
    assert not journal.forget(run, STUB)
    assert stored(journal) == before


def test_a_run_that_moved_is_not_forgotten(journal: Journal) -> None:
    run = settled_run(journal)
    appended(journal, member(run, row_after(run), status=Status.COMPLETED))
    before = stored(journal)
    assert not journal.forget(run, STUB)
    now = journal.find("run-1")
    assert now is not None
    assert not journal.forget(replace(now, epoch=replace(now.epoch, n=7)), STUB)
    assert not journal.forget(replace(now, run_id="nobody"), replace(STUB, run_id="nobody"))
    assert stored(journal) == before


def test_forgetting_again_is_safe(journal: Journal) -> None:
    run = settled_run(journal)
    assert journal.forget(run, STUB)
    before = stored(journal)
    assert journal.forget(run, replace(STUB, by="bob"))
    assert stored(journal) == before
    now = journal.find(run.run_id)
    assert now is not None
    assert journal.forget(now, replace(STUB, by="bob"))  # seen after it was forgotten
    assert stored(journal) == before


def test_the_last_owner_of_a_forgotten_run_is_fenced(journal: Journal) -> None:
    run = settled_run(journal)
    late: Append = member(run, row_after(run), status=Status.COMPLETED)
    assert journal.forget(run, STUB)
    [result] = journal.append([late])
    assert isinstance(result, Fenced)
    now = journal.find("run-1")
    assert now is not None
    for seen in (run, now):  # and nobody owns it again
        assert journal.claim(seen, owner("carol"), lease_term_us=1, at_us=1) is None


def test_a_repeated_append_to_a_forgotten_run_is_fenced(journal: Journal) -> None:
    """Its acknowledgement was lost, and its rows are gone: nothing is left that could tell that it was stored."""
    last = member(opened(journal), status=Status.COMPLETED)
    run = appended(journal, last)
    assert journal.append([last]) == [Appended()]
    assert journal.forget(run, STUB)
    assert journal.append([last]) == [Fenced(journal.find("run-1"))]


def test_other_runs_are_left_alone(journal: Journal) -> None:
    run = settled_run(journal)
    other = opened(journal, "run-2")
    [result] = journal.append([member(other, contracts=(("c" * 64, "{}"),))])
    assert result == Appended()
    kept = in_one_piece(journal, "run-2")
    assert journal.forget(run, STUB)
    assert in_one_piece(journal, "run-2") == kept
