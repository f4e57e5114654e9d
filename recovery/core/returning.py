"""Returning: in which order the recorded steps of a run return to its branches.

Owns that order, as a history tells it. Knows nothing of who waits for it, which is a gate's. Invariant: it is the order in which the steps came to their outcomes.
"""

from __future__ import annotations

from recovery.core.history import History
from recovery.core.ids import branch_of
from recovery.core.steps import upwards


def recorded_orders(history: History) -> dict[str, list[str]]:
    """The order in which the steps below each path came to their outcomes, parts of steps apart."""
    found: dict[str, list[str]] = {}
    for done in history.completed:
        if not history.lies_in_a_step(done):
            for path in upwards(branch_of(done)):
                found.setdefault(path, []).append(done)
    return found
