"""Gathering: branches that run at the same time, and the order in which a replay lets their steps return.

Owns which branch starts next and whose step may return. Knows nothing of tasks or threads: a step that has to wait is handed a `Waiting`,
which whoever drives it waits for. Invariants: recorded steps return in the order in which they were completed, so that code that shares
what it learns between branches learns it in the same order again; and nothing waits for ever on that account: where every branch waits,
the earliest goes on.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field


@dataclass(slots=True)
class Waiting:
    """A step whose turn has not come. `wake`: set by whoever waits, called once it has."""

    released: bool = False
    wake: Callable[[], None] = lambda: None

    def release(self) -> None:
        self.released = True
        self.wake()


@dataclass(slots=True)
class Gate:
    """The order of return below one gather, nested ones included. `order`: the steps that are recorded as completed, earliest first.

    running: branches that go on by themselves. One that waits here, or for a gather of its own, does not.
    """

    order: Sequence[str]
    running: int = 0
    _places: dict[str, int] = field(default_factory=dict)
    _returned: set[int] = field(default_factory=set)
    _next: int = 0
    _waiting: dict[str, Waiting] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._places = {step: place for place, step in enumerate(self.order)}

    def arrive(self, step: str) -> Waiting | None:
        """A step has its outcome. None if it may return now."""
        if self._next == len(self.order) or self._place(step) == self._next:
            return None
        waiting = self._waiting[step] = Waiting()
        self.pause()
        return waiting

    def leave(self, step: str) -> None:
        """A step has returned, or was given up."""
        if self._waiting.pop(step, None) is not None:
            self.running += 1  # given up before its turn: its branch goes on
        if step in self._places:
            self._returned.add(self._places[step])
            while self._next in self._returned:
                self._next += 1
        self._let_go()

    def pause(self) -> None:
        """A branch waits, or has ended."""
        self.running -= 1
        self._let_go()

    def resume(self, branches: int = 1) -> None:
        self.running += branches

    def _place(self, step: str) -> int:
        """What was not recorded comes behind all that was."""
        return self._places.get(step, len(self.order))

    def _let_go(self) -> None:
        due = [step for step in self._waiting if self._place(step) == self._next]
        if not due and self._waiting and self.running <= 0:
            due = [min(self._waiting, key=self._place)]
        for step in due:
            self.running += 1
            self._waiting.pop(step).release()


@dataclass(slots=True)
class Gathering:
    """The branches of one gather. `step`: its own identity; None for a gate: nothing of it was recorded."""

    step: str
    count: int
    gate: Gate | None
    nested: bool
    _started: int = 0

    def path(self, number: int) -> str:
        return f"{self.step}/{number}"

    def open(self) -> None:
        """Whoever gathers waits from here on."""
        if self.gate is not None and self.nested:
            self.gate.running -= 1

    def take(self) -> int | None:
        """The next branch to run; None if all have been started."""
        if self._started == self.count:
            return None
        self._started += 1
        if self.gate is not None:
            self.gate.resume()
        return self._started - 1

    def ended(self) -> None:
        """A branch has ended, after whoever ran it took the next: so no moment looks as if nobody went on."""
        if self.gate is not None:
            self.gate.pause()

    def close(self) -> None:
        if self.gate is not None and self.nested:
            self.gate.resume()
