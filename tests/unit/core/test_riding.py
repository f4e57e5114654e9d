"""Which outcome may ride, and that what rides is learnt again as it was: the table is asked, not the rule's own words."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from itertools import product
from typing import Any

import pytest

from recovery.catalogue import shelf
from recovery.core import contracts
from recovery.core.contracts import Contract, Lookup, Remembers, Replay
from recovery.core.entries import Answered, AnswerKind, Observation, OutcomeKind, Source
from recovery.core.errors import DefinitionError
from recovery.core.history import EffectStep
from recovery.core.judgement import conclude
from recovery.core.policy import Budget
from recovery.core.riding import may_ride
from recovery.core.rows import Action

from .making import BUDGET, STEP, H, M, S, Story, situate

DAY = timedelta(hours=24)
KEYED = contracts.Keyed(window=DAY)
HORIZON = 4 * H
APPLIED = Answered(kind=AnswerKind.FOUND, value="R1")
REFUSED = Answered(kind=AnswerKind.REFUSED, error="OutOfStock", value={"sku": "A"})


def fresh(at_us: int, answer: Answered, attempt: int | None = 1) -> Observation:
    """A reply to an attempt, or an answer to a question."""
    source = Source.PROBE if attempt is None else Source.REPLY
    return Observation(
        step=STEP, source=source, asked_at_us=at_us, observed_at_us=at_us, answer=answer, attempt=attempt, epoch="0.1"
    )


def replied(contract: Contract, answer: Answered = APPLIED, at_us: int = S, *, budget: Budget = BUDGET, **intent: Any) -> bool:
    """Whether the reply to a first attempt may ride."""
    story = Story().attempt(0)
    step = story.step if not intent else replace(story.step, intent=replace(story.step.intent, **intent))
    return rides(step, contract, fresh(at_us, answer), budget)


def rides(step: EffectStep, contract: Contract, reply: Observation, budget: Budget = BUDGET) -> bool:
    judgement = conclude(step, situate(reply.observed_at_us, contract), reply)
    settled = judgement.settlement
    return settled is not None and may_ride(step, settled, contract, judgement.timing, budget, HORIZON)


ORIGINAL = {
    "keyed": KEYED,
    "asked": contracts.Keyed(window=DAY, lookup=Lookup()),
    "co-transactional": contracts.CoTransactional(),
}

AT_ONCE = {
    "half an hour": contracts.Keyed(window=timedelta(minutes=30)),
    "not published": contracts.Keyed(window=contracts.UNPUBLISHED),
    "fail-open": contracts.Keyed(window=DAY, fail_open=True),
    "shown once": contracts.Keyed(window=DAY, replay=Replay.CURRENT, shown_once=True, stable_fields=("id",)),
    "current": contracts.Keyed(window=DAY, replay=Replay.CURRENT, stable_fields=("id",)),
    "asked of the present": contracts.Keyed(window=DAY, lookup=Lookup(original=False)),
    "mismatch unchecked": contracts.Keyed(window=DAY, mismatch_checked=False),
    "unserialised": contracts.Keyed(window=DAY, lock_outlives_execution=False),
    "unknown failures": contracts.Keyed(window=DAY, failures_effect_free=False),
    "swallow": contracts.Swallow(window=DAY),
    "first-sent": contracts.FirstSent(window=DAY),
    "named": contracts.Named(lookup=Lookup()),
    "prepared": contracts.Prepared(),
    "probeable": contracts.Probeable(),
    "opaque": contracts.Opaque(),
    "read": contracts.Read(),
    "wanted for an hour": contracts.Keyed(window=DAY, valid_for=timedelta(hours=1)),
}


@pytest.mark.parametrize("name", ORIGINAL)
def test_a_success_rides_where_a_resend_returns_it_as_it_was(name: str) -> None:
    assert replied(ORIGINAL[name])


@pytest.mark.parametrize("name", AT_ONCE)
def test_every_other_success_is_durable_at_once(name: str) -> None:
    answer = Answered(kind=AnswerKind.ACCEPTED) if name == "swallow" else replace(APPLIED, value={"id": "R1"})
    assert not replied(AT_ONCE[name], answer)


def test_a_rejection_rides_only_if_it_is_remembered() -> None:
    assert replied(KEYED, REFUSED)
    assert not replied(contracts.Keyed(window=DAY, remembers=Remembers.SUCCESSES), REFUSED)


def test_the_last_moment_is_when_the_key_is_still_good_a_horizon_later() -> None:
    """not_after of an attempt at 0 under 24 h: minus the settle window, the clock error, the timeout and one microsecond."""
    not_after = 24 * H - 20 * M - 2 * S - 30 * S - 1
    assert replied(KEYED, at_us=not_after - HORIZON - 1)
    assert not replied(KEYED, at_us=not_after - HORIZON)


@pytest.mark.parametrize("until", ["valid_until_us", "attempts_until_us"])
def test_nor_does_it_ride_where_nobody_would_send_again_by_then(until: str) -> None:
    assert replied(KEYED, **{until: S + HORIZON + 1})
    assert not replied(KEYED, **{until: S + HORIZON})


def test_nor_without_another_attempt() -> None:
    assert not replied(KEYED, budget=replace(BUDGET, attempts=1))
    assert not replied(KEYED, attempts_max=1)
    assert replied(KEYED, attempts_max=2)


def test_the_reply_to_a_later_attempt_is_durable_at_once() -> None:
    story = Story().attempt(0).attempt(M, purpose="resend")
    assert not rides(story.step, KEYED, fresh(2 * M, APPLIED, 2))


def test_nor_does_what_more_than_one_reply_speaks_for() -> None:
    story = Story().attempt(0).reply(S, "unreachable")
    assert not rides(story.step, KEYED, fresh(2 * S, APPLIED))


# -- what is lost is learnt again --------------------------------------------------------------------------------------


def every_contract() -> Iterator[Contract]:
    """The catalogue's, and all kinds with what makes a difference to sending again, as far as they can be true."""
    for entry in shelf.entries():
        yield entry.contract()
    windows = (timedelta(minutes=30), timedelta(hours=5), DAY)
    choices = {
        "replay": (Replay.ORIGINAL, Replay.CURRENT), "fail_open": (False, True), "mismatch_checked": (False, True),
        "failures_effect_free": (False, True), "lock_outlives_execution": (False, True), "remembers_rejections": (False, True),
        "lookup": (None, Lookup(), Lookup(original=False)), "close": (None, True),
    }  # fmt: skip
    for window, *chosen in product(windows, *choices.values()):
        said = dict(zip(choices, chosen, strict=True))
        stable = ("id",) if said["replay"] is Replay.CURRENT else None
        try:
            yield contracts.Keyed(window=window, stable_fields=stable, **said)
        except DefinitionError:
            continue


def test_what_rides_is_learnt_again_until_a_horizon_later() -> None:
    """Its process is lost at once, and it is recovered a horizon later, by the same code and by changed code: the first thing is a re-send or a
    question, and the outcome is the same, and no reconstruction."""
    ridden = 0
    for contract, answer in product(every_contract(), (replace(APPLIED, value={"id": "R1"}), REFUSED)):
        if not replied(contract, answer):
            continue
        ridden += 1
        for same_bytes in (True, False):
            assert outcome_of_recovery(contract, answer, same_bytes=same_bytes) == (
                OutcomeKind.APPLIED if answer.kind is AnswerKind.FOUND else OutcomeKind.REJECTED,
                answer.value,
                False,
            ), contract
    assert ridden > 40


def outcome_of_recovery(contract: Contract, answer: Answered, *, same_bytes: bool) -> tuple[OutcomeKind, Any, bool]:
    now = S + HORIZON
    lost = Story().attempt(0)
    first = lost.conclude(now, contract, same_bytes=same_bytes)
    assert first.action in {Action.RESEND, Action.ASK}, (contract, first.row)
    if first.action is Action.RESEND:
        lost.attempt(now, purpose="resend")
        again = fresh(now + S, answer, 2)
    else:
        again = fresh(now + S, replace(answer, fingerprint="ours"), None)
    settled = conclude(lost.step, situate(now + S, contract, same_bytes=same_bytes), again).settlement
    assert settled is not None, contract
    return settled.outcome, settled.value, settled.reconstructed
