"""The operators' verbs, as a Python user has them: on every store, in both colours where they differ."""

from __future__ import annotations

import asyncio
import sqlite3
import threading
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from recovery import AsyncEngine, Engine, Run, codec, contracts, errors, workflow
from recovery.cli.target import finished
from recovery.core.contracts import Lookup
from recovery.core.entries import (
    Answered,
    AnswerKind,
    Attempt,
    Observation,
    OutcomeKind,
    Override,
    Settled,
    Source,
    Status,
    Verb,
    Verdict,
    encode,
    kind_of,
)
from recovery.core.policy import Budget, Lease
from recovery.core.reasons import HoldReason, ParkingReason
from recovery.crashpoints import hooked
from recovery.operators import quarantining
from recovery.operators.advice import SETTLED_BY
from recovery.operators.quarantining import Deaths
from recovery.ports import Evidence, Hold, Journal, Owner
from recovery.storage import open_journal
from recovery.storage.listing import Damaged, listed
from tests.conformance.making import stored
from tests.integration.operating import KEY, STEP, Desk
from tests.integration.world import DAY, Shop, keyed, kinds

WORD = {"by": "ann", "reason": "the ledger shows it", "evidence": "ticket 12"}


@pytest.fixture
def colour(request: pytest.FixtureRequest) -> str:
    """One colour for each store: both are met, at half the price."""
    if "journal" not in request.fixturenames:
        return "async"
    journal = request.getfixturevalue("journal")
    return "sync" if journal.url.startswith("sqlite") else "async"


@pytest.fixture
def memory() -> Journal:
    return open_journal("memory://")


def alive(desk: Desk, run_id: str = "r") -> Owner:
    """Somebody on another host owns the run, and nothing proves that it is dead."""
    row = desk.journal.find(run_id)
    assert row is not None
    claimed = desk.journal.claim(row, Owner(token="elsewhere", host="far", pid=1), lease_term_us=10**9, at_us=row.updated_at_us)
    assert claimed is not None
    return claimed.owner  # type: ignore[return-value]


# -- doubt -------------------------------------------------------------------------------------------------------------


def test_doubts_are_listed_oldest_first_with_age_effect_key_and_reason(journal: Journal, colour: str) -> None:
    desk = Desk(journal, contracts.Opaque(), colour)
    desk.in_doubt("late")
    desk.advance(minutes=5)
    desk.in_doubt("early")
    desk.advance(minutes=1)
    desk.do("run", "fine", desk.order, 1)
    desk.do("recover", "late")  # looking again does not make it younger
    found = desk.do("doubt")
    assert [(one.run_id, one.age_us // 60_000_000) for one in found.doubts] == [("late", 6), ("early", 1)]
    first = found.doubts[0]
    assert (first.step, first.effect, first.key, first.reason) == (STEP, "reserve", "k1-late", "opaque")
    assert first.parking is ParkingReason.OPAQUE
    assert int(found.exit_code) == 3
    assert [one.run_id for one in desk.do("doubt", limit=1).doubts] == ["late"]


def test_nothing_in_doubt_is_exit_0(memory: Journal) -> None:
    desk = Desk(memory, contracts.Opaque())
    desk.do("run", "fine", desk.order, 1)
    assert (desk.do("doubt").doubts, int(desk.do("doubt").exit_code)) == ((), 0)


def test_a_run_that_cannot_be_read_hides_no_other(memory: Journal) -> None:
    desk = Desk(memory, contracts.Opaque())
    desk.in_doubt("bad")
    desk.in_doubt("good")
    run = memory._runs["bad"]  # type: ignore[attr-defined]
    run.rows[1] = replace(run.rows[1], body=run.rows[1].body.replace("reserve", "release"))
    found = desk.do("doubt")
    assert {one.run_id: bool(one.problem) for one in found.doubts} == {"bad": True, "good": False}
    assert int(found.exit_code) == 6


def test_runs_whose_own_row_is_damaged_hide_no_other(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'shop.db'}"
    desk = Desk(open_journal(url), contracts.Opaque())
    for run_id in "abcde":
        desk.in_doubt(run_id)
    desk.journal.close()
    connection = sqlite3.connect(tmp_path / "shop.db", isolation_level=None)
    connection.execute("UPDATE run SET updated_at_us = 'x' WHERE run_id IN ('b', 'c', 'e')")
    connection.close()
    looking = Desk(open_journal(url), contracts.Opaque(), clock=desk.clock, shop=desk.shop)
    found = looking.do("doubt", limit=1)
    assert ([one.run_id for one in found.doubts], found.more) == (["a"], True)
    assert [one.run_id for one in found.damaged] == ["b", "c", "e"]
    assert int(found.exit_code) == 6
    assert [one.run_id for one in looking.do("doubt").doubts] == ["a", "d"]
    paged, after = [], ""
    while page := listed(looking.journal, limit=2, after=after):
        paged += [(one.run_id, isinstance(one, Damaged)) for one in page]
        after = page[-1].run_id
    assert paged == [("a", False), ("b", True), ("c", True), ("d", False), ("e", True)]
    looking.journal.close()


@workflow
def nothing(run: Run) -> None: ...


def test_a_program_that_lists_runs_goes_on_behind_damaged_rows_and_is_told_of_them(tmp_path: Path) -> None:
    """As the commands do. A page that is full of whole runs is full, whatever lies between them."""
    url = f"sqlite:///{tmp_path / 'shop.db'}"
    with Engine(url, workflows=[nothing]) as engine:
        for run_id in "abcde":
            engine.run(run_id, nothing)
    connection = sqlite3.connect(tmp_path / "shop.db", isolation_level=None)
    connection.execute("UPDATE run SET updated_at_us = 'x' WHERE run_id IN ('b', 'c', 'e')")
    connection.close()
    told: list[Damaged] = []
    with Engine(url) as engine:
        assert [one.run_id for one in engine.list(limit=2, on_damaged=told.append)] == ["a", "d"]
        assert [one.run_id for one in engine.list(after="d")] == []
    assert [one.run_id for one in told] == ["b", "c"]
    assert all("is corrupt" in one.problem for one in told)

    async def scenario() -> list[str]:
        async with AsyncEngine(url) as engine:
            return [one.run_id for one in await engine.list(on_damaged=told.append)]

    assert asyncio.run(scenario()) == ["a", "d"]
    assert [one.run_id for one in told] == ["b", "c", "b", "c", "e"]


def test_a_restore_is_declared_beside_a_damaged_row_and_counts_it_as_unsettled(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'shop.db'}"
    desk = Desk(open_journal(url), contracts.Opaque())
    for run_id in "abc":
        desk.in_doubt(run_id)
    desk.journal.close()
    connection = sqlite3.connect(tmp_path / "shop.db", isolation_level=None)
    connection.execute("UPDATE run SET updated_at_us = 'x' WHERE run_id = 'b'")
    connection.close()
    with Engine(url) as engine:
        assert engine.declare_restored(by="ann", reason="a backup").unsettled == ("a", "b", "c")


# -- explain -----------------------------------------------------------------------------------------------------------


def test_an_explanation_names_row_evidence_assumptions_and_advice(memory: Journal, colour: str) -> None:
    desk = Desk(memory, keyed(), colour)
    desk.lose_reply()
    desk.advance(hours=25)
    desk.do("recover", "r")
    before = stored(memory)
    told = desk.do("explain", "r", STEP)
    assert (told.row.number, told.row.name) == (42, "key-expired")
    assert [piece.seq for piece in told.evidence] == [2]
    assert "A3" in told.assumptions
    assert told.advice.startswith("The environment no longer remembers the key")
    assert stored(memory) == before


def test_an_explanation_says_which_answer_would_lead_to_which_row(memory: Journal) -> None:
    contract = contracts.Probeable(settle_window=timedelta(minutes=1), clock_error=timedelta(0))
    desk = Desk(memory, contract, probe=True)
    desk.lose_reply()
    told = desk.do("explain", "r", STEP)
    leads = {change.what: change.row.name for change in told.changes}
    assert told.row.name == "ask"
    assert leads["a probe answers found"] == "receipt-original"
    assert leads["a probe answers gone"] == "gone"
    assert leads["a probe answers absent"] == "absence-early"
    assert leads["a probe answers mismatch"] == "key-mismatch"
    assert leads["a probe answers absent then"] == "absence-unproven"
    assert leads["a person says what happened (resolve)"] == "operator"
    # and each hypothesis is what really follows
    desk.shop.receipts.clear()
    assert desk.do("recover", "r").verdicts[-1].row == leads["a probe answers absent"]


def test_an_explanation_says_when_time_alone_would_change_it(memory: Journal) -> None:
    desk = Desk(memory, keyed())
    desk.lose_reply()
    told = desk.do("explain", "r", STEP)
    late = [change for change in told.changes if change.what == "a re-send would come too late"]
    assert [change.row.name for change in late] == ["key-expired"]
    desk.clock.advance_to(late[0].at_us - 1)
    assert desk.do("explain", "r", STEP).row.name == "resend"
    desk.clock.advance_to(late[0].at_us)
    assert desk.do("explain", "r", STEP).row.name == "key-expired"


def test_without_the_app_an_explanation_says_what_it_does_not_know(memory: Journal) -> None:
    desk = Desk(memory, contracts.Opaque())
    desk.in_doubt()
    told = desk.without_app().explain("r", STEP)
    assert (told.row.name, len(told.unknown)) == ("opaque", 2)


def test_a_settled_step_is_explained_by_the_row_that_settled_it(memory: Journal) -> None:
    desk = Desk(memory, keyed())
    desk.do("run", "r", desk.order, 2)
    told = desk.do("explain", "r", STEP)
    assert (told.row.name, told.settled.outcome, told.changes) == ("receipt-original", OutcomeKind.APPLIED, ())
    with pytest.raises(errors.StepNotFound, match=r"its effects: reserve#1"):
        desk.do("explain", "r", "reserve#2")
    with pytest.raises(errors.RunNotFound):
        desk.do("explain", "nobody", STEP)


# -- probe -------------------------------------------------------------------------------------------------------------


def probeable(journal: Journal, colour: str = "sync") -> Desk:
    contract = contracts.Probeable(settle_window=timedelta(minutes=1), clock_error=timedelta(0))
    return Desk(journal, contract, colour, probe=True)


def test_a_probe_is_journaled_as_an_observation_and_acts_on_nothing(journal: Journal, colour: str) -> None:
    desk = probeable(journal, colour)
    desk.lose_reply()
    head = desk.loaded().run.head
    asked = desk.do("probe", "r", STEP)
    assert (asked.answer.kind, asked.outside, asked.judgement.row.name) == (AnswerKind.FOUND, "", "receipt-original")
    entry = desk.entries()[-1]
    assert isinstance(entry, Observation)
    assert (desk.loaded().run.head, entry.source, entry.answer) == (head + 1, Source.PROBE, asked.answer)
    run = desk.loaded().run
    assert (run.status, run.owner) == (Status.RUNNING, None)
    assert desk.shop.sent[KEY] == 1
    assert desk.do("recover", "r").value == "got 1"
    assert desk.shop.executions[KEY] == 1


def test_what_operators_ask_is_not_paid_by_the_run(memory: Journal) -> None:
    desk = probeable(memory)
    desk.lose_reply()
    receipts = dict(desk.shop.receipts)
    desk.shop.receipts.clear()
    for _ in range(desk.budget.probes + 1):
        desk.advance(milliseconds=1)
        assert desk.do("probe", "r", STEP).answer.kind is AnswerKind.ABSENT
    assert desk.loaded().history.effects[0].probes == 0
    desk.shop.receipts.update(receipts)  # it was only late to be seen
    desk.advance(hours=1)
    assert desk.do("recover", "r").value == "got 1"
    assert desk.shop.executions[KEY] == 1


def test_with_a_living_owner_a_probe_goes_outside_the_fence_and_says_so(journal: Journal, colour: str) -> None:
    desk = probeable(journal, colour)
    desk.lose_reply()
    owner = alive(desk)
    before = desk.loaded().run
    asked = desk.do("probe", "r", STEP)
    assert asked.outside == f"{owner} is at work on the run"
    assert desk.loaded().run == before  # head, epoch and owner are untouched
    [item] = journal.evidence("r")
    assert (item.kind, item.step) == ("observation", STEP)
    journal.release("r", "elsewhere", before.epoch)
    assert desk.do("recover", "r").value == "got 1"  # what was kept outside is evidence all the same
    assert desk.shop.executions[KEY] == 1


def test_a_probe_of_a_settled_run_is_evidence(memory: Journal) -> None:
    desk = probeable(memory)
    desk.do("run", "r", desk.order, 2)
    head = desk.loaded().run.head
    assert desk.do("probe", "r", STEP).outside == "the run is completed"
    assert (desk.loaded().run.head, len(memory.evidence("r"))) == (head, 1)


@pytest.mark.parametrize("contract", [contracts.Opaque(), keyed()])
def test_what_cannot_be_asked_is_refused(memory: Journal, contract: Any) -> None:
    desk = Desk(memory, contract)
    desk.lose_reply()
    before = stored(memory)
    with pytest.raises(errors.OverrideRefused, match="has no probe"):
        desk.do("probe", "r", STEP)
    with pytest.raises(errors.OverrideRefused, match="only the app's code can ask"):
        desk.without_app().probe("r", STEP)
    assert stored(memory) == before


# -- resolve -----------------------------------------------------------------------------------------------------------


def test_a_word_settles_a_step_as_heuristic_with_who_why_and_on_what(journal: Journal, colour: str) -> None:
    desk = Desk(journal, contracts.Opaque(), colour)
    desk.in_doubt()
    desk.do("resolve", "r", STEP, OutcomeKind.APPLIED, value=7, **WORD)
    order, settled = desk.entries()[-2:]
    assert isinstance(order, Override)
    assert (order.verb, order.by, order.reason, order.grounds) == (Verb.RESOLVE, "ann", "the ledger shows it", "ticket 12")
    assert isinstance(settled, Settled)
    assert (settled.heuristic, settled.row, settled.value) == (True, "operator", 7)
    assert settled.observation is not None
    assert settled.observation.source is Source.OPERATOR
    assert settled.evidence[-1] == len(desk.entries()) - 1  # the order itself
    assert desk.do("recover", "r").value == "got 7"
    assert desk.shop.executions[KEY] == 1


@pytest.mark.parametrize(
    ("outcome", "more", "status", "error"),
    [
        (OutcomeKind.APPLIED_WITHOUT_VALUE, {}, Status.FAILED, "OutcomeUnavailable"),
        (OutcomeKind.NOT_EXECUTED, {}, Status.FAILED, "NotExecuted"),
        (OutcomeKind.REJECTED, {"rejection": "OutOfStock", "value": {"sku": "F", "available": 0}}, Status.FAILED, "OutOfStock"),
    ],
)
def test_each_word_comes_out_of_the_workflow_as_it_was_said(
    memory: Journal, outcome: OutcomeKind, more: dict[str, Any], status: Status, error: str
) -> None:
    desk = Desk(memory, contracts.Opaque())
    desk.in_doubt()
    desk.do("resolve", "r", STEP, outcome, **more, **WORD)
    recovered = desk.do("recover", "r")
    assert recovered.status is status
    assert recovered.error.error.endswith(error)


@pytest.mark.parametrize("missing", ["by", "reason", "evidence"])
def test_a_word_without_who_why_or_evidence_is_refused(memory: Journal, missing: str) -> None:
    desk = Desk(memory, contracts.Opaque())
    desk.in_doubt()
    before = stored(memory)
    with pytest.raises(errors.OverrideRefused, match=f"it needs {missing}"):
        desk.do("resolve", "r", STEP, OutcomeKind.NOT_EXECUTED, **WORD | {missing: " "})
    assert stored(memory) == before


@pytest.mark.parametrize(
    ("outcome", "more", "problem"),
    [
        (OutcomeKind.APPLIED, {"value": "seven"}, "does not fit"),
        (OutcomeKind.APPLIED, {"value": None}, "returns int, and no value was given"),
        (OutcomeKind.REJECTED, {"rejection": "NoSuch"}, "not declared"),
        (OutcomeKind.REJECTED, {"rejection": "OutOfStock", "value": {"sku": 1}}, "does not fit"),
        (OutcomeKind.REJECTED, {}, "needs its name"),
        (OutcomeKind.MIXED, {"value": [{"kind": "absent"}]}, "every item"),
        (OutcomeKind.NOT_EXECUTED, {"value": 1}, "has no value"),
    ],
)
def test_a_word_that_no_run_of_the_effect_could_give_is_refused(
    memory: Journal, outcome: OutcomeKind, more: dict[str, Any], problem: str
) -> None:
    desk = Desk(memory, contracts.Opaque())
    desk.in_doubt()
    before = stored(memory)
    with pytest.raises(errors.OverrideRefused, match=problem):
        desk.do("resolve", "r", STEP, outcome, **more, **WORD)
    assert stored(memory) == before


@pytest.mark.parametrize(
    "value",
    [float("nan"), float("inf"), ["\udcff"], {1: "x"}, "x" * (codec.SIZE_MAX + 1)],
    ids=["nan", "infinity", "surrogate", "key", "size"],
)
def test_a_word_that_no_journal_could_read_back_is_refused_without_the_app_too(memory: Journal, value: Any) -> None:
    desk = Desk(memory, contracts.Opaque())
    desk.in_doubt()
    before = stored(memory)
    with pytest.raises(errors.OverrideRefused, match="cannot be stored"):
        desk.without_app().resolve("r", STEP, OutcomeKind.APPLIED, value=value, **WORD)
    assert stored(memory) == before


def test_what_a_person_brings_as_evidence_need_not_be_text(journal: Journal) -> None:
    desk = Desk(journal, contracts.Opaque())
    desk.in_doubt()
    desk.do("resolve", "r", STEP, OutcomeKind.NOT_EXECUTED, **WORD | {"evidence": "scan \0 \udcff \x1b[2J"})
    [order] = [entry for entry in desk.entries() if isinstance(entry, Override)]
    assert order.grounds == "scan \0 \\udcff \x1b[2J"


UNKEPT = {"nul": "a\0b", "surrogate": "a\udcff", "long": "x" * 10_001}


@pytest.mark.parametrize("words", UNKEPT.values(), ids=UNKEPT)
@pytest.mark.parametrize("verb", ["hold", "fence", "redrive", "close_key", "resolve", "hold_contract", "declare_restored"])
def test_words_that_no_store_can_keep_are_refused_before_anything_is_taken_from_anybody(
    memory: Journal, verb: str, words: str
) -> None:
    desk = Desk(memory, keyed(close=True))
    desk.lose_reply()
    owner = alive(desk)
    before = stored(memory)
    target = {"hold_contract": ("c",), "declare_restored": (), "resolve": ("r", STEP, OutcomeKind.NOT_EXECUTED)}
    target |= dict.fromkeys(("redrive", "close_key"), ("r", STEP))
    for spoilt in ({"by": words}, {"reason": words}):
        said = {"by": "ann", "reason": "x"} | ({"evidence": "e"} if verb == "resolve" else {}) | spoilt
        with pytest.raises(errors.OverrideRefused, match="Say it in other words"):
            desk.do(verb, *target.get(verb, ("r",)), **said)
    row = memory.find("r")
    assert row is not None
    assert (stored(memory), row.owner) == (before, owner)


@pytest.mark.parametrize("name", ["a\0b", "a\udcff", "x" * 201, " "])
def test_a_contract_that_can_have_no_such_name_is_not_held(memory: Journal, name: str) -> None:
    for verb in ("hold_contract", "release_contract"):
        with pytest.raises(errors.OverrideRefused) as refused:
            Desk(memory, keyed()).do(verb, name, by="ann", reason="x")
        assert len(str(refused.value)) < 300


def test_an_order_that_is_refused_takes_the_run_from_nobody(memory: Journal) -> None:
    desk = Desk(memory, keyed())
    desk.lose_reply()
    desk.do("hold", "r", by="ann", reason="x")
    owner = alive(desk)
    with pytest.raises(errors.OverrideRefused, match="ann holds it already"):
        desk.do("hold", "r", by="bob", reason="y")
    row = memory.find("r")
    assert row is not None
    assert row.owner == owner


def test_without_the_app_a_word_is_taken_unchecked(memory: Journal) -> None:
    desk = Desk(memory, contracts.Opaque())
    desk.in_doubt()
    assert not desk.without_app().resolve("r", STEP, OutcomeKind.APPLIED, value=7, **WORD).checked
    assert desk.do("recover", "r").value == "got 7"


def test_without_the_app_it_happened_alone_is_refused(memory: Journal) -> None:
    """Whether the effect returns a value cannot be seen; settled without one that it has, the run would fail for ever."""
    desk = Desk(memory, contracts.Opaque())
    desk.in_doubt()
    with pytest.raises(errors.OverrideRefused, match="not known without its app"):
        desk.without_app().resolve("r", STEP, OutcomeKind.APPLIED, **WORD)
    desk.do("resolve", "r", STEP, OutcomeKind.APPLIED, value=7, **WORD)
    assert desk.do("recover", "r").value == "got 7"


@pytest.mark.parametrize(
    ("outcome", "value", "raises"),
    [
        (OutcomeKind.APPLIED, 7, ""),
        (OutcomeKind.NOT_EXECUTED, None, "NotExecuted"),
        (OutcomeKind.APPLIED_WITHOUT_VALUE, None, "OutcomeUnavailable"),
    ],
)
def test_a_word_says_what_the_workflow_gets_of_it(memory: Journal, outcome: OutcomeKind, value: Any, raises: str) -> None:
    desk = Desk(memory, contracts.Opaque())
    desk.in_doubt()
    assert desk.do("resolve", "r", STEP, outcome, value=value, **WORD).raises == raises
    if raises:
        with pytest.raises(errors.RunFailed, match=rf"recovery\.errors\.{raises}"):
            desk.do("recover", "r").result()
    else:
        desk.do("recover", "r").result()


def test_a_settled_step_is_not_resolved(memory: Journal) -> None:
    desk = Desk(memory, keyed())
    desk.do("run", "r", desk.order, 2)
    with pytest.raises(errors.StepSettled, match="it is settled as applied"):
        desk.do("resolve", "r", STEP, OutcomeKind.NOT_EXECUTED, **WORD)


def test_a_word_never_comes_before_what_the_evidence_proves(memory: Journal) -> None:
    desk = probeable(memory)
    desk.lose_reply()
    desk.do("probe", "r", STEP)
    with pytest.raises(errors.OverrideRefused, match=r"settles it by itself \(original-receipt\)"):
        desk.do("resolve", "r", STEP, OutcomeKind.NOT_EXECUTED, **WORD)


def test_a_run_with_a_living_owner_is_resolved_only_when_held(journal: Journal) -> None:
    desk = Desk(journal, contracts.Opaque())
    desk.in_doubt()
    alive(desk)
    before = stored(journal)
    with pytest.raises(errors.LeaseUnavailable) as refused:
        desk.do("resolve", "r", STEP, OutcomeKind.APPLIED, value=7, **WORD)
    assert int(refused.value.exit_code) == 7
    assert stored(journal) == before
    desk.do("hold", "r", by="ann", reason="looking")
    desk.do("resolve", "r", STEP, OutcomeKind.APPLIED, value=7, **WORD)
    assert desk.loaded().run.status is Status.HELD  # still: a word does not release
    assert isinstance(desk.do("recover", "r").error, errors.RunHeld)
    desk.do("release", "r", by="ann", reason="looked")
    assert desk.do("recover", "r").value == "got 7"


def late(desk: Desk, answer: Answered) -> None:
    """A superseded worker's reply arrives."""
    run = desk.loaded().run
    seen = Observation(step=STEP, source=Source.LATE, asked_at_us=1, observed_at_us=1, answer=answer, attempt=1, epoch="0.1")
    desk.journal.add_evidence(Evidence("r", STEP, run.epoch, 1, kind_of(seen), codec.dumps(encode(seen))))


def test_operator_says_not_executed_then_the_receipt_arrives_it_is_recorded_once_and_never_flips(journal: Journal) -> None:
    desk = Desk(journal, contracts.Opaque())
    desk.in_doubt()
    desk.do("resolve", "r", STEP, OutcomeKind.NOT_EXECUTED, **WORD)
    late(desk, Answered(kind=AnswerKind.FOUND, value=1))
    first = desk.do("recover", "r")
    assert first.status is Status.FAILED
    recorded = [entry for entry in desk.entries() if isinstance(entry, Verdict) and entry.row == "contradicted"]
    assert len(recorded) == 1
    head = desk.loaded().run.head
    assert desk.do("recover", "r").error.fields == first.error.fields
    assert desk.loaded().run.head == head
    told = desk.do("explain", "r", STEP)
    assert (told.contradicted, told.settled.outcome) == (True, OutcomeKind.NOT_EXECUTED)


def test_the_same_sign_with_another_value_contradicts_too_and_the_same_value_does_not(memory: Journal) -> None:
    for value, contradicted in ((1, False), (2, True)):
        journal = open_journal("memory://")
        desk = Desk(journal, contracts.Opaque())
        desk.in_doubt()
        desk.do("resolve", "r", STEP, OutcomeKind.APPLIED, value=1, **WORD)
        late(desk, Answered(kind=AnswerKind.FOUND, value=value))
        desk.do("recover", "r")
        assert desk.do("explain", "r", STEP).contradicted is contradicted


# -- redrive -----------------------------------------------------------------------------------------------------------


def spent(journal: Journal, colour: str = "sync", **more: Any) -> Desk:
    """An effect whose two attempts are used up."""
    desk = Desk(journal, keyed(**more), colour, budget=Budget(attempts=1, max_wait=timedelta(0), backoff=timedelta(milliseconds=1)))
    desk.lose_reply()
    desk.advance(seconds=5)
    return desk


def test_a_redrive_allows_one_attempt_more_under_the_same_key(journal: Journal, colour: str) -> None:
    desk = spent(journal, colour)
    assert desk.do("recover", "r").verdicts[-1].row == "budget-spent"
    recovered = desk.do("redrive", "r", STEP, by="ann", reason="the queue is drained")
    assert recovered.value == "got 1"
    assert (desk.shop.sent[KEY], desk.shop.executions[KEY]) == (2, 1)
    orders = [entry for entry in desk.entries() if isinstance(entry, Override)]
    assert [(order.verb, order.by, order.attempts) for order in orders] == [(Verb.REDRIVE, "ann", 2)]


def test_a_redrive_is_one_attempt_and_not_a_new_budget(memory: Journal) -> None:
    desk = spent(memory)
    desk.do("recover", "r")
    desk.shop.fail = lambda: (_ for _ in ()).throw(ConnectionError("lost again"))
    desk.do("redrive", "r", STEP)
    desk.advance(minutes=5)
    assert desk.do("recover", "r").verdicts[-1].row == "budget-spent"
    assert desk.shop.sent[KEY] == 2


@pytest.mark.parametrize(
    ("contract", "hours", "row"),
    [
        (keyed(), 25, "key-expired"),
        (contracts.Keyed(window=DAY, fail_open=True), 0, "fail-open"),
        (contracts.Opaque(), 0, "opaque"),
    ],
)
def test_a_redrive_is_refused_where_the_table_would_not_send(memory: Journal, contract: Any, hours: int, row: str) -> None:
    desk = Desk(memory, contract)
    desk.lose_reply()
    desk.advance(hours=hours)
    before = stored(memory)
    with pytest.raises(errors.NotLicensed, match=row):
        desk.do("redrive", "r", STEP)
    assert stored(memory) == before
    assert desk.shop.sent[KEY] == 1


@pytest.mark.parametrize("kind", [AnswerKind.CLOSED, AnswerKind.EXPIRED, AnswerKind.INDETERMINATE])
def test_a_redrive_is_refused_after_an_answer_that_ends_the_key(memory: Journal, kind: AnswerKind) -> None:
    desk = spent(memory)
    late(desk, Answered(kind=kind))
    with pytest.raises((errors.NotLicensed, errors.StepSettled)):
        desk.do("redrive", "r", STEP)
    assert desk.shop.sent[KEY] == 1


def test_a_redrive_past_not_after_is_refused_to_the_microsecond(memory: Journal) -> None:
    desk = spent(memory)
    not_after = desk.do("explain", "r", STEP).timing.not_after_us
    desk.clock.advance_to(not_after + 1)
    with pytest.raises(errors.NotLicensed, match="key-expired"):
        desk.do("redrive", "r", STEP)
    other = spent(open_journal("memory://"))
    other.clock.advance_to(other.do("explain", "r", STEP).timing.not_after_us)
    assert other.do("redrive", "r", STEP).value == "got 1"


# -- close -------------------------------------------------------------------------------------------------------------


def closing(journal: Journal, colour: str = "sync") -> Desk:
    contract = keyed(close=True, lookup=Lookup())
    return Desk(journal, contract, colour, probe=True)


def test_a_close_adopts_the_outcome_that_is_there(journal: Journal, colour: str) -> None:
    desk = closing(journal, colour)
    desk.lose_reply()
    closed = desk.do("close_key", "r", STEP, by="ann", reason="cancelled")
    assert closed.settled.outcome is OutcomeKind.APPLIED
    order, attempt, settled = desk.entries()[-3:]
    assert isinstance(order, Override)
    assert isinstance(attempt, Attempt)
    assert (attempt.purpose, isinstance(settled, Settled)) == ("close", True)  # durable before its first byte
    assert desk.do("recover", "r").value == "got 1"
    assert desk.shop.sent[KEY] == 1


def test_a_close_that_finds_nothing_proves_that_it_was_not_executed(memory: Journal) -> None:
    desk = closing(memory)
    desk.lose_reply()
    desk.shop.receipts.clear()
    closed = desk.do("close_key", "r", STEP)
    assert (closed.settled.outcome, closed.settled.row) == (OutcomeKind.NOT_EXECUTED, "refused-for-ever")
    assert desk.do("recover", "r").error.error.endswith("NotExecuted")


def test_a_close_is_refused_where_there_is_none_and_while_held(memory: Journal) -> None:
    desk = Desk(memory, keyed())
    desk.lose_reply()
    with pytest.raises(errors.OverrideRefused, match="has no close"):
        desk.do("close_key", "r", STEP)
    other = closing(open_journal("memory://"))
    other.lose_reply()
    other.do("hold", "r", by="ann", reason="stop")
    with pytest.raises(errors.OverrideRefused, match="it is held"):
        other.do("close_key", "r", STEP)


def test_a_key_that_answers_for_another_request_is_not_closed(memory: Journal) -> None:
    """Whose it is nobody knows: a tombstone would be written over somebody else's record."""
    desk = closing(memory)
    desk.lose_reply()
    late(desk, Answered(kind=AnswerKind.FOUND, value=5, fingerprint="theirs"))
    assert desk.do("recover", "r").verdicts[-1].parking is ParkingReason.KEY_MISMATCH
    before = stored(memory)
    with pytest.raises(errors.OverrideRefused, match="its key is frozen"):
        desk.do("close_key", "r", STEP)
    assert stored(memory) == before


# -- hold, release, fence ----------------------------------------------------------------------------------------------


def test_a_held_run_sends_nothing_in_any_engine_until_it_is_released(journal: Journal, colour: str) -> None:
    desk = Desk(journal, keyed(), colour)
    desk.lose_reply()
    desk.do("hold", "r", by="ann", reason="audit")
    before = stored(journal)
    for engine in (desk.engine, desk.another()):
        desk.engine = engine
        recovered = desk.do("recover", "r")
        assert (recovered.status, type(recovered.error)) == (Status.HELD, errors.RunHeld)
        assert "by ann: audit" in str(recovered.error)
    assert stored(journal) == before
    assert desk.do("explain", "r", STEP).row.number == 22
    [doubt] = desk.do("doubt").doubts
    assert (doubt.status, doubt.reason, doubt.parking) == (Status.HELD, "hold by ann: audit", ParkingReason.HELD)
    desk.do("release", "r", by="bob", reason="done")
    assert desk.do("recover", "r").value == "got 1"
    assert desk.shop.executions[KEY] == 1


def test_a_step_of_a_quarantined_run_is_explained_by_what_ended_its_workers(memory: Journal, colour: str) -> None:
    desk = Desk(memory, keyed(), colour)
    desk.lose_reply()
    desk.do("hold", "r", by=quarantining.BY, reason="quarantined: in the words of a later version")
    told, run = desk.do("explain", "r", STEP), desk.do("explain_run", "r")
    assert (told.row.name, told.parking, told.advice) == ("held", HoldReason.QUARANTINED, SETTLED_BY[HoldReason.QUARANTINED])
    assert (run.parking, run.deaths, run.steps) == (HoldReason.QUARANTINED, Deaths(None, last_alone=False), (STEP,))
    assert (run.last.kind, run.last.step) == ("intent", STEP)
    assert desk.do("doubt").doubts[0].parking is HoldReason.QUARANTINED
    desk.do("release", "r", by="bob", reason="mended")
    desk.do("hold", "r", by="ann", reason="quarantined: as I would call it")
    assert desk.do("explain_run", "r").parking is desk.do("explain", "r", STEP).parking is ParkingReason.HELD


@pytest.mark.parametrize("verb", ["hold", "fence"])
def test_a_fenced_worker_hears_that_whoever_took_its_run_has_released_it_since(memory: Journal, verb: str) -> None:
    """Both orders take the run, and own it no more when the worker's append is refused: there is no owner to name."""
    desk = Desk(memory, keyed())
    other = Engine(memory, clock=desk.clock)
    desk.shop.fail = once_done(lambda: finished(getattr(other, verb)("r", by="ann", reason="stop")))
    with pytest.raises(errors.FencedOut) as refused:
        desk.do("run", "r", desk.order, 2)
    row = memory.find("r")
    assert row is not None
    assert (row.owner, refused.value.epoch) == (None, str(row.epoch))
    assert f"taken over by a worker that has released it since and stands at epoch {row.epoch}" in str(refused.value)
    assert [entry for entry in desk.entries() if isinstance(entry, Settled)] == []


def once_done(work: Callable[[], Any]) -> Callable[[], None]:
    """Called again, it does nothing."""
    left = [work]

    def fail() -> None:
        if left:
            left.pop()()

    return fail


def test_a_run_that_began_earlier_and_reads_slowly_takes_no_hold_back_from_one_that_was_loaded_behind_it(
    memory: Journal, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both are of one engine, which knows what is held by what its runs have read."""
    shop, contract, read, answered = Shop(), keyed(), threading.Event(), threading.Event()
    reserve, holds = shop.effect(contract), memory.holds

    def slow() -> list[Hold]:
        found = holds()
        if threading.current_thread() is early:
            read.set()
            assert answered.wait(30)
        return found

    @workflow
    def nothing(run: Run) -> int:
        return 0

    @workflow
    def late(run: Run) -> int:
        answered.set()
        early.join(30)
        return run.perform(reserve(units=1), key="k")

    engine = Engine(memory, workflows=[nothing, late])
    monkeypatch.setattr(memory, "holds", slow)
    early = threading.Thread(target=engine.run, args=("early", nothing))
    early.start()
    assert read.wait(30)
    Engine(memory).hold_contract(contract.digest, by="ann", reason="the supplier doubles orders")
    with engine, pytest.raises(errors.EffectInDoubt) as stopped:
        engine.run("late", late)
    assert (stopped.value.reason, dict(shop.sent)) == (ParkingReason.HELD, {})


def test_a_held_contract_reaches_a_worker_in_the_middle_of_its_run(memory: Journal) -> None:
    """At its next renewal, which here comes every millisecond: the step after that sends nothing."""
    shop, contract = Shop(), keyed()
    reserve = shop.effect(contract)

    @workflow
    def twice(run: Run) -> int:
        return run.perform(reserve(units=1), key="first") + run.perform(reserve(units=1), key="second")

    engine = Engine(memory, workflows=[twice], lease=Lease(renew_every=timedelta(milliseconds=1)))

    def held_meanwhile() -> None:
        Engine(memory).hold_contract(contract.digest, by="ann", reason="the supplier doubles orders")
        pause = threading.Event()
        while not engine._leases.held_contracts():
            pause.wait(0.001)

    shop.fail = once_done(held_meanwhile)
    with engine:
        with pytest.raises(errors.EffectInDoubt) as stopped:
            engine.run("r", twice)
        assert (stopped.value.reason, shop.sent) == (ParkingReason.HELD, {"first": 1})
        engine.release_contract(contract.digest, by="ann", reason="repaired")
        assert engine.recover("r").value == 3
    assert shop.executions == {"first": 1, "second": 1}


def test_a_hold_takes_the_run_from_a_living_owner_and_says_until_when_its_copies_may_act(journal: Journal) -> None:
    desk = Desk(journal, keyed())
    desk.lose_reply()
    owner = alive(desk)
    epoch = desk.loaded().run.epoch
    ordered = desk.do("hold", "r", by="ann", reason="stop")
    assert ordered.was_owned_by == str(owner)
    assert ordered.acts_until_us == desk.do("explain", "r", STEP).timing.quiet_at_us
    assert desk.loaded().run.epoch.n == epoch.n + 1
    assert not journal.renew("r", "elsewhere", epoch)


@pytest.mark.parametrize("verb", ["hold", "fence"])
def test_a_run_that_ends_between_an_operators_look_and_claim_keeps_its_outcome(journal: Journal, verb: str) -> None:
    """Settling raises no epoch, so the claim of a run that has just ended goes through, and an order behind its end would spoil it."""
    desk = Desk(journal, keyed())
    inside, go_on = threading.Event(), threading.Event()

    def fail() -> None:
        inside.set()
        assert go_on.wait(60)

    desk.shop.fail = fail
    worker = threading.Thread(target=lambda: desk.engine.run("r", desk.order, 2))
    worker.start()
    assert inside.wait(60)

    def ends(point: str) -> None:
        if point == "claim.before":
            go_on.set()
            worker.join(60)

    with hooked(ends), pytest.raises(errors.OverrideRefused, match=r"it is settled \(completed\)"):
        desk.do(verb, "r", by="ann", reason="x")
    assert desk.do("get", "r").status is Status.COMPLETED
    assert desk.do("recover", "r").value == "got 1"
    assert not [entry for entry in desk.entries() if isinstance(entry, Override)]


def test_holding_twice_and_releasing_what_is_free_are_refused(memory: Journal) -> None:
    desk = Desk(memory, keyed())
    desk.lose_reply()
    with pytest.raises(errors.OverrideRefused, match="nobody holds the run"):
        desk.do("release", "r", by="ann", reason="x")
    desk.do("hold", "r", by="ann", reason="x")
    with pytest.raises(errors.OverrideRefused, match="ann holds it already"):
        desk.do("hold", "r", by="bob", reason="y")
    desk.do("run", "fine", desk.order, 1)
    for verb in ("hold", "fence"):
        with pytest.raises(errors.OverrideRefused, match="it is settled"):
            desk.do(verb, "fine", by="ann", reason="x")


def test_a_released_run_is_what_it_was_before(memory: Journal) -> None:
    desk = Desk(memory, contracts.Opaque())
    desk.in_doubt()
    desk.do("hold", "r", by="ann", reason="x")
    assert desk.do("release", "r", by="ann", reason="y").status is Status.IN_DOUBT


@pytest.mark.parametrize("by_name", [False, True])
def test_a_held_contract_sends_nothing_in_every_engine_at_its_next_load(journal: Journal, colour: str, by_name: bool) -> None:
    contract = keyed(name="inventory")
    desk = Desk(journal, contract, colour)
    desk.lose_reply("old")
    subject = "inventory" if by_name else contract.digest
    desk.do("hold_contract", subject, by="ann", reason="double bookings")
    desk.engine = desk.another()
    recovered = desk.do("recover", "old")
    assert (recovered.status, recovered.verdicts[-1].row) == (Status.HELD, "held")
    with pytest.raises(errors.EffectInDoubt, match="held"):
        desk.do("run", "new", desk.order, 2)
    assert sum(desk.shop.sent.values()) == 1
    found = desk.do("doubt")
    assert [(hold.subject, hold.by) for hold in found.contracts] == [(subject, "ann")]
    assert desk.do("recover", "old").status is Status.HELD  # again, and it appends nothing
    desk.do("release_contract", subject, by="bob", reason="repaired")
    assert desk.do("recover", "old").value == "got 1"
    assert desk.do("recover", "new").value == "got 2"


def test_another_contract_is_not_held(memory: Journal) -> None:
    desk = Desk(memory, keyed(name="inventory"))
    desk.do("hold_contract", "billing", by="ann", reason="x")
    assert desk.do("run", "r", desk.order, 2) == "got 1"
    with pytest.raises(errors.OverrideRefused, match="it is not held"):
        desk.do("release_contract", "inventory", by="ann", reason="x")


def test_row_5_holds_the_contract_until_a_person_releases_it(journal: Journal) -> None:
    """A final absence, then a receipt: what the contract promises is not true, so nothing more is sent under it."""
    contract = contracts.Probeable(
        lookup=Lookup(), settle_window=timedelta(0), clock_error=timedelta(0), trust_settle=False, name="shop"
    )
    desk = Desk(journal, contract, probe=True)
    desk.lose_reply()
    receipts = dict(desk.shop.receipts)
    desk.shop.receipts.clear()
    desk.advance(minutes=5)
    desk.do("probe", "r", STEP)
    desk.shop.receipts.update(receipts)
    desk.do("probe", "r", STEP)
    assert desk.do("recover", "r").verdicts[-1].reason == "contract-broken"
    [hold] = journal.holds()
    assert (hold.subject, hold.by) == (contract.digest, "recovery")
    with pytest.raises(errors.EffectInDoubt, match="held"):
        desk.do("run", "other", desk.order, 1)
    desk.do("release_contract", contract.digest, by="ann", reason="the lookup is fixed")
    desk.do("recover", "r")  # the same evidence does not hold it again
    assert journal.holds() == []
    assert desk.do("recover", "other").value.startswith("got ")


def test_a_fence_raises_the_epoch_of_a_living_owner_and_warns(journal: Journal, colour: str) -> None:
    desk = Desk(journal, keyed(), colour)
    desk.lose_reply()
    owner = alive(desk)
    epoch = desk.loaded().run.epoch
    fenced = desk.do("fence", "r", by="ann", reason="stuck")
    assert (fenced.was_owned_by, fenced.epoch) == (str(owner), f"0.{epoch.n + 1}")
    assert fenced.acts_until_us is not None
    assert not journal.renew("r", "elsewhere", epoch)
    assert [entry.verb for entry in desk.entries() if isinstance(entry, Override)] == [Verb.FENCE]
    assert desk.do("recover", "r").value == "got 1"


def test_an_order_names_the_user_where_nobody_is_named(memory: Journal) -> None:
    desk = Desk(memory, keyed())
    desk.lose_reply()
    desk.do("fence", "r")
    order = desk.entries()[-1]
    assert isinstance(order, Override)
    assert order.by


# -- forget ------------------------------------------------------------------------------------------------------------


def test_w16_a_forgotten_runs_key_is_refused_and_the_effect_does_not_run_again(journal: Journal, colour: str) -> None:
    desk = Desk(journal, keyed(), colour)
    desk.do("run", "r", desk.order, 2)
    desk.advance(hours=25)
    forgotten = desk.do("forget", "r", by="ann", reason="retention")
    assert (forgotten.status, forgotten.keys) == ("completed", (("shop", "", KEY),))
    for verb, arguments in (("run", ("r", desk.order, 2)), ("recover", ("r",)), ("explain", ("r", STEP)), ("forget", ("r",))):
        with pytest.raises(errors.RunForgotten, match="forgotten by ann"):
            desk.do(verb, *arguments)
    reserve = desk.reserve

    from recovery import AsyncRun, workflow

    @workflow(name="thief")
    def thief(run: Run) -> int:
        return run.perform(reserve(units=2), key=KEY)

    @workflow(name="thief")
    async def async_thief(run: AsyncRun) -> int:
        return await run.perform(reserve(units=2), key=KEY)

    with pytest.raises(errors.RunFailed, match="KeyReused"):
        desk.do("run", "other", async_thief if colour == "async" else thief)
    assert desk.shop.executions[KEY] == 1


def test_a_forgotten_run_is_listed_and_verified_as_nothing(memory: Journal) -> None:
    desk = Desk(memory, keyed())
    desk.do("run", "r", desk.order, 2)
    desk.advance(hours=25)
    desk.do("forget", "r")
    verified = desk.do("verify")
    assert (verified.runs, verified.entries, verified.broken) == (1, 0, [])
    assert [info.run_id for info in desk.do("list")] == ["r"]
    assert desk.do("doubt").doubts == ()


def test_a_run_is_not_forgotten_while_its_key_may_be_asked_for(memory: Journal) -> None:
    desk = Desk(memory, keyed())
    desk.do("run", "r", desk.order, 2)
    sent = desk.loaded().history.effects[0].attempts[0].sent_at_us
    until = sent + (24 * 3600 + 1) * 1_000_000  # the window, and the contract's clock error
    desk.clock.advance_to(until)
    before = stored(memory)
    with pytest.raises(errors.KeyStillAsked) as refused:
        desk.do("forget", "r")
    assert int(refused.value.exit_code) == 4
    assert stored(memory) == before
    desk.clock.advance_to(until + 1)
    desk.do("forget", "r")


def test_without_a_window_a_run_is_forgotten_when_no_copy_can_act(memory: Journal) -> None:
    desk = Desk(memory, contracts.Opaque(settle_window=timedelta(minutes=10)))
    desk.do("run", "r", desk.order, 2)
    desk.advance(minutes=9)
    with pytest.raises(errors.KeyStillAsked):
        desk.do("forget", "r")
    desk.advance(minutes=2)
    desk.do("forget", "r")


def test_late_evidence_that_nobody_has_weighed_is_not_forgotten(memory: Journal) -> None:
    desk = Desk(memory, contracts.Opaque())
    desk.in_doubt()
    desk.do("resolve", "r", STEP, OutcomeKind.NOT_EXECUTED, **WORD)
    desk.do("recover", "r")
    desk.advance(days=400)
    late(desk, Answered(kind=AnswerKind.FOUND, value=1))
    before = stored(memory)
    with pytest.raises(errors.OverrideRefused, match="speaks against an outcome and is not recorded yet"):
        desk.do("forget", "r")
    assert stored(memory) == before


def test_a_run_that_needs_a_person_is_not_forgotten_before_one_has_seen_to_it(memory: Journal) -> None:
    """What shows that the outcome may be wrong would go with its entries."""
    desk = Desk(memory, contracts.Opaque())
    desk.in_doubt()
    desk.do("resolve", "r", STEP, OutcomeKind.NOT_EXECUTED, **WORD)
    desk.do("recover", "r")
    desk.advance(days=400)
    late(desk, Answered(kind=AnswerKind.FOUND, value=1))
    desk.do("recover", "r")  # records it
    before = stored(memory)
    with pytest.raises(errors.OverrideRefused, match="nobody has acknowledged it") as refused:
        desk.do("forget", "r")
    assert int(refused.value.exit_code) == 2
    assert stored(memory) == before
    desk.do("acknowledge", "r", STEP, by="bob", reason="undone by hand, ticket 13")
    desk.do("forget", "r")
    assert desk.do("doubt").contradicted == ()


def test_only_settled_runs_are_forgotten(memory: Journal) -> None:
    desk = Desk(memory, contracts.Opaque())
    desk.in_doubt()
    desk.advance(days=400)
    with pytest.raises(errors.RunUnsettled, match="only settled runs are forgotten"):
        desk.do("forget", "r")


# -- plan and --if-head ------------------------------------------------------------------------------------------------


def test_a_plan_asks_and_appends_nothing(journal: Journal, colour: str) -> None:
    desk = probeable(journal, colour)
    desk.lose_reply()
    before = stored(journal)
    plan = desk.do("plan", "r")
    [step] = plan.steps
    assert ([answer.kind for answer in step.asked], step.action, step.row) == ([AnswerKind.FOUND], "adopt", "receipt-original")
    unasked = desk.do("plan", "r", probe=False).steps[0]
    assert (unasked.asked, unasked.action) == ((), "ask")
    assert stored(journal) == before
    assert desk.do("recover", "r", if_head=plan.head_digest[:12]).value == "got 1"


def test_a_plan_is_carried_out_only_from_its_own_head(journal: Journal, colour: str) -> None:
    desk = probeable(journal, colour)
    desk.lose_reply()
    plan = desk.do("plan", "r")
    desk.do("probe", "r", STEP)  # the head moves
    before = stored(journal)
    for head in (plan.head_digest, "", "0" * 64):
        with pytest.raises(errors.HeadMoved) as moved:
            desk.do("recover", "r", if_head=head)
        assert int(moved.value.exit_code) == 7
    assert stored(journal) == before
    assert desk.do("recover", "r", if_head=desk.do("plan", "r").head_digest).value == "got 1"


def test_a_plan_of_a_held_run_does_nothing(memory: Journal) -> None:
    desk = probeable(memory)
    desk.lose_reply()
    desk.do("hold", "r", by="ann", reason="x")
    plan = desk.do("plan", "r")
    assert (plan.steps[0].row, plan.then) == ("held", "nothing would be done: hold by ann: x")


# -- what all verbs share ----------------------------------------------------------------------------------------------


def test_no_verb_makes_a_second_key(journal: Journal) -> None:
    """All of them, one after the other: the world has seen one key, and the effect happened once."""
    desk = closing(journal)
    desk.lose_reply()
    for verb, arguments, named in (
        ("explain", ("r", STEP), {}),
        ("plan", ("r",), {}),
        ("fence", ("r",), {}),
        ("hold", ("r",), {"by": "ann", "reason": "x"}),
        ("release", ("r",), {"by": "ann", "reason": "x"}),
        ("probe", ("r", STEP), {}),
        ("recover", ("r",), {}),
    ):
        desk.do(verb, *arguments, **named)
    assert set(desk.shop.sent) == {KEY}
    assert desk.shop.executions == {KEY: 1}
    intents = [entry for entry in desk.entries() if kinds((entry,)) == ["intent"]]
    assert len(intents) == 1


def test_a_run_that_sleeps_is_explained_by_when_it_goes_on() -> None:
    @workflow
    def naps(run: Run) -> None:
        run.sleep(timedelta(days=1))

    with Engine("memory://", workflows=[naps]) as engine:
        with pytest.raises(errors.TimerPending) as pending:
            engine.run("r", naps)
        assert f"a worker takes it up from {pending.value.next_look} on" in engine.explain_run("r").advice  # type: ignore[attr-defined]  # a field
