"""Unsaid: what has been said in the branches of a run and is not durable yet.

Owns the order in which that becomes durable, and with what. Knows nothing of stores. Invariants: what was said in a branch becomes durable in its own
order, behind what was said where the branch was begun from; a branch that has nothing left to say costs nothing at the next append.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from recovery.core.entries import Decision
from recovery.core.ids import branch_of
from recovery.core.steps import lies_in, upwards


class Unsaid(dict[str, list[Decision]]):
    """Entries that become durable with the next ones that build on them, by branch."""

    def say(self, entry: Decision) -> None:
        """Durable with the next entries that build on its branch."""
        self.setdefault(branch_of(entry.step), []).append(entry)

    def before(self, branch: str) -> list[Decision]:
        """What becomes durable with the next entries of a branch: it was begun from some of it, and may build on the rest."""
        paths = list(upwards(branch))[::-1] + [path for path in self if path != branch and lies_in(path, branch)]
        return [entry for path in paths for entry in self.get(path, [])]

    def said(self, entry: Decision) -> None:
        """The first entry of its branch has become durable."""
        left = self[branch := branch_of(entry.step)]
        del left[0]
        if not left:
            del self[branch]

    def of(self, step: str) -> bool:
        """Whether a step waits here to become durable."""
        return any(entry.step == step for entry in self.get(branch_of(step), []))


def not_after(unsaid: Iterable[Decision], at_us: int) -> list[Decision]:
    """What was said before something else is not stamped behind it, however late it becomes durable."""
    return [replace(said, at_us=min(said.at_us, at_us)) for said in unsaid]
