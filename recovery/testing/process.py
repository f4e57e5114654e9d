"""Simulated processes: real engines, each in a thread of its own, stopped at named points without any real time.

Owns the life of one process: its start, its pause, its death. Must not know timelines. Invariants: at most one process of a world runs at
any moment, so that a world is deterministic; a dead process reaches nothing any more, neither the journal nor the environment nor a clock,
whatever its `finally` blocks try.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Final, Literal

from recovery import crashpoints
from recovery.ports import Owner
from recovery.testing.environment import SimulatedEnvironment, connected
from recovery.testing.footprints import Footprint
from recovery.testing.inline import asking, current_step
from recovery.testing.ledger import Ended, Ledger
from recovery.testing.turns import Turns

REAL_SECONDS_MAX: Final = 60.0
"""How long a process may really take from one stop to the next: a deadlock is a failed scenario, not a hanging one."""

PASSAGES_MAX: Final = 5_000
"""How many named places a process may pass in one move: a loop without end is a failed scenario, too."""


class Killed(BaseException):
    """What ends a simulated process: no code of its own may handle it."""


@dataclass(frozen=True, slots=True)
class StopAt:
    """Where the process is stopped next. `occurrence` counts from here; `step`: only within this inline step. point None: at any place."""

    act: Literal["kill", "pause"]
    point: str | None
    occurrence: int = 1
    step: str | None = None


ANYWHERE: Final = StopAt("pause", None)
"""Stand still at the next place, whatever it is."""


@dataclass(frozen=True, slots=True)
class Report:
    """What became of a process: `paused`, `died`, or `ended` with what its call came to. `endless`: it was put down, since it never ended."""

    state: Literal["paused", "died", "ended", "endless"]
    point: str = ""
    ended: Ended | None = None


def _taken() -> threading.Lock:
    lock = threading.Lock()
    lock.acquire()
    return lock


@dataclass(slots=True, eq=False)
class Process:
    """One life of an actor."""

    name: str
    pid: int
    environment: SimulatedEnvironment
    ledger: Ledger
    now_us: Callable[[], int]
    asks: Callable[[Process, str], int]  # how often a decision's function was called by now, in the whole world
    dead: bool = False
    endless: bool = False
    paused_at: str = ""
    stood_us: int = 0  # how long it has stood still, of virtual time
    footprint: Footprint = field(default_factory=Footprint)
    turns: Turns = field(init=False)
    _next: int | None = None
    _stop: StopAt | None = None
    _passed: int = 0
    _passages: int = 0
    _report: Report | None = None
    _reported: threading.Lock = field(default_factory=_taken)  # two locks as batons: a hand-over is most of what a step costs
    _resumed: threading.Lock = field(default_factory=_taken)
    _thread: threading.Thread | None = None

    def owner(self, token: str) -> Owner:
        """Who this process is, as a claim states it."""
        return Owner(token=token, host="scenario", boot_id="boot", pid_namespace="scenario", pid=self.pid, process_start=self.pid)

    def start(self, call: Callable[[], Ended], stop: StopAt | None) -> Report:
        """Run a call until it ends or the process is stopped."""
        self._arm(stop)
        self._begin_turns()
        self._thread = threading.Thread(target=self._live, args=(call,), name=f"scenario-{self.name}", daemon=True)
        self._thread.start()
        return self._heard()

    def __post_init__(self) -> None:
        self._begin_turns()

    def resume(self, stop: StopAt | None, branch: int | None = None) -> Report:
        """Go on from where it was paused. branch: which of its branches goes on, by its number; None: the one that stands still last."""
        self._arm(stop)
        self._next = branch
        self.tell(f"goes on from {self.paused_at}")
        return self._go_on()

    def kill(self) -> None:
        """Die where it was paused."""
        self.dead = True
        self.tell(f"is killed at {self.paused_at}")
        self._go_on()

    def reach(self, point: str) -> None:
        """Pass a named place: the hook of crash points, and of places inside the environment."""
        self.check()
        self._passages += 1
        if self._passages > PASSAGES_MAX:
            self.endless = self.dead = True
            self.check()
        stop = self._stop
        if stop is None or not point or (stop.point is not None and point != stop.point):
            return
        if stop.step is not None and stop.step != current_step.get():
            return
        self._passed += 1
        if self._passed < stop.occurrence:
            return
        self._stop = None
        if stop.act == "kill":
            self.dead = True
            self.tell(f"is killed at {point}")
            self.check()
        self._pause(point)

    def check(self) -> None:
        """Refuse to go on if dead."""
        if self.dead:
            raise Killed(self.name)

    def tell(self, text: str) -> None:
        self.ledger.tell(self.now_us(), self.name, text)

    def _pause(self, point: str) -> None:
        self.paused_at = point
        self.tell(f"stands still at {point}")
        since_us = self.now_us()
        self._say(Report("paused", point))
        self._resumed.acquire()
        self.stood_us += self.now_us() - since_us
        self.check()
        if self._next is not None:
            number, self._next = self._next, None
            self.turns.hand_to(number)
            self.check()

    def _begin_turns(self) -> None:
        self.turns = Turns(self.check, lambda number: self.footprint.feed(("branch", number)))

    def _arm(self, stop: StopAt | None) -> None:
        self._stop, self._passed, self._passages = stop, 0, 0

    def _go_on(self) -> Report:
        self._resumed.release()
        return self._heard()

    def _say(self, report: Report) -> None:
        self._report = report
        self._reported.release()

    def _heard(self) -> Report:
        if not self._reported.acquire(timeout=REAL_SECONDS_MAX):
            self.dead = True  # it ends at the next place that it passes
            raise TimeoutError(f"process {self.name} neither ended nor stopped within {REAL_SECONDS_MAX} real seconds")
        report = self._report
        assert report is not None, "whoever hands over says why"
        if report.state != "paused":
            self.paused_at = ""
            assert self._thread is not None
            self._thread.join(REAL_SECONDS_MAX)
        return report

    def _live(self, call: Callable[[], Ended]) -> None:
        with crashpoints.hooked(self.reach):
            connected(self.environment.connect(self.name, self.reach, self.footprint))
            asking.set(partial(self.asks, self))
            try:
                ended = call()
            except Killed:
                self._say(Report("endless" if self.endless else "died"))
            else:
                self._say(Report("ended", ended=ended))
