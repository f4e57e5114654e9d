"""The table: judged on every valid combination of facts against an independent reading of the same rules."""

from __future__ import annotations

import json
from collections import Counter
from functools import cache
from itertools import product
from pathlib import Path

import pytest

from recovery.core.errors import InvariantViolated
from recovery.core.facts import SELF_EVIDENT, Absence, Ask, Close, Facts, Finding, Gate, Resend, all_facts
from recovery.core.rows import Action, Row
from recovery.core.verdicts import ROW_BY_NAME, ROWS, first_match, judge
from tests.unit.core.making import swapped


@cache
def every() -> tuple[Facts, ...]:
    """Made by the process that needs it, not by each that collects this module."""
    return tuple(all_facts())


@cache
def judged() -> dict[Facts, Row]:
    return {facts: judge(facts) for facts in every()}


SPEAKS_FOR_ITSELF = {
    "diverged": 1, "kept": 2, "contradicted": 3, "duplicate": 4, "contract_broken": 5, "key_mismatch": 6, "receipt_mismatch": 7,
    "receipt_original": 8, "receipt_stable": 9, "value_unknown": 10, "gone": 11, "swallowed": 12, "mixed": 13,
    "rejected_remembered": 14, "never_executed": 16, "foreign_final": 17, "foreign_early": 18, "foreign_doubtful": 19,
}  # fmt: skip


def oracle(facts: Facts) -> int:
    """The row's number, as a person would reason it out: what do we know, may we act, what could we still learn."""
    finding = facts.finding.value
    if finding in SPEAKS_FOR_ITSELF:
        return SPEAKS_FOR_ITSELF[finding]
    if finding == "rejected_after_quiet" and not facts.restored:
        return 15
    if not facts.restored and not facts.exposed and not facts.wanted:
        return 20
    if finding == "operator":
        return 21
    stop = {"held": 22, "scope_changed": 23, "backing_off": 24, "unanswered": 25}.get(facts.gate.value)
    if stop is not None:
        return stop
    if facts.restored:
        return 26 if facts.ask.value == "due" else 27
    if not facts.exposed:
        return 28 if facts.attempts_left else 39
    if finding == "rejected_early":
        return 29
    return oracle_wanted(facts) if facts.wanted else oracle_unwanted(facts)


def oracle_wanted(facts: Facts) -> int:
    """Something may be under way, and we want it done."""
    may_resend = facts.resend.value == "licensed"
    key_burnt = facts.resend.value in {"cached_failure", "expired", "closed"}
    if may_resend and facts.attempts_left:
        return 30
    absence = facts.absence.value
    starved = not facts.attempts_left and (may_resend or (absence in {"enforced", "trusted"} and not key_burnt))
    if absence == "enforced":
        if facts.attempts_left and not key_burnt:
            return 32
        return oracle_stuck(facts, starved)
    if facts.ask.value == "due":
        return 34
    if facts.close.value == "available" and absence != "maturing":
        return 35
    if absence == "trusted" and facts.attempts_left and not key_burnt:
        return 36
    return oracle_patience(facts, starved)


def oracle_unwanted(facts: Facts) -> int:
    """Something may be under way, and nobody wants it: the aim is to know, not to do."""
    if facts.close.value == "available":
        return 31
    if facts.absence.value == "enforced":
        return 33
    if facts.ask.value == "due":
        return 34
    if facts.absence.value == "trusted":
        return 37
    return oracle_patience(facts, starved=False)


def oracle_patience(facts: Facts, starved: bool) -> int:
    if facts.absence.value in {"pending", "maturing"} and facts.ask.value == "answered":
        return 38
    return oracle_stuck(facts, starved)


def oracle_stuck(facts: Facts, starved: bool) -> int:
    if starved or facts.ask.value == "spent" or facts.close.value == "spent":
        return 39
    if facts.absence.value != "none":
        return 40
    told = {"cached_failure": 41, "expired": 42, "late": 42, "fail_open": 43, "opaque": 44}
    return told.get(facts.resend.value, 46 if facts.wanted else 45)


def test_judge_agrees_with_the_oracle_on_every_combination() -> None:
    wrong = [(facts, judged()[facts].number, oracle(facts)) for facts in every() if judged()[facts].number != oracle(facts)]
    assert wrong[:3] == []


def test_the_product_of_facts_is_small_and_whole() -> None:
    """Exactly the valid combinations, each once; compared with a filter over the raw product."""
    assert len(every()) == len(set(every())) < 200_000
    raw = (
        Facts(finding=finding, gate=gate, restored=restored, exposed=exposed, wanted=wanted, resend=resend,
              attempts_left=left, ask=ask, close=close, absence=absence)
        for finding in (Finding.REJECTED_AFTER_QUIET, Finding.OPEN)
        for gate, restored, exposed, wanted, resend, left, ask, close, absence in product(
            Gate, (False, True), (False, True), (False, True), Resend, (False, True), Ask, Close, Absence)
    )  # fmt: skip
    known = {facts for facts in every() if facts.finding in {Finding.REJECTED_AFTER_QUIET, Finding.OPEN}}
    assert {facts for facts in raw if facts.valid} == known


def test_every_row_is_matched_by_some_combination() -> None:
    reached = Counter(judged()[facts].number for facts in every())
    assert sorted(reached) == list(range(1, 47))


def test_every_finding_that_speaks_for_itself_decides_alone() -> None:
    for finding in SELF_EVIDENT:
        assert [facts for facts in every() if facts.finding is finding] == [Facts(finding=finding)]


def test_rows_are_numbered_in_order_and_named_once() -> None:
    assert [row.number for row in ROWS] == list(range(1, 47))
    assert len(ROW_BY_NAME) == len({row.reason for row in ROWS}) == 46


def test_names_and_reasons_of_rows_never_change() -> None:
    """Journals hold them: a released name that is missing here could no longer be read."""
    frozen = json.loads((Path(__file__).parent / "rows.json").read_text(encoding="utf-8"))
    assert {row.name: [row.number, row.action.value, row.reason.value] for row in ROWS} == frozen


def test_a_table_that_falls_through_is_our_bug() -> None:
    with pytest.raises(InvariantViolated, match="no verdict"):
        first_match(Facts(finding=Finding.OPEN, exposed=True), ROWS[:-1])


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_every_row_explains_itself(row) -> None:
    assert row.paragraph.endswith(".")
    assert len(row.paragraph) > 60
    assert row.condition
    assert set(row.assumes) <= {"A1", "A2", "A3", "A4", "A5", "A6"}


@pytest.mark.parametrize("first", [number for number in range(19, 46) if number not in {22, 23, 24}])
def test_order_matters_or_guards_are_disjoint(first: int) -> None:
    """Exchanging neighbours changes some verdict exactly where both guards can hold; elsewhere the order is only for readers."""
    changed = [facts for facts in every() if first_match(facts, swapped(ROWS, first)) is not judged()[facts]]
    both = [facts for facts in every() if judged()[facts].number == first and ROWS[first].matches(facts)]
    assert changed == both
    assert bool(changed) == (first in ORDERED)


ORDERED = {20, 21, 25, 26, 27, 29, 34, 35, 38, 39, 40, 44, 45}
"""Rows that overlap with the next one."""


def acts(facts: Facts) -> bool:
    return judged()[facts].action in {Action.SEND, Action.RESEND, Action.CLOSE, Action.ASK}


@pytest.mark.parametrize("gate", [gate for gate in Gate if gate is not Gate.CLEAR])
def test_no_gate_lets_anything_out(gate: Gate) -> None:
    assert [facts for facts in every() if facts.gate is gate and acts(facts)] == []


def test_nothing_unwanted_is_ever_sent() -> None:
    sends = {Action.SEND, Action.RESEND}
    assert [facts for facts in every() if not facts.wanted and judged()[facts].action in sends] == []


def test_a_restored_step_sends_and_closes_nothing() -> None:
    acting = {Action.SEND, Action.RESEND, Action.CLOSE}
    assert [facts for facts in every() if facts.restored and judged()[facts].action in acting] == []


def test_a_keyless_effect_is_sent_again_only_on_a_final_absence() -> None:
    keyless = [facts for facts in every() if facts.exposed and facts.resend in {Resend.KEYLESS, Resend.OPAQUE}]
    sent = {facts.absence for facts in keyless if judged()[facts].action in {Action.SEND, Action.RESEND}}
    assert sent == {Absence.ENFORCED, Absence.TRUSTED}


def test_an_unusable_key_is_never_sent_again_after_it_may_have_acted() -> None:
    burnt = {Resend.CLOSED, Resend.CACHED_FAILURE, Resend.EXPIRED}
    sends = {Action.SEND, Action.RESEND}
    assert [facts for facts in every() if facts.exposed and facts.resend in burnt and judged()[facts].action in sends] == []


def test_spent_budgets_stop_what_they_bound() -> None:
    sends = {Action.SEND, Action.RESEND}
    assert [facts for facts in every() if not facts.attempts_left and judged()[facts].action in sends] == []
    assert [facts for facts in every() if facts.ask is Ask.SPENT and judged()[facts].action is Action.ASK] == []
    assert [facts for facts in every() if facts.close is Close.SPENT and judged()[facts].action is Action.CLOSE] == []
