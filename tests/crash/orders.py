"""Orders for the tests of killed operators: what each finds when it comes, what is typed, and what must stand there in the end."""

from __future__ import annotations

from dataclasses import dataclass

from recovery.core.errors import ExitCode
from tests.crash.stage import Stage, Story

WHO = ("--by", "ann", "--reason", "x")
PAUSE, RESUME = ("pause", "{run}", *WHO), ("resume", "{run}", *WHO)
HOLD, RELEASE = ("hold", "{run}", *WHO), ("release", "{run}", *WHO)


@dataclass(frozen=True)
class Order:
    """One verb about an open run, as typed: `{run}` stands for the run's id.

    shape, died_at: the run, and where its worker died; parked: it has been recovered since, as far as that goes; first: the orders given
    before this one. verbs: the orders that its journal holds in the end; step: what it is about, "" for the run; ends: how a recovery ends
    then. After the order is durable, giving it again is refused, unless it `repeats`: then the journal may hold it twice, and it means the
    same. waits: unless an attempt of it may be answered still. goes_on: given again, it finishes what it began.
    """

    typed: tuple[str, ...]
    verbs: tuple[str, ...]
    shape: str = "plain"
    died_at: str = "send.after:1"
    parked: bool = False
    first: tuple[tuple[str, ...], ...] = ()
    step: str = ""
    repeats: bool = False
    waits: bool = False
    goes_on: bool = False
    ends: ExitCode = ExitCode.SETTLED

    def prepared(self, stage: Stage, colour: str) -> Story:
        """A run of its own, as the order finds it but for the orders before."""
        story = stage.new_run(self.shape, colour)
        assert story.work("run", self.died_at).killed
        if self.parked:
            assert story.work("recover").returncode == 3
        return story


ORDERS = {
    "hold": Order(HOLD, ("hold",), ends=ExitCode.IN_DOUBT),
    "release": Order(RELEASE, ("hold", "release"), first=(HOLD,)),
    "fence": Order(("fence", "{run}", *WHO), ("fence",), repeats=True),
    "resolve": Order(
        ("resolve", "{run}", "reserve_opaque#1", "--not-executed", "--evidence", "log", *WHO),
        ("resolve",),
        shape="doubtful",
        parked=True,
        step="reserve_opaque#1",
        ends=ExitCode.FAILED,
    ),
    "close": Order(
        ("close", "{run}", "reserve_asking#1", *WHO),
        ("close",),
        shape="lossy",
        died_at="send.after:3",
        step="reserve_asking#1",
        repeats=True,
    ),
    "redrive": Order(("redrive", "{run}", "reserve#1", *WHO), ("redrive",), step="reserve#1", repeats=True, waits=True),
    "cancel": Order(("cancel", "{run}", *WHO), ("cancel",), died_at="append.settled.after:1", goes_on=True, ends=ExitCode.FAILED),
    "pause": Order(PAUSE, ("pause",), ends=ExitCode.IN_DOUBT),
    "resume": Order(RESUME, ("pause", "resume"), first=(PAUSE,)),
    "restart": Order(("restart", "{run}", "reserve#1", "--new-key", "reserve#1=lost", *WHO), ("restart",)),
    "probe": Order(
        ("probe", "{run}", "reserve_asking#1"), (), shape="lossy", died_at="send.after:3", step="reserve_asking#1", repeats=True
    ),
}
