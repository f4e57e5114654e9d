"""Scopes: which deadline bounds what begins in a branch.

Owns the deadlines that a running workflow has entered and not left. Knows nothing of clocks, entries or steps' contents. Invariants: what begins in
a branch is bounded by the earliest deadline of that branch and of those that it was begun from; a branch that outlives the scope in which it was
begun keeps its bound, so that the bound of a step does not depend on scheduling.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from recovery.core.steps import upwards


@dataclass(frozen=True, slots=True)
class Limit:
    """A deadline that was journaled. `step`: its own; `at_us`: the first moment at which it has passed."""

    step: str
    at_us: int


@dataclass(slots=True)
class Scopes:
    """The deadlines of one execution, by branch."""

    _entered: dict[str, list[Limit]] = field(default_factory=dict)
    _unbounded: set[str] = field(default_factory=set)

    def enter(self, branch: str, bound: Limit) -> None:
        """What begins in `branch` from here on is bounded, until `leave`."""
        self._entered.setdefault(branch, []).append(bound)

    def leave(self, branch: str, bound: Limit) -> None:
        """Entered twice, it is left twice."""
        self._entered[branch].remove(bound)

    def inherit(self, path: str, parent: str) -> None:
        """A branch begins that its parent does not wait for."""
        if (bound := self.bound(parent)) is not None:
            self.enter(path, bound)

    def bound(self, branch: str) -> Limit | None:
        """The earliest deadline that bounds what begins now; of two at one moment, the inner one."""
        if not self._entered:
            return None  # almost always
        return _earliest(bound for path in self._bounding(branch) for bound in reversed(self._entered.get(path, ())))

    def unbind(self, path: str) -> None:
        """What begins below `path` is bounded by no deadline around it."""
        self._unbounded.add(path)

    def _bounding(self, branch: str) -> Iterator[str]:
        for path in upwards(branch):
            yield path
            if path in self._unbounded:
                return


def _earliest(bounds: Iterable[Limit]) -> Limit | None:
    return min(bounds, key=lambda bound: bound.at_us, default=None)
