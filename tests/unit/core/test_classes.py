"""What each class of effect licenses after a crash, and what each modifier takes away from it."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from recovery.contracts import (
    FOR_EVER,
    UNPUBLISHED,
    CoTransactional,
    Deletion,
    Enforced,
    FirstSent,
    Keyed,
    Lookup,
    Named,
    Prepared,
    Probeable,
    Read,
    Remembers,
    Replay,
    Swallow,
)
from recovery.core.contracts import Contract
from recovery.core.entries import OutcomeKind
from recovery.core.judgement import Judgement
from recovery.core.policy import Budget
from recovery.core.rows import Action
from recovery.core.timing import attempts_spent, probes_spent
from recovery.errors import DefinitionError
from tests.unit.core.making import ERROR, KEYED, OPAQUE, TIMEOUT, H, M, S, Story, quiet, sent

READ = Read()
DAY = timedelta(days=1)
QUIET = quiet(30 * S)
LATER = QUIET + 1
VISIBLE = Lookup(deletion=Deletion.VISIBLE)

# -- read ------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "story",
    [
        Story,
        sent,
        lambda: sent().reply(S, "unreachable"),
        lambda: sent().reply(S, "indeterminate"),
        lambda: sent().attempt(M, "resend"),
        lambda: sent().probe(S, "absent"),
        lambda: sent().reply(S, "mismatch"),
    ],
)
def test_a_read_is_simply_read_again(story) -> None:
    assert story().row(H, READ) == 28


def test_a_read_is_read_again_in_a_restored_journal_too() -> None:
    """An attempt that the backup lacks changed nothing."""
    assert Story().row(S, READ, restored=True) == 28
    assert sent().row(S, READ, restored=True, can_probe=True) == 28


def test_what_a_read_returned_is_adopted_and_kept() -> None:
    judgement = sent().reply(S, "found", value={"id": 1}).conclude(S, READ)
    assert judgement.settlement is not None
    assert (judgement.row.number, judgement.settlement.outcome, judgement.settlement.value) == (8, OutcomeKind.APPLIED, {"id": 1})


def test_a_rejection_ends_a_read() -> None:
    assert sent().attempt(M).reply(M, "refused", error="NoSuchSku").row(M, READ, restored=True) == 15


def test_two_reads_may_differ() -> None:
    """Neither is a duplicate of an effect: the first counts, before it is settled and after."""
    story = sent().attempt(M).reply(M, "found", value=1).late_reply(2 * M, "found", 1, value=2)
    assert story.row(H, READ) == 8
    assert sent().reply(S, "found", value=1).settled(evidence=(4,)).late_reply(M, "found", 1, value=2).row(H, READ) == 2


def test_a_read_that_is_no_longer_wanted_was_not_done() -> None:
    assert sent().row(S, READ, wanted=False) == 20


def test_a_read_keeps_to_its_budget() -> None:
    assert sent().row(S, READ, budget=Budget(attempts=1)) == 39


def test_a_read_that_somebody_later_calls_an_effect_is_judged_as_one() -> None:
    assert sent().row(S, (READ, OPAQUE)) == 44


# -- keyed -----------------------------------------------------------------------------------------------------------------


def test_an_unpublished_window_sends_once_and_never_again() -> None:
    unknown = Keyed(window=UNPUBLISHED)
    assert Story().row(0, unknown) == 28
    assert sent().row(0, unknown) == 42
    assert Story().attempt(0).reply(S, "not_sent").row(M, unknown) == 28


@pytest.mark.parametrize(
    ("remembers", "effect_free", "row"),
    [
        (Remembers.ALL, False, 30),  # a cached failure cannot act again
        (Remembers.RESUMED, False, 30),  # the next request carries it on
        (Remembers.SUCCESSES, True, 30),
        (Remembers.SUCCESSES, False, 46),  # a failure that is forgotten may have acted
        (Remembers.REJECTIONS, False, 46),
    ],
)
def test_a_forgotten_failure_must_be_effect_free(remembers: Remembers, effect_free: bool, row: int) -> None:
    assert sent().row(S, Keyed(window=DAY, remembers=remembers, failures_effect_free=effect_free)) == row


@pytest.mark.parametrize(("remembers", "row"), [(Remembers.ALL, 14), (Remembers.SUCCESSES, 29), (Remembers.RESUMED, 29)])
def test_a_rejection_is_final_only_if_it_is_remembered(remembers: Remembers, row: int) -> None:
    story = sent().attempt(M, "resend").reply(M, "refused", error="OutOfStock")
    assert story.row(M, Keyed(window=DAY, remembers=remembers)) == row


# -- swallow ---------------------------------------------------------------------------------------------------------------

QUEUE = Swallow(window=timedelta(minutes=5), settle_window=timedelta(minutes=1))
LAST = 5 * M - M - ERROR - 30 * S - 1
"""The last moment at which a copy may be sent to QUEUE."""


def test_a_copy_is_sent_to_a_queue_only_inside_its_window() -> None:
    assert sent().row(LAST, QUEUE) == 30
    assert sent().row(LAST + 1, QUEUE) == 42


def test_an_acceptance_inside_the_window_is_the_effect() -> None:
    judgement = sent().attempt(LAST, "resend").reply(LAST, "accepted").conclude(LAST, QUEUE)
    assert judgement.row.number == 12
    assert judgement.settlement is not None
    assert judgement.settlement.outcome is OutcomeKind.APPLIED_WITHOUT_VALUE


def test_an_acceptance_outside_the_window_may_be_a_second_delivery() -> None:
    assert sent().attempt(LAST + 1, "resend").reply(LAST + 1, "accepted").row(LAST + 1, QUEUE) == 42


def test_the_first_attempt_is_inside_even_the_shortest_window() -> None:
    assert sent().reply(S, "accepted").row(S, Swallow(window=timedelta(minutes=5))) == 12


def test_only_a_queue_accepts_without_telling() -> None:
    assert sent().reply(S, "accepted").row(S, KEYED) == 30


# -- first-sent ------------------------------------------------------------------------------------------------------------

FENCED = FirstSent(window=timedelta(minutes=30), lookup=Lookup())
FENCE = 30 * M + ERROR


def test_a_fence_settles_what_is_absent_behind_it() -> None:
    """No copy of any age is executed after the window, so an absence then needs no settle window."""
    assert sent().probe(FENCE + 1, "absent").row(FENCE + 1, FENCED) == 16
    assert sent().probe(FENCE, "absent").row(FENCE, FENCED) != 16


def test_a_fence_counts_from_the_first_attempt_that_may_have_left() -> None:
    story = Story().attempt(0).reply(S, "not_sent").attempt(H)
    assert story.probe(H + FENCE, "absent").row(H + FENCE, FENCED) != 16


def test_a_refused_copy_is_asked_about() -> None:
    """412: this one was not executed, and nothing is said about the first."""
    assert sent().attempt(M, "resend").reply(M, "expired").row(M, FENCED) == 34


def test_a_fence_without_a_look_up_proves_nothing() -> None:
    assert sent().attempt(M, "resend").reply(M, "expired").row(H, FirstSent(window=timedelta(minutes=30))) == 42


# -- named, prepared -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("build", [Named, Prepared])
def test_a_name_that_can_be_freed_is_asked_for(build) -> None:
    assert sent().row(S, build(lookup=VISIBLE)) == 34
    assert sent().probe(S, "found", value={"id": 1}).row(S, build(lookup=VISIBLE)) == 8


@pytest.mark.parametrize("build", [Named, Prepared])
def test_an_object_that_may_have_been_deleted_unseen_is_not_made_again(build) -> None:
    assert sent().probe(LATER, "absent").row(H, build()) == 40


def test_a_name_that_stays_taken_is_sent_again() -> None:
    """Our own success comes back as taken, and the marker tells that it is ours."""
    assert sent().row(S, Named(lookup=Lookup())) == 30
    assert sent().row(20 * 365 * 24 * H, Named(lookup=Lookup())) == 30
    assert sent().row(S, Prepared(window=DAY, lookup=VISIBLE)) == 30
    assert sent().row(S, Named(compare_and_set=True, window=FOR_EVER)) == 30


def test_a_name_never_remembers_a_rejection() -> None:
    assert sent().attempt(M, "resend").reply(M, "refused", error="Quota").row(M, Named(lookup=Lookup())) == 29


@pytest.mark.parametrize(
    ("lookup", "now", "row"),
    [
        (Lookup(), S, 17),
        (VISIBLE, S, 18),
        (VISIBLE, LATER, 17),
        (Lookup(deletion=Deletion.INVISIBLE), LATER, 19),
        (Lookup(marker_reliable=False), LATER, 19),
    ],
)
def test_somebody_elses_object(lookup: Lookup, now: int, row: int) -> None:
    assert sent().probe(now, "foreign").row(now, Named(lookup=lookup)) == row


# -- co-transactional ------------------------------------------------------------------------------------------------------


def test_a_receipt_in_the_effects_own_transaction_is_asked_by_sending_again() -> None:
    assert sent().row(S, CoTransactional()) == 30
    assert sent().row(365 * 24 * H, CoTransactional()) == 30


def test_a_receipt_whose_row_is_pruned_is_not() -> None:
    assert sent().row(25 * H, CoTransactional(window=DAY)) == 42


# -- modifiers -------------------------------------------------------------------------------------------------------------

RAISING = Probeable(enforced=Enforced.EPOCH)


@pytest.mark.parametrize(("raised", "row"), [("0.2", 32), ("1.0", 32), ("0.1", 38), ("", 38), ("two", 38)])
def test_an_epoch_fences_only_once_it_is_raised_above_every_attempt(raised: str, row: int) -> None:
    """The attempt carries epoch 0.1."""
    assert sent().probe(S, "absent", raised=raised).row(S, RAISING) == row


def test_a_raised_epoch_proves_nothing_where_the_contract_does_not_promise_it() -> None:
    assert sent().probe(S, "absent", raised="0.2").row(S, Probeable()) == 38


def test_an_attempt_after_the_fence_reopens_it() -> None:
    story = sent().probe(S, "absent", raised="0.2")
    story.entries.append(replace(story.entries[-2], number=2, sent_at_us=2 * S, send_until_us=32 * S, epoch="0.2"))
    assert story.row(3 * S, RAISING) == 34


def test_a_keyless_request_that_a_lost_connection_stops_half_way_leaves_no_proof() -> None:
    """What was half done has no receipt, so nothing found never means nothing done."""
    stopped = replace(RAISING, disconnect_cancels=True)  # stored before such a contract was refused
    assert sent().probe(S, "absent", raised="0.2").row(LATER, stopped) == 34
    assert sent().probe(LATER, "absent", raised="0.2").row(LATER, stopped) == 40


def test_a_key_covers_a_request_that_was_stopped_half_way() -> None:
    assert sent().reply(S, "unreachable").row(M, Keyed(window=DAY, disconnect_cancels=True)) == 30


CANCEL = Keyed(window=DAY, cancel_by_key=True)
CANCEL_VISIBLY = Probeable(cancel_by_key=True, trust_settle=True, lookup=VISIBLE)
CANCEL_UNSEEN = Probeable(cancel_by_key=True, trust_settle=True)


def unwanted(story: Story, now: int, contract: Contract, **situation: Any) -> Judgement:
    return story.conclude(now, contract, wanted=False, can_probe=False, can_cancel=True, **situation)


def test_what_nobody_wants_is_asked_for_by_a_cancel() -> None:
    """In the place of a probe: where a close would bar the key, a cancel only asks, and undoes what it finds."""
    judgement = unwanted(sent(), S, CANCEL)
    assert (judgement.row.number, judgement.cancels) == (34, True)
    assert sent().row(S, CANCEL, wanted=False) == 45, "without one there is nothing to ask"
    assert not sent().conclude(S, CANCEL, can_cancel=True).cancels, "what is wanted is sent again"
    assert not sent().conclude(S, Probeable(cancel_by_key=True), can_cancel=True).cancels, "what is wanted is probed for"


def test_what_a_cancel_undid_has_happened() -> None:
    judgement = unwanted(sent().attempt(S, "cancel").cancelled(2 * S, "gone"), 3 * S, CANCEL)
    assert (judgement.row.number, judgement.action) == (11, Action.ADOPT)


def test_what_a_cancel_found_is_the_first_reply_only_where_a_look_up_shows_that() -> None:
    shown = replace(CANCEL, lookup=Lookup(original=False))
    assert unwanted(sent().attempt(S, "cancel").cancelled(2 * S, "found"), 3 * S, shown).row.number == 10


def test_what_a_cancel_could_not_undo_is_adopted() -> None:
    assert unwanted(sent().attempt(S, "cancel").cancelled(2 * S, "found"), 3 * S, replace(CANCEL, lookup=Lookup())).row.number == 8


@pytest.mark.parametrize(
    ("asked", "row"),
    [(QUIET, 34), (QUIET + 1, 37)],
)
def test_a_cancel_that_found_nothing_counts_only_when_no_copy_can_act(asked: int, row: int) -> None:
    """It leaves no tombstone: a copy that lands after an early one is there to be cancelled by the next."""
    story = sent().attempt(asked, "cancel").cancelled(asked, "absent")
    assert unwanted(story, QUIET + 1, CANCEL_UNSEEN).row.number == row


def test_before_that_a_cancel_that_found_nothing_is_repeated_then() -> None:
    story = sent().attempt(S, "cancel").cancelled(2 * S, "absent")
    judgement = unwanted(story, 3 * S, CANCEL_UNSEEN)
    assert (judgement.row.number, judgement.next_look_us) == (38, QUIET + 1)


def test_a_keyed_cancel_that_found_nothing_is_no_proof() -> None:
    assert unwanted(sent().attempt(LATER, "cancel").cancelled(LATER, "absent"), LATER, CANCEL).row.number == 40


def test_a_cancel_that_does_not_tell_what_it_found_leaves_it_to_a_person() -> None:
    assert unwanted(sent().attempt(LATER, "cancel").cancelled(LATER, "accepted"), LATER, CANCEL).row.number == 45


@pytest.mark.parametrize(("contract", "row"), [(CANCEL_UNSEEN, 40), (CANCEL_VISIBLY, 37)])
def test_nothing_found_after_a_cancel_of_ours_may_be_what_that_removed(contract: Contract, row: int) -> None:
    """The first cancel's reply was lost. Where a removed object shows, the second would have seen it."""
    story = sent().attempt(S, "cancel").attempt(LATER, "cancel").cancelled(LATER, "absent")
    assert unwanted(story, LATER, contract).row.number == row


@pytest.mark.parametrize("kind", ["unreachable", "accepted"])
def test_nothing_found_after_a_cancel_that_told_nothing_is_no_proof(kind: str) -> None:
    story = sent().attempt(S, "cancel").cancelled(2 * S, kind).attempt(LATER, "cancel").cancelled(LATER, "absent")
    assert unwanted(story, LATER, CANCEL_UNSEEN).row.number == 40


@pytest.mark.parametrize("kind", ["absent", "not_sent", "turned_away", "in_flight"])
def test_a_cancel_that_removed_nothing_spoils_no_later_answer(kind: str) -> None:
    story = sent().attempt(S, "cancel").cancelled(2 * S, kind).attempt(LATER, "cancel").cancelled(LATER, "absent")
    assert unwanted(story, LATER, CANCEL_UNSEEN).row.number == 37


def test_an_unanswered_cancel_is_waited_for() -> None:
    story = sent().attempt(M, "cancel")
    assert unwanted(story, M + TIMEOUT - 1, CANCEL).row.number == 25
    assert unwanted(story, M + TIMEOUT, CANCEL).row.number == 34


def test_a_restored_step_is_not_cancelled() -> None:
    """What the key was used for in the lost time nobody knows."""
    assert unwanted(sent(), M, CANCEL, restored=True).row.number == 27


def test_a_cancel_carries_no_effect() -> None:
    """It spends a question and no attempt, and no window counts from it."""
    story = Story().attempt(S).reply(2 * S, "not_sent").attempt(M, "cancel").cancelled(M, "absent")
    judgement = unwanted(story, LATER, CANCEL)
    assert judgement.row.number == 20
    assert judgement.timing.quiet_at_us is None
    asked = sent().attempt(M, "cancel").cancelled(M, "absent")
    assert (attempts_spent(asked.step, CANCEL), probes_spent(asked.step, CANCEL)) == (1, 1)


@pytest.mark.parametrize(
    ("kind", "spent"), [("unreachable", 0), ("not_sent", 0), ("in_flight", 0), ("turned_away", 1), ("absent", 1)]
)
def test_a_cancel_that_was_not_answered_spends_no_question(kind: str, spent: int) -> None:
    assert probes_spent(sent().attempt(M, "cancel").cancelled(M, kind).step, CANCEL) == spent


def test_a_cancel_that_leaves_a_tombstone_is_a_close() -> None:
    with pytest.raises(DefinitionError, match="it is not a close"):
        Keyed(window=DAY, close=True, cancel_by_key=True)


# -- valid_for -------------------------------------------------------------------------------------------------------------

BRIEF = Keyed(window=DAY, valid_for=timedelta(minutes=10), close=True)


@pytest.mark.parametrize(("now", "row"), [(10 * M - 1, 28), (10 * M, 20)])
def test_an_intent_that_lapsed_is_not_sent(now: int, row: int) -> None:
    assert Story().row(now, BRIEF, can_close=False) == row


@pytest.mark.parametrize(("now", "row"), [(10 * M - 1, 30), (10 * M, 31)])
def test_an_intent_that_lapsed_is_not_sent_again(now: int, row: int) -> None:
    """It is closed, so that the environment says what happened or bars it for ever."""
    assert sent().row(now, BRIEF) == row


def test_what_had_happened_in_time_is_adopted_later() -> None:
    assert sent().reply(H, "found").row(H, BRIEF) == 8


def test_the_intent_itself_says_until_when_it_is_wanted() -> None:
    story = Story()
    story.entries[1] = replace(story.entries[1], valid_until_us=M)
    assert story.row(M - 1, KEYED) == 28
    assert story.conclude(M, KEYED).action is Action.NOT_EXECUTED
    assert story.row(M - 1, (KEYED, replace(KEYED, valid_for_us=S))) == 20, "a later contract may say sooner"
    assert story.row(M, (KEYED, replace(KEYED, valid_for_us=H))) == 20, "and never later"


def test_an_original_reply_is_told_from_a_present_state() -> None:
    current = Keyed(window=DAY, replay=Replay.CURRENT, stable_fields=("id",))
    story = sent().attempt(M, "resend").reply(M, "found", value={"id": 1, "state": "paid"})
    judgement = story.conclude(M, current)
    assert judgement.settlement is not None
    assert (judgement.settlement.value, judgement.settlement.reconstructed) == ({"id": 1}, True)
