"""Cases: what happens to a program, each against any offer of the service.

Owns the order of events. Knows programs by their processes only. Invariant: a case waits for what the service or a process says; where it lets
time pass, the passing time is what the case is about.
"""

from __future__ import annotations

import shutil
import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, NamedTuple

from tests.judge.outside import Outside
from tests.judge.programs import Child, Claim, Program, Terms, start
from tests.judge.verdicts import Cell, Shown, conclude

OFFERS: Final = ("keys", "look-up", "neither")
REACHES_SECONDS: Final = 30.0
WHILE_HELD_SECONDS: Final = 8.0
"""How long another process is left alone with what is held; then it is let go, whether it has ended or not."""
RECOVERIES_MAX: Final = 4
TERMS: Final = Terms()
HOURS: Final = 25
"""By how much clocks are stepped: beyond a window of 24 hours."""


@dataclass
class Play:
    """One program in one case, with everything that was claimed."""

    program: Program
    offer: str
    outside: Outside
    state: Path
    terms: Terms = TERMS
    claims: list[Claim] = field(default_factory=list)
    children: list[Child] = field(default_factory=list)

    def start(self, verb: str, *, shift_hours: int = 0, **terms: float) -> Child:
        told = self.terms._replace(**terms)
        child = start(self.program, verb, self.outside.host, self.offer, self.state, told, shift_hours)
        self.children.append(child)
        return child

    def hear(self, child: Child) -> Claim:
        self.claims.append(child.claim())
        return self.claims[-1]

    def until(self, place: str, act: str, **terms: float) -> Child:
        """A run whose request has reached this place, and what happens to it there. Raises Unreached if it ends before."""
        self.outside.arm(place, act)
        child = self.start("run", **terms)
        until = time.monotonic() + REACHES_SECONDS
        while self.outside.reached(0.1) != place:
            if child.ended() or time.monotonic() > until:
                raise Unreached(self.hear(child))
        return child

    def settle(self, *, shift_hours: int = 0, **terms: float) -> None:
        """Recover until something is said that another recovery would not change."""
        for _ in range(RECOVERIES_MAX):
            said = self.hear(self.start("recover", shift_hours=shift_hours, **terms))
            if said.kind in {"outcome", "in doubt", "refused", "never ends"}:
                return
            time.sleep(self.terms.lease_seconds)  # "later" needs time to pass

    def close(self) -> None:
        for child in self.children:
            child.kill()


class Unreached(Exception):
    """The program ended before its request came to where the case begins."""

    def __init__(self, claim: Claim) -> None:
        super().__init__(claim.why)
        self.claim = claim


def _killed(place: str) -> Callable[[Play], None]:
    def case(play: Play) -> None:
        play.until(place, "hold").kill()
        play.outside.release()
        play.settle()

    return case


def _lands_late(play: Play) -> None:
    """Its request has arrived and is queued; the sender is killed; it acts when a recovery has had its say."""
    play.until("arrived", "hold").kill()
    recovering = play.start("recover")
    _left_alone(recovering)
    play.outside.release()
    play.hear(recovering)
    play.settle()


def _timed_out(play: Play) -> None:
    running = play.until("landed", "hold", timeout_seconds=0.7)
    play.hear(running)
    play.outside.release()
    play.settle()


def _reply_lost(play: Play) -> None:
    play.hear(play.until("landed", "reset"))
    play.settle()


def _other_arguments(play: Play) -> None:
    play.hear(play.start("run"))
    play.hear(play.start("run", units=3))


def _two_at_once(play: Play) -> None:
    first = play.until("landed", "hold", workers_stopped=0)
    second = play.start("run", process=2, workers_stopped=0)
    _left_alone(second)
    play.outside.release()
    play.hear(first)
    play.hear(second)
    play.settle()


def _paused(play: Play) -> None:
    """Stopped before its request leaves, for longer than its lease; recovered elsewhere; then it goes on."""
    first = play.until("before", "hold", timeout_seconds=2.0, workers_stopped=0)
    first.stop()
    time.sleep(3 * play.terms.lease_seconds)
    second = play.start("recover", process=2, workers_stopped=0)
    _left_alone(second)
    play.outside.release()
    first.go_on()
    play.hear(first)
    play.hear(second)
    play.settle()


def _clock_stepped(hours: int) -> Callable[[Play], None]:
    def case(play: Play) -> None:
        play.until("landed", "hold").kill()
        play.outside.release()
        play.settle(shift_hours=hours)

    return case


def _key_expired(play: Play) -> None:
    window = 3.0
    began = time.monotonic()
    play.until("landed", "hold", window_seconds=window).kill()
    play.outside.release()
    play.outside.expire()
    time.sleep(max(0.0, began + window + 1.0 - time.monotonic()))
    play.settle(window_seconds=window)


def _left_alone(child: Child) -> None:
    until = time.monotonic() + WHILE_HELD_SECONDS
    while not child.ended() and time.monotonic() < until:
        time.sleep(0.05)


class Case(NamedTuple):
    name: str
    play: Callable[[Play], None]
    offers: tuple[str, ...] = OFFERS
    needs: str = ""  # a program that must be installed


CASES: Final = (
    Case("killed before its request", _killed("before")),
    Case("killed after landing, before the reply", _killed("landed")),
    Case("killed after the reply, before recording", _killed("after")),
    Case("killed, and its request lands late", _lands_late),
    Case("timed out after landing", _timed_out),
    Case("reply lost", _reply_lost),
    Case("same key, other arguments", _other_arguments),
    Case("two processes at once", _two_at_once),
    Case("paused past its lease", _paused),
    Case("killed after landing, clock ahead", _clock_stepped(HOURS), needs="faketime"),
    Case("killed after landing, clock behind", _clock_stepped(-HOURS), needs="faketime"),
    Case("killed after landing, key expired", _key_expired, offers=("keys",)),
)


def played(program: Program, case: Case, offer: str) -> Shown:
    """Play it, with real processes, and say what it has shown."""
    if offer not in case.offers:
        return Shown(Cell.NOT_OFFERED)
    if case.needs and shutil.which(case.needs) is None:
        return Shown(Cell.SKIPPED, why=f"{case.needs} is not installed")
    with ExitStack() as stack:
        state = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="judge-")))
        play = Play(program, offer, stack.enter_context(Outside(offer)), state)
        stack.callback(play.close)
        try:
            case.play(play)
        except Unreached as unreached:
            return Shown(Cell.ERROR, len(play.outside.effects()), f"never got there: {unreached.claim.kind} {unreached.claim.why}")
        for child in play.children:
            child.kill()  # nothing of the program acts any more: now the count is the count
        return conclude(play.outside.effects(), play.claims)
