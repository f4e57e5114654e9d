"""What is foreseen of a straight step is what the table says of it: of every contract, in every situation, after every answer."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from itertools import product

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from recovery.core.contracts import Contract, Keyed, Lookup
from recovery.core.entries import Answered, AnswerKind, Attempt, Intent, Observation, Override, Source, Verb
from recovery.core.history import EffectStep, Noted
from recovery.core.judgement import conclude
from recovery.core.policy import Budget
from recovery.core.rows import Action
from recovery.core.straight import Straight
from recovery.core.timing import Situation
from tests.model.settings import CONTRACTS as MODELLED

from .making import H, S
from .test_trust import CONTRACTS as DRAWN

CONTRACTS = st.sampled_from(list(MODELLED.values())) | DRAWN
SMALL = st.integers(0, 4)
SOON = st.sampled_from([None, None, None, None, 0, 1, 2, 3, 4])
TEXTS = st.sampled_from(["", "ours", "other"])
FOUND = Answered(kind=AnswerKind.FOUND, value={"id": 1})
ANSWERS = st.builds(
    Answered,
    kind=st.just(AnswerKind.FOUND) | st.sampled_from(AnswerKind),
    value=st.sampled_from([None, {"id": 1, "a": 1}, {"id": 2, "a": 2}, []]),
    fingerprint=TEXTS,
    receipt=TEXTS,
    original=st.booleans(),
    as_of_us=SOON,
)
REPLIES = st.builds(
    Observation,
    step=st.just("s"),
    source=st.just(Source.REPLY) | st.sampled_from(Source),
    asked_at_us=SMALL,
    observed_at_us=SMALL,
    answer=ANSWERS,
    attempt=st.sampled_from([1, 1, 2, None]),
    epoch=st.just("0.1"),
)
ATTEMPTS = st.lists(
    st.builds(
        Attempt, step=st.just("s"), number=st.just(1), purpose=st.sampled_from(["send", "send", "resend", "close", "cancel"]),
        sent_at_us=SMALL, send_until_us=SMALL, epoch=st.just("0.1"),
    ),
    max_size=2,
).map(lambda made: [replace(each, number=at) for at, each in enumerate(made, 1)])  # fmt: skip
STEPS = st.builds(
    EffectStep,
    seq=st.integers(0, 2),
    intent=st.builds(
        Intent, step=st.just("s"), effect=st.just("e"), environment=st.just("n"), scope=st.just(""), key=st.just("k"),
        fingerprint=st.just("ours"), arguments=st.just({"id": 1, "a": 1}), contract=st.just("c"), timeout_us=st.integers(1, 3), at_us=SMALL,
        valid_until_us=SOON, deadline_us=SOON, attempts_max=st.none() | st.integers(0, 2), attempts_until_us=SOON,
    ),
    attempts=ATTEMPTS,
    observations=st.sampled_from([0, 0, 0, 1]).flatmap(lambda some: st.lists(st.builds(Noted, st.integers(1, 9), REPLIES), max_size=some)),
    overrides=st.sampled_from([[], [], [], [Override(step="s", verb=Verb.REDRIVE, by="ada", at_us=0, attempts=5)]]),
)  # fmt: skip


def situations(contracts: st.SearchStrategy[Contract]) -> st.SearchStrategy[Situation]:
    mostly_not, mostly = st.sampled_from([False] * 7 + [True]), st.sampled_from([True] * 7 + [False])
    return st.builds(
        Situation, now_us=SMALL, contracts=st.tuples(contracts) | st.tuples(contracts, contracts), can_probe=st.booleans(),
        budget=st.sampled_from([Budget(), Budget(attempts=0), Budget(attempts=1, probes=0)]), can_close=st.booleans(), can_cancel=st.booleans(),
        wanted=mostly, restored=mostly_not, held=mostly_not, scope_changed=mostly_not, same_bytes=st.booleans(),
        replay_fingerprint=st.sampled_from([None, "ours", "ours", "other"]),
    )  # fmt: skip


SHARED = Straight()
"""One for all examples, as one serves all steps of a run: what is kept of one step must not colour another."""


@given(STEPS, situations(CONTRACTS), st.none() | REPLIES)
def test_what_is_foreseen_is_what_the_table_says(step: EffectStep, situation: Situation, fresh: Observation | None) -> None:
    foreseen = SHARED.judge(step, situation, fresh)
    assert foreseen is None or foreseen == conclude(step, situation, fresh)


@example(name="keyed", probe=False, close=False, timeout=30 * S, after=1)
@given(st.sampled_from(list(MODELLED)), st.booleans(), st.booleans(), st.integers(1, 3 * H), st.integers(0, 30 * H))
def test_an_ordinary_step_is_judged_beforehand_at_whatever_time(
    name: str, probe: bool, close: bool, timeout: int, after: int
) -> None:
    contract = MODELLED[name]
    situation = Situation(now_us=after, contracts=(contract,), budget=Budget(), can_probe=probe, can_close=close)
    draft = EffectStep(0, intent_of(contract, timeout, after))
    begun = SHARED.judge(draft, situation, None)
    assert begun == conclude(draft, situation) if begun is not None else not foreseeable(contract)
    made = EffectStep(2, draft.intent, (attempt_of(draft.intent),))
    later = replace(situation, now_us=after + 2 * timeout)
    answered = SHARED.judge(made, later, reply := reply_of(made))
    assert (answered is None) == (begun is None)
    assert answered is None or answered == conclude(made, later, reply)


def foreseeable(contract: Contract) -> bool:
    """Whether a found reply adopts by its being there, with nothing in it that is held against what was asked for."""
    made = EffectStep(2, intent_of(contract, S, 0), (attempt_of(intent_of(contract, S, 0)),))
    situation = Situation(now_us=0, contracts=(contract,), budget=Budget(), can_probe=False, can_close=False)
    return not contract.stable_fields and conclude(made, situation, reply_of(made)).action is Action.ADOPT


def intent_of(contract: Contract, timeout: int, at_us: int) -> Intent:
    return Intent(
        step="s", effect="e", environment="n", scope="", key="k", fingerprint="ours", arguments={}, contract=contract.digest,
        timeout_us=timeout, at_us=at_us,
    )  # fmt: skip


def attempt_of(intent: Intent) -> Attempt:
    until = intent.at_us + intent.timeout_us
    return Attempt(step="s", number=1, purpose="send", sent_at_us=intent.at_us, send_until_us=until, epoch="0.1")


def reply_of(made: EffectStep) -> Observation:
    sent = made.attempts[0].sent_at_us
    return Observation(step="s", source=Source.REPLY, asked_at_us=sent, observed_at_us=sent + 1, answer=FOUND, attempt=1)


def test_contracts_that_differ_in_what_was_left_unstated_name_other_defaults() -> None:
    """They are equal, and have the same course but for what a verdict says that it rests on."""
    stated = Keyed(window=timedelta(hours=24), settle_window=timedelta(minutes=20))
    unstated = Keyed(window=timedelta(hours=24))
    assert stated == unstated
    straight = Straight()
    for contract in (stated, unstated, stated):
        made = EffectStep(2, intent_of(contract, S, 0), (attempt_of(intent_of(contract, S, 0)),))
        situation = Situation(now_us=S, contracts=(contract,), budget=Budget(), can_probe=False, can_close=False)
        judged = straight.judge(made, situation, reply_of(made))
        assert judged is not None
        assert judged.assumptions == conclude(made, situation, reply_of(made)).assumptions


@pytest.mark.parametrize(
    ("step", "situation", "fresh"),
    [
        ({"overrides": [Override(step="s", verb=Verb.REDRIVE, by="ada", at_us=0, attempts=5)]}, {}, False),
        ({"observations": [Noted(None, Observation(step="s", source=Source.LATE, asked_at_us=0, observed_at_us=0, answer=FOUND))]}, {}, True),
        *(({}, odd, fresh) for odd, fresh in product(({"held": True}, {"restored": True}, {"wanted": False}, {"scope_changed": True}), (True, False))),
        ({}, {"contracts": (Keyed(window=timedelta(hours=24)), Keyed(window=timedelta(hours=1), lookup=Lookup()))}, True),
    ],
)  # fmt: skip
def test_of_what_is_not_ordinary_nothing_is_foreseen(step: dict[str, object], situation: dict[str, object], fresh: bool) -> None:
    contract = Keyed(window=timedelta(hours=24))
    intent = intent_of(contract, S, 0)
    given = Situation(now_us=0, contracts=(contract,), budget=Budget(), can_probe=False, can_close=False)
    made = EffectStep(2, intent, (attempt_of(intent),)) if fresh else EffectStep(0, intent)
    reply = reply_of(EffectStep(2, intent, (attempt_of(intent),))) if fresh else None
    assert Straight().judge(made, given, reply) is not None
    assert Straight().judge(replace(made, **step), replace(given, **situation), reply) is None  # type: ignore[arg-type]
