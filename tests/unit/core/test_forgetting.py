"""Forgetting: what a history lets go of, and that it takes it back in its place."""

from __future__ import annotations

import pytest

from recovery.core.entries import (
    Answered,
    AnswerKind,
    Attempt,
    Decision,
    Entry,
    Intent,
    Observation,
    Opened,
    OutcomeKind,
    Settled,
    Source,
)
from recovery.core.execution import Execution
from recovery.core.history import History, fold


def effect(step: str, value: object = None) -> tuple[Intent, Settled]:
    attempt = Attempt(step=step, number=1, purpose="send", sent_at_us=1, send_until_us=2, epoch="1.1")
    reply = Observation(
        step=step,
        source=Source.REPLY,
        asked_at_us=1,
        observed_at_us=2,
        answer=Answered(kind=AnswerKind.FOUND, value=value),
        attempt=1,
    )
    intent = Intent(
        step=step, effect="take", environment="shelf", scope="", key=step, fingerprint="f", arguments={"of": value}, contract="c",
        timeout_us=1, at_us=1, attempt=attempt,
    )  # fmt: skip
    return intent, Settled(step=step, outcome=OutcomeKind.APPLIED, at_us=2, value=value, observation=reply)


def begun(*entries: Entry) -> History:
    return fold("r", [Opened(workflow="w", version="1", input=None, input_digest="d", at_us=0), *entries])


FOUR = [each for name in "abcd" for each in effect(f"{name}#1")]


def test_what_is_taken_back_stands_where_it_was() -> None:
    history = begun(*FOUR)
    for name in "abc":
        history.forget(f"{name}#1")
    assert (list(history.steps), history.past, history.completed) == (["d#1"], 3, ["a#1", "b#1", "c#1", "d#1"])
    mine = history.steps["d#1"]
    assert history.recall(begun(*FOUR), {"b#1", "d#1"}) == ["b#1"]
    assert (list(history.steps), history.past) == (["b#1", "d#1"], 2)
    assert history.steps["d#1"] is mine, "whoever is at work on a step goes on with what it has"


def test_what_was_recorded_while_the_journal_was_read_stays_behind_it() -> None:
    history = begun(*FOUR)
    history.forget("a#1")
    read = begun(*FOUR)
    history.add(effect("e#1")[0])
    assert history.recall(read, {"a#1"}) == ["a#1"]
    assert list(history.steps) == ["a#1", "b#1", "c#1", "d#1", "e#1"]
    assert [step.step for step in history.unsettled] == ["e#1"]


@pytest.mark.parametrize(
    "value",
    [{"$secret": "hush!"}, {"deep": [{"$secret": "hush!"}]}, [{"$secret": "hush!"}], {"$dict": {"in": {"$secret": "hush!"}}}],
)
def test_what_was_declared_secret_is_not_forgotten(value: object) -> None:
    history = begun(*effect("a#1", value))
    history.forget("a#1")
    assert history.without_secrets("it said hush!") == "it said <secret>"


def test_a_secret_decision_is_not_told_either() -> None:
    history = begun(Decision(step="a#1", fingerprint="", value={"to": {"$secret": "hush!"}}, at_us=1))
    history.forget("a#1")
    assert history.without_secrets("it said hush!") == "it said <secret>"


def test_what_is_plain_hides_nothing() -> None:
    history = begun(
        *effect("a#1", {"one": "hush!", "two": 2}), *effect("b#1", ["hush!", None]), *effect("c#1", {"deep": {"er": "hush!"}})
    )
    for name in "abc":
        history.forget(f"{name}#1")
    assert history.without_secrets("it said hush!") == "it said hush!"


def test_a_history_with_gaps_is_never_begun_anew() -> None:
    history = begun(*FOUR)
    Execution(history)
    history.forget("a#1")
    with pytest.raises(AssertionError, match="needs all of the history"):
        Execution(history)
