"""The matrix: contract x crash point x fault, against an oracle that imports nothing of the package.

A run of the suite plays a seeded sixth of the cells; `make matrix` plays all, prints the table and compares the page that shows it
(RECOVERY_MATRIX=write writes the page).
"""

from __future__ import annotations

import ast
import os
from random import Random
from typing import Any

import pytest

from recovery.core.contracts import Kind
from tests.architecture.source import ROOT
from tests.scenarios import matrix
from tests.scenarios.matrix import CELLS, CONTRACTS, FAULTS, Cell, play, table
from tests.scenarios.oracle import APPLIED, Nature, Truth, expected, wrong

PAGE = ROOT / "docs/explanation/matrix.md"
MODE = os.environ.get("RECOVERY_MATRIX", "")
SAMPLE = Random(3).sample(CELLS, len(CELLS) // 6)

HEAD = """<!-- Made by `RECOVERY_MATRIX=write make matrix`; run that instead of editing. -->

# What comes of it

A worker dies at each of {points} places of one effect, and the first recovery meets a fault; two more recoveries follow, 25 minutes apart. This is
what the step comes to in the end, for {contracts} contracts over an environment that keeps to them. In brackets: where it is another verdict than for
most places. No cell carries the effect out twice, and none calls it applied, rejected or not executed without proof: an oracle that knows
only what the environment really did says the same verdict for each of the {cells} cells.

"In doubt" means that nothing more can be proven and a person is asked. "Settling trusted" sends again after the settle window, because its contract
says so; `keyed, window of 10 min` is shorter than the settle window, so that its first attempt is the only one.

"""


def problems(cell: Cell, contract: str) -> list[str]:
    nature = CONTRACTS[contract][2]
    right = expected(nature, cell.truth)
    other = [] if cell.verdict == right else [f"it is {cell.verdict}, and the oracle says {right}"]
    return [*other, *wrong(cell.verdict, nature, cell.truth), *cell.problems]


@pytest.mark.parametrize(("number", "at"), list(enumerate(SAMPLE)), ids=[", ".join(at) for at in SAMPLE])
def test_a_sampled_cell(number: int, at: tuple[str, str, str]) -> None:
    cell = play(*at, ("sync", "async")[number % 2])
    assert problems(cell, at[0]) == [], cell.transcript
    assert cell.verdict in shown(at[0], at[2])


def shown(contract: str, fault: str) -> str:
    """What the page says of a contract under a fault."""
    [row] = [line for line in PAGE.read_text(encoding="utf-8").splitlines() if line.startswith(f"| {contract} |")]
    return row.strip("|").split("|")[1 + list(FAULTS).index(fault)]


def test_every_cell() -> None:
    """All of them under RECOVERY_MATRIX, else those of one fault that no sample should miss."""
    cells = CELLS if MODE else [at for at in CELLS if at[1:] == ("done", "expired")]
    played = {at: play(*at, ("sync", "async")[number % 2]) for number, at in enumerate(cells)}
    assert {at: found for at, cell in played.items() if (found := problems(cell, at[0]))} == {}
    if not MODE:
        return
    told = table({at: cell.verdict for at, cell in played.items()})
    print(told)  # what `make matrix` is for
    head = HEAD.format(points=len(matrix.POINTS), contracts=len(CONTRACTS), cells=len(CELLS))
    if MODE == "write":
        PAGE.write_text(f"{head}{told}\n", encoding="utf-8")
    assert PAGE.read_text(encoding="utf-8") == f"{head}{told}\n"


def test_every_class_is_there() -> None:
    assert {Kind(stated["contract"]) for stated, _, _ in CONTRACTS.values()} == set(Kind)


@pytest.mark.parametrize(
    ("contract", "lie", "at"),
    [
        ("keyed", {"window": "1s"}, ("done", "environment down")),  # the environment forgets its keys at once
        ("co-transactional", {"window": "1s"}, ("done", "environment down")),
        ("probeable, settling trusted", {"retention": "1s"}, ("done", "environment down")),  # and its receipts
        ("first-sent fence", {"retention": "1s"}, ("done", "expired")),
    ],
)
def test_an_environment_that_lies_is_caught(monkeypatch: pytest.MonkeyPatch, contract: str, lie: dict[str, Any], at: Any) -> None:
    stated, knobs, nature = CONTRACTS[contract]
    monkeypatch.setitem(CONTRACTS, contract, (stated, {**knobs, **lie}, nature))
    cell = play(contract, *at, "sync")
    assert wrong(cell.verdict, nature, cell.truth), cell.transcript


def test_the_oracle_tells_wrong_outcomes() -> None:
    truth = Truth(begun=True, recorded=False, fault="expired", executed=1)
    assert wrong("rejected", Nature(), truth)
    assert wrong("not executed", Nature(), truth)
    assert wrong(APPLIED, Nature(), Truth(begun=True, recorded=False, fault="", executed=0))
    assert wrong("in doubt", Nature(), Truth(begun=True, recorded=False, fault="", executed=2))


def test_the_oracle_imports_nothing_of_the_package() -> None:
    tree = ast.parse((ROOT / "tests/scenarios/oracle.py").read_text(encoding="utf-8"))
    imported = {node.module for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    assert imported | {alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names} == {
        "__future__",
        "dataclasses",
    }
