"""Turns of a benchmark: when what they wrote is deleted. No figure is judged."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.benchmarks.rounds import Contender, interleaved


@pytest.mark.parametrize(
    ("repeats", "seen"), [(1, [0, 0, 0, 0]), (3, [0, 0, 0, 3, 3, 3, 6, 6, 6, 9, 9, 9])], ids=["large", "small"]
)
def test_small_turns_are_deleted_when_all_were_taken_and_large_ones_at_once(tmp_path: Path, repeats: int, seen: list[int]) -> None:
    """A file system may make whoever comes next pay for deletions."""
    written: list[Path] = []
    there: list[int] = []

    def ready(place: Path) -> Callable[[], Path]:
        there.append(sum(path.exists() for path in written))

        def write() -> Path:
            written.append(place / "file")
            written[-1].write_bytes(b"data")
            return written[-1]

        return write

    interleaved([Contender("one", ready), Contender("other", ready)], tmp_path, rounds=1, seconds=60, repeats=repeats)
    assert there == seen
    assert list(tmp_path.iterdir()) == []
