"""The judge: it convicts programs that are wrong, and recovery in a few of its cases is not. `make judge` is the whole."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.judge.cases import CASES, OFFERS, played
from tests.judge.page import PAGE, RESULTS, with_tables
from tests.judge.programs import BLIND, FORGETFUL, OURS, Claim, peers
from tests.judge.verdicts import KEPT, Cell, conclude

CASE = {case.name: case for case in CASES}
ONE = [{"id": "R1", "sku": "FILTER-A", "units": 2}]


@pytest.mark.parametrize(
    ("case", "offer", "cell"),
    [
        ("killed after landing, before the reply", "keys", Cell.ONCE),
        ("killed after landing, before the reply", "neither", Cell.IN_DOUBT),
    ],
)
def test_recovery_keeps_its_word_when_its_process_is_killed_in_the_effect(case: str, offer: str, cell: Cell) -> None:
    shown = played(OURS, CASE[case], offer)
    assert (shown.cell, shown.effects) == (cell, 1), shown.why


def test_a_program_that_tries_again_blindly_is_convicted() -> None:
    shown = played(BLIND, CASE["reply lost"], "neither")
    assert (shown.cell, shown.effects, shown.kept) == (Cell.TWICE, 3, False)  # what was lost, its repeat, and the recovery's


def test_a_program_that_makes_up_an_outcome_is_convicted() -> None:
    shown = played(FORGETFUL, CASE["reply lost"], "keys")
    assert (shown.cell, shown.effects, shown.kept) == (Cell.WRONG, 1, False)


def _said(kind: str, *, made: str = "", units: int = 2, asked: int = 2) -> Claim:
    return Claim(kind, asked, made, units)


@pytest.mark.parametrize(
    ("effects", "claims", "cell"),
    [
        (ONE, [_said("outcome", made="R1")], Cell.ONCE),
        (ONE, [_said("killed"), _said("in doubt")], Cell.IN_DOUBT),
        ([], [_said("in doubt")], Cell.IN_DOUBT),
        ([], [_said("later")], Cell.IN_DOUBT),
        (ONE * 2, [_said("outcome", made="R1")], Cell.TWICE),
        (ONE * 2, [_said("in doubt")], Cell.TWICE),
        ([], [_said("outcome", made="R1")], Cell.WRONG),
        (ONE, [_said("outcome", made="R2")], Cell.WRONG),
        (ONE, [_said("outcome", made="R1"), _said("outcome", made="R1", asked=3)], Cell.WRONG),
        (ONE, [_said("outcome", made="R7"), _said("outcome", made="R1")], Cell.WRONG),
        (ONE, [_said("outcome", made="R1"), _said("refused", asked=3)], Cell.REFUSED),
        (ONE, [_said("refused")], Cell.ERROR),
        (ONE, [_said("error")], Cell.ERROR),
        (ONE, [_said("silent")], Cell.ERROR),
        (ONE, [_said("outcome", made="R1"), _said("never ends")], Cell.ENDLESS),
    ],
)
def test_what_happened_and_what_was_said_make_the_verdict(effects: list[dict[str, Any]], claims: list[Claim], cell: Cell) -> None:
    assert conclude(effects, claims).cell is cell


def test_only_a_second_effect_a_wrong_outcome_and_no_end_are_convictions() -> None:
    assert {cell for cell in Cell if KEPT[cell] is False} == {Cell.TWICE, Cell.WRONG, Cell.ENDLESS}


def test_the_pages_tables_are_those_of_its_results() -> None:
    results = json.loads(RESULTS.read_text(encoding="utf-8"))
    page = PAGE.read_text(encoding="utf-8")
    assert with_tables(page, results) == page
    assert {(shown["case"], shown["offer"]) for shown in results["shown"]} == {(case, offer) for case in CASE for offer in OFFERS}


def test_the_page_is_about_the_versions_that_the_command_installs() -> None:
    programs = json.loads(RESULTS.read_text(encoding="utf-8"))["programs"]
    pinned = RESULTS.parents[2].joinpath("tests/judge/peers.txt").read_text(encoding="utf-8").split()
    judged = {f"{peer.distribution}=={programs[peer.name]}" for peer in peers("") if peer.name in programs}
    assert judged <= set(pinned)
    assert len(judged) == len(peers(""))


def test_recovery_breaks_its_word_in_no_cell_of_the_page() -> None:
    results = json.loads(RESULTS.read_text(encoding="utf-8"))
    ours = [shown for shown in results["shown"] if shown["program"] == OURS.name]
    assert len(ours) == len(CASES) * len(OFFERS)
    assert [shown for shown in ours if shown["cell"] not in {"once", "refused", "in doubt", "not offered"}] == []
