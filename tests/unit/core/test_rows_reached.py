"""Each row has a history that leads to it; each condition and order that guards against harm has a history that shows it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from recovery.core.contracts import Contract, Deletion, Enforced, Kind, Lookup, Replay
from recovery.core.entries import OutcomeKind
from recovery.core.evidence import PRIORITY, examine
from recovery.core.facts import Finding
from recovery.core.policy import Budget
from recovery.core.verdicts import ROWS, first_match
from tests.unit.core.making import (
    ASKABLE,
    CLOSABLE,
    ERROR,
    FORGETFUL,
    KEYED,
    OPAQUE,
    PROBEABLE,
    H,
    M,
    S,
    Story,
    quiet,
    sent,
    situate,
    swapped,
)

NAMED = Contract(kind=Kind.NAMED, lookup=Lookup(deletion=Deletion.VISIBLE))
CURRENT = replace(KEYED, replay_success=Replay.CURRENT, stable_fields=("id",))
TRUSTING = replace(PROBEABLE, trust_settle=True)
DEADLINE = replace(PROBEABLE, enforced=Enforced.DEADLINE)
LATER = quiet(30 * S) + 1


@dataclass(frozen=True)
class Case:
    """How a row is reached: what the journal holds, when it is judged, under which contract, and what else is so."""

    row: int
    story: Callable[[], Story]
    now: int
    contract: Contract = KEYED
    situation: dict[str, Any] = field(default_factory=dict)


def settled_with(receipt: str) -> Story:
    return sent().reply(S, "found", receipt=receipt).settled(evidence=(4,))


CASES = [
    # keyed
    Case(1, sent, S, KEYED, {"replay_fingerprint": "another"}),
    Case(2, lambda: settled_with("r1"), S),
    Case(3, lambda: settled_with("r1").late_reply(2 * S, "found", 1, receipt="r2"), 3 * S),
    Case(4, lambda: sent().attempt(M).reply(M, "found", receipt="r1").late_reply(2 * M, "found", 1, receipt="r2"), H),
    Case(5, lambda: sent().probe(LATER, "absent").late_reply(H, "found", 1), H, ASKABLE),
    Case(6, lambda: sent().reply(S, "mismatch"), S),
    Case(6, lambda: sent().reply(S, "found", fingerprint="theirs"), S),
    Case(7, lambda: sent().reply(S, "found", value={"units": 5}), S, replace(KEYED, stable_fields=("units",))),
    Case(8, lambda: sent().reply(S, "found", value={"id": 1}), S),
    Case(9, lambda: sent().attempt(M, "resend").reply(M, "found", value={"id": 1, "state": "paid"}), H, CURRENT),
    Case(10, lambda: sent().attempt(M, "resend").reply(M, "found", value={"state": "paid"}), H, CURRENT),
    Case(10, lambda: sent().reply(S, "unstorable"), S),
    Case(11, lambda: sent().reply(S, "gone"), S),
    Case(14, lambda: sent().reply(S, "refused", error="OutOfStock"), S),
    Case(15, lambda: sent().reply(S, "refused", error="OutOfStock"), S, FORGETFUL),
    Case(16, lambda: sent().attempt(M, "close").closed(M), H, CLOSABLE),
    Case(20, lambda: Story().attempt(0).reply(S, "not_sent"), S, KEYED, {"wanted": False}),
    Case(20, Story, S, KEYED, {"wanted": False}),
    Case(21, lambda: sent().operator(S, "found"), S),
    Case(22, sent, S, KEYED, {"held": True}),
    Case(23, sent, S, KEYED, {"scope_changed": True}),
    Case(24, lambda: sent().reply(S, "unreachable"), S),
    Case(24, lambda: sent().reply(S, "in_flight"), S),
    Case(25, lambda: sent().attempt(M, "resend"), M + S),
    Case(25, lambda: sent().attempt(M, "close"), M + S, CLOSABLE),
    Case(26, Story, S, ASKABLE, {"restored": True}),
    Case(27, Story, S, KEYED, {"restored": True}),
    Case(27, lambda: Story().probe(S, "absent", epoch="1.1"), H, ASKABLE, {"restored": True, "incarnation": 1}),
    Case(28, Story, S),
    Case(28, lambda: Story().attempt(0).reply(S, "not_sent"), M),
    Case(29, lambda: sent().attempt(M, "resend").reply(M, "refused"), M, FORGETFUL),
    Case(30, sent, S),
    Case(30, lambda: sent().reply(S, "unreachable"), M),
    Case(31, sent, S, CLOSABLE, {"wanted": False}),
    Case(34, sent, 24 * H - M, CLOSABLE),
    Case(35, lambda: sent().probe(23 * H + 50 * M, "absent"), 24 * H - M, CLOSABLE),
    Case(39, sent, S, KEYED, {"budget": Budget(attempts=1)}),
    Case(40, lambda: sent().probe(25 * H, "absent"), 25 * H, ASKABLE),
    Case(41, lambda: sent().reply(S, "indeterminate"), S),
    Case(42, sent, 25 * H),
    Case(42, lambda: sent().reply(S, "expired"), S),
    Case(43, sent, S, replace(KEYED, fail_open=True)),
    Case(45, sent, S, KEYED, {"wanted": False}),
    Case(46, sent, S, replace(KEYED, lock_outlives_execution=False)),
    # probeable
    Case(4, lambda: sent().attempt(H).probe(2 * H, "found", receipt="r1").probe(2 * H, "found", receipt="r2"), 2 * H, PROBEABLE),
    Case(5, lambda: sent().probe(LATER, "absent").probe(H, "found"), H, PROBEABLE),
    Case(8, lambda: sent().probe(S, "found", value={"id": 1}), S, PROBEABLE),
    Case(9, lambda: sent().probe(S, "found", value={"id": 1}, original=False), S, replace(PROBEABLE, stable_fields=("id",))),
    Case(10, lambda: sent().probe(S, "found", value={"id": 1}), S, replace(PROBEABLE, shown_once=True)),
    Case(11, lambda: sent().probe(S, "gone"), S, PROBEABLE),
    Case(15, lambda: sent().reply(S, "refused"), S, PROBEABLE),
    Case(24, lambda: sent().probe(S, "unreachable"), S, PROBEABLE),
    Case(26, Story, S, PROBEABLE, {"restored": True}),
    Case(27, lambda: Story().probe(S, "absent"), H, PROBEABLE, {"restored": True}),
    Case(28, lambda: Story().attempt(0).reply(S, "turned_away"), M, PROBEABLE),
    Case(29, lambda: sent().probe(S, "refused"), S, PROBEABLE),
    Case(34, sent, S, PROBEABLE),
    Case(34, lambda: sent().probe(S, "absent"), LATER, PROBEABLE),
    Case(36, lambda: sent().probe(LATER, "absent"), H, TRUSTING),
    Case(37, lambda: sent().probe(LATER, "absent"), H, TRUSTING, {"wanted": False}),
    Case(38, lambda: sent().probe(S, "absent"), S, PROBEABLE),
    Case(39, sent, S, PROBEABLE, {"budget": Budget(probes=0)}),
    Case(40, lambda: sent().probe(LATER, "absent"), H, PROBEABLE),
    Case(42, lambda: sent().probe(S, "expired"), S, PROBEABLE),
    Case(46, sent, 3 * H, replace(PROBEABLE, lookup=Lookup(retention_us=H))),
    # opaque
    Case(2, lambda: settled_with("r1"), S, OPAQUE),
    Case(8, lambda: sent().reply(S, "found"), S, OPAQUE),
    Case(15, lambda: sent().reply(S, "refused"), S, OPAQUE),
    Case(20, lambda: Story().attempt(0).reply(S, "turned_away"), S, OPAQUE, {"wanted": False}),
    Case(21, lambda: sent().operator(S, "absent"), S, OPAQUE),
    Case(24, lambda: Story().attempt(0).reply(S, "not_sent"), S, OPAQUE),
    Case(27, Story, S, OPAQUE, {"restored": True}),
    Case(28, lambda: Story().attempt(0).reply(S, "turned_away"), M, OPAQUE),
    Case(44, sent, S, OPAQUE),
    Case(44, lambda: sent().reply(S, "unreachable"), S, OPAQUE),
    # the other kinds, judged as far as their fields go
    Case(12, lambda: sent().reply(S, "accepted"), S, replace(KEYED, kind=Kind.SWALLOW)),
    Case(13, lambda: sent().reply(S, "items", value=[{"kind": "found"}, {"kind": "refused"}]), S, KEYED),
    Case(16, lambda: sent().probe(H, "absent"), H, Contract(kind=Kind.FIRST_SENT, window_us=5 * M, lookup=Lookup())),
    Case(17, lambda: sent().probe(S, "foreign"), S, replace(NAMED, lookup=Lookup(deletion=Deletion.IMPOSSIBLE))),
    Case(17, lambda: sent().probe(LATER, "foreign"), H, NAMED),
    Case(18, lambda: sent().probe(S, "foreign"), S, NAMED),
    Case(19, lambda: sent().probe(H, "foreign"), H, replace(NAMED, lookup=Lookup(marker_reliable=False))),
    Case(19, lambda: sent().probe(H, "foreign"), H, replace(NAMED, lookup=Lookup(deletion=Deletion.INVISIBLE))),
    Case(32, lambda: sent().probe(H, "absent", as_of_us=H), H, DEADLINE),
    Case(33, lambda: sent().probe(H, "absent", as_of_us=H), H, DEADLINE, {"wanted": False}),
    Case(38, lambda: sent().probe(S, "absent", as_of_us=S), S, DEADLINE),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.row}-{case.contract.kind.value}")
def test_this_history_leads_to_this_row(case: Case) -> None:
    assert case.story().row(case.now, case.contract, **case.situation) == case.row


def test_every_row_has_a_history() -> None:
    assert sorted({case.row for case in CASES}) == [row.number for row in ROWS]


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.row}-{case.contract.kind.value}")
def test_judging_again_gives_the_same_judgement(case: Case) -> None:
    """I3 and I7: same evidence, same row, same next look, and nothing to append once it is recorded."""
    story = case.story()
    first = story.conclude(case.now, case.contract, **case.situation)
    assert story.conclude(case.now, case.contract, **case.situation) == first
    assert first.news == (case.row != 2)
    if first.action.value in {"wait", "park"} or case.row == 3:
        again = story.verdict(first).conclude(case.now + 1, case.contract, **case.situation)
        assert (again.row.number == case.row) <= (not again.news)


# -- swaps: exchanging two neighbours does harm ----------------------------------------------------------------------------


def with_priority_swapped(first: Finding, second: Finding) -> tuple[Finding, ...]:
    order = list(PRIORITY)
    one, two = order.index(first), order.index(second)
    order[one], order[two] = order[two], order[one]
    return tuple(order)


@pytest.mark.parametrize(
    ("first", "second", "story", "contract", "right", "wrong"),
    [
        # a settled outcome would be adopted anew from a duplicate
        (Finding.CONTRADICTED, Finding.DUPLICATE, lambda: settled_with("r1").late_reply(M, "found", 1, receipt="r2"), KEYED, 3, 4),
        # five units would be reported as success where two were wanted
        (Finding.RECEIPT_MISMATCH, Finding.RECEIPT_ORIGINAL, lambda: sent().reply(S, "found", value={"units": 5}),
         replace(KEYED, stable_fields=("units",)), 7, 8),
        # an outcome that can be given back would wait for a person
        (Finding.RECEIPT_STABLE, Finding.VALUE_UNKNOWN,
         lambda: sent().attempt(M, "resend").reply(M, "unstorable").reply(M, "found", value={"id": 1}), CURRENT, 9, 10),
    ],
    ids=["3/4", "7/8", "9/10"],
)  # fmt: skip
def test_swapping_findings_changes_a_verdict(first, second, story, contract, right, wrong) -> None:
    step, situation = story().step, situate(H, contract)
    assert first_match(examine(step, situation).facts, ROWS).number == right
    mutated = examine(step, situation, priority=with_priority_swapped(first, second)).facts
    assert first_match(mutated, ROWS).number == wrong


@pytest.mark.parametrize(
    ("first", "story", "now", "contract", "situation"),
    [
        # proof that nothing left would yield to hearsay
        (20, lambda: Story().attempt(0).reply(S, "not_sent").operator(S, "found"), M, KEYED, {"wanted": False}),
        # a restored step would be parked without asking
        (26, Story, S, ASKABLE, {"restored": True}),
        # the lost attempt's effect would be done a second time
        (27, Story, S, OPAQUE, {"restored": True}),
        (27, lambda: Story().probe(S, "absent"), S, PROBEABLE, {"restored": True}),
        # an effect that is there would be asked for with a refusal
        (34, sent, 24 * H - M, CLOSABLE, {}),
        # a question still to come would be given up
        (38, lambda: sent().probe(S, "absent"), 2 * S, ASKABLE, {"budget": Budget(attempts=1)}),
    ],
    ids=["20/21", "26/27", "27/28", "27/28 asked", "34/35", "38/39"],
)
def test_swapping_rows_changes_a_verdict(first, story, now, contract, situation) -> None:
    facts = story().facts(now, contract, **situation)
    assert first_match(facts, ROWS).number == first
    assert first_match(facts, swapped(ROWS, first)).number == first + 1


# -- conditions that were caught when taken back ---------------------------------------------------------------------------


def test_5_an_attempt_added_since_explains_the_receipt() -> None:
    story = sent().probe(LATER, "absent").attempt(H, "send").reply(H + S, "found")
    assert story.row(2 * H, TRUSTING) == 8


def test_5_an_absence_that_was_asked_too_early_broke_nothing() -> None:
    assert sent().probe(LATER - 1, "absent").probe(H, "found").row(H, PROBEABLE) == 8


def test_5_a_restored_journal_accuses_nobody() -> None:
    assert sent().probe(LATER, "absent").probe(H, "found").row(H, PROBEABLE, restored=True) == 8


def test_14_needs_a_store_that_fails_closed() -> None:
    story = sent().attempt(M, "resend").reply(M, "refused")
    assert story.row(M) == 14
    assert story.row(M, replace(KEYED, fail_open=True)) == 29


def test_14_needs_all_attempts_inside_one_window() -> None:
    last = 24 * H - 20 * M - ERROR - 30 * S - 1
    assert sent().attempt(last, "send").reply(last, "refused").row(last) == 14
    assert sent().attempt(last + 1, "send").reply(last + 1, "refused").row(last + 1) == 15


def test_14_needs_a_key_that_others_meet_too() -> None:
    assert sent().probe(S, "refused").row(S, PROBEABLE) == 29
    assert sent().probe(S, "refused").row(S, replace(PROBEABLE, window_us=24 * H)) == 29


@pytest.mark.parametrize(("given", "row"), [(LATER - 1, 30), (LATER, 15)])
def test_15_counts_when_the_rejection_was_given(given: int, row: int) -> None:
    """Judged long after quiet in both cases."""
    story = sent().attempt(given, "resend").reply(given, "refused", asked=given)
    assert story.row(2 * H, FORGETFUL) == row


def test_15_counts_when_it_was_asked_for_not_when_it_was_heard() -> None:
    story = sent().attempt(LATER - 1, "resend").reply(LATER + S, "refused", asked=LATER - 1)
    assert story.row(2 * H, FORGETFUL) == 30


def test_15_an_attempt_with_two_stories_is_not_over() -> None:
    """Refused, and a copy of the same attempt was seen at work: another of its copies may still act."""
    story = sent().reply(S, "refused", asked=S).late_reply(2 * S, "in_flight", 1)
    assert story.row(2 * S, FORGETFUL) == 29


def test_15_not_in_a_restored_journal() -> None:
    assert sent().reply(S, "refused").row(H, FORGETFUL, restored=True) == 27


def test_15_its_own_attempt_does_not_hold_it_up() -> None:
    assert sent().reply(S, "refused").row(S, FORGETFUL) == 15


def test_16_not_in_a_store_that_fails_open() -> None:
    story = sent().attempt(M, "close").closed(M)
    assert story.row(H, CLOSABLE) == 16
    assert story.row(H, replace(CLOSABLE, fail_open=True)) != 16


def test_16_not_after_the_record_may_have_been_pruned() -> None:
    assert sent().attempt(25 * H, "close").closed(25 * H).row(26 * H, CLOSABLE) != 16


def test_16_not_in_a_restored_journal_unless_records_are_kept_for_ever() -> None:
    story = sent().attempt(M, "close").closed(M)
    assert story.row(H, CLOSABLE, restored=True) == 26
    for_ever = Contract(kind=Kind.COTRANSACTIONAL, lookup=Lookup(), close=True)
    assert story.row(H, for_ever, restored=True) == 16


def test_16_a_first_sent_fence_needs_a_conclusive_absence() -> None:
    fenced = Contract(kind=Kind.FIRST_SENT, window_us=5 * M, lookup=Lookup(authoritative=False))
    assert sent().probe(H, "absent").row(H, fenced) == 40


@pytest.mark.parametrize(("asked", "row"), [(LATER - 1, 18), (LATER, 17)])
def test_17_counts_when_the_foreign_object_was_seen(asked: int, row: int) -> None:
    story = sent().probe(asked, "foreign")
    assert story.row(asked, NAMED) == row


def test_17_an_early_sight_is_asked_again_after_quiet() -> None:
    assert sent().probe(S, "foreign").row(LATER, NAMED) == 34


def test_18_names_the_time_it_waits_for() -> None:
    assert sent().probe(S, "foreign").conclude(S, NAMED).next_look_us == LATER


def test_18_waits_for_a_lagging_look_up_too() -> None:
    lagging = replace(NAMED, lookup=Lookup(deletion=Deletion.VISIBLE, lag_us=5 * S))
    story = sent().probe(S, "foreign")
    look = story.conclude(S, lagging).next_look_us or 0
    assert look == LATER + 5 * S
    assert [story.row(look - 1, lagging), story.row(look, lagging)] == [18, 34]
    assert story.probe(look, "foreign").row(look, lagging) == 17


def test_19_a_restored_journal_cannot_know_quiet() -> None:
    assert sent().probe(H, "foreign").row(H, NAMED, restored=True) == 19


def test_20_not_restored_and_not_wanted_and_not_exposed() -> None:
    assert Story().row(S, wanted=False) == 20
    assert Story().row(S, wanted=False, restored=True) == 27
    assert Story().row(S) == 28
    assert sent().row(S, wanted=False) != 20


def test_23_nothing_is_asked_closed_or_sent_in_another_scope() -> None:
    for story, contract in ((Story, KEYED), (sent, KEYED), (sent, PROBEABLE), (sent, CLOSABLE)):
        assert story().row(24 * H - M, contract, scope_changed=True, wanted=True) == 23
        assert story().row(S, contract, scope_changed=True) == 23


def test_24_ends_when_the_next_look_is_due() -> None:
    story = sent().reply(S, "unreachable")
    assert [story.row(S + 199_999), story.row(S + 200_000)] == [24, 30]


def test_25_ends_at_send_until() -> None:
    story = sent().attempt(M, "resend")
    assert [story.row(M + 30 * S - 1), story.row(M + 30 * S)] == [25, 30]


def test_34_is_not_repeated_before_the_time_that_counts() -> None:
    story = sent().probe(S, "absent")
    assert [story.row(LATER - 1, PROBEABLE), story.row(LATER, PROBEABLE)] == [38, 34]
    assert story.probe(LATER, "absent").row(2 * H, PROBEABLE) == 40


def test_34_a_new_attempt_makes_the_question_new() -> None:
    story = sent().probe(LATER, "absent").attempt(H, "send")
    assert story.row(H + S, TRUSTING) == 34


@pytest.mark.parametrize("wanted", [True, False], ids=["35", "31"])
def test_31_and_35_close_only_while_the_record_is_kept(wanted: bool) -> None:
    blind = replace(CLOSABLE, lock_outlives_execution=False)
    end = 24 * H - ERROR
    rows = [sent().row(now, blind, wanted=wanted, can_probe=False) for now in (end - 1, end)]
    assert rows == ([35, 46] if wanted else [31, 45])


@pytest.mark.parametrize("wanted", [True, False], ids=["35", "31"])
def test_31_and_35_never_close_in_a_store_that_fails_open(wanted: bool) -> None:
    assert sent().row(S, replace(CLOSABLE, fail_open=True), wanted=wanted, can_probe=False) == 43


@pytest.mark.parametrize("wanted", [True, False], ids=["35", "31"])
def test_31_and_35_close_once(wanted: bool) -> None:
    story = sent().attempt(25 * H, "close").closed(25 * H)
    assert story.row(26 * H, replace(CLOSABLE, window_us=25 * H), wanted=wanted, can_probe=False) == (46 if wanted else 45)


def test_35_waits_for_a_proof_that_is_under_way() -> None:
    closable = replace(DEADLINE, close=True)
    assert sent().probe(S, "absent", as_of_us=S).row(2 * S, closable) == 38
    assert sent().probe(S, "absent").row(2 * S, replace(PROBEABLE, close=True)) == 35


def test_44_an_old_absence_does_not_make_an_opaque_effect_askable() -> None:
    """The code that asked is gone: what it did not find then says nothing now."""
    assert sent().probe(S, "absent").row(S, OPAQUE) == 44


def test_39_a_spent_budget_is_the_reason_only_if_it_stopped_something() -> None:
    nothing = Budget(attempts=1, probes=1)
    assert sent().row(S, budget=nothing) == 39
    assert sent().probe(LATER, "absent").row(H, PROBEABLE, budget=nothing) == 40
    assert sent().row(25 * H, budget=nothing) == 42


def test_outcomes_that_contradict() -> None:
    """Each kind of later evidence against each kind of settlement."""
    not_executed = {"outcome": OutcomeKind.NOT_EXECUTED, "heuristic": True}
    rejected = {"outcome": OutcomeKind.REJECTED, "error": "OutOfStock"}
    for kind in ("found", "gone", "unstorable", "accepted", "mismatch"):
        assert sent().settled(**not_executed).late_reply(S, kind, 1).row(S) == 3
        assert sent().settled(**rejected).late_reply(S, kind, 1).row(S) == 3
    assert sent().settled(**rejected).late_reply(S, "refused", 1, error="OutOfStock").row(S) == 2
    assert sent().settled(**rejected).late_reply(S, "refused", 1, error="Frozen").row(S) == 3
    applied = settled_with("r1")
    assert applied.late_reply(S, "found", 1, receipt="r1", value="now paid").row(S) == 2
    assert settled_with("r1").late_reply(S, "gone", 1).row(S) == 2
    assert settled_with("r1").probe(S, "refused").row(S) == 3
    assert settled_with("r1").probe(LATER - 1, "absent").row(H, ASKABLE) == 2
    assert settled_with("r1").probe(LATER, "absent").row(H, ASKABLE) == 3
    assert settled_with("r1").operator(S, "absent").row(S) == 2
