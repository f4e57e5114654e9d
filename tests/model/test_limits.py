"""The model check of limits: no order of two workers' calls breaks them, a death or a late takeover included; and faults that it finds."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from recovery.ports import Owner, RunRow
from recovery.storage.memory import MemoryJournal
from recovery.storage.rooms import Room
from tests.model.claims.limited import search

STATES = 3_000


def test_two_workers_keep_the_limits_in_every_order_of_their_calls() -> None:
    came = search(runs=3, ticks=4, states_max=STATES)
    assert came.violation == ""
    assert came.states == STATES
    assert came.full > 100
    assert came.held_up > 100


def _without_the_owner(self: MemoryJournal, seen: RunRow, owner: Owner, *, lease_term_us: int, at_us: int) -> RunRow | None:
    """As it was: a run that was let go since it was seen is claimed all the same."""
    with self._lock:
        there = self._runs[seen.run_id]
        if (there.row.epoch, there.row.lease_counter) != (seen.epoch, seen.lease_counter):
            return None
        return self._claimed(there, owner, lease_term_us, at_us)


def _counts_one(real: Callable[[Room, RunRow], bool]) -> Any:
    def lets_in(self: Room, row: RunRow) -> bool:
        came = real(self, row)
        self.begun = 0  # what has begun is not noted
        return came

    return lets_in


def _slots_leak(real: Any) -> Any:
    def claimed(self: MemoryJournal, there: Any, owner: Owner, lease_term_us: int, at_us: int) -> RunRow:
        row: RunRow = real(self, there, owner, lease_term_us, at_us)
        if row.crashes:  # a second run takes the dead one's room as well
            other = next((each for each in self._runs.values() if each.row.owner is None), None)
            if other is not None:
                other.row = replace(other.row, owner=replace(owner, token=f"{owner.token}-leak"))
        return row

    return claimed


@pytest.mark.parametrize(
    ("where", "name", "fault", "said"),
    [
        (MemoryJournal, "claim", lambda _: _without_the_owner, "2 runs are at work"),
        (Room, "lets_in", _counts_one, "a run may begin later"),
        (MemoryJournal, "_claimed", _slots_leak, "2 runs are at work"),
        (Room, "frees_us", lambda _: None, "nobody is told when"),
    ],
    ids=["a late takeover", "beginnings that are not noted", "a room that is given twice", "no time is told"],
)
def test_a_planted_fault_is_found(monkeypatch: pytest.MonkeyPatch, where: Any, name: str, fault: Any, said: str) -> None:
    monkeypatch.setattr(where, name, fault(getattr(where, name)))
    assert said in search(runs=2 if name == "claim" else 3, ticks=4, states_max=2 * STATES).violation
