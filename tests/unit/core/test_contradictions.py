"""Late evidence and contradictions in the core: what enters the chain, whose attempt it is about, and that each item is recorded once."""

from __future__ import annotations

from dataclasses import replace

import pytest

from recovery.core.contracts import Contract
from recovery.core.contradictions import contradicted, news, records, taken_in, unopposed
from recovery.core.entries import Observation, OutcomeKind, Settled, Source, Verdict, decode, encode
from recovery.core.history import EffectStep, fold
from recovery.core.judgement import KEPT
from recovery.core.timing import exposed_attempts

from .making import CLOSABLE, FORGETFUL, KEYED, OPAQUE, PROBEABLE, STEP, H, S, Story, sent

CONTRACTS = {"c": KEYED}


def settled_on(receipt: str = "r1") -> Story:
    story = sent().reply(S, "found", receipt=receipt, value={"id": 1})
    return story.settled(story.conclude(2 * S).settlement)


@pytest.mark.parametrize("later", [KEYED, PROBEABLE, OPAQUE, CLOSABLE, FORGETFUL])
@pytest.mark.parametrize("now_us", [3 * S, 10_000 * H])
@pytest.mark.parametrize("held", [False, True])
def test_an_unopposed_outcome_is_kept_whatever_is_promised_by_now(later: Contract, now_us: int, held: bool) -> None:
    """So that a replay need not judge it: its judgement is known before."""
    story = settled_on()
    assert story.step.settled is not None
    assert unopposed(story.step, story.step.settled)
    judgement = story.conclude(now_us, (KEYED, later), held=held, scope_changed=held, wanted=not held, restored=held)
    assert (judgement.row, judgement.assumptions, judgement.next_look_us, judgement.news) == (KEPT, (), None, False)


def test_an_outcome_is_opposed_as_soon_as_something_else_was_observed() -> None:
    story = settled_on().late_reply(H, "found", 1, receipt="r2", value={"id": 2})
    assert story.step.settled is not None
    assert not unopposed(story.step, story.step.settled)


# -- whose attempt -----------------------------------------------------------------------------------------------------


def test_a_late_reply_belongs_to_the_attempt_that_its_epoch_made() -> None:
    story = sent().late_reply(H, "refused", 1, error="OutOfStock")
    [noted] = story.step.observations
    assert noted.observation.attempt == 1
    assert exposed_attempts(story.step) == []  # its own reply clears it


@pytest.mark.parametrize(("attempt", "epoch"), [(1, "0.9"), (2, "0.1"), (7, "0.9")])
def test_a_reply_of_the_lost_time_clears_no_attempt_of_this_journal(attempt: int, epoch: str) -> None:
    """After a restore, number 1 is another attempt than the one that was turned away in the lost time."""
    story = sent().late_reply(H, "turned_away", attempt, epoch=epoch)
    [noted] = story.step.observations
    assert noted.observation.attempt is None
    assert len(exposed_attempts(story.step)) == 1


def test_a_late_item_that_is_in_the_chain_counts_once() -> None:
    story = sent().late_reply(H, "found", 1, receipt="r1")
    [taken] = taken_in(story.step)
    assert isinstance(taken, Observation)
    story.entries.append(taken)
    [noted] = story.step.observations
    assert noted.seq == len(story.entries)
    assert taken_in(story.step) == []


def test_taking_in_while_the_history_lives_gives_the_item_its_number() -> None:
    story = sent().late_reply(H, "found", 1, receipt="r1")
    history = fold("run-1", story.entries, story.late)
    step = history.steps[STEP]
    assert isinstance(step, EffectStep)
    for entry in taken_in(step):
        history.add(entry)
    assert [noted.seq for noted in step.observations] == [history.length]


def test_nothing_is_taken_into_a_settled_step() -> None:
    assert taken_in(settled_on().late_reply(H, "found", 1, receipt="r1").step) == []


# -- once --------------------------------------------------------------------------------------------------------------


def test_each_contradicting_item_is_recorded_behind_itself_and_once() -> None:
    story = settled_on().late_reply(H, "found", 1, receipt="r2").late_reply(H, "closed", 1)
    judgement = story.conclude(2 * H)
    made = records(story.step, judgement, len(story.entries))
    assert [type(entry) for entry in made] == [Observation, Verdict, Observation, Verdict]
    story.entries += made
    verdicts = [entry for entry in made if isinstance(entry, Verdict)]
    assert [entry.evidence for entry in verdicts] == [(len(story.entries) - 3,), (len(story.entries) - 1,)]
    assert not story.conclude(3 * H).news
    assert records(story.step, story.conclude(3 * H), len(story.entries)) == []
    history = fold("run-1", story.entries, story.late)
    assert news(history, CONTRACTS, 4 * H) == []


def test_the_same_receipt_in_other_words_is_no_second_contradiction() -> None:
    story = settled_on().late_reply(H, "found", 1, receipt="r2").late_reply(2 * H, "found", 1, receipt="r2", detail="told again")
    assert len(story.conclude(3 * H).support) == 1
    story.late_reply(2 * H, "found", 1, receipt="r3")
    assert len(story.conclude(3 * H).support) == 2


def test_a_contradiction_of_before_they_were_named_is_not_recorded_again() -> None:
    story = settled_on().late_reply(H, "found", 1, receipt="r2")
    story.verdict(story.conclude(2 * H))
    assert not story.conclude(3 * H).news


def test_matching_evidence_is_no_news() -> None:
    story = settled_on().late_reply(H, "found", 1, receipt="r1")
    assert news(fold("run-1", story.entries, story.late), CONTRACTS, 2 * H) == []
    assert contradicted(story.step, CONTRACTS, 2 * H) is None


def test_a_receipt_against_a_rejection_is_surplus_and_no_duplicate() -> None:
    story = sent().reply(S, "refused", error="OutOfStock")
    story.settled(Settled(step=STEP, outcome=OutcomeKind.REJECTED, at_us=S, error="OutOfStock", evidence=(4,)))
    story.late_reply(H, "found", 1, receipt="r2")
    found = contradicted(story.step, CONTRACTS, 2 * H)
    assert found is not None
    assert (found.adopted, found.duplicate, [noted.answer.receipt for noted in found.surplus]) == (None, False, ["r2"])


def test_two_receipts_that_were_weighed_together_stay_a_duplicate() -> None:
    """Row 4 settles on the first; the second is part of its evidence and is shown on every look."""
    story = sent().reply(S, "found", receipt="r1").reply(2 * S, "found", attempt=1, receipt="r2")
    judgement = story.conclude(H)
    assert judgement.row.number == 4
    story.settled(judgement.settlement)
    found = contradicted(story.step, CONTRACTS, H)
    assert found is not None
    assert found.duplicate
    assert found.adopted is not None
    assert (found.adopted.answer.receipt, [noted.answer.receipt for noted in found.against]) == ("r1", ["r2"])
    assert not story.conclude(2 * H).news


def test_a_pushed_rejection_is_not_one_that_was_given_after_quiet() -> None:
    at = 10 * H
    pushed = sent().late_reply(at, "refused", 1, error="OutOfStock")
    pushed.late[0] = replace(pushed.late[0], source=Source.PUSH, attempt=None)
    asked = sent().probe(at, "refused", error="OutOfStock")
    forgetful = replace(KEYED, replay_rejection=KEYED.replay_failure.__class__("reexecutes"))
    assert asked.row(at, forgetful) == 15
    assert pushed.row(at, forgetful) != 15


def test_a_verdict_keeps_its_evidence_in_stored_form() -> None:
    verdict = Verdict(step=STEP, row="contradicted", action="keep", reason="r", at_us=1, evidence=(5,))
    assert decode("verdict", encode(verdict)) == verdict
