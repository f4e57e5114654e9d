"""The stage: carries out a scenario's timeline, one move after the other, and judges the world after each.

Owns the order of a simulation and its actors. Must not know stores by name or files. Invariants: one process runs at a time; the judges see
the world only between moves; whatever happens, no process survives the play.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import Any

from recovery.core.contracts import microseconds
from recovery.core.errors import RecoveryError
from recovery.core.policy import Budget, Lease, Riding
from recovery.core.resting import GRAVEST_FIRST
from recovery.definitions.workflow import Workflow
from recovery.engine import Engine
from recovery.ports import Journal, Owner
from recovery.storage.reading import Whole, read
from recovery.testing.casting import Cast, NotCast, cast_of, imported
from recovery.testing.clock import ManualClock
from recovery.testing.disks import PutBack, backup, corrupt
from recovery.testing.engines import Program, program
from recovery.testing.environment import SimulatedEnvironment
from recovery.testing.expectations import DEFAULT_RUN, came_differently, unmet
from recovery.testing.footprints import Footprint
from recovery.testing.happenings import happen
from recovery.testing.journals import Host
from recovery.testing.ledger import Ledger, Left
from recovery.testing.moves import (
    Acting,
    Advance,
    Change,
    Clock,
    Environment,
    Expect,
    Fork,
    Happens,
    Kill,
    Move,
    Order,
    Recover,
    Resolve,
    Restart,
    Resume,
    Run,
    Send,
    Signal,
    Stop,
)
from recovery.testing.moves import Journal as Strikes
from recovery.testing.moves import Strikes as Disk
from recovery.testing.process import PASSAGES_MAX, Process, Report, StopAt
from recovery.testing.promises import broken
from recovery.testing.reaching import children_of
from recovery.testing.scenario import Scenario
from recovery.testing.steps import Module, Step
from recovery.testing.worlds import Again, Askable, World, loaded_runs


class Failed(Exception):
    """A move did not come to what the scenario says. Each problem is a sentence."""

    def __init__(self, problems: list[str]) -> None:
        self.problems = problems
        super().__init__("; ".join(problems))


@dataclass(slots=True)
class Stage:
    """One play of one scenario on one journal in one colour."""

    scenario: Scenario
    journal: Journal
    is_async: bool
    cast: Cast | None = None
    clock: ManualClock = field(default_factory=ManualClock)
    ledger: Ledger = field(init=False)
    environment: SimulatedEnvironment = field(init=False)
    asked: Counter[str] = field(default_factory=Counter)
    again: list[Again] = field(default_factory=list)
    host: Host = field(default_factory=Host)
    _code: list[Step] | Module = field(init=False)
    _askable: dict[str, Askable] = field(init=False)
    _processes: list[Process] = field(default_factory=list)
    _programs: dict[str, Program] = field(default_factory=dict)
    _scope: str = field(init=False)
    _scopes: set[str] = field(init=False)
    _backup: PutBack | None = None
    _spoiled: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        outside = self.scenario.environment
        self.ledger = Ledger(self.clock.wall_us())
        self.environment = SimulatedEnvironment(self.clock, stock=outside.stock, knobs=outside.knobs(), ledger=self.ledger)
        self.environment.settle_us = None if outside.acts_within is None else microseconds(outside.acts_within)
        self._scope = self.environment.warehouse.scope = outside.scope
        self._scopes = {outside.scope}
        self._code = self.scenario.workflow
        if self.cast is None:
            self.cast = cast_of(self.scenario, is_async=self.is_async, scope=lambda: self._scope)
        self._askable = self.cast.askable()
        if self.cast.scripted is not None:
            self.cast.scripted.furnish(self.environment, self.clock, self.ledger)

    def play(self) -> list[str]:
        """Every move, then the end. The problems found; empty if the scenario passes."""
        try:
            for number, move in enumerate(self.scenario.timeline, start=1):
                verb = type(move).__name__.lower()
                self._judged(f"move {number} ({verb})", lambda move=move: self.make(move))
            self._judged("the end", self._look_at_the_end)
            self._judged("a second recovery", self.recover_again)
        except Failed as failed:
            return failed.problems
        finally:
            self.end()
        return []

    def standing(self) -> list[Process]:
        """The processes that stand still, in the order of their starts."""
        return [process for process in self._processes if process.paused_at]

    def footprint(self, actor: str) -> Footprint:
        """Of the actor's last process. Raises KeyError."""
        return self._programs[actor].process.footprint

    def world(self, reading: Callable[[Journal, str], Whole] = read, proven: set[Any] | None = None) -> World:
        """Everything that is known now. reading: how a run is read; proven: as a World has it."""
        runs, unreadable = loaded_runs(self.journal, self._spoiled, reading)
        return World(
            runs=runs,
            unreadable=unreadable,
            scopes=frozenset(self._scopes),
            events=tuple(self.ledger.events),
            effects=self._askable,
            budget=self.budget,
            stock=self.environment.stock,
            asked=dict(self.asked),
            again=tuple(self.again),
            proven=proven,
            inboxes={run_id: self.journal.inbox(run_id) for run_id, loaded in runs.items() if loaded.run.status in GRAVEST_FIRST},
        )

    @property
    def budget(self) -> Budget:
        stated = self.scenario.budget
        return Budget(attempts=stated.attempts, probes=stated.probes, max_wait=stated.max_wait)

    def _judged(self, where: str, act: Any) -> None:
        """Act, then look whether every promise still holds, also where the move itself did not come to what it should."""
        problems: list[str] = []
        try:
            act()
        except Failed as failed:
            problems += failed.problems
        try:
            problems += broken(self.world(), frozenset(self.scenario.exempt))
        except RecoveryError as error:
            problems.append(f"the journal cannot be read, {type(error).__name__}: {error}")
        if problems:
            raise Failed([f"{where}: {problem}" for problem in problems])

    # -- moves ---------------------------------------------------------------------------------------------------------

    def make(self, move: Move) -> None:
        """Carry out one move. Raises Failed where it does not come to what it says."""
        try:
            self._carry_out(move)
        except NotCast as missing:
            raise Failed([str(missing)]) from missing

    def _carry_out(self, move: Move) -> None:
        match move:
            case Run() | Recover() | Resume() | Signal() | Send() | Order() | Fork() | Restart():
                self._hear(move, self.let(move, _stop_of(move)))
            case Resolve():
                made = self._program("person")
                self._hear(move, made.process.start(lambda: made.resolve(move.id, move.resolve, move.says, move.value), None))
            case Kill():
                self._paused(move.kill).kill()
            case Advance():
                self.ledger.tell(self.clock.wall_us(), "", f"{move.advance} pass")
                self.clock.advance(move.advance)
            case Environment():
                self._happens(move.environment)
            case Strikes():
                self._strikes(move.journal)
            case Clock():
                self.host.skew_us += microseconds(abs(move.clock.by)) * (1 if move.clock.by > timedelta(0) else -1)
                self.ledger.tell(self.clock.wall_us(), "", f"the host's clock steps by {move.clock.step}")
            case Change():
                self._code = move.change.workflow
                self.ledger.tell(self.clock.wall_us(), "", "the program changes")
            case Expect():
                self._require(list(unmet(move.expect, self.world())))

    def let(self, move: Acting, stop: StopAt | None) -> Report:
        """Start an actor, or let it go on, as far as `stop`; what the move itself says of stops is not looked at."""
        match move:
            case Run():
                made, given = self._program(move.run), move.input
                return made.process.start(lambda: made.run(move.id, given), stop)
            case Recover():
                made, budget = self._program(move.recover), self.budget
                budget = budget if move.max_wait is None else replace(budget, max_wait=move.max_wait)
                return made.process.start(lambda: made.recover(move.id, move.wait, budget), stop)
            case Signal():
                made = self._program(move.by, knowing=move.app)
                return made.process.start(lambda: made.signal(move), stop)
            case Send():
                made = self._program(move.by, knowing=False)
                return made.process.start(lambda: made.send(move), stop)
            case Order():
                made = self._program(move.by, knowing=move.app)
                return made.process.start(lambda: made.order(move), stop)
            case Fork():
                made = self._program(move.by)
                return made.process.start(lambda: made.fork(move), stop)
            case Restart():
                made = self._program(move.by)
                return made.process.start(lambda: made.restart(move), stop)
            case _:
                return self._resumed(move, stop)

    def _resumed(self, move: Resume, stop: StopAt | None) -> Report:
        process = self._paused(move.resume)
        if move.branch is not None and move.branch not in process.turns.ready:
            raise Failed([f"branch {move.branch} of {move.resume} cannot go on; those that can: {process.turns.ready}"])
        return process.resume(stop, move.branch)

    def _hear(self, move: Acting | Resolve, report: Report) -> None:
        """What became of the process, against what the move says."""
        stop = None if isinstance(move, Resolve) else _stop_of(move)
        if report.state == "endless":
            raise Failed([f"it passed more than {PASSAGES_MAX} places and never ended"])
        if stop is not None and report.state == "ended":
            assert report.ended is not None
            came = f"{report.ended.exit}{': ' + report.ended.message if report.ended.message else ''}"
            raise Failed([f"it ended ({came}) without passing {stop.point} {stop.occurrence} time(s)"])
        if report.ended is not None and report.ended.exit == "bug":
            raise Failed([report.ended.message])
        if move.expect is not None and report.ended is not None:
            self._require(list(came_differently(move.expect, report.ended)))

    def _happens(self, what: Happens) -> None:
        said = ", ".join(f"{name} {getattr(what, name)}" for name in sorted(what.model_fields_set))
        self.ledger.tell(self.clock.wall_us(), "environment", said)
        try:
            if what.scope is not None:
                self._scope = what.scope
                self._scopes.add(what.scope)
            happen(what, self.environment, self._key_of)
        except (LookupError, ValueError) as error:
            raise Failed([str(error)]) from error

    def _key_of(self, name: str) -> str:
        """The key of a step, or the name itself if there is no such step."""
        return {intent.step: intent.key for _, intent in self.world().intents()}.get(name, name)

    def _strikes(self, what: Disk) -> None:
        said = ", ".join(f"{name} {getattr(what, name)}" for name in sorted(what.model_fields_set))
        self.ledger.tell(self.clock.wall_us(), "journal", said)
        if what.full is not None:
            self.host.full = what.full
        if what.refuse is not None:
            self.host.refuses += what.refuse
        if what.lose is not None:
            self.host.unheard.append(what.lose == "repeated")
        if what.back_up:
            self._backup = backup(self.journal)
        if what.restore:
            if self._backup is None:
                raise Failed(["the journal has not been backed up"])
            self._backup()
        if what.declare_restored:
            Engine(self.journal, clock=self.clock).declare_restored(by="a person", reason="the last backup was put back")
        if what.corrupt is not None:
            corrupt(self.journal, DEFAULT_RUN, what.corrupt)
            self._spoiled.add(DEFAULT_RUN)

    # -- actors --------------------------------------------------------------------------------------------------------

    def _program(self, actor: str, *, knowing: bool = True) -> Program:
        """The actor's process, or a new one if it has none that lives. knowing: it has the workflow."""
        there = self._programs.get(actor)
        if there is not None and not there.process.dead:
            if there.process.paused_at:
                raise Failed([f"{actor} stands still at {there.process.paused_at}; resume or kill it"])
            return there
        process = Process(actor, 1000 + len(self._processes), self.environment, self.ledger, self.clock.wall_us, self._ask)
        self._processes.append(process)
        lease = Lease(term=self.scenario.lease.term)
        workflow, *children = self._workflows()
        made = program(
            process, workflow, self.journal, self.clock, children=children,
            knowing=knowing, budget=self.budget, riding=Riding() if self.scenario.riding else None, lease=lease, is_dead=lambda owner: self._is_dead(process, owner), host=self.host, scripted=self.cast.scripted if self.cast else None,
        )  # fmt: skip
        self._programs[actor] = made
        return made

    def _paused(self, actor: str) -> Process:
        made = self._programs.get(actor)
        if made is None or not made.process.paused_at:
            raise Failed([f"{actor} does not stand still"])
        return made.process

    def _is_dead(self, asking: Process, owner: Owner) -> bool:
        """The kernel's word on a process of the same boot."""
        dead = self.scenario.same_boot and any(process.pid == owner.pid and process.dead for process in self._processes)
        asking.footprint.feed(dead)
        return dead

    def _workflows(self) -> list[Workflow[..., Any]]:
        """The scenario's, and those of its children."""
        assert self.cast is not None, "a stage has its cast from its beginning"
        if self.cast.workflow is not None:
            return [self.cast.workflow, *children_of(self.cast.workflow)]
        if isinstance(self._code, Module):
            own = imported(self._code.async_ if self.is_async else self._code.sync)
            return [own, *children_of(own)]
        return self.cast.inline(self._code, is_async=self.is_async)

    def _ask(self, asking: Process, decision: str) -> int:
        self.asked[decision] += 1
        asking.footprint.touched = True
        asking.footprint.feed(self.asked[decision])
        return self.asked[decision]

    # -- the end -------------------------------------------------------------------------------------------------------

    def _look_at_the_end(self) -> None:
        self._require(list(unmet(self.scenario.expect, self.world())))

    def recover_again(self) -> None:
        """I7, on every run: once to take up what has fallen due, and once more without any news. Raises Failed for a bug of ours."""
        self.end()
        for run_id in [row.run_id for row in self.journal.runs()]:
            began_us, before = self.clock.wall_us(), self._extent(run_id)
            self._recover_patiently(run_id)
            if (self.clock.wall_us(), self._extent(run_id)) != (began_us, before):  # else this one was without news itself
                before = self._extent(run_id)
                self._recover_patiently(run_id)
            self.again.append(Again(run_id, before, self._extent(run_id)))

    def _recover_patiently(self, run_id: str) -> None:
        """Wait for whoever has the run, and for nothing else."""
        made = self._program("once-more")
        budget = replace(self.budget, max_wait=timedelta(0))
        report = made.process.start(lambda: made.recover(run_id, self.scenario.lease.term * 2, budget), None)
        if report.ended is not None and report.ended.exit == "bug":
            raise Failed([report.ended.message])

    def _extent(self, run_id: str) -> tuple[int, int]:
        row = self.journal.find(run_id)
        assert row is not None
        return row.head, sum(isinstance(event, Left) for event in self.ledger.events)

    def end(self) -> None:
        """Whoever stands still dies."""
        for process in self._processes:
            if process.paused_at:
                process.kill()

    def _require(self, problems: list[str]) -> None:
        if problems:
            raise Failed(problems)


def _stop_of(move: Acting) -> StopAt | None:
    for act, stop in (("kill", move.kill), ("pause", move.pause)):
        if isinstance(stop, Stop):
            return StopAt(act, stop.at, stop.occurrence, stop.step)  # type: ignore[arg-type]  # one of the two words
    return None
