"""Opening, finding, listing, claiming, renewing and releasing runs: one behaviour on memory, SQLite and PostgreSQL."""

from __future__ import annotations

import time
from dataclasses import replace

import pytest

from recovery.core.entries import Status
from recovery.core.ids import Epoch
from recovery.ports import Journal, Payload, RunRow
from recovery.storage import open_journal
from recovery.testing.pieces import in_one_piece
from tests.conformance.making import appended, member, new_run, opened, owner, raise_incarnation, stored


def claimed(journal: Journal, seen: RunRow, name: str = "bob") -> RunRow:
    row = journal.claim(seen, owner(name), lease_term_us=5_000_000, at_us=3_000)
    assert row is not None
    return row


# -- the database's own names ------------------------------------------------------------------------------------------


def test_a_namespace_is_random_and_fixed(journal: Journal) -> None:
    name = journal.namespace()
    assert len(name) == 32
    assert journal.namespace() == name
    journal.close()
    assert journal.namespace() == name
    assert open_journal("memory://").namespace() != name


def test_another_connection_sees_the_same_namespace(store_url: str) -> None:
    first, second = open_journal(store_url), open_journal(store_url)
    assert first.namespace() == second.namespace()
    first.close()
    second.close()


def test_an_incarnation_starts_at_zero_and_is_read_afresh(journal: Journal) -> None:
    assert journal.incarnation() == 0
    raise_incarnation(journal)
    assert journal.incarnation() == 1


def test_a_clock_reads_microseconds_since_the_epoch(journal: Journal) -> None:
    assert abs(journal.now_us() - time.time_ns() // 1000) < 60_000_000


# -- opening -----------------------------------------------------------------------------------------------------------


def test_opening_stores_the_run_and_its_rows_owned_by_its_opener(journal: Journal) -> None:
    new = new_run(journal)
    row = journal.open_run(new)
    assert row == RunRow(
        run_id="run-1",
        workflow="resolve",
        status=Status.RUNNING,
        reason="",
        input_digest="input",
        epoch=Epoch(0, 1),
        owner=new.owner,
        lease_counter=0,
        lease_term_us=30_000_000,
        head=1,
        head_digest=new.rows[0].digest,
        created_at_us=1_000,
        updated_at_us=1_000,
        next_look_us=None,
    )
    assert in_one_piece(journal, "run-1") == (row, list(new.rows), {})


def test_opening_gives_the_incarnation_of_the_database(journal: Journal) -> None:
    raise_incarnation(journal)
    assert opened(journal).epoch == Epoch(1, 1)


def test_opening_is_durable_on_return(store_url: str) -> None:
    first, second = open_journal(store_url), open_journal(store_url)
    row = opened(first)
    assert second.find("run-1") == row
    first.close()
    second.close()


def test_a_taken_run_id_is_not_opened_and_nothing_else_is_written(journal: Journal) -> None:
    opened(journal)
    before = stored(journal)
    assert journal.open_run(new_run(journal)) is None
    assert stored(journal) == before


def test_repeating_an_opening_returns_the_row_and_writes_nothing(journal: Journal) -> None:
    new = new_run(journal)
    row = journal.open_run(new)
    before = stored(journal)
    assert journal.open_run(new) == row
    assert stored(journal) == before


def test_repeating_an_opening_after_an_append_returns_the_present_row(journal: Journal) -> None:
    new = new_run(journal)
    row = journal.open_run(new)
    assert row is not None
    now = appended(journal, member(row))
    assert journal.open_run(new) == now


def test_repeating_an_opening_after_a_claim_says_taken(journal: Journal) -> None:
    new = new_run(journal)
    row = journal.open_run(new)
    assert row is not None
    claimed(journal, row)
    assert journal.open_run(new) is None


def test_several_are_opened_at_once_each_with_its_rows(journal: Journal) -> None:
    """More than one statement takes; each as if it had been opened alone."""
    journal.raise_incarnation(0, 3)
    batch = [new_run(journal, f"run-{number:03}") for number in range(70)]
    rows = journal.open_runs(batch)
    assert [row and (row.run_id, row.owner, row.epoch) for row in rows] == [(new.run_id, new.owner, Epoch(3, 1)) for new in batch]
    for new, row in zip(batch, rows, strict=True):
        assert row == journal.find(new.run_id)
        there = in_one_piece(journal, new.run_id)
        assert there is not None
        assert there[1] == [*new.rows]


def test_of_several_one_that_is_taken_keeps_nobody_out(journal: Journal) -> None:
    """Nor do two of one id, of which the first gets it, or one that is let go, or brings a payload."""
    taken = opened(journal, "taken")
    mine = [new_run(journal, run_id) for run_id in ("a", "taken", "b", "twice", "twice", "let-go", "large")]
    mine[5] = replace(mine[5], let_go=True)
    mine[6] = replace(mine[6], payloads=(Payload("digest", b"large"),))
    came = journal.open_runs(mine)
    assert [row and row.run_id for row in came] == ["a", None, "b", "twice", None, "let-go", "large"]
    assert journal.find("taken") == taken
    assert [row and row.owner for row in came if row] == [mine[0].owner, mine[2].owner, mine[3].owner, None, mine[6].owner]
    assert journal.payloads(["digest"]) == {"digest": b"large"}


def test_repeating_the_opening_of_several_returns_their_rows(journal: Journal) -> None:
    """As whoever never heard of it does: some of them may be somebody else's by then."""
    batch = [new_run(journal, run_id) for run_id in ("a", "b", "c")]
    rows = journal.open_runs(batch)
    assert rows[1] is not None
    claimed(journal, rows[1])
    before = stored(journal)
    assert journal.open_runs(batch) == [rows[0], None, rows[2]]
    assert stored(journal) == before


# -- finding and listing -----------------------------------------------------------------------------------------------


def test_an_unknown_run_is_none(journal: Journal) -> None:
    assert journal.find("nobody") is None
    assert in_one_piece(journal, "nobody") is None
    assert journal.runs() == []
    assert journal.key_owner("inventory", "warehouse-1", "k") is None
    assert journal.evidence("nobody") == []


def test_first_rows_are_those_of_the_runs_that_have_any(journal: Journal) -> None:
    for name in ("a", "b", "c"):
        opened(journal, name)
    found = journal.first_rows(["a", "c", "unknown"])
    assert found == {name: in_one_piece(journal, name)[1][0] for name in ("a", "c")}  # type: ignore[index]  # they are there
    assert journal.first_rows([]) == {}


def test_runs_are_ordered_by_the_bytes_of_their_ids(journal: Journal) -> None:
    names = ["b", "a-1", "a.2", "B", "a:3", "a10", "_x", "a"]
    for name in names:
        opened(journal, name)
    assert [row.run_id for row in journal.runs()] == sorted(names)


def test_pages_of_runs_neither_repeat_nor_lose_one(journal: Journal) -> None:
    names = [f"run-{number:02}" for number in range(7)]
    for name in reversed(names):
        opened(journal, name)
    pages, after = [], ""
    while page := journal.runs(limit=3, after=after):
        pages.append([row.run_id for row in page])
        after = page[-1].run_id
    assert pages == [names[0:3], names[3:6], names[6:]]


@pytest.mark.parametrize(
    ("statuses", "names"),
    [
        (None, ["a", "b", "c", "d"]),
        ([], []),
        ([Status.RUNNING], ["a"]),
        ([Status.RUNNING, Status.IN_DOUBT], ["a", "c"]),
        ([Status.COMPLETED], ["b"]),
        ([Status.COMPLETED, Status.IN_DOUBT], ["b", "c"]),
        ([status for status in Status if not status.settled], ["a", "c", "d"]),
    ],
)
def test_runs_are_those_of_the_statuses(journal: Journal, statuses: list[Status] | None, names: list[str]) -> None:
    for name, status in (("a", Status.RUNNING), ("b", Status.COMPLETED), ("c", Status.IN_DOUBT), ("d", Status.HELD)):
        opened(journal, name, status=status)
    assert [row.run_id for row in journal.runs(statuses=statuses)] == names


# -- claiming ----------------------------------------------------------------------------------------------------------


def test_a_claim_raises_the_epoch_and_takes_the_run(journal: Journal) -> None:
    seen = opened(journal)
    journal.renew("run-1", seen.owner.token, seen.epoch)  # type: ignore[union-attr]
    seen = journal.find("run-1")
    assert seen is not None
    assert seen.lease_counter == 1
    bob = owner("bob")
    row = journal.claim(seen, bob, lease_term_us=5_000_000, at_us=3_000)
    expected = replace(seen, epoch=Epoch(0, 2), owner=bob, lease_counter=0, lease_term_us=5_000_000, updated_at_us=3_000, crashes=1)
    assert row == expected
    assert journal.find("run-1") == expected


@pytest.mark.parametrize("status", [Status.IN_DOUBT, Status.HELD, Status.COMPLETED])
def test_a_claim_does_not_change_the_status(journal: Journal, status: Status) -> None:
    assert claimed(journal, opened(journal, status=status)).status is status


def test_a_claim_by_a_clock_that_is_behind_does_not_lower_the_highest_time(journal: Journal) -> None:
    """The claimant lifts its clock to it: a key's window would else begin anew for whoever's clock was set back."""
    seen = opened(journal)
    row = journal.claim(seen, owner("bob"), lease_term_us=5_000_000, at_us=seen.updated_at_us - 1)
    assert row is not None
    assert row.updated_at_us == seen.updated_at_us


def test_a_claim_is_durable_on_return(store_url: str) -> None:
    first, second = open_journal(store_url), open_journal(store_url)
    row = claimed(first, opened(first))
    assert second.find("run-1") == row
    first.close()
    second.close()


def test_a_claim_on_a_seen_epoch_that_passed_is_refused(journal: Journal) -> None:
    seen = opened(journal)
    winner = claimed(journal, seen, "bob")
    assert journal.claim(seen, owner("carol"), lease_term_us=1, at_us=1) is None
    assert journal.find("run-1") == winner


def test_a_claim_on_a_lease_that_was_renewed_meanwhile_is_refused(journal: Journal) -> None:
    seen = opened(journal)
    assert seen.owner is not None
    assert journal.renew("run-1", seen.owner.token, seen.epoch)
    assert journal.claim(seen, owner("bob"), lease_term_us=1, at_us=1) is None
    assert journal.find("run-1") == replace(seen, lease_counter=1)


def test_repeating_a_claim_with_the_same_token_returns_the_row(journal: Journal) -> None:
    seen, bob = opened(journal), owner("bob")
    row = journal.claim(seen, bob, lease_term_us=5, at_us=3)
    assert row is not None
    assert journal.claim(seen, bob, lease_term_us=5, at_us=3) == row
    assert journal.find("run-1") == row


def test_a_claim_after_a_restore_starts_the_new_incarnation_at_one(journal: Journal) -> None:
    """An epoch of the lost timeline, however high, is below it."""
    row = opened(journal)
    for name in ("bob", "carol"):
        row = claimed(journal, row, name)
    assert row.epoch == Epoch(0, 3)
    raise_incarnation(journal)
    row = claimed(journal, row, "dave")
    assert row.epoch == Epoch(1, 1)
    assert claimed(journal, row, "erin").epoch == Epoch(1, 2)


def test_a_released_run_can_be_claimed(journal: Journal) -> None:
    seen = opened(journal)
    assert seen.owner is not None
    assert journal.release("run-1", seen.owner.token, seen.epoch)
    released = journal.find("run-1")
    assert released is not None
    assert claimed(journal, released).epoch == Epoch(0, 2)


def test_a_claim_on_a_run_that_is_not_there_is_refused(journal: Journal) -> None:
    assert journal.claim(replace(opened(journal), run_id="gone"), owner("bob"), lease_term_us=1, at_us=1) is None


# -- renewing and releasing --------------------------------------------------------------------------------------------


def test_renewing_raises_the_counter_and_nothing_else(journal: Journal) -> None:
    row = opened(journal)
    assert row.owner is not None
    assert journal.renew("run-1", row.owner.token, row.epoch)
    assert journal.renew("run-1", row.owner.token, row.epoch)
    assert journal.find("run-1") == replace(row, lease_counter=2)


def test_releasing_takes_the_owner_and_nothing_else(journal: Journal) -> None:
    row = opened(journal)
    assert row.owner is not None
    assert journal.release("run-1", row.owner.token, row.epoch)
    assert journal.find("run-1") == replace(row, owner=None)
    assert not journal.renew("run-1", row.owner.token, row.epoch)


def test_a_release_that_is_repeated_says_again_that_it_is_done(journal: Journal) -> None:
    """Its first acknowledgement may be lost. Once somebody else has claimed the run, nothing can be said any more."""
    row = opened(journal)
    assert row.owner is not None
    assert journal.release("run-1", row.owner.token, row.epoch)
    released = journal.find("run-1")
    assert journal.release("run-1", row.owner.token, row.epoch)
    assert journal.find("run-1") == released
    assert released is not None
    claimed(journal, released)
    assert not journal.release("run-1", row.owner.token, row.epoch)


@pytest.mark.parametrize("operation", ["renew", "release"])
def test_only_the_owner_at_its_epoch_renews_or_releases(journal: Journal, operation: str) -> None:
    before = opened(journal)
    assert before.owner is not None
    row = claimed(journal, before)
    assert row.owner is not None
    call = getattr(journal, operation)
    assert not call("run-1", before.owner.token, before.epoch)
    assert not call("run-1", row.owner.token, before.epoch)
    assert not call("run-1", before.owner.token, row.epoch)
    assert not call("gone", row.owner.token, row.epoch)
    assert journal.find("run-1") == row


# -- closing -----------------------------------------------------------------------------------------------------------


def test_closing_is_safe_to_repeat_and_the_next_call_opens_again(journal: Journal) -> None:
    row = opened(journal)
    journal.close()
    journal.close()
    assert journal.find("run-1") == row
