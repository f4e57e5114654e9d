"""Known ways to get it wrong, one test each: what a plausible recovery would do, and what ours does instead.

A is the worker that died, B the recoverer, W the key's window.
"""

from __future__ import annotations

from dataclasses import replace

import pytest

from recovery.core.contracts import Contract, Deletion, Enforced, Kind, Lookup, Replay
from recovery.core.entries import OutcomeKind
from recovery.core.rows import Action
from tests.unit.core.making import ASKABLE, ERROR, FORGETFUL, KEYED, PROBEABLE, SETTLE, TIMEOUT, H, M, S, Story, quiet, sent

TRUSTING = replace(PROBEABLE, trust_settle=True)
W = 24 * H
LATER = quiet(TIMEOUT) + 1
SENDS = {Action.SEND, Action.RESEND}


def test_a_resend_just_inside_the_window_may_land_outside_it() -> None:
    """A applied at t0; B re-sends at W-1 and its copy lands at W+1, when the key is forgotten: twice."""
    assert sent().conclude(W - 1).action is Action.PARK


def test_the_window_is_not_renewed_by_a_resend() -> None:
    """The environment counts from the first time it saw the key, not from the last."""
    assert sent().attempt(W - H, "resend").conclude(W + H).action is Action.PARK


def test_a_stall_after_the_deadline_check_is_inside_the_margin() -> None:
    """B checks, stalls for the whole settle window, and its copy still lands before W."""
    judgement = sent().conclude(W - SETTLE - ERROR - TIMEOUT - 1)
    assert judgement.action is Action.RESEND
    assert judgement.next_look_us is not None
    assert judgement.next_look_us + SETTLE + ERROR < W


def test_a_forgotten_rejection_does_not_settle_while_another_copy_is_held() -> None:
    """A is held back; B is told "out of stock" and settles; stock comes back; A lands: applied after rejected."""
    story = sent().attempt(M, "resend").reply(M + S, "refused", error="OutOfStock")
    judgement = story.conclude(M + S, FORGETFUL)
    assert (judgement.action, judgement.settlement, judgement.next_look_us) == (Action.WAIT, None, LATER)


def test_a_failure_after_the_effect_that_is_not_cached_forbids_a_resend() -> None:
    careless = replace(KEYED, failures_effect_free=False, replay_failure=Replay.REEXECUTES)
    assert sent().reply(S, "unreachable").conclude(M, careless).action is Action.PARK


def test_a_probe_is_judged_by_when_it_was_asked() -> None:
    """Asked at quiet-1, A lands, judged at quiet+1: the absence is older than the landing."""
    story = sent().probe(LATER - 1, "absent")
    assert story.conclude(LATER + 1, TRUSTING).action is Action.ASK


def test_an_answer_that_took_long_is_judged_by_when_it_was_asked() -> None:
    story = sent().probe(2 * H, "absent", asked=LATER - 1)
    assert story.conclude(2 * H, TRUSTING).action is Action.ASK


def test_an_absence_after_the_receipt_may_have_been_pruned_is_none() -> None:
    pruned = replace(TRUSTING, lookup=Lookup(retention_us=H))
    assert sent().probe(H, "absent").conclude(H, pruned).action is Action.PARK
    assert sent().probe(H - ERROR - 1, "absent").conclude(H, pruned).action is Action.SEND


def test_a_recoverers_own_copy_counts_for_the_next_recoverer() -> None:
    """B re-sends and dies; C asks after A is quiet: B's copy can still land. It is in the journal, so it counts."""
    story = sent().attempt(30 * M, "send").probe(LATER + 10 * M, "absent")
    assert story.conclude(LATER + 10 * M, TRUSTING).action is Action.WAIT


def test_an_epoch_that_a_probe_carries_without_raising_fences_nothing() -> None:
    """B probes under epoch 2; A's epoch 1 lands afterwards."""
    fenced = replace(PROBEABLE, enforced=Enforced.EPOCH)
    assert sent().probe(H, "absent", as_of_us=H).conclude(H, fenced).action is Action.PARK


def test_an_object_that_somebody_deleted_is_not_created_again() -> None:
    hidden = Contract(kind=Kind.NAMED, lookup=Lookup(deletion=Deletion.INVISIBLE), trust_settle=True)
    assert sent().probe(H, "absent").conclude(H, hidden).action is Action.PARK
    assert sent().probe(H, "gone").conclude(H, hidden).action is Action.ADOPT


def test_a_plain_read_that_misses_an_open_transaction_proves_nothing() -> None:
    plain = replace(TRUSTING, lookup=Lookup(authoritative=False))
    assert sent().probe(H, "absent").conclude(H, plain).action is Action.PARK


def test_not_found_under_another_credential_means_forbidden() -> None:
    story = sent().probe(H, "absent")
    assert story.conclude(H, TRUSTING, scope_changed=True).action is Action.PARK
    assert story.conclude(H, TRUSTING).action is Action.SEND


def test_an_approval_that_lapsed_before_the_first_send_buys_nothing() -> None:
    """Approved for ten minutes, crashed before the send, recovered at 20 h."""
    judgement = Story().conclude(20 * H, wanted=False)
    assert judgement.settlement is not None
    assert judgement.settlement.outcome is OutcomeKind.NOT_EXECUTED


def test_an_approval_that_lapsed_after_the_send_is_not_used_again() -> None:
    assert sent().conclude(20 * H, wanted=False).action not in SENDS


def test_an_operators_word_is_contradicted_and_never_flipped() -> None:
    """The operator says not applied, the run goes on, then the receipt arrives: recorded once per item, outcome kept."""
    word = sent().operator(S, "absent").conclude(S, PROBEABLE).settlement
    assert word is not None
    assert (word.outcome, word.heuristic) == (OutcomeKind.NOT_EXECUTED, True)
    story = sent().operator(S, "absent").settled(word).late_reply(H, "found", 1, receipt="r1")
    first = story.conclude(H, PROBEABLE)
    assert (first.action, first.row.name, first.settlement, first.news) == (Action.KEEP, "contradicted", None, True)
    story.verdict(first)
    assert not story.conclude(H, PROBEABLE).news
    story.late_reply(2 * H, "found", 1, receipt="r2")
    assert story.conclude(2 * H, PROBEABLE).news


def test_a_lost_attempts_late_reply_may_not_be_the_first_reply() -> None:
    """Attempt 2 was shown what attempt 1 had made; the backup knows of attempt 1 only, and then that reply arrives."""
    current = replace(KEYED, replay_success=Replay.CURRENT)
    story = sent().late_reply(2 * M, "found", 2, value={"state": "paid"})
    assert story.conclude(H, current, restored=True).reason.value == "applied-value-unknown"
    assert story.conclude(H, KEYED, restored=True).action is Action.ADOPT


def test_a_restored_decision_under_a_used_key_is_not_sent() -> None:
    """The lost first decision used this key. An environment without mismatch checks would answer with the wrong outcome."""
    unchecked = replace(ASKABLE, mismatch_checked=False)
    assert Story().conclude(H, unchecked, restored=True).action is Action.ASK
    assert Story().probe(H, "found", fingerprint="theirs").conclude(H, unchecked, restored=True).reason.value == "key-mismatch"
    assert Story().probe(H, "absent").conclude(H, unchecked, restored=True).action is Action.PARK
    assert Story().probe(H, "found", fingerprint="ours").conclude(H, unchecked, restored=True).action is Action.ADOPT


def test_a_question_from_before_the_restore_does_not_count() -> None:
    story = Story().probe(S, "absent", epoch="0.4")
    assert story.conclude(H, ASKABLE, restored=True, incarnation=1).action is Action.ASK
    assert story.probe(H, "absent", epoch="1.1").conclude(H, ASKABLE, restored=True, incarnation=1).action is Action.PARK


def test_a_batch_with_an_open_item_is_neither_adopted_nor_settled() -> None:
    open_item = [{"kind": "found"}, {"kind": "unreachable"}]
    story = sent().reply(S, "items", value=open_item)
    assert [story.conclude(at).action for at in (S, S + 200_000)] == [Action.WAIT, Action.RESEND]
    assert sent().reply(S, "items", value=[]).conclude(S).settlement is None


def test_a_batchs_forgotten_rejections_do_not_settle_while_another_copy_is_held() -> None:
    """A is held; B's copy applies one item and is refused the other; stock comes back; A lands and applies that too."""
    items = [{"kind": "found"}, {"kind": "refused"}]
    story = sent().attempt(M, "resend").reply(M + S, "items", value=items)
    judgement = story.conclude(M + S, FORGETFUL)
    assert (judgement.row.name, judgement.settlement) == ("rejection-early", None)
    assert story.conclude(M + S, KEYED).action is Action.ADOPT  # remembered: A meets the same answer
    alone = sent().reply(S, "items", value=items)
    assert alone.conclude(S, FORGETFUL).action is Action.ADOPT  # nothing else is under way
    assert alone.conclude(S, FORGETFUL, restored=True).action is Action.PARK  # or so the backup says
    all_done = [{"kind": "found"}, {"kind": "found"}]
    assert sent().attempt(M, "resend").reply(M, "items", value=all_done).conclude(M, FORGETFUL).action is Action.ADOPT


@pytest.mark.parametrize(("asked", "action"), [(LATER - 1, Action.WAIT), (LATER, Action.ADOPT)])
def test_a_batchs_forgotten_rejection_is_judged_by_when_it_was_asked(asked: int, action: Action) -> None:
    items = [{"kind": "found"}, {"kind": "refused"}]
    story = sent().attempt(asked, "resend").reply(asked, "items", value=items)
    assert story.conclude(asked, FORGETFUL).action is action


def test_the_first_attempts_own_reply_may_not_be_the_first_reply() -> None:
    """A is held; B's copy does it; A's copy lands on what B made, and is shown its present state."""
    current = replace(KEYED, replay_success=Replay.CURRENT)
    story = sent().attempt(M, "resend").reply(M + S, "unreachable").late_reply(2 * M, "found", 1, value={"state": "paid"})
    assert story.conclude(H, current).reason.value == "applied-value-unknown"
    early = sent().attempt(M, "resend").late_reply(M - 1, "found", 1, value={"state": "new"})  # heard before B's copy left
    assert early.conclude(H, current).action is Action.ADOPT
    same = sent().attempt(M, "resend").late_reply(M, "found", 1, value={"state": "new"})
    assert same.conclude(H, current).reason.value == "applied-value-unknown"
    assert sent().reply(S, "found", value=1).conclude(H, current).action is Action.ADOPT
    assert sent().reply(S, "found", value=1).conclude(H, current, restored=True).reason.value == "applied-value-unknown"


def test_a_cached_failure_is_not_sent_for_ever() -> None:
    """The effect committed, and the key answers 500 from now on: the second channel is asked, then a person."""
    story = sent().reply(S, "indeterminate")
    assert story.conclude(S).action is Action.PARK
    assert story.conclude(S, ASKABLE).action is Action.ASK
    assert story.probe(2 * S, "found", value=1).conclude(2 * S, ASKABLE).action is Action.ADOPT


def test_a_retry_after_a_limit_says_nothing_about_the_first_attempt() -> None:
    """429 on the re-send: that copy did nothing, the first one may have."""
    story = sent().attempt(M, "resend").reply(M, "turned_away")
    assert story.conclude(2 * M, wanted=False).action is Action.PARK
    assert story.conclude(2 * M, PROBEABLE).action is Action.ASK


def test_a_tombstone_bars_the_key_even_where_it_proves_nothing() -> None:
    late = replace(KEYED, close=True)
    story = sent().attempt(W, "close").closed(W)
    assert story.conclude(W + H, late).action is Action.PARK


def test_the_late_reply_of_a_superseded_worker_is_adopted() -> None:
    judgement = sent().attempt(H, "resend").late_reply(H, "found", 1, value={"id": 1}).conclude(H)
    assert judgement.settlement is not None
    assert judgement.settlement.value == {"id": 1}
