"""Bounds: how far an exploration goes, and what a choice costs of that.

Owns the three counts that keep a search finite. Knows no world. Invariant: what was seen with more left covers what is seen with less.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """What one history may contain, or what it has left of that.

    faults: kills, lost acknowledgements, refused writes, lost replies, duplicated and delayed deliveries, steps of a clock, time that
    passes for nothing, and stock that changes. recoverers: processes that take the run up after the first one. switches: times that a process
    stands still at some place while another one goes on; to go on where nobody else can costs nothing.
    """

    faults: int = 2
    recoverers: int = 2
    switches: int = 1

    def __post_init__(self) -> None:
        if min(self.faults, self.recoverers, self.switches) < 0:
            raise ValueError("a bound is zero or more")

    def less(self, cost: Bounds) -> Bounds | None:
        """What is left behind a choice; None: it cannot be paid."""
        faults, recoverers, switches = self.faults - cost.faults, self.recoverers - cost.recoverers, self.switches - cost.switches
        return None if min(faults, recoverers, switches) < 0 else Bounds(faults=faults, recoverers=recoverers, switches=switches)

    def covers(self, other: Bounds) -> bool:
        """Whether everything that can be done with `other` left can be done with this."""
        return self.faults >= other.faults and self.recoverers >= other.recoverers and self.switches >= other.switches


FREE = Bounds(faults=0, recoverers=0, switches=0)
