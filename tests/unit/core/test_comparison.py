"""When an applied effect counts as lost: both sides of every boundary."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from recovery.core.comparison import Compared, compare, known_at_us
from recovery.core.contracts import Contract, Deletion, Lookup
from recovery.core.entries import Answered, AnswerKind, Observation, Source

from .making import ASKABLE, ERROR, KEYED, STEP, H, S, Story, sent

LAG = 60 * S
HEARD = 5 * S


def applied(receipt: str = "r1", **answer: Any) -> Story:
    """Sent at 0, the receipt heard at HEARD, settled at 6 s."""
    story = sent().reply(HEARD, "found", receipt=receipt, value={"id": 1}, **answer)
    settlement = story.conclude(6 * S, ASKABLE).settlement
    return story.settled(settlement)


def asked(at: int, kind: str, **answer: Any) -> Observation:
    said = Answered(kind=AnswerKind(kind), **answer)
    return Observation(step=STEP, source=Source.PROBE, asked_at_us=at, observed_at_us=at, answer=said)


def lagging(lag: int = LAG, **more: Any) -> Contract:
    return replace(ASKABLE, lookup=Lookup(lag_us=lag, **more))


def test_an_effect_is_known_to_have_happened_when_its_first_receipt_was_heard() -> None:
    assert known_at_us(applied().step) == HEARD


@pytest.mark.parametrize(
    ("at", "verdict"),
    [(HEARD + LAG, Compared.TOO_EARLY), (HEARD + LAG + 1, Compared.LOST)],
)
def test_lost_begins_when_the_lag_has_passed_since_the_receipt_was_heard(at: int, verdict: Compared) -> None:
    assert compare(applied().step, lagging(), asked(at, "absent")) is verdict


@pytest.mark.parametrize(
    ("as_of", "verdict"),
    [(HEARD + ERROR, Compared.TOO_EARLY), (HEARD + ERROR + 1, Compared.LOST)],
)
def test_an_environments_own_time_is_compared_with_the_clock_error(as_of: int, verdict: Compared) -> None:
    """It speaks of a time far before the question, on another clock."""
    assert compare(applied().step, lagging(0), asked(H, "absent", as_of_us=as_of)) is verdict


@pytest.mark.parametrize(("at", "verdict"), [(H - ERROR - 1, Compared.LOST), (H - ERROR, Compared.FORGOTTEN)])
def test_what_the_environment_need_not_remember_is_not_lost(at: int, verdict: Compared) -> None:
    assert compare(applied().step, lagging(0, retention_us=H), asked(at, "absent")) is verdict


@pytest.mark.parametrize(
    "contract",
    [KEYED, lagging(authoritative=False), lagging(marker_reliable=False), lagging(deletion=Deletion.INVISIBLE)],
    ids=["no look-up", "a replica", "markers are lost", "anybody may delete"],
)
def test_a_look_up_whose_absence_proves_nothing_never_says_lost(contract: Contract) -> None:
    assert compare(applied().step, contract, asked(10 * H, "absent")) is Compared.UNPROVEN


@pytest.mark.parametrize(
    ("answer", "verdict"),
    [
        (asked(H, "found", receipt="r1", value={"id": 1}), Compared.SAME),
        (asked(H, "found", receipt="r1", value={"id": 1}, fingerprint="ours"), Compared.SAME),
        (asked(H, "found", receipt="r2", value={"id": 2}), Compared.MISMATCH),
        (asked(H, "found", receipt="r1", value={"id": 1}, fingerprint="theirs"), Compared.MISMATCH),
        (asked(H, "gone"), Compared.GONE),
        (asked(H, "mismatch"), Compared.MISMATCH),
        (asked(H, "foreign"), Compared.MISMATCH),
        (asked(H, "refused", error="OutOfStock"), Compared.MISMATCH),
        (asked(H, "closed"), Compared.MISMATCH),
        (asked(H, "expired"), Compared.FORGOTTEN),
        (asked(H, "unreachable"), Compared.UNTOLD),
        (asked(H, "in_flight"), Compared.UNTOLD),
        (asked(H, "turned_away"), Compared.UNTOLD),
        (asked(H, "indeterminate"), Compared.UNTOLD),
    ],
    ids=lambda value: (
        f"{value.answer.kind}-{value.answer.receipt}{value.answer.fingerprint}" if isinstance(value, Observation) else value
    ),
)
def test_every_other_answer(answer: Observation, verdict: Compared) -> None:
    assert compare(applied().step, lagging(0), answer) is verdict


def test_stable_fields_tell_a_receipt_without_an_id_apart() -> None:
    contract = replace(lagging(0), stable_fields=("units",))
    story = sent().reply(HEARD, "found", value={"units": 2, "state": "new"})
    story.settled(story.conclude(6 * S, contract).settlement)
    assert compare(story.step, contract, asked(H, "found", value={"units": 2, "state": "old"})) is Compared.SAME
    assert compare(story.step, contract, asked(H, "found", value={"units": 5, "state": "new"})) is Compared.MISMATCH
