"""`recover explore`: what it prints, how it ends, and that what it prints can be replayed."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from docs.generate import DOCUMENTS
from tests.integration.cli_typed import typed

LYING = """\
scenario: LYING
name: forgets its keys
story: The contract promises a day, and the service remembers a key for an hour.
environment:
  stock: {A: 10}
  window: 1h
  effects:
    reserve: {contract: keyed, window: 24h}
workflow:
  - perform: reserve
    with: {sku: A, qty: 2}
    key: k1
  - return: $reserve
timeline:
  - run: A
expect: {status: completed}
"""
HONEST = LYING.replace("window: 1h\n", "window: 24h\n")


@pytest.fixture
def honest(tmp_path: Path) -> Path:
    path = tmp_path / "honest.yaml"
    path.write_text(HONEST)
    return path


def test_nothing_is_violated(honest: Path) -> None:
    ended = typed("explore", honest, "--bound", "1", "--recoverers", "1", "--jobs", "1")
    assert (ended.code, ended.err) == (0, "")
    assert "no promise is broken" in ended.out
    assert "20 on sqlite" in ended.out


def test_the_document_is_one_line(honest: Path) -> None:
    ended = typed("explore", honest, "--bound", "0", "--jobs", "1", "--json")
    document = json.loads(ended.out.splitlines()[-1])
    assert set(document) == {"schema_version", *DOCUMENTS["recover explore"]}
    assert (document["violations"], document["faults"], document["complete"]) == ([], 0, True)


def test_a_violation_is_a_scenario_that_replay_plays(tmp_path: Path) -> None:
    (tmp_path / "lying.yaml").write_text(LYING)
    out = tmp_path / "found.yaml"
    ended = typed("explore", tmp_path / "lying.yaml", "--recoverers", "1", "--jobs", "1", "--out", out)
    assert ended.code == 1
    assert "I1 is broken" in ended.out
    again = typed("replay", out, "--store", "memory")
    assert again.code == 1
    assert "I1: k1 was carried out 2 times" in again.out


def test_two_processes_see_what_one_sees(honest: Path) -> None:
    one, two = (
        json.loads(typed("explore", honest, "--bound", "1", "--recoverers", "1", "--jobs", jobs, "--json").out) for jobs in (1, 2)
    )
    assert [one[name] for name in ("states", "end_states", "complete")] == [
        two[name] for name in ("states", "end_states", "complete")
    ]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["nowhere:flow"], "nowhere:flow cannot be imported"),
        (["tests.explorer.flows:gone"], "cannot be imported"),
        (["tests.explorer.flows:reserve"], "is no Exploration and no workflow (Effect)"),
        (["neither"], "neither a scenario file nor module:name"),
        (["missing.yaml"], "is not a file"),
        (["tests"], "is not a file"),
        (["tests.explorer.flows:exploration", "--bound", "-1"], "--bound"),
        (["tests.explorer.flows:exploration", "--store", "mysql://x"], "is no store for this"),
    ],
)
def test_what_cannot_be_explored_is_one_sentence(arguments: list[str], said: str) -> None:
    ended = typed("explore", *arguments)
    assert ended.code == 2
    assert said in " ".join(ended.err.split())


@pytest.mark.parametrize("name", ["tests.explorer.flows:async_exploration", "tests.explorer.flows:arepair"])
def test_an_exploration_is_found_by_its_name_and_by_its_workflows(name: str) -> None:
    ended = typed("explore", name, "--bound", "0", "--jobs", "1", "--json")
    assert json.loads(ended.out)["violations"] == []
