"""A workflow that nobody has said anything about: explored with every effect acted by its contract, and no service reached."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from recovery.testing import NotDeterministic, explore
from recovery.testing.casting import NotCast
from recovery.testing.reaching import effects_of
from tests.explorer import bare
from tests.integration.cli_typed import typed
from tests.scenarios.playing import played, written


@pytest.mark.explore
def test_the_promises_hold_for_effects_that_nobody_scripted() -> None:
    explored = explore(bare.repair, "nut", faults=1, recoverers=1)
    assert [found.problem for found in explored.violations] == []
    assert explored.complete
    assert explored.histories > 50


def test_an_effect_that_nobody_can_ask_and_an_async_one_are_explored_as_well() -> None:
    assert explore(bare.closing, faults=1, recoverers=0)
    assert explore(bare.arepair, "nut", faults=1, recoverers=0)


@pytest.mark.parametrize(
    ("workflow", "effects"),
    [
        (bare.repair, {"stocked", "reserve", "release", "ship"}),
        (bare.agent, {"reserve", "release", "ticket"}),
        (bare.arepair, {"areserve"}),
        (bare.conjuring, set()),
    ],
)
def test_effects_are_found_where_code_names_them(workflow, effects: set[str]) -> None:
    assert set(effects_of(workflow)) == effects


def test_a_key_for_each_process_is_found_and_its_history_can_be_replayed() -> None:
    """A key with the name of a host or a process in it is another one after a crash."""
    [found] = explore(bare.hosted, "nut", faults=1, recoverers=1).violations
    assert found.promise == "diverged"
    assert "recorded key nut-scenario-A, attempted key nut-scenario-B" in found.problem
    assert found.moves <= 4
    assert "'tests.explorer.bare:hosted'" in found.scenario
    assert any("exit is diverged" in problem for problem in played(written(found.scenario)).problems)


def test_what_is_drawn_at_random_beside_the_journal_is_said_to_be_so() -> None:
    with pytest.raises(NotDeterministic, match="draws nothing at random and keeps nothing"):
        explore(bare.minting, faults=1, recoverers=1)


def test_what_is_remembered_beside_the_journal_is_said_to_be_so() -> None:
    """The first history has it remembered, so that the second one's worker performs nothing."""
    bare.kept.clear()
    with pytest.raises(NotDeterministic, match="keeps nothing from one run to the next"):
        explore(bare.remembering, "nut", faults=1, recoverers=1)


def test_what_has_no_example_is_said_before_anything_is_played() -> None:
    with pytest.raises(NotCast, match=r"guess returns .*, of which no example can be made.*effects=\{\.\.\.\}"):
        explore(bare.guessing)


def test_an_effect_that_the_code_does_not_name_reaches_no_service() -> None:
    [found] = explore(bare.conjuring, faults=0).violations
    assert "effect conjured has no script" in found.problem


@pytest.mark.parametrize("given", ['{"sku": "nut", "units": 1}', '{"sku": "nut"}'])
def test_the_command_takes_a_workflow_and_its_input(given: str) -> None:
    ended = typed(
        "explore", "tests.explorer.bare:repair", "--input", given, "--bound", "0", "--recoverers", "0", "--jobs", "1", "--json"
    )
    assert (ended.code, ended.err) == (0, "")
    assert json.loads(ended.out)["violations"] == []


def test_the_command_writes_what_it_found(tmp_path: Path) -> None:
    out = tmp_path / "found.yaml"
    asked = ("tests.explorer.bare:hosted", "--input", '"nut"', "--bound", "1", "--recoverers", "1", "--jobs", "1", "--out", out)
    ended = typed("explore", *asked)
    assert ended.code == 1
    assert "diverged is broken" not in ended.out
    assert "nut-scenario-B" in " ".join(ended.out.split())
    assert typed("replay", out, "--store", "memory").code == 1


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["tests.explorer.bare:repair"], 'repair takes sku (str), units (int). Give --input with a JSON object: {"sku": ...}.'),
        (["tests.explorer.bare:repair", "--input", "{"], "--input is not JSON"),
        (["tests.explorer.bare:repair", "--input", "7"], "not an object with the parameters of repair: sku, units"),
        (["tests.explorer.bare:repair", "--input", '{"sku": 7}'], "workflow repair: the value at sku"),
        (["tests.explorer.bare:closing", "--input", "7"], "it takes none"),
        (["tests.explorer.bare:guessing"], "of which no example can be made"),
        (["tests.explorer.flows:exploration", "--input", "7"], "an Exploration has its input already"),
        (["scenarios/canonical.yaml", "--input", "7"], "a scenario says its input itself"),
    ],
)
def test_what_cannot_be_explored_is_one_sentence(arguments: list[str], said: str) -> None:
    ended = typed("explore", *arguments)
    assert ended.code == 2
    assert said in " ".join(ended.err.split())
