"""The page of counterexamples names tests that exist, and none of the counterexamples' scenarios is missing from it."""

from __future__ import annotations

import ast
import re

import pytest

from recovery.testing import load
from tests.architecture.source import ROOT

PAGE = ROOT / "docs/explanation/counterexamples.md"
ROWS = [line.split("|")[1:-1] for line in PAGE.read_text(encoding="utf-8").splitlines() if line.startswith("| ")][1:]
NAMED = [re.findall(r"`([^`]+)`", row[-1]) for row in ROWS]


def test_there_are_as_many_as_are_known() -> None:
    assert len(ROWS) == 28
    assert all(len(named) == 1 for named in NAMED)


@pytest.mark.parametrize("named", [names[0] for names in NAMED])
def test_the_test_exists(named: str) -> None:
    path, _, function = named.partition("::")
    if path.endswith(".yaml"):
        assert load(ROOT / path)
        return
    tree = ast.parse((ROOT / path).read_text(encoding="utf-8"))
    assert function in {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}


def test_no_counterexample_is_left_out() -> None:
    told = {names[0] for names in NAMED}
    for path in sorted((ROOT / "scenarios").glob("c[0-9]*.yaml")):
        assert f"scenarios/{path.name}" in told
        assert "Counterexample" in load(path)[0].story
