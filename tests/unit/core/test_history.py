"""The fold: which sequences of entries are legal, and what they amount to."""

from __future__ import annotations

from dataclasses import replace

import pytest

from recovery.core.entries import (
    ANSWER,
    BRANCHES,
    Answered,
    AnswerKind,
    Attempt,
    Decision,
    Entry,
    Intent,
    Observation,
    Opened,
    OutcomeKind,
    Override,
    Settled,
    Source,
    Verb,
    Verdict,
)
from recovery.core.errors import IllegalHistory
from recovery.core.history import DecisionStep, EffectStep, History, fold
from recovery.core.returning import recorded_orders

OPENED = Opened(workflow="w", version="1", input=None, input_digest="d", at_us=0)
DECISION = Decision(step="plan#1", fingerprint="f", value=1, at_us=0)
INTENT = Intent(
    step="a#1",
    effect="e",
    environment="x",
    scope="s",
    key="k",
    fingerprint="f",
    arguments=None,
    contract="c",
    timeout_us=5,
    at_us=0,
)
ATTEMPT = Attempt(step="a#1", number=1, purpose="send", sent_at_us=0, send_until_us=5, epoch="0.1")
REPLY = Observation(
    step="a#1", source=Source.REPLY, asked_at_us=0, observed_at_us=1, answer=Answered(kind=AnswerKind.FOUND), attempt=1
)
PROBE = replace(REPLY, source=Source.PROBE, attempt=None)
VERDICT = Verdict(step="a#1", row="r", action="wait", reason="x", at_us=0)
SETTLED = Settled(step="a#1", outcome=OutcomeKind.APPLIED, at_us=1)
ENDED = Settled(step="", outcome=OutcomeKind.APPLIED, at_us=2)


@pytest.mark.parametrize(
    ("entries", "problem"),
    [
        ([OPENED, OPENED], "opened by its first entry only"),
        ([DECISION], "first entry must open"),
        ([INTENT], "first entry must open"),
        ([SETTLED], "first entry must open"),
        ([OPENED, DECISION, DECISION], "plan#1 is recorded twice"),
        ([OPENED, INTENT, INTENT], "a#1 is recorded twice"),
        ([OPENED, DECISION, replace(INTENT, step="plan#1")], "plan#1 is recorded twice"),
        ([OPENED, INTENT, replace(DECISION, step="a#1")], "a#1 is recorded twice"),
        ([OPENED, ATTEMPT], "has no intent"),
        ([OPENED, REPLY], "has no intent"),
        ([OPENED, VERDICT], "has no intent"),
        ([OPENED, SETTLED], "has no intent"),
        ([OPENED, DECISION, replace(SETTLED, step="plan#1")], "has no intent"),
        ([OPENED, INTENT, replace(ATTEMPT, number=2)], "out of order"),
        ([OPENED, INTENT, ATTEMPT, ATTEMPT], "out of order"),
        ([OPENED, replace(INTENT, attempt=ATTEMPT), ATTEMPT], "out of order"),
        ([OPENED, replace(INTENT, attempt=replace(ATTEMPT, number=0))], "out of order"),
        ([OPENED, INTENT, replace(ATTEMPT, send_until_us=-1)], "deadline lies before its start"),
        ([OPENED, INTENT, REPLY], "never made"),
        ([OPENED, INTENT, ATTEMPT, replace(REPLY, attempt=2)], "never made"),
        ([OPENED, INTENT, ATTEMPT, replace(REPLY, attempt=0)], "never made"),
        ([OPENED, INTENT, ATTEMPT, replace(SETTLED, observation=replace(REPLY, attempt=2))], "never made"),
        ([OPENED, INTENT, SETTLED, ATTEMPT], "settled and cannot be attempted"),
        ([OPENED, INTENT, SETTLED, SETTLED], "settled twice"),
        ([OPENED, INTENT, replace(SETTLED, evidence=(3,))], "evidence must stand earlier"),
        ([OPENED, INTENT, replace(SETTLED, evidence=(0,))], "evidence must stand earlier"),
        ([OPENED, INTENT, ENDED], "ended with unsettled steps"),
        ([OPENED, ENDED, DECISION], "the run has ended"),
        ([OPENED, ENDED, INTENT], "the run has ended"),
        ([OPENED, ENDED, ENDED], "the run has ended"),
    ],
)
def test_illegal_sequences_are_refused_where_they_break(entries: list[Entry], problem: str) -> None:
    """Never repaired: a history that no writer of ours makes must not lead to a sending."""
    with pytest.raises(IllegalHistory, match=problem) as caught:
        fold("run-1", entries)
    assert caught.value.seq == len(entries)
    fold("run-1", entries[:-1])


def test_a_whole_run_folds() -> None:
    history = fold("run-1", [OPENED, DECISION, INTENT, ATTEMPT, PROBE, VERDICT, replace(SETTLED, evidence=(5,)), ENDED])
    assert list(history.steps) == ["plan#1", "a#1"]
    decision, effect = history.steps.values()
    assert isinstance(decision, DecisionStep)
    assert isinstance(effect, EffectStep)
    assert (decision.seq, effect.seq, effect.probes) == (2, 3, 1)
    assert (effect.attempts, effect.verdicts) == ((ATTEMPT,), (VERDICT,))
    assert [(noted.seq, noted.observation) for noted in effect.observations] == [(5, PROBE)]
    assert (history.ended, history.unsettled, history.length) == (ENDED, [], 8)


def test_an_intent_with_its_first_attempt_is_one_row() -> None:
    both = fold("run-1", [OPENED, replace(INTENT, attempt=ATTEMPT)]).effects[0]
    apart = fold("run-1", [OPENED, INTENT, ATTEMPT]).effects[0]
    assert both.attempts == apart.attempts == (ATTEMPT,)


def test_a_settlement_brings_its_observation() -> None:
    effect = fold("run-1", [OPENED, INTENT, ATTEMPT, replace(SETTLED, observation=REPLY)]).effects[0]
    assert [(noted.seq, noted.observation) for noted in effect.observations] == [(4, REPLY)]


def test_observations_and_verdicts_may_follow_a_settlement_and_the_end() -> None:
    """Late evidence is recorded and changes nothing."""
    history = fold("run-1", [OPENED, INTENT, ATTEMPT, SETTLED, PROBE, VERDICT, ENDED, PROBE, VERDICT])
    assert history.effects[0].settled == SETTLED
    assert len(history.effects[0].observations) == 2


def test_late_evidence_stands_outside_the_chain() -> None:
    late = replace(REPLY, source=Source.LATE)
    history = fold("run-1", [OPENED, INTENT, ATTEMPT], [late, replace(late, step="gone#1")])
    assert [(noted.seq, noted.observation) for noted in history.effects[0].observations] == [(None, late)]
    assert history.length == 3


def test_unsettled_effects_are_the_ones_to_recover() -> None:
    other = replace(INTENT, step="b#1")
    history = fold("run-1", [OPENED, INTENT, other, SETTLED])
    assert [effect.step for effect in history.unsettled] == ["b#1"]
    assert [effect.step for effect in history.effects] == ["a#1", "b#1"]


def test_folding_is_the_same_in_one_go_and_step_by_step() -> None:
    entries = [OPENED, DECISION, INTENT, ATTEMPT, replace(SETTLED, observation=REPLY), ENDED]
    history = fold("run-1", [])
    for entry in entries:
        history.add(entry)
    assert history == fold("run-1", entries)


DIVERGED = Verdict(step="new#1", row="diverged", action="diverge", reason="fingerprint-differs", at_us=9)


def test_a_divergence_is_kept_while_it_is_the_last_entry() -> None:
    """It may name a step that was never recorded, and the same divergence again is no news."""
    history = fold("run-1", [OPENED, DIVERGED])
    assert history.divergence == DIVERGED
    assert history.is_diverged_by(replace(DIVERGED, at_us=10))
    assert not history.is_diverged_by(replace(DIVERGED, step="other#1"))
    history.add(DECISION)
    assert history.divergence is None


def test_a_timer_is_said_again_only_as_it_was() -> None:
    timer = Decision(step="sleep#1", fingerprint="", value=6_000, form="timer", at_us=1_000)
    history = fold("run", [OPENED, timer, replace(timer, at_us=2_000)])
    assert (history.length, list(history.steps)) == (3, ["sleep#1"])
    for other in (replace(timer, value=7_000), replace(timer, form="now"), replace(timer, form="")):
        with pytest.raises(IllegalHistory, match="recorded twice"):
            fold("run", [OPENED, timer, other])


class Searched(list[str]):
    """A list that says how often it was searched: a journal of ten thousand effects must not be searched by each of them."""

    times = 0

    def __contains__(self, item: object) -> bool:
        self.times += 1
        return super().__contains__(item)


def test_the_effects_of_a_branch_are_folded_without_searching_those_before_them() -> None:
    completed = Searched()
    history = History("r", completed=completed)
    begun = Decision(step="map#1", fingerprint="", value=2, form=BRANCHES, at_us=0)
    steps = ["a#1", "map#1/0/a#1", "map#1/1/a#1", "map#1/1/a#1/again#1"]
    made = [entry for step in steps for entry in (replace(INTENT, step=step), replace(SETTLED, step=step))]
    for entry in (OPENED, begun, *made):
        history.add(entry)
    assert completed == ["a#1", "map#1/0/a#1", "map#1/1/a#1/again#1", "map#1/1/a#1"]
    assert completed.times == 1


def test_the_first_message_that_was_not_taken_in_is_known_without_looking_from_the_first_one() -> None:
    history = History("r")
    history.add(OPENED)
    for step, number, unheard in (("a#1", 2, 1), ("b#1", 1, 3), ("c#1", 4, 3)):
        history.add(Decision(step=step, fingerprint="", value={"number": number}, form=ANSWER, at_us=0))
        assert history.unheard == unheard
    history.add(Override(step="", verb=Verb.PAUSE, by="ann", at_us=0, reason="lunch", message=3))
    assert history.unheard == 5
    history.add(Override(step="", verb=Verb.RESTART, by="ann", at_us=0, reason="again", from_step="b#1"))
    assert history.unheard == 1
    assert history.heard == {2, 3}


def test_outcomes_are_listed_in_their_order_for_every_path_above_them_and_parts_of_steps_are_not() -> None:
    history = History("r")
    begun = Decision(step="map#1", fingerprint="", value=2, form=BRANCHES, at_us=0)
    steps = ["map#1/1/a#1", "map#1/0/a#1", "map#1/0/a#1/again#1"]
    made = [entry for step in steps for entry in (replace(INTENT, step=step), replace(SETTLED, step=step))]
    for entry in (OPENED, DECISION, begun, *made):
        history.add(entry)
    found = recorded_orders(history)
    assert found["map#1"] == ["map#1/1/a#1", "map#1/0/a#1"]
    assert found["map#1/0"] == ["map#1/0/a#1"]
    assert found[""] == ["plan#1", "map#1/1/a#1", "map#1/0/a#1"]
