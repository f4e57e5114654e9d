"""Bell: rings for those in this process who wait until something is due.

Owns who listens to one journal here. Knows no database: `listening` hears what other processes say. Invariant: it rings behind what made the run due, never before, so that
whoever looks then finds it; one ring may stand for many.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from recovery.forks import watch
from recovery.ports import Append, NewRun

Wake = Callable[[], None]


class Bell:
    """Safe for several threads."""

    def __init__(self) -> None:
        self.forked()
        watch(self)

    def forked(self) -> None:
        self._wakes: dict[object, Wake] = {}  # who listens is a thread of the parent's

    def listen(self, wake: Wake) -> Callable[[], None]:
        """Call `wake` at each ring, until what is returned is called."""
        mine = object()
        self._wakes[mine] = wake

        def end() -> None:
            self._wakes.pop(mine, None)

        return end

    def ring(self) -> None:
        for wake in list(self._wakes.values()):
            wake()

    def opened(self, new: NewRun) -> None:
        """A run was stored."""
        if new.let_go:
            self.ring()

    def appended(self, members: Sequence[Append]) -> None:
        """An append was carried out, whatever became of each member."""
        for member in members:
            if member.words:
                self.ring()
                return
