"""Turns: the branches of one simulated process, one of which runs at a time, in an order that is chosen.

Owns who has the baton. Must not know runs or timelines. Invariants: whoever has the baton keeps it until it stands still, waits or ends; the next
one is then the first that can go on, unless another was named; a process that is dead lets each of its branches find that out.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any


class Stuck(RuntimeError):
    """Every branch of a process waits for another one: nothing could ever go on."""


def _taken() -> threading.Lock:
    lock = threading.Lock()
    lock.acquire()
    return lock


@dataclass(slots=True)
class Turns:
    """Implements `drivers.strands.Strands` for one call in one process. check: raises if the process is dead. told: of each change of hands.

    Number 0 is whoever calls the engine; branches are counted from 1, in the order in which they were begun."""

    check: Callable[[], None]
    told: Callable[[int], None]
    current: int = 0
    _batons: dict[int, threading.Lock] = field(default_factory=lambda: {0: _taken()})
    _waiting: dict[int, Callable[[], bool]] = field(default_factory=dict)  # what must be so for it to go on
    _made: int = 0

    @property
    def ready(self) -> tuple[int, ...]:
        """Who could go on beside whoever has the baton."""
        return tuple(number for number in self._batons if number != self.current and self._can_go_on(number))

    def standing(self) -> object:
        """Who there is, and who waits."""
        return self.current, tuple(self._batons), tuple(sorted(self._waiting))

    def hand_to(self, number: int) -> None:
        """Let another one go on, and stand still until it is one's own turn again. Raises ValueError for one that cannot."""
        if number not in self.ready:
            raise ValueError(f"branch {number} cannot go on; those that can: {', '.join(map(str, self.ready)) or 'none'}")
        self._hand_over(number)

    def wait_until(self, over: Callable[[], bool], *, dying: bool = False) -> None:
        """Stand still until something has happened. dying: to the end also where the process is dead. Raises Stuck."""
        mine = self.current
        while not over():
            if not dying:
                self.check()
            self._waiting[mine] = over
            try:
                if not (others := self.ready or self._dead_ones(mine)):
                    raise Stuck("every branch of the process waits for another one")
                self._hand_over(others[0])
            finally:
                del self._waiting[mine]
        if not dying:
            self.check()

    def lock(self) -> TurnLock:
        return TurnLock(self)

    def signal(self) -> TurnSignal:
        return TurnSignal(self)

    def strand(self, work: Callable[..., Any], *args: Any) -> TurnStrand:
        return TurnStrand(self, work, args)

    def begin(self) -> int:
        """A branch that can go on from now on."""
        self._made += 1
        self._batons[self._made] = _taken()
        return self._made

    def live(self, number: int, work: Callable[..., Any], args: tuple[Any, ...]) -> None:
        """The life of a branch, in a thread of its own."""
        self._batons[number].acquire()
        try:
            work(*args)
        finally:
            del self._batons[number]
            able = [other for other in self._batons if self._can_go_on(other)]
            self._pass_to((able or list(self._batons))[0])  # of those that all wait, the first finds that out

    def lives(self, number: int) -> bool:
        return number in self._batons

    def _can_go_on(self, number: int) -> bool:
        return number not in self._waiting or self._waiting[number]()

    def _dead_ones(self, mine: int) -> tuple[int, ...]:
        """Of a dead process even those that wait go on: to their end."""
        try:
            self.check()
        except BaseException:  # noqa: BLE001  # whatever it is that ends a process
            return tuple(number for number in self._batons if number != mine)
        return ()

    def _hand_over(self, number: int) -> None:
        mine = self.current
        self._pass_to(number)
        self._batons[mine].acquire()

    def _pass_to(self, number: int) -> None:
        self.current = number
        self.told(number)
        self._batons[number].release()


@dataclass(slots=True)
class TurnLock:
    """Of one branch, which may take it again. One that stands still may hold it: whoever wants it then lets that one go on."""

    turns: Turns
    holder: int | None = None
    depth: int = 0

    def acquire(self) -> None:
        mine = self.turns.current
        if self.holder is None:
            self.holder = mine  # almost always
        elif self.holder != mine:
            self.turns.wait_until(lambda: self.holder is None, dying=True)  # what tidies up needs it, too, and reaches no port
            self.holder = mine
        self.depth += 1

    def release(self) -> None:
        self.depth -= 1
        self.holder = self.holder if self.depth else None

    def __enter__(self) -> None:
        self.acquire()

    def __exit__(self, *raised: object) -> None:
        self.release()


@dataclass(slots=True)
class TurnSignal:
    turns: Turns
    come: bool = False

    def set(self) -> None:
        self.come = True

    def wait(self) -> None:
        self.turns.wait_until(lambda: self.come)


@dataclass(slots=True)
class TurnStrand:
    turns: Turns
    work: Callable[..., Any]
    args: tuple[Any, ...]
    ident: int | None = None

    def start(self) -> None:
        self.ident = self.turns.begin()
        life = threading.Thread(target=self.turns.live, args=(self.ident, self.work, self.args), daemon=True)
        life.start()

    def join(self) -> None:
        """To its end, also where the process is dead: nothing of it may go on behind its back."""
        self.turns.wait_until(lambda: self.ident is None or not self.turns.lives(self.ident), dying=True)
