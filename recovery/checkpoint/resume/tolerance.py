"""How far a resumed run may lie from the uninterrupted one: nowhere, or by a bound that has a reason.

Owns contracts of tolerance as data. Must not know who compares. Invariant: what no rule names must be equal in every bit, and a rule is only
about floating-point arrays: counters, cursors, generators, configuration and lifecycle have no tolerance under any contract.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Self

import numpy as np

from recovery.checkpoint.ulp import Array, identical


@dataclass(frozen=True, slots=True)
class Tolerance:
    """A bound for the arrays of one group, or for one array.

    Invariant: it applies to finite values of one type and shape; NaN and infinity are within no bound unless every bit agrees.
    """

    group: str  # `w`, `m`, ..., or the name of an array such as `history`
    relative: float  # largest allowed difference, as a fraction of the largest magnitude in the uninterrupted run's array
    why: str  # what makes the difference, and why it is no larger


@dataclass(frozen=True, slots=True)
class Contract:
    """Which fields must be exact and which may differ, by how much and why."""

    name: str
    holds: str  # under which conditions it is what to expect
    tolerances: tuple[Tolerance, ...] = ()

    def rule(self, field: str) -> Tolerance | None:
        """The tolerance of an array by its name; None: exact."""
        return next((rule for rule in self.tolerances if field == rule.group or field.startswith(f"{rule.group}/")), None)

    def allows(self, field: str, expected: Array, found: Array) -> bool:
        """Whether the second array may stand in for the first."""
        if identical(expected, found):
            return True
        rule = self.rule(field)
        if rule is None or (expected.dtype, expected.shape) != (found.dtype, found.shape) or expected.dtype.kind != "f":
            return False
        if not (np.isfinite(expected).all() and np.isfinite(found).all()):
            return False
        one, other = expected.astype(np.float64), found.astype(np.float64)
        return bool(np.abs(one - other).max() <= rule.relative * np.abs(one).max())

    def to_json(self) -> dict[str, Any]:
        rules = [{"group": each.group, "relative": each.relative, "why": each.why} for each in self.tolerances]
        return {"name": self.name, "holds": self.holds, "tolerances": rules}

    @classmethod
    def from_json(cls, told: Mapping[str, Any]) -> Self:
        """The reverse of `to_json`."""
        return cls(told["name"], told["holds"], tuple(Tolerance(**each) for each in told["tolerances"]))


EXACT: Final = Contract("exact", "one implementation, one runtime fingerprint: the same operations in the same order")
"""Everything in every bit. The reference trainer keeps it, and so does numpy's elementwise arithmetic."""

DETERMINISTIC: Final = Contract(
    "torch-deterministic",
    "torch, the same build, device type, threads and ranks, torch.use_deterministic_algorithms(True): every kernel adds in one order",
)
"""Everything in every bit, too. What it asks for: https://docs.pytorch.org/docs/stable/notes/randomness.html"""

_SUMS: Final = (
    "sums of float32 in another order differ by about the square root of their length in units of 2^-24 of the sum of magnitudes"
)

REORDERED: Final = Contract(
    "torch-reordered",
    "torch on float32 without deterministic algorithms, or with other threads or ranks than before: sums come in another order",
    (
        Tolerance(
            "w",
            2.0**-12,
            f"{_SUMS}; Adam divides by the root of v, and an update moves a weight by about the learning rate at most",
        ),
        Tolerance("m", 2.0**-8, f"{_SUMS}; gradients cancel where a loss is small, and what is left of them has fewer digits"),
        Tolerance("v", 2.0**-8, f"{_SUMS}; squares double the relative difference of a gradient"),
        Tolerance("history", 2.0**-8, f"{_SUMS}; a loss is a sum over a batch of what the weights' differences have moved"),
    ),
)
"""For tens of updates after a resume, not for thousands: differences grow with every update, as those between two runs on one machine do. A
lost generator, cursor or counter has no tolerance here, and lost moments move weights by far more than the bound."""

CONTRACTS: Final = {each.name: each for each in (EXACT, DETERMINISTIC, REORDERED)}
"""By name."""
