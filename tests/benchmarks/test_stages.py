"""`make profile`: its stages name functions that exist, and add up."""

from __future__ import annotations

from pathlib import Path

import pytest

import recovery
from recovery import Engine
from tests.benchmarks.stages import _FUNCTIONS, _MODULES, COMMIT, SAYS, STAGES, committing, in_words, steps, taken

HERE = Path(recovery.__file__).parent


def test_every_function_that_has_a_stage_of_its_own_exists() -> None:
    assert [module for module in _MODULES if not (HERE / module).exists()] == []
    assert [place for place in _FUNCTIONS if f"def {place[1]}(" not in (HERE / place[0]).read_text()] == []
    assert set(SAYS) == set(STAGES)


@pytest.mark.parametrize("is_async", [False, True])
def test_each_stage_has_its_part(is_async: bool) -> None:
    column = taken("memory://", 20, {}, is_async=is_async)
    assert all(microseconds >= 0 for microseconds in column.values())
    assert column[COMMIT] > 0
    assert "| **together** |" in in_words({"memory": column})


def test_a_commit_is_measured_bare() -> None:
    with committing() as took, Engine("memory://", workflows=[steps]) as engine:
        engine.run("run", steps, 3)
    assert len(took) == 5  # the opening, each intent, and the end
    assert all(seconds > 0 for seconds in took)
