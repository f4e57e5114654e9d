"""Bringing on: many runs, several at a time, each once.

Owns how many are claimed and loaded in one go, how many are at work, and the end when somebody interrupts. Knows neither which runs there are nor what is
said of them. Invariants: the lease of whatever was claimed here is kept until it is let go, whether or not its turn has come; behind an interrupt nothing is
begun, and what was not begun is let go; no more is claimed ahead than was brought on within moments; what may end the process has nothing else at work
beside it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from itertools import islice
from queue import Empty, SimpleQueue
from threading import Lock
from typing import Any, Final, NamedTuple

from recovery import reconciler
from recovery.claims import Taken, World, let_go, take_many
from recovery.definitions.recovered import Recovered
from recovery.drivers.handing import HandedBack
from recovery.engine.crew import Crew, InlineCrew, Procedure, crew
from recovery.engine.wiring import Wiring
from recovery.ports import RunRow
from recovery.storage.rules import GOES_ON

AHEAD_MAX: Final = 64
"""Runs that are claimed in one go."""
AHEAD_US: Final = 100_000
"""About how long a run that was claimed with others may wait for its turn: in that time nobody else can take it."""
HAND_BACK_SECONDS: Final = 5.0
"""How long an interrupt waits for runs to be let go at their next step. Those that are not are found by the death of their owner."""


class Came(NamedTuple):
    """What one run came to: `result()` returns it, or raises."""

    row: RunRow
    result: Callable[[], Recovered[Any]]


class Bringing:
    """Brings runs on. at_once: how many at a time; of a `def` app one at a time is brought on in the caller's own thread."""

    def __init__(self, engine: Wiring, world: World, at_once: int) -> None:
        self._engine = engine
        self._world = world
        self._at_once = at_once
        self._ahead = at_once
        self._interrupted = False
        self._waiting: deque[_Turn] = deque()
        self._outstanding: dict[Any, _Turn] = {}
        self._ended: deque[tuple[_Turn, Any]] = deque()
        self._wakes: SimpleQueue[None] = SimpleQueue()

    def bring(self, rows: Iterator[RunRow]) -> Iterator[Came]:
        """Each of these, as they end. Interrupted, it raises once what was at work is let go, or will not be for long."""
        with_others, suspects = self._crew(), list[RunRow]()
        others = _without(rows, suspects)
        try:
            while chunk := list(islice(others, self._ahead)):
                since_us = self._engine.clock.boot_us()
                self._waiting.extend(self._turns(chunk))
                while self._waiting:
                    self._start(with_others, self._waiting.popleft())
                yield from self._until(self._at_once)
                self._pace(self._engine.clock.boot_us() - since_us)
            yield from self._until(0)
            for row in suspects:
                self._start(with_others, _Turn(self._world, row, None))
                yield from self._until(0)
        except BaseException:  # an interrupt, or what concerns all runs; raised again
            self._break_off(with_others)
            raise
        finally:
            if not self._outstanding:
                with_others.close()

    def _crew(self) -> Crew:
        if self._at_once == 1 and not self._engine.is_async:
            return InlineCrew(self._engine.surroundings())
        return crew(self._engine, self._at_once, None, lambda: self._interrupted)

    def _pace(self, took_us: int) -> None:
        """Claim more at a time while that many are brought on within moments."""
        ahead = self._ahead * 2 if took_us < AHEAD_US else self._ahead // 2
        self._ahead = max(self._at_once, min(ahead, AHEAD_MAX))

    # -- one run -------------------------------------------------------------------------------------------------------

    def _turns(self, rows: Sequence[RunRow]) -> list[_Turn]:
        """What is to be carried out for each: with a claim that it has in common with others where that can be."""
        world, known = self._world, self._engine.workflows
        fit = [row for row in rows if row.status in GOES_ON and row.workflow in known]
        taken = take_many(world, self._engine.opened(), fit, self._engine.clock.wall_us()) if fit else []
        by_run = {each.row.run_id: each for each in taken}
        return [_Turn(world, row, by_run.get(row.run_id)) for row in rows]

    def _start(self, with_others: Crew, turn: _Turn) -> None:
        future = with_others.start(turn.procedure)
        self._outstanding[future] = turn
        future.add_done_callback(partial(self._done, turn))

    def _done(self, turn: _Turn, future: Any) -> None:
        self._ended.append((turn, future))
        self._wakes.put(None)

    def _until(self, many: int) -> Iterator[Came]:
        """Until no more than so many are outstanding."""
        while True:
            while self._ended:
                turn, future = self._ended.popleft()
                del self._outstanding[future]
                yield Came(turn.row, future.result)
            if len(self._outstanding) <= many:
                return
            self._wakes.get()

    # -- the end -------------------------------------------------------------------------------------------------------

    def _break_off(self, with_others: Crew) -> None:
        self._interrupted = True
        with_others.break_off()
        waits_until_us = self._engine.clock.boot_us() + int(HAND_BACK_SECONDS * 1_000_000)
        for turn in (*self._waiting, *self._outstanding.values()):
            if turn.withdrawn() and turn.taken is not None:
                let_go(self._world, self._engine.journal, turn.taken.row)
        while self._at_work() and (left_us := waits_until_us - self._engine.clock.boot_us()) > 0:
            with suppress(Empty):
                self._wakes.get(timeout=left_us / 1_000_000)

    def _at_work(self) -> bool:
        return any(turn.begun and not future.done() for future, turn in self._outstanding.items())


def _without(rows: Iterator[RunRow], suspects: list[RunRow]) -> Iterator[RunRow]:
    """Those that have not ended several owners in a row: where one of them ends this process, too, it does so alone, and counts against no other."""
    for row in rows:
        if row.owner is not None and row.crashes > 0:
            suspects.append(row)
        else:
            yield row


class _Turn:
    """What is to be carried out for one run, once or not at all."""

    def __init__(self, world: World, row: RunRow, taken: Taken | None) -> None:
        self.row = row
        self.taken = taken
        self.begun = False
        self._world = world
        self._withdrawn = False
        self._lock = Lock()

    def procedure(self) -> Procedure:
        """Called where it is carried out, when its turn has come."""
        with self._lock:
            self.begun = not self._withdrawn
        if not self.begun:
            return _nothing()
        if self.taken is None:  # a claim of its own, which says why it cannot be had
            return reconciler.recover(self._world, self.row.run_id)
        return reconciler.carry(self._world, self.taken)

    def withdrawn(self) -> bool:
        """From now on it is not carried out any more, unless it has begun."""
        with self._lock:
            self._withdrawn = not self.begun
        return self._withdrawn


async def _nothing() -> Recovered[Any]:
    raise HandedBack
