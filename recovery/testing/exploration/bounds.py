"""Bounds: how far an exploration goes, and what a choice costs of that.

Owns the two counts that keep a search finite. Knows no world. Invariant: what was seen with more left covers what is seen with less.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Bounds:
    """What one history may contain, or what it has left of that.

    faults: kills, processes that stand still while another one goes on, lost acknowledgements, refused writes, lost replies, duplicated and
    delayed deliveries, steps of a clock, time that passes for nothing, and stock that changes. recoverers: processes that take the run up
    after the first one. Raises ValueError for a count below zero.
    """

    faults: int = 2
    recoverers: int = 2

    def __post_init__(self) -> None:
        if self.faults < 0 or self.recoverers < 0:
            raise ValueError("a bound is zero or more")

    def pays(self, cost: Bounds) -> bool:
        return self.faults >= cost.faults and self.recoverers >= cost.recoverers

    def less(self, cost: Bounds) -> Bounds:
        """What is left behind a choice that can be paid."""
        return Bounds(self.faults - cost.faults, self.recoverers - cost.recoverers)

    def covers(self, other: Bounds) -> bool:
        """Whether everything that can be done with `other` left can be done with this."""
        return self.pays(other)


FREE = Bounds(0, 0)
