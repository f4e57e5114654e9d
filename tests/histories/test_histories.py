"""Every history is told as its file says, in both colours; `--rewrite` writes what is told now."""

from __future__ import annotations

import difflib
from pathlib import Path

import pytest

from recovery.core.machine import Machine
from recovery.testing.replay import COLOURS, has_colour
from tests.histories.reading import END, LINE, files, read

REWRITE = "If that is what should happen, let the files say so, and read their diff: pytest tests/histories --rewrite"


@pytest.mark.parametrize("path", files(), ids=lambda path: path.stem)
def test_a_history_is_told_as_before(path: Path, request: pytest.FixtureRequest) -> None:
    there = path.read_text(encoding="utf-8")
    history = read(there)
    for colour in COLOURS:
        if not has_colour(history.scenario, colour):
            continue
        told = history.told(colour)
        if request.config.getoption("--rewrite"):
            path.write_text(told, encoding="utf-8")
            there = told
        if told != there:
            pytest.fail(difference(there, told, path.name, colour), pytrace=False)


@pytest.mark.parametrize("path", files(), ids=lambda path: path.stem)
def test_a_history_is_told_alike_where_every_step_is_judged_by_the_table(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without what was said of the first step of each kind."""
    there = path.read_text(encoding="utf-8")
    history = read(there)
    colour = next(colour for colour in COLOURS if has_colour(history.scenario, colour))
    monkeypatch.setattr(Machine, "straight", False)
    assert history.told(colour) == there


def difference(there: str, told: str, name: str, colour: str) -> str:
    lines = difflib.unified_diff(there.splitlines(), told.splitlines(), name, f"{name}, as played now ({colour})", lineterm="")
    return "\n".join([*lines, "", REWRITE])


OWN = """\
name: own
story: A worker reserves two units and dies before it hears.
environment:
  stock: {FILTER-A: 10}
  effects: {reserve: {contract: keyed, window: 24h}}
workflow:
  - perform: reserve
    with: {sku: FILTER-A, qty: 2}
    key: reservation-1
----
> run: A, kill: {at: environment.committed}
> recover: B
"""


def test_a_history_that_is_told_otherwise_shows_where() -> None:
    told = read(OWN).told()
    assert told.startswith(OWN.partition("----")[0] + LINE + "\n> run: A")
    assert read(told).told() == told, "what is output is not read as input"
    shown = difference(told.replace("R1", "R2"), told, "own.txt", "sync")
    assert "-      +0:00:00  environment  does reservation-1: R2; left {'FILTER-A': 8}" in shown
    assert "+      +0:00:00  environment  does reservation-1: R1; left {'FILTER-A': 8}" in shown
    assert shown.endswith("pytest tests/histories --rewrite")


def test_a_history_that_breaks_a_promise_says_so_and_ends_there() -> None:
    """The stock is taken twice, since the contract says what is not true."""
    lying = OWN.replace("stock:", "remembers: []\n  stock:")
    told = read(lying).told()
    assert "broken: I1: reservation-1 was carried out 2 times" in told
    assert f"\n{END}\n" not in told


def test_a_move_that_cannot_be_made_is_told() -> None:
    assert "broken: C does not stand still" in read(OWN + "> resume: C\n").told()


def test_a_file_without_moves_is_refused() -> None:
    with pytest.raises(ValueError, match="a line ----"):
        read("name: own\n")


def test_the_histories_end_well() -> None:
    """`--rewrite` would write a broken promise down as willingly as anything else."""
    ended = [
        path.stem for path in files() if f"\n{END}\n" in (text := path.read_text(encoding="utf-8")) and "\nbroken: " not in text
    ]
    assert ended == [path.stem for path in files()]
    assert len(ended) >= 19
