"""Outcomes that something speaks against: listed until a person has acknowledged them, and never flipped."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from recovery import Call, codec, contracts, errors
from recovery.core.entries import (
    Answered,
    AnswerKind,
    Observation,
    OutcomeKind,
    Override,
    Settled,
    Source,
    Status,
    Verb,
    encode,
    kind_of,
)
from recovery.ports import Evidence, Journal
from recovery.storage import open_journal
from tests.conformance.making import stored
from tests.integration.operating import STEP, Desk
from tests.integration.world import keyed

WORD = {"by": "ann", "reason": "the ledger shows it"}


@pytest.fixture
def memory() -> Journal:
    return open_journal("memory://")


def late(desk: Desk, run_id: str = "r", **answer: Any) -> None:
    """A superseded worker's reply arrives."""
    run, at_us = desk.loaded(run_id).run, desk.clock.wall_us()
    told = Answered(kind=AnswerKind.FOUND, **answer)
    seen = Observation(step=STEP, source=Source.LATE, asked_at_us=at_us, observed_at_us=at_us, answer=told, attempt=1, epoch="0.1")
    desk.journal.add_evidence(Evidence(run_id, STEP, run.epoch, at_us, kind_of(seen), codec.dumps(encode(seen))))


def disputed(desk: Desk, run_id: str = "r") -> None:
    """Ann said that nothing happened; then the receipt came, and a look recorded it."""
    desk.in_doubt(run_id)
    desk.do("resolve", run_id, STEP, OutcomeKind.NOT_EXECUTED, evidence="ticket 12", **WORD)
    assert desk.do("recover", run_id).status is Status.FAILED
    late(desk, run_id, value=1, receipt="R1")
    assert desk.do("recover", run_id).status is Status.FAILED


def outcomes(desk: Desk) -> list[Settled]:
    return [entry for entry in desk.entries() if isinstance(entry, Settled)]


def test_a_settled_run_that_something_speaks_against_is_listed_until_it_is_acknowledged(journal: Journal) -> None:
    desk = Desk(journal, contracts.Opaque())
    disputed(desk)
    before = outcomes(desk)
    desk.advance(minutes=5)
    found = desk.do("doubt")
    [one] = found.contradicted
    assert (one.run_id, one.status, one.age_us, int(found.exit_code)) == ("r", Status.FAILED, 300_000_000, 3)
    assert [item.receipt for item in one.contradiction.against] == ["R1"]
    assert [info.reason for info in desk.do("list")] == ["contradicted"]
    done = desk.do("acknowledge", "r", STEP, by="bob", reason="undone by hand, ticket 13")
    assert (done.order.verb, done.left) == (Verb.ACKNOWLEDGE, False)
    found = desk.do("doubt")
    assert (found.contradicted, int(found.exit_code)) == ((), 0)
    assert [info.reason for info in desk.do("list")] == [""]
    [told] = desk.do("recover", "r").contradictions
    assert (told.open, told.acknowledged_by, told.acknowledged_because) == (False, "bob", "undone by hand, ticket 13")
    assert outcomes(desk) == before
    assert desk.do("recover", "r").status is Status.FAILED


def test_what_comes_after_an_acknowledgement_needs_a_person_again(memory: Journal) -> None:
    desk = Desk(memory, contracts.Opaque())
    disputed(desk)
    desk.do("acknowledge", "r", STEP, **WORD)
    late(desk, value=2, receipt="R2")
    desk.do("recover", "r")
    [one] = desk.do("doubt").contradicted
    assert (one.contradiction.open, one.contradiction.acknowledged_by) == (True, "ann")
    desk.do("acknowledge", "r", STEP, **WORD)
    assert desk.do("doubt").contradicted == ()
    orders = [entry for entry in desk.entries() if isinstance(entry, Override) and entry.verb is Verb.ACKNOWLEDGE]
    assert len({order.evidence for order in orders}) == 2


def test_an_acknowledgement_records_first_what_nobody_has_looked_at(memory: Journal) -> None:
    desk = Desk(memory, contracts.Opaque())
    desk.in_doubt()
    desk.do("resolve", "r", STEP, OutcomeKind.NOT_EXECUTED, evidence="ticket 12", **WORD)
    desk.do("recover", "r")
    late(desk, value=1)
    desk.do("acknowledge", "r", STEP, **WORD)
    assert desk.do("doubt").contradicted == ()
    assert [kind_of(entry) for entry in desk.entries()][-3:] == ["observation", "verdict", "override"]


def test_a_duplicate_is_listed_with_both_receipts_and_what_would_undo_the_surplus_one(memory: Journal) -> None:
    desk = Desk(memory, keyed())

    @desk.reserve.compensation(keyed())
    def release(call: Call, outcome: int, *, units: int) -> None:
        raise AssertionError("proposed only")

    desk.do("run", "r", desk.order, 2)
    late(desk, value=99, receipt="R2")
    assert desk.do("recover", "r").value == "got 1"
    [one] = desk.do("doubt").contradicted
    told = one.contradiction
    assert (told.duplicate, told.adopted.value, [item.value for item in told.against]) == (True, 1, [99])
    assert [(proposal.effect, proposal.undoes.value) for proposal in told.proposals] == [("release", 99)]
    desk.do("acknowledge", "r", STEP, **WORD)
    assert desk.do("doubt").contradicted == ()
    assert desk.do("recover", "r").value == "got 1"


def test_only_what_has_waited_long_enough_is_listed(memory: Journal) -> None:
    """Both sides of the boundary, for doubts and for outcomes alike."""
    desk = Desk(memory, contracts.Opaque())
    disputed(desk, "said")
    desk.in_doubt("open")
    desk.advance(minutes=10)
    for older, left in ((timedelta(minutes=10), 1), (timedelta(minutes=10, microseconds=1), 0)):
        found = desk.do("doubt", older=older)
        assert (len(found.doubts), len(found.contradicted)) == (left, left)
        assert int(found.exit_code) == (3 if left else 0)
    assert desk.do("doubt", limit=1).more is False


def test_nothing_is_acknowledged_where_nothing_speaks_against_it(memory: Journal) -> None:
    desk = Desk(memory, keyed())
    desk.do("run", "r", desk.order, 2)
    before = stored(memory)
    with pytest.raises(errors.OverrideRefused, match="nothing speaks against its outcome"):
        desk.do("acknowledge", "r", STEP, **WORD)
    with pytest.raises(errors.StepNotFound):
        desk.do("acknowledge", "r", "reserve#7", **WORD)
    with pytest.raises(errors.OverrideRefused, match="it needs reason"):
        desk.do("acknowledge", "r", STEP, by="ann", reason=" ")
    assert stored(memory) == before
    disputed(desk2 := Desk(memory, contracts.Opaque()), "s")
    desk2.do("acknowledge", "s", STEP, **WORD)
    with pytest.raises(errors.OverrideRefused, match="ann has acknowledged it already"):
        desk2.do("acknowledge", "s", STEP, **WORD)
