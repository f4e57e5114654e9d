"""From a row to what is recorded: settlements, next looks, assumptions, evidence."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from recovery.core.contracts import Keyed, Lookup, Probeable, Replay
from recovery.core.entries import Answered, AnswerKind, Observation, OutcomeKind, Settled, Source
from recovery.core.history import fold
from recovery.core.judgement import conclude
from recovery.core.rows import Action
from tests.unit.core.making import (
    ASKABLE,
    CLOSABLE,
    FORGETFUL,
    KEYED,
    OPAQUE,
    PROBEABLE,
    STEP,
    TIMEOUT,
    H,
    M,
    S,
    Story,
    quiet,
    sent,
    situate,
)

ARRIVED = Observation(
    step=STEP, source=Source.REPLY, asked_at_us=0, observed_at_us=S, answer=Answered(kind=AnswerKind.FOUND, value=7), attempt=1
)


def test_a_fresh_reply_settles_in_one_row() -> None:
    """The happy path is two rows: intent with attempt, settlement with observation."""
    story = sent()
    judgement = conclude(story.step, situate(S), fresh=ARRIVED)
    assert judgement.settlement == Settled(
        step=STEP, outcome=OutcomeKind.APPLIED, at_us=S, value=7, row="receipt-original", reason="original-receipt",
        assumptions=("A1", "A6", "default replay_success=original"), evidence=(), observation=ARRIVED,
    )  # fmt: skip
    settled = fold("run-1", [*story.entries, judgement.settlement]).steps[STEP]
    assert settled.settled == judgement.settlement


def test_a_fresh_reply_leaves_the_step_as_it_was() -> None:
    step = sent().step
    conclude(step, situate(S), fresh=ARRIVED)
    assert step.observations == ()


def test_durable_and_fresh_evidence_give_the_same_verdict() -> None:
    durable = sent().reply(S, "found", asked=0, value=7).conclude(S)
    fresh = conclude(sent().step, situate(S), fresh=replace(ARRIVED, epoch="0.1"))
    assert (durable.row, durable.facts, durable.evidence) == (fresh.row, fresh.facts, (4,))


def test_evidence_names_the_entries_it_rests_on() -> None:
    story = sent().reply(S, "unreachable").probe(M, "absent").probe(2 * M, "found")
    assert story.conclude(2 * M, PROBEABLE).evidence == (6,)
    assert story.conclude(2 * M, OPAQUE).evidence == (6,)
    assert sent().reply(S, "unreachable").probe(M, "absent").conclude(M, PROBEABLE).evidence == (4, 5)
    assert sent().conclude(M).evidence == (2,)


def test_late_evidence_has_no_number_and_is_used_all_the_same() -> None:
    judgement = sent().late_reply(S, "found", 1).conclude(S)
    assert judgement.settlement is not None
    assert judgement.evidence == (2,)


def test_every_settlement_can_be_appended() -> None:
    """Evidence stands earlier in the journal, and the step is settled by the entry."""
    for story in (sent().reply(S, "found"), sent().reply(S, "refused"), Story().attempt(0).reply(S, "not_sent")):
        judgement = story.conclude(S, wanted=False)
        assert judgement.settlement is not None
        assert fold("run-1", [*story.entries, judgement.settlement]).unsettled == []


def test_a_settled_step_is_never_settled_again() -> None:
    for receipt in ("r1", "r2"):
        story = sent().reply(S, "found", receipt="r1").settled(evidence=(4,)).late_reply(M, "found", 1, receipt=receipt)
        assert story.conclude(H).settlement is None


@pytest.mark.parametrize(
    ("story", "outcome", "value", "error"),
    [
        (lambda: sent().reply(S, "found", value={"id": 1}), OutcomeKind.APPLIED, {"id": 1}, ""),
        (lambda: sent().reply(S, "gone"), OutcomeKind.APPLIED_WITHOUT_VALUE, None, ""),
        (lambda: sent().reply(S, "refused", error="OutOfStock", value={"left": 1}), OutcomeKind.REJECTED, {"left": 1}, "OutOfStock"),
        (lambda: sent().reply(S, "items", value=[{"kind": "found"}]), OutcomeKind.MIXED, [{"kind": "found"}], ""),
        (lambda: sent().probe(S, "foreign", value={"owner": "x"}), OutcomeKind.REJECTED, {"owner": "x"}, "NameTaken"),
    ],
)  # fmt: skip
def test_what_a_settlement_holds(story, outcome, value, error) -> None:
    settlement = story().conclude(S, ASKABLE).settlement
    assert settlement is not None
    assert (settlement.outcome, settlement.value, settlement.error) == (outcome, value, error)
    assert not settlement.heuristic
    assert not settlement.reconstructed


def test_a_present_state_gives_back_its_stable_fields_only() -> None:
    contract = Keyed(window=timedelta(hours=24), replay=Replay.CURRENT, stable_fields=("id",))
    story = sent().attempt(M, "resend").reply(M, "found", value={"id": 1, "state": "paid"})
    settlement = story.conclude(M, contract).settlement
    assert settlement is not None
    assert (settlement.value, settlement.reconstructed) == ({"id": 1}, True)


def test_the_first_reply_is_original_even_where_replays_are_not() -> None:
    contract = Keyed(window=timedelta(hours=24), replay=Replay.CURRENT)
    settlement = sent().reply(S, "found", value={"state": "new"}).conclude(S, contract).settlement
    assert settlement is not None
    assert settlement.value == {"state": "new"}


def test_a_duplicate_adopts_the_first_receipt() -> None:
    story = sent().attempt(M).reply(M, "found", receipt="r1", value=1).late_reply(H, "found", 1, receipt="r2", value=2)
    judgement = story.conclude(H)
    assert judgement.settlement is not None
    assert (judgement.row.number, judgement.settlement.value) == (4, 1)


@pytest.mark.parametrize(
    ("kind", "outcome"),
    [
        ("found", OutcomeKind.APPLIED),
        ("unstorable", OutcomeKind.APPLIED_WITHOUT_VALUE),
        ("refused", OutcomeKind.REJECTED),
        ("absent", OutcomeKind.NOT_EXECUTED),
        ("items", OutcomeKind.MIXED),
    ],
)
def test_an_operators_outcome_is_heuristic(kind: str, outcome: OutcomeKind) -> None:
    settlement = sent().operator(S, kind, error="E" if kind == "refused" else "").conclude(S, OPAQUE).settlement
    assert settlement is not None
    assert (settlement.outcome, settlement.heuristic) == (outcome, True)


def test_the_operators_last_word_counts_and_any_receipt_outweighs_it() -> None:
    story = sent().operator(S, "absent").operator(M, "found")
    assert story.conclude(M, OPAQUE).settlement.outcome is OutcomeKind.APPLIED
    assert story.reply(M, "refused").conclude(M, OPAQUE).settlement.outcome is OutcomeKind.REJECTED


def test_acts_name_the_time_at_which_their_answer_is_overdue() -> None:
    for story, contract in ((Story(), KEYED), (sent(), KEYED), (sent(), PROBEABLE)):
        assert story.conclude(M, contract).next_look_us == M + TIMEOUT


def test_a_park_has_no_next_look() -> None:
    assert sent().conclude(M, OPAQUE).next_look_us is None


def test_a_wait_always_lies_ahead() -> None:
    waits = [
        sent().reply(S, "unreachable").conclude(S),
        sent().attempt(M, "resend").conclude(M),
        sent().probe(S, "absent").conclude(S, PROBEABLE),
        sent().probe(S, "refused").conclude(S, PROBEABLE),
    ]
    assert [judgement.action.value for judgement in waits] == ["wait"] * 4
    assert all((judgement.next_look_us or 0) > judgement.at_us for judgement in waits)


def test_defaults_are_named_and_stated_fields_are_not() -> None:
    resend = sent().conclude(S)
    assert resend.assumptions[:6] == ("A1", "A2", "A3", "A4", "A5", "A6")
    assert "default settle_window_us=1200000000" in resend.assumptions
    stated = Keyed(window=timedelta(hours=24), settle_window=timedelta(minutes=20), fail_open=False)
    assert [name for name in sent().conclude(S, stated).assumptions if "settle" in name or "fail_open" in name] == []


def test_a_default_lookup_is_named_in_words() -> None:
    assert "default lookup=authoritative, lag 0 us, kept for ever, deletion impossible" in sent().conclude(S, PROBEABLE).assumptions
    stated = sent().conclude(S, Probeable(lookup=Lookup(lag_us=1)))
    assert [name for name in stated.assumptions if name.startswith("default lookup")] == []


def test_a_verdict_is_recorded_with_all_that_it_said() -> None:
    judgement = sent().probe(S, "absent").conclude(S, PROBEABLE)
    verdict = judgement.recorded()
    assert (verdict.step, verdict.row, verdict.action, verdict.reason) == (STEP, "absence-early", "wait", "absence-not-final")
    assert (verdict.at_us, verdict.next_look_us, verdict.assumptions) == (S, quiet(TIMEOUT) + 1, judgement.assumptions)


def test_a_wait_is_news_once() -> None:
    story = sent().probe(S, "absent")
    first = story.conclude(S, PROBEABLE)
    assert first.news
    assert not story.verdict(first).conclude(M, PROBEABLE).news
    assert story.probe(M, "unreachable").conclude(M, PROBEABLE).news


def test_the_weaker_of_two_contracts_judges() -> None:
    assert sent().row(S, (KEYED, OPAQUE)) == 44
    assert sent().row(S, (OPAQUE, KEYED)) == 44
    assert sent().row(13 * H, (KEYED, Keyed(window=timedelta(hours=12)))) == 42


def test_without_a_contract_nothing_is_judged() -> None:
    with pytest.raises(ValueError, match="at least one contract"):
        sent().row(S, ())


def test_a_persons_word_is_the_evidence_of_what_it_settles_and_silence_is_not() -> None:
    """What is told later can then speak against the outcome, and what told nothing was no part of it."""
    judgement = sent().reply(S, "unreachable").operator(H, "found").conclude(H)
    assert (judgement.row.number, judgement.evidence) == (21, (5,))
    first = sent().operator(S, "absent").operator(H, "found").conclude(H)
    assert first.evidence == (5,)


def test_a_rejection_that_came_too_early_is_what_is_waited_with() -> None:
    judgement = sent().reply(S, "unreachable").attempt(M).reply(M, "refused", error="OutOfStock").conclude(M, FORGETFUL)
    assert (judgement.row.number, judgement.evidence) == (29, (6,))


@pytest.mark.parametrize(
    ("story", "contract", "situation", "action"),
    [
        (Story(), KEYED, {}, Action.SEND),
        (sent(), KEYED, {}, Action.RESEND),
        (sent(), PROBEABLE, {}, Action.ASK),
        (sent(), CLOSABLE, {"wanted": False}, Action.CLOSE),
    ],
)
def test_what_is_done_is_looked_at_again_when_its_answer_is_overdue(story, contract, situation, action) -> None:
    judgement = story.conclude(M, contract, **situation)
    assert (judgement.action, judgement.next_look_us) == (action, M + TIMEOUT)
