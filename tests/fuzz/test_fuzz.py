"""The first cases of `make fuzz`, and that its judge sees what is wrong."""

from __future__ import annotations

import shutil
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from recovery.checkpoint import reading
from recovery.checkpoint.reading import Directory
from tests.fuzz.spoiling import MEMORY_MAX, outcome, packed, spoilt, whole

CASES = 150


@pytest.mark.parametrize("in_one", [False, True], ids=["directory", "packed"])
def test_spoilt_checkpoints_are_refused_soon_and_in_bounded_memory(tmp_path: Path, in_one: bool) -> None:
    files = whole(tmp_path / "whole")
    found: Counter[str] = Counter()
    for number in range(CASES):
        case = spoilt(files, number)
        told = outcome(case, tmp_path / "case", content=packed(case, number) if in_one else None)
        shutil.rmtree(tmp_path / "case")
        found[f"{told}, case {number}" if told.startswith("WRONG") else told.split()[0]] += 1
    assert [told for told in found if told.startswith("WRONG")] == []
    assert found["CheckpointInvalid"] > CASES / 2
    assert found["LimitExceeded"] > 0


def test_what_was_not_spoilt_is_loaded(tmp_path: Path) -> None:
    files = whole(tmp_path / "whole")
    assert outcome(files, tmp_path / "case") == "loaded"
    assert outcome(files, tmp_path / "packed", content=packed(files)) == "loaded"


def test_a_case_is_its_number(tmp_path: Path) -> None:
    files = whole(tmp_path / "whole")
    assert [spoilt(files, number) for number in range(20)] == [spoilt(files, number) for number in range(20)]


@pytest.mark.parametrize("fault", ["another error", "too much memory"])
def test_the_judge_sees_what_is_wrong(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fault: str) -> None:
    original = Directory.arrays

    def arrays(self: Directory, shapes: Any) -> Any:
        if fault == "another error":
            raise KeyError("x")
        bytearray(2 * MEMORY_MAX)
        return original(self, shapes)

    monkeypatch.setattr(reading.Directory, "arrays", arrays)
    assert outcome(whole(tmp_path / "whole"), tmp_path / "case").startswith("WRONG")
