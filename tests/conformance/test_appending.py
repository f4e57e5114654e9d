"""Appending, loading, keys and evidence: one behaviour on memory, SQLite and PostgreSQL."""

from __future__ import annotations

from dataclasses import replace

import pytest

from recovery.core.chain import chained
from recovery.core.entries import Status
from recovery.core.errors import InvariantViolated
from recovery.core.ids import Epoch
from recovery.core.resting import RestsFor
from recovery.ports import Append, Appended, Evidence, Fenced, Journal, KeyClaim, KeyTaken, RunRow
from recovery.storage import open_journal
from recovery.testing.pieces import in_one_piece
from tests.conformance.making import appended, claim_of, member, opened, owner, row_after, stored, verified

# -- what an append writes ---------------------------------------------------------------------------------------------


def test_an_append_moves_the_run_and_stores_its_rows(journal: Journal) -> None:
    run = opened(journal)
    first = row_after(run, body='{"text":"\\u00e9 \\u0000 \\"quoted\\" \U0001f527"}', token="t")
    second = chained(first.digest, 3, "intent", "reserve#1", '{"b":2}', run.epoch, "t")
    now = appended(journal, member(run, first, second, status=Status.WAITING, reason="why", next_look_us=9_000))
    assert now == replace(
        run, head=3, head_digest=second.digest, status=Status.WAITING, reason="why", updated_at_us=2_000, next_look_us=9_000
    )
    loaded = in_one_piece(journal, "run-1")
    assert loaded is not None
    assert loaded[0] == now
    assert loaded[1][1:] == [first, second]
    assert journal.stream("run-1", verified) == 3


@pytest.mark.parametrize("rests_for", RestsFor)
@pytest.mark.parametrize("several", [False, True])
def test_what_a_run_rests_for_stands_in_its_row_until_the_next_append(journal: Journal, rests_for: RestsFor, several: bool) -> None:
    """By itself and in a batch, which are other statements; that a run goes on again is the one that keeps what it can of the row."""
    runs = [opened(journal, f"run-{number}") for number in range(2 if several else 1)]
    for said in (rests_for, RestsFor.NOTHING):
        status = Status.WAITING if said else Status.RUNNING
        batch = [member(run, row_after(run), status=status, rests_for=said) for run in runs]
        assert journal.append(batch) == [Appended()] * len(runs)
        runs = [row for row in map(journal.find, [run.run_id for run in runs]) if row is not None]
        assert {(row.status, row.rests_for) for row in runs} == {(status, said)}
        assert {row.rests_for for row in journal.runs()} == {said}


def test_an_append_is_durable_on_return(store_url: str) -> None:
    first, second = open_journal(store_url), open_journal(store_url)
    append = member(opened(first))
    assert first.append([append]) == [Appended()]
    loaded = in_one_piece(second, "run-1")
    assert loaded is not None
    assert loaded[1][1:] == list(append.rows)
    first.close()
    second.close()


def test_loading_gives_the_contracts_of_the_run_by_digest(journal: Journal) -> None:
    mine, other = opened(journal, "mine"), opened(journal, "other")
    mine = appended(journal, member(mine, contracts=(("d1", '{"a":1}'), ("d2", '{"a":2}'))))
    appended(journal, member(other, contracts=(("d3", '{"a":3}'), ("d1", '{"a":1}'))))
    appended(journal, member(mine, contracts=(("d1", '{"a":1}'), ("d1", '{"a":1}'))))
    loaded = [in_one_piece(journal, "mine"), in_one_piece(journal, "other")]
    assert [found and found[2] for found in loaded] == [
        {"d1": '{"a":1}', "d2": '{"a":2}'},
        {"d1": '{"a":1}', "d3": '{"a":3}'},
    ]


def test_a_batch_of_many_runs_gives_one_result_per_member_in_order(journal: Journal) -> None:
    runs = [opened(journal, f"run-{number}") for number in range(20)]
    stale = {3, 11}
    for number in stale:
        journal.claim(runs[number], owner("bob"), lease_term_us=1, at_us=1)
    results = journal.append([member(run, keys=(claim_of(run.run_id),)) for run in reversed(runs)])
    results.reverse()
    assert {number for number, result in enumerate(results) if isinstance(result, Fenced)} == stale
    assert all(result == Appended() for number, result in enumerate(results) if number not in stale)
    assert {number for number, run in enumerate(runs) if (row := journal.find(run.run_id)) and row.head == 1} == stale


def test_an_empty_batch_is_nothing(journal: Journal) -> None:
    assert journal.append([]) == []


def test_two_members_of_one_run_are_taken_in_order(journal: Journal) -> None:
    run = opened(journal)
    first = row_after(run)
    then = replace(run, head=2, head_digest=first.digest)
    assert journal.append([member(run, first), member(then), member(run)])[:2] == [Appended(), Appended()]
    now = journal.find("run-1")
    assert now is not None
    assert now.head == 3


@pytest.mark.parametrize(
    "broken",
    [
        lambda run, row: (),
        lambda run, row: (replace(row, seq=row.seq + 1),),
        lambda run, row: (row, replace(row, seq=row.seq + 2)),
        lambda run, row: (row, replace(row, seq=row.seq + 1, token="other")),
        lambda run, row: (replace(row, token=""),),
    ],
    ids=["no rows", "a gap before", "a gap inside", "two tokens", "no token"],
)
def test_rows_that_do_not_continue_the_head_are_our_bug(journal: Journal, broken) -> None:
    run = opened(journal)
    before = stored(journal)
    append = replace(member(run), rows=broken(run, row_after(run)))
    with pytest.raises(InvariantViolated, match="Nothing was written"):
        journal.append([append])
    assert stored(journal) == before


# -- the fence ---------------------------------------------------------------------------------------------------------


def other_owner(append: Append, _now: RunRow) -> Append:
    return replace(append, owner="somebody")


def lower_epoch(append: Append, now: RunRow) -> Append:
    return replace(append, epoch=Epoch(now.epoch.incarnation, now.epoch.n - 1))


def higher_incarnation(append: Append, now: RunRow) -> Append:
    return replace(append, epoch=Epoch(now.epoch.incarnation + 1, now.epoch.n))


def old_head(append: Append, now: RunRow) -> Append:
    return replace(append, head=now.head - 1, rows=(replace(append.rows[0], seq=now.head),))


def head_not_reached(append: Append, now: RunRow) -> Append:
    return replace(append, head=now.head + 1, rows=(replace(append.rows[0], seq=now.head + 2),))


@pytest.mark.parametrize("spoil", [other_owner, lower_epoch, higher_incarnation, old_head, head_not_reached])
@pytest.mark.parametrize("keys", [(), (claim_of("k1"),), (claim_of("k1"), claim_of("k2", step="b#1"))], ids=["0", "1", "2"])
def test_a_fenced_member_writes_nothing_and_shows_what_is_there(journal: Journal, spoil, keys: tuple[KeyClaim, ...]) -> None:
    seen = opened(journal)
    run = journal.claim(seen, owner("bob"), lease_term_us=1, at_us=1)
    assert run is not None
    now = appended(journal, member(run))
    before = stored(journal)
    append = spoil(member(now, keys=keys, contracts=(("d1", "{}"),)), now)
    assert journal.append([append]) == [Fenced(now)]
    assert stored(journal) == before


def test_a_released_run_fences_its_former_owner(journal: Journal) -> None:
    run = opened(journal)
    assert run.owner is not None
    journal.release("run-1", run.owner.token, run.epoch)
    assert journal.append([member(run)]) == [Fenced(replace(run, owner=None))]


def test_a_run_that_is_not_there_fences_with_nothing(journal: Journal) -> None:
    append = replace(member(opened(journal)), run_id="gone")
    assert journal.append([append]) == [Fenced(None)]


def test_a_renewed_lease_does_not_fence(journal: Journal) -> None:
    run = opened(journal)
    assert run.owner is not None
    journal.renew("run-1", run.owner.token, run.epoch)
    assert journal.append([member(run)]) == [Appended()]


# -- repeating ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("keys", [(), (claim_of("k1"),), (claim_of("k1"), claim_of("k2", step="b#1"))], ids=["0", "1", "2"])
def test_repeating_an_append_says_appended_and_writes_nothing(journal: Journal, keys: tuple[KeyClaim, ...]) -> None:
    append = member(opened(journal), keys=keys, contracts=(("d1", "{}"),))
    assert journal.append([append]) == [Appended()]
    before = stored(journal)
    assert journal.append([append]) == [Appended()]
    assert stored(journal) == before


def test_repeating_an_append_after_a_claim_still_says_that_it_is_durable(journal: Journal) -> None:
    """Its rows are in the journal that the claimant loads; "nothing was written" would be a lie."""
    run = opened(journal)
    append = member(run)
    now = appended(journal, append)
    journal.claim(now, owner("bob"), lease_term_us=1, at_us=1)
    assert journal.append([append]) == [Appended()]


def test_repeating_an_append_that_others_stand_on_says_appended(journal: Journal) -> None:
    append = member(opened(journal))
    now = appended(journal, append)
    taken_over = journal.claim(now, owner("bob"), lease_term_us=1, at_us=1)
    assert taken_over is not None
    appended(journal, member(taken_over))
    assert journal.append([append]) == [Appended()]


def test_the_same_rows_under_another_token_are_another_append(journal: Journal) -> None:
    run = opened(journal)
    now = appended(journal, member(run, row_after(run, token="mine")))
    assert journal.append([member(run, row_after(run, token="other"))]) == [Fenced(now)]


def test_the_same_token_over_other_rows_is_another_append(journal: Journal) -> None:
    run = opened(journal)
    now = appended(journal, member(run, row_after(run, token="mine", body="1")))
    assert journal.append([member(run, row_after(run, token="mine", body="2"))]) == [Fenced(now)]


# -- keys --------------------------------------------------------------------------------------------------------------


def test_a_key_has_one_owner_step(journal: Journal) -> None:
    run = appended(journal, member(opened(journal), keys=(claim_of("k1"),)))
    assert journal.key_owner("inventory", "warehouse-1", "k1") == ("run-1", "reserve#1", "print")
    assert journal.key_owner("inventory", "warehouse-2", "k1") is None
    assert journal.key_owner("payments", "warehouse-1", "k1") is None
    assert journal.append([member(run, keys=(claim_of("k1"),))]) == [Appended()]


@pytest.mark.parametrize(
    ("run_id", "again"),
    [
        ("run-2", claim_of("k1")),
        ("run-1", claim_of("k1", step="reserve#2")),
        ("run-1", claim_of("k1", fingerprint="another request")),
    ],
    ids=["another run", "another step", "another request"],
)
def test_a_taken_key_refuses_the_member_and_names_its_owner(journal: Journal, run_id: str, again: KeyClaim) -> None:
    runs = {name: opened(journal, name) for name in ("run-1", "run-2")}
    runs["run-1"] = appended(journal, member(runs["run-1"], keys=(claim_of("k1"),)))
    before = stored(journal)
    append = member(runs[run_id], keys=(again,), contracts=(("d1", "{}"),))
    assert journal.append([append]) == [KeyTaken(again, "run-1", "reserve#1", "print")]
    assert stored(journal) == before


def test_a_member_that_loses_one_key_leaves_none_behind(journal: Journal) -> None:
    appended(journal, member(opened(journal, "first"), keys=(claim_of("k2"),)))
    run = opened(journal, "second")
    before = stored(journal)
    keys = (claim_of("k1"), claim_of("k2"), claim_of("k3"))
    assert journal.append([member(run, keys=keys)]) == [KeyTaken(keys[1], "first", "reserve#1", "print")]
    assert stored(journal) == before
    assert journal.append([member(run, keys=(keys[0], keys[2]))]) == [Appended()]


def test_a_loser_of_a_key_does_not_disturb_the_others_of_its_batch(journal: Journal) -> None:
    appended(journal, member(opened(journal, "first"), keys=(claim_of("k1"),)))
    runs = [opened(journal, f"run-{number}") for number in range(3)]
    batch = [member(run, keys=(claim_of(name),)) for run, name in zip(runs, ("k0", "k1", "k2"), strict=True)]
    assert journal.append(batch) == [Appended(), KeyTaken(claim_of("k1"), "first", "reserve#1", "print"), Appended()]


def test_two_members_of_a_batch_that_want_one_key_have_one_winner(journal: Journal) -> None:
    runs = [opened(journal, f"run-{number}") for number in range(2)]
    results = journal.append([member(run, keys=(claim_of("k1"),)) for run in runs])
    assert results == [Appended(), KeyTaken(claim_of("k1"), "run-0", "reserve#1", "print")]


def test_two_members_with_several_keys_in_common_have_one_winner(journal: Journal) -> None:
    runs = [opened(journal, f"run-{number}") for number in range(2)]
    batch = [
        member(runs[0], keys=(claim_of("k1"), claim_of("k2"))),
        member(runs[1], keys=(claim_of("k2"), claim_of("k3"))),
    ]
    assert journal.append(batch) == [Appended(), KeyTaken(claim_of("k2"), "run-0", "reserve#1", "print")]
    assert journal.key_owner("inventory", "warehouse-1", "k3") is None


def test_one_member_cannot_give_a_key_to_two_steps(journal: Journal) -> None:
    run = opened(journal)
    before = stored(journal)
    keys = (claim_of("k1"), claim_of("k1", step="reserve#2"))
    assert journal.append([member(run, keys=keys)]) == [KeyTaken(keys[1], "run-1", "reserve#1", "print")]
    assert stored(journal) == before


def test_being_fenced_comes_before_losing_a_key(journal: Journal) -> None:
    appended(journal, member(opened(journal, "first"), keys=(claim_of("k1"),)))
    run = opened(journal)
    now = journal.claim(run, owner("bob"), lease_term_us=1, at_us=1)
    assert journal.append([member(run, keys=(claim_of("k1"),))]) == [Fenced(now)]


# -- evidence ----------------------------------------------------------------------------------------------------------

LATE = Evidence(run_id="run-1", step="reserve#1", epoch=Epoch(0, 1), at_us=5, kind="observation", body='{"found":true}')


def test_evidence_is_kept_oldest_first_and_outside_the_fence(journal: Journal) -> None:
    run = opened(journal)
    items = [replace(LATE, body=str(number), at_us=100 - number) for number in range(3)]
    for item in items:
        journal.add_evidence(item)
    journal.add_evidence(replace(LATE, run_id="run-2"))
    assert journal.evidence("run-1") == items
    assert journal.find("run-1") == run


def test_an_identical_item_is_kept_once_whatever_its_time(journal: Journal) -> None:
    journal.add_evidence(LATE)
    journal.add_evidence(replace(LATE, at_us=6))
    assert journal.evidence("run-1") == [LATE]


@pytest.mark.parametrize("change", [{"step": "b#1"}, {"epoch": Epoch(0, 2)}, {"kind": "verdict"}, {"body": "{}"}])
def test_an_item_that_differs_in_anything_else_is_kept(journal: Journal, change: dict[str, object]) -> None:
    journal.add_evidence(LATE)
    journal.add_evidence(replace(LATE, **change))  # type: ignore[arg-type]
    assert len(journal.evidence("run-1")) == 2


def test_long_evidence_is_kept(journal: Journal) -> None:
    """An index over the text itself would refuse it."""
    long = replace(LATE, body='"' + "x" * 100_000 + '"')
    journal.add_evidence(long)
    assert journal.evidence("run-1") == [long]


def test_evidence_is_durable_on_return(store_url: str) -> None:
    first, second = open_journal(store_url), open_journal(store_url)
    first.add_evidence(LATE)
    assert second.evidence("run-1") == [LATE]
    first.close()
    second.close()


def test_an_interrupt_in_the_middle_of_an_append_in_memory_leaves_nothing_half_written(monkeypatch: pytest.MonkeyPatch) -> None:
    """Control-C may come between any two lines; a database rolls back, and dicts must be no worse."""
    journal = open_journal("memory://")
    append = member(opened(journal))
    before = in_one_piece(journal, "run-1")

    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr("recovery.storage.memory.replace", interrupted)
        with pytest.raises(KeyboardInterrupt):
            journal.append([append])
    assert in_one_piece(journal, "run-1") == before
    assert journal.append([append]) == [Appended()]
    assert journal.append([append]) == [Appended()], "the same append, said again"
