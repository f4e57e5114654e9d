"""Playing: carries one play out with real processes, and brings its run to rest.

Owns the order of a play. Believes no process: what came of it is read by `judging`. Invariant: when it returns, no process of it is left.
"""

from __future__ import annotations

import os
import signal
import time
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from threading import Timer

from recovery import Engine
from recovery.core.chain import Row
from recovery.crashpoints import VARIABLE
from recovery.testing.pieces import in_one_piece
from tests.crash.children import Ended, Started
from tests.crash.mixed import ANSWER, ASKED
from tests.crash.worker import ANY, KILL, PLACE, STOP
from tests.soak.house import House, Place
from tests.soak.plays import PAUSES, Act, Fault, Play

CALM_MAX = 6
SECONDS_MAX = 300.0
"""Of one play, against hanging: a busy machine takes a second or two."""
LEASE_SECONDS = 2.0
SETTLED, IN_DOUBT = (0, 1), 3


@dataclass
class Played:
    """What happened. ended: every process, in order; calm: of those the last, alone and unharmed; once_more: another one, where
    the run is in doubt; counts: for the table."""

    run_id: str
    ended: list[Ended] = field(default_factory=list)
    calm: list[Ended] = field(default_factory=list)
    counts: Counter[str] = field(default_factory=Counter)
    once_more: Ended | None = None
    shrunk: bool = False
    hung: bool = False
    _durable: list[Row] = field(default_factory=list)

    def look(self, place: Place) -> None:
        """What was durable stays, in front of what has come."""
        found = in_one_piece(place.journal, self.run_id)
        rows = found[1] if found else []
        self.shrunk |= rows[: len(self._durable)] != self._durable
        self._durable = rows


def carried_out(play: Play, house: House) -> Played:
    run_id = f"play-{play.seed}-{house.number()}"
    played, place = Played(run_id), house.place(play.database)
    stage = _Stage(play, house, place, played)
    watch = Timer(SECONDS_MAX, stage.give_up)
    watch.start()
    try:
        for number, act in enumerate(play.acts):
            stage.act(act, number)
        stage.calm_down()
        if stage.frozen:
            stage.wake()
            stage.calm_down()
        if played.calm[-1].returncode == IN_DOUBT:
            played.once_more = stage.calmly(patient=False)
    finally:
        watch.cancel()
        stage.clear()
    return played


@dataclass
class _Stage:
    play: Play
    house: House
    place: Place
    played: Played
    frozen: list[Started] = field(default_factory=list)
    working: list[Started] = field(default_factory=list)
    handles: dict[int, int] = field(default_factory=dict)
    """pid -> a descriptor that stands for this very process, even when it is gone."""

    def act(self, act: Act, number: int) -> None:
        if number:
            self._answer()
        held = act.around.rpartition(" ")[2] if act.around.endswith(PAUSES) else ""
        if held:
            self.house.service.kill()
            self.house.service.start(held)
        self.played.counts[f"crowd {len(act.faults)}"] += number > 0 or len(act.faults) > 1
        for fault in act.faults:
            self.working.append(self._started(fault, pushing=act.pushing or bool(self.frozen)))
        if held:
            self.house.service.wait_until_paused()
        elif act.around:
            time.sleep(act.delay_us / 1e6)  # no synchronisation: a random moment is what is wanted
        self._kill_around(act)
        self._all_ended(act.faults)

    def _answer(self) -> None:
        """Somebody answers what a run waits for, or will: the first answer counts, and it is given once."""
        run = self.place.journal.find(self.played.run_id)
        if self.play.form == "answered" and not self.played.counts["answered"] and run is not None and not run.status.settled:
            Engine(self.place.journal).signal(self.played.run_id, ASKED, ANSWER, by="a person")
            self.played.counts["answered"] += 1

    def _kill_around(self, act: Act) -> None:
        if act.around.startswith("service"):
            self.house.service.kill()
            self.house.service.start()
        elif act.around == "server":
            self.house.restart_server()
        if act.around:
            self.played.counts[f"killed {act.around}"] += 1

    def _started(self, fault: Fault, *, pushing: bool, patient: bool = False) -> Started:
        armed = {VARIABLE: fault.at} if fault.kind == "point" else {}
        armed |= {STOP: f"{ANY}:{fault.at}"} if fault.kind == "stop" else {}
        armed |= {STOP: f"{fault.at}us"} if fault.kind == "pause" else {}
        armed |= {KILL: fault.at} if fault.kind == "passage" else {}
        armed |= {KILL: f"{fault.at}us"} if fault.kind == "moment" else {}
        verb = "recover" if self.place.journal.find(self.played.run_id) else "run"
        said = [verb, "mixed", self.played.run_id, "--steps", ",".join(self.play.said), "--db", self.place.url]
        said += ["--colour", self.play.colour, "--lease", str(LEASE_SECONDS), "--wait", "60" if pushing else "0", "--hurried"]
        said += ["--patient"] * patient
        started = self.house.nursery.start(said, {VARIABLE: "", STOP: "", KILL: "", **self.house.environment, **armed})
        self.handles[started.pid] = os.pidfd_open(started.pid)
        return started

    def _all_ended(self, faults: Sequence[Fault]) -> None:
        for fault in faults:
            one = self.working[0]
            ended = self.house.nursery.wait(one, stopped=fault.kind in {"stop", "pause"})
            self.working.pop(0)
            if ended is None:
                self.frozen.append(one)
                where = "any instruction" if fault.kind == "pause" else _place(one.stderr.read_text())
                self.played.counts[f"stopped at {where}"] += 1
            else:
                self._heard(ended, fault)
        self.played.look(self.place)

    def _heard(self, ended: Ended, fault: Fault) -> None:
        self.played.ended.append(ended)
        if ended.killed and fault.kind:
            where = {"point": fault.at.partition(":")[0], "moment": "any instruction"}.get(fault.kind) or _place(ended.stderr)
            self.played.counts[f"killed by {fault.kind} at {where}"] += 1
        elif fault.kind:
            self.played.counts[f"not reached by {fault.kind}"] += 1

    def calm_down(self) -> None:
        """One process after the other, with nobody else about, until there is nothing left to do."""
        for number in range(CALM_MAX):
            self._answer()
            self.played.calm.append(self.calmly(patient=number > 0))
            if self.played.calm[-1].returncode in {*SETTLED, IN_DOUBT} or self.frozen:
                return

    def calmly(self, *, patient: bool) -> Ended:
        """patient: waits, on a clock that is moved on, until nothing sent can act any more. So it must not: nobody else is alive, and what
        the service had begun for the dead dies with the service."""
        if patient:
            self.house.service.kill()
            self.house.service.start()
        self.working.append(self._started(Fault(), pushing=True, patient=patient))
        self._all_ended([Fault()])
        return self.played.ended[-1]

    def wake(self) -> None:
        """Whoever was stopped goes on behind its successors, or dies as it stands."""
        for one in list(self.frozen):
            os.kill(one.pid, signal.SIGCONT if self.play.waking == "continued" else signal.SIGKILL)
            ended = self.house.nursery.wait(one)
            self.frozen.remove(one)
            assert ended is not None
            self.played.counts[f"woken and {self.play.waking}"] += 1
            self.played.ended.append(ended)
        self.played.look(self.place)

    def give_up(self) -> None:
        """Whoever is waited for has hung, and is killed: the play then goes on to its end."""
        self.played.hung = True
        for handle in list(self.handles.values()):
            with suppress(ProcessLookupError):
                signal.pidfd_send_signal(handle, signal.SIGKILL)

    def clear(self) -> None:
        """Only where the play broke off is anything left but handles."""
        for one in (*self.working, *self.frozen):
            os.kill(one.pid, signal.SIGKILL)
            self.house.nursery.wait(one)
        for handle in self.handles.values():
            os.close(handle)


def _place(stderr: str) -> str:
    found = [line.removeprefix(PLACE) for line in stderr.splitlines() if line.startswith(PLACE)]
    return found[-1] if found else "nowhere"
