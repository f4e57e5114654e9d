"""The pages about reasons to park, compared with the table: each reason has one, and what it says there is what the table does."""

from __future__ import annotations

import pickle
from collections import defaultdict
from dataclasses import fields, replace
from functools import cache
from pathlib import Path

import pytest

from docs import generate
from recovery.core.contracts import Contract, Lookup
from recovery.core.effect_errors import EffectInDoubt
from recovery.core.entries import Answered, AnswerKind, Observation, Override, Source, Verb, Verdict
from recovery.core.errors import InvalidName
from recovery.core.facts import Ask, Facts, Gate, Resend, all_facts
from recovery.core.findings import RECEIPTS
from recovery.core.history import EffectStep, Noted
from recovery.core.judgement import conclude
from recovery.core.policy import Budget
from recovery.core.reasons import PARKED, HoldReason, Parked, ParkingReason, Reason, parking
from recovery.core.rows import Action, Row
from recovery.core.timing import Situation, possibly_sent
from recovery.core.verdicts import ROW_BY_NAME, ROWS, judge
from recovery.operators import parking as pages
from recovery.operators.advice import SETTLED_BY
from recovery.operators.parking import If, Open, Orders, markdown, page_of, reason_of, row_of
from tests.unit.core.making import KEYED, OPAQUE, STEP, H, M, S, sent, situate
from tests.unit.core.test_rows_reached import CASES

REASONS = PARKED
SENDS = {Action.SEND, Action.RESEND}


@cache
def parked_facts() -> dict[Parked, list[Facts]]:
    """A step of a run that is held for a reason of the run's own is parked as any that is held."""
    found: dict[Parked, list[Facts]] = defaultdict(list)
    for each in all_facts():
        reason = judge(each).parking
        if reason is not None:
            found[reason].append(each)
    found.update((reason, found[ParkingReason.HELD]) for reason in HoldReason)
    return found


def test_a_row_parks_if_and_only_if_its_reason_is_one_for_parking() -> None:
    for row in ROWS:
        assert (row.action is Action.PARK) is isinstance(row.reason, ParkingReason)
        assert (row.parking is None) is isinstance(row.reason, Reason)
    assert sorted(row.parking for row in ROWS if row.parking) == sorted(ParkingReason)
    assert not set(Reason) & set(ParkingReason)


def test_every_parking_row_has_a_page_and_every_page_a_row() -> None:
    assert sorted(parked_facts()) == sorted(PARKED)
    stored = sorted(path.stem for path in Path(pages.__file__).parent.glob("*.yaml"))
    assert stored == sorted(PARKED) == sorted(SETTLED_BY)
    made = {name for name in generate.PAGES if name.startswith("reference/parking/")}
    assert made == {reason.page for reason in PARKED} | {"reference/parking/index.md"}
    index = generate.render("reference/parking/index.md")
    assert [reason for reason in PARKED if f"]({reason.value}.md)" not in index] == []


@pytest.mark.parametrize("reason", REASONS)
def test_a_page_names_its_row_its_condition_and_its_paragraph(reason: Parked) -> None:
    text, row = markdown(reason), row_of(reason)
    for said in (f"Row {row.number}, `{row.name}`: {row.condition}.", row.paragraph, *row.assumes, *page_of(reason).look):
        assert said in text


# -- orders ------------------------------------------------------------------------------------------------------------


def redrivable(reason: Parked) -> Open:
    """Whether one attempt more would be sent: always, in some of these facts, or never."""
    licensed = {judge(replace(each, attempts_left=True)).action in SENDS for each in parked_facts()[reason]}
    return {frozenset({True}): Open.OPEN, frozenset({False}): Open.REFUSED}.get(frozenset(licensed), Open.DEPENDS)


@pytest.mark.parametrize("reason", REASONS)
def test_a_page_says_what_the_table_says_about_redriving(reason: Parked) -> None:
    assert page_of(reason).orders.redrive.is_ is redrivable(reason)


@pytest.mark.parametrize("reason", REASONS)
def test_a_page_refuses_probes_and_closes_where_nothing_can_be_asked(reason: Parked) -> None:
    """By what holds in all facts that lead here: another scope, or no channel at all; a close also needs a key that is ours and protects."""
    gates, keys = {each.gate for each in parked_facts()[reason]}, {each.resend for each in parked_facts()[reason]}
    deaf = gates == {Gate.SCOPE_CHANGED} or keys == {Resend.OPAQUE}
    frozen = reason in {ParkingReason.KEY_MISMATCH, ParkingReason.RECEIPT_MISMATCH}
    unclosable = deaf or frozen or gates == {Gate.HELD} or keys == {Resend.FAIL_OPEN}
    orders = page_of(reason).orders
    assert (orders.probe.is_ is Open.REFUSED) is deaf
    assert (orders.close.is_ is Open.REFUSED) is unclosable


@pytest.mark.parametrize("reason", REASONS)
def test_only_what_is_held_is_released_and_everything_can_be_resolved(reason: Parked) -> None:
    orders = page_of(reason).orders
    held = reason in {ParkingReason.HELD, ParkingReason.CONTRACT_BROKEN, *HoldReason}
    assert orders.release.is_ is (Open.OPEN if held else Open.REFUSED)
    assert orders.resolve.is_ is Open.OPEN


# -- what would change it ----------------------------------------------------------------------------------------------

FOR_PAGES: dict[Parked, tuple[EffectStep, Situation]] = {
    ParkingReason.HELD: (sent().step, situate(M, KEYED, held=True)),
    HoldReason.QUARANTINED: (sent().step, situate(M, KEYED, held=True)),
    ParkingReason.SCOPE_CHANGED: (sent().step, situate(M, KEYED, scope_changed=True)),
    ParkingReason.BUDGET_SPENT: (sent().step, situate(M, KEYED, budget=Budget(attempts=1))),
    ParkingReason.OPAQUE: (sent().step, situate(M, OPAQUE)),
}
"""Steps that need more than the plainest history of their row."""


def parked(reason: Parked) -> tuple[EffectStep, Situation]:
    if reason in FOR_PAGES:
        return FOR_PAGES[reason]
    case = next(case for case in CASES if case.row == row_of(reason).number)
    return case.story().step, situate(case.now, case.contract, **case.situation)


def told(step: EffectStep, source: Source, kind: AnswerKind, situation: Situation) -> Observation:
    """What comes now. A receipt that is there already comes once more as it was: another one would be a duplicate."""
    attempt = 1 if source is Source.LATE else None
    at_us = situation.now_us
    known = [noted.answer for noted in step.observations if noted.answer.kind in RECEIPTS and kind is AnswerKind.FOUND]
    error, value = ("OutOfStock", None) if kind is AnswerKind.REFUSED else ("", {"id": 1} if kind is AnswerKind.FOUND else None)
    answer = known[0] if known else Answered(kind=kind, error=error, value=value)
    return Observation(
        step=STEP, source=source, asked_at_us=at_us, observed_at_us=at_us, answer=answer, attempt=attempt, epoch="0.1"
    )


def row_if(happens: If, step: EffectStep, situation: Situation) -> Row:
    match happens:
        case If.LATE_FOUND:
            return conclude(
                step, situation, told(step, Source.LATE if step.attempts else Source.PUSH, AnswerKind.FOUND, situation)
            ).row
        case If.LATE_REFUSED:
            return conclude(step, situation, told(step, Source.LATE, AnswerKind.REFUSED, situation)).row
        case If.PROBE_ABSENT:
            return conclude(step, situation, told(step, Source.PROBE, AnswerKind.ABSENT, situation)).row
        case If.RELEASED:
            return conclude(step, replace(situation, held=False)).row
        case If.SCOPE_RESTORED:
            return conclude(step, replace(situation, scope_changed=False)).row
        case If.REDRIVEN:
            order = Override(step=STEP, verb=Verb.REDRIVE, by="ann", at_us=situation.now_us, attempts=len(possibly_sent(step)) + 1)
            return conclude(replace(step, overrides=(*step.overrides, order)), situation).row
        case _:
            return conclude(step, replace(situation, wanted=False)).row


@pytest.mark.parametrize("reason", REASONS)
def test_what_a_page_says_would_change_it_leads_where_it_says(reason: Parked) -> None:
    step, situation = parked(reason)
    assert conclude(step, situation).row is row_of(reason)
    for change in page_of(reason).changes:
        assert change.row in ROW_BY_NAME
        if change.if_ not in {If.LAPSED, If.COUNTS}:
            assert (change.if_, row_if(change.if_, step, situation).name) == (change.if_, change.row)


@pytest.mark.parametrize("reason", REASONS)
def test_a_page_says_if_lapsing_leads_elsewhere(reason: Parked) -> None:
    """Over all facts that lead here: to which other rows they would lead if nobody wanted the effect any more."""
    wanted = [replace(each, wanted=False) for each in parked_facts()[reason] if each.wanted]
    leads = {judge(each).name for each in wanted if each.valid} - {row_of(reason).name}
    said = {change.row for change in page_of(reason).changes if change.if_ is If.LAPSED}
    assert said <= leads
    assert bool(said) is bool(leads) or reason.value in ALONE


ALONE = {"contract-broken", "key-mismatch", "receipt-mismatch", "applied-value-unknown", "name-taken-and-unprovable"}
"""Their facts are the finding alone: nothing else is weighed."""


@pytest.mark.parametrize("reason", REASONS)
def test_a_page_says_if_another_question_would_come_to_count(reason: Parked) -> None:
    """Answered too early to count: when the time has come the same facts lead to one more question."""
    early = [replace(each, ask=Ask.DUE) for each in parked_facts()[reason] if each.ask is Ask.ANSWERED]
    asks = {judge(each).name for each in early if each.valid} & {"ask", "restored-ask"}
    said = {change.row for change in page_of(reason).changes if change.if_ is If.COUNTS}
    assert said == asks - NEVER_AGAIN.get(reason, set())


NEVER_AGAIN: dict[Parked, set[str]] = {
    ParkingReason.RESTORED: {"restored-ask"},  # one answer of this incarnation is all that is asked for
    ParkingReason.ABSENCE_UNPROVEN: {"ask"},  # the time that counts had come, or nothing ever counts
}
"""What the table would do on facts that do not follow from these by time alone."""


@pytest.mark.parametrize("case", [case for case in CASES if ROWS[case.row - 1].parking], ids=lambda case: ROWS[case.row - 1].name)
def test_no_time_that_passes_ends_a_doubt_in_another_way(case) -> None:
    """At every named time of the step and far behind them all it is still for a person, or is asked once more where its page says so."""
    step, situation = case.story().step, situate(case.now, case.contract, **case.situation)
    timing = conclude(step, situation).timing
    named = [getattr(timing, item.name) for item in fields(timing) if item.name.endswith("_us")]
    for at_us in {at + by for at in named if at is not None for by in (-1, 0, 1)} | {1000 * 24 * H}:
        if at_us > case.now:
            row, page = conclude(step, replace(situation, now_us=at_us)).row, page_of(row_of_case(case))
            asks = row.action is Action.ASK and If.COUNTS in {change.if_ for change in page.changes}
            assert row.parking is not None or asks


def row_of_case(case) -> ParkingReason:
    reason = ROWS[case.row - 1].parking
    assert reason is not None
    return reason


# -- avoiding ----------------------------------------------------------------------------------------------------------

KNOWN = (
    {item.name.removesuffix("_us") for item in fields(Contract)}
    | {f"lookup.{item.name.removesuffix('_us')}" for item in fields(Lookup)}
    | {f"Budget.{item.name}" for item in fields(Budget)}
    | {"probe", "close", "practice"}
)


@pytest.mark.parametrize("reason", REASONS)
def test_what_a_page_advises_to_state_exists(reason: Parked) -> None:
    assert [one.with_ for one in page_of(reason).avoid if one.with_ not in KNOWN] == []


# -- one closed vocabulary ---------------------------------------------------------------------------------------------


def test_an_error_of_doubt_takes_a_reason_to_park_and_no_other_word() -> None:
    about = {"run_id": "r", "step": STEP, "effect": "reserve", "key": "k"}
    error = EffectInDoubt(reason="opaque", **about)
    assert error.reason is ParkingReason.OPAQUE
    assert pickle.loads(pickle.dumps(error)).reason is ParkingReason.OPAQUE
    assert "(opaque)" in str(error)
    with pytest.raises(ValueError, match="tired"):
        EffectInDoubt(reason="tired", **about)


def test_a_recorded_verdict_names_its_reason_to_park_only_if_it_parks() -> None:
    verdict = Verdict(step=STEP, row="opaque", action="park", reason="opaque", at_us=S)
    assert parking(verdict.action, verdict.reason) is ParkingReason.OPAQUE
    assert parking("wait", "opaque") is None
    assert parking("park", "a reason of a later version") is None


def test_an_unknown_reason_is_refused_with_those_that_there_are() -> None:
    assert reason_of("held") is ParkingReason.HELD
    assert reason_of("quarantined") is HoldReason.QUARANTINED
    with pytest.raises(InvalidName, match="key-expired"):
        reason_of("tired")


def test_orders_are_told_in_one_order() -> None:
    assert list(Orders.model_fields) == ["probe", "redrive", "resolve", "close", "release"]


def test_what_is_noted_outside_the_chain_counts_too() -> None:
    """A page's "late" is what a worker without the run, or a webhook, has left beside the journal."""
    step, situation = parked(ParkingReason.OPAQUE)
    noted = Noted(None, told(step, Source.LATE, AnswerKind.FOUND, situation))
    assert conclude(replace(step, observations=(noted,)), situation).row.name == "receipt-original"
