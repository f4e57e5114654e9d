"""Branches in threads read the clock at the same moments: what is kept of that is no branch's failure."""

from __future__ import annotations

from collections.abc import Iterator

from recovery.drivers.loop import keep_last


class Raced(dict[int, int]):
    """Another thread drops the first reading as soon as this one has looked which it is."""

    def __iter__(self) -> Iterator[int]:
        there = list(self.keys())
        del self[there[0]]
        return iter(there)


def test_a_reading_that_another_branch_has_dropped_fails_no_run() -> None:
    readings = Raced({at_us: at_us for at_us in range(10)})
    keep_last(readings, 8)
    assert list(readings.keys()) == list(range(2, 10))
