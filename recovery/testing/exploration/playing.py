"""Playing: one history on a stage, redone from its beginning and then gone on with step by step.

Owns the way from choices to a timeline: the steps of one process without anything in between are one move. Must not know which way is
searched. Invariant: the timeline of a history, played by itself, leads to the same moment.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cache
from typing import TypeGuard

from recovery.core.entries import Opened
from recovery.storage.memory import MemoryJournal
from recovery.testing.casting import Cast
from recovery.testing.exploration.branching import CANCELLED, RESTOCKED, RUN, WORKER, Moment
from recovery.testing.exploration.shrinking import actor_of
from recovery.testing.exploration.states import State, state_of
from recovery.testing.footprints import Footprint
from recovery.testing.journals import decoded
from recovery.testing.ledger import Declined
from recovery.testing.moves import Fork, Move, Order, Recover, Restart, Resume, Run, Stop, Word
from recovery.testing.process import ANYWHERE, PASSAGES_MAX, Report
from recovery.testing.scenario import Scenario
from recovery.testing.stage import Stage

NAMESPACE = "explored"
"""Of every journal: derived keys are the same in every history."""


@dataclass(slots=True)
class Play:
    """A history under way, on the dict. moves: what happened so far. passed: the places of its last act. rank: of the last fault at this moment."""

    scenario: Scenario
    cast: Cast
    is_async: bool
    moves: list[Move] = field(default_factory=list)
    rank: int = 0
    journal: MemoryJournal = field(default_factory=lambda: MemoryJournal(NAMESPACE))
    stage: Stage = field(init=False)
    passed: list[str] = field(default_factory=list)
    _active: str | None = None
    _started: dict[str, str] = field(default_factory=dict)
    _ordering: dict[str, str] = field(default_factory=dict)
    _forks: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.stage = Stage(self.scenario, self.journal, is_async=self.is_async, cast=self.cast)

    def redo(self, timeline: tuple[Move, ...], rank: int) -> None:
        """Come back to where a history was, behind a fault of this rank."""
        for move in timeline:
            self.stage.make(move)
            self._note(move)
        self.moves, self.rank = list(timeline), rank

    def make(self, move: Move, rank: int) -> tuple[Footprint | None, Report | None]:
        """Let it happen; a process goes on to its next place. What the step did, and what became of the process. Raises Failed."""
        self.rank = rank
        if not _acts(move):
            self.stage.make(move)
            self._note(move)
            self.moves.append(move)
            return None, None
        actor = actor_of(move)
        assert actor is not None, "whoever acts has a name"
        goes_on = isinstance(move, Resume) and move.branch is None and self.moves and actor_of(self.moves[-1]) == move.resume
        if not goes_on:
            self.passed.clear()
        if isinstance(move, Resume):
            for process in self.stage.standing():
                process.footprint.lift()
        report = self.stage.let(move, ANYWHERE)
        self._note(move)
        if report.state == "paused":
            self.passed.append(report.point)
        if len(self.passed) > PASSAGES_MAX:
            report = Report("endless")
        merged = self.moves.pop() if goes_on else move
        stop = _stop(report.point, self.passed.count(report.point)) if report.state == "paused" else None
        self.moves.append(merged.model_copy(update={"pause": stop}))
        return self.stage.footprint(actor), report

    @property
    def moment(self) -> Moment:
        standing = [process.name for process in self.stage.standing()]
        active = self._active if self._active in standing else None
        stock = self.stage.environment.stock
        declined = sorted({event.value.get("sku", "") for event in self.stage.ledger.events if isinstance(event, Declined)})
        return Moment(
            run=self.journal.find(RUN),
            active=active,
            others=tuple(name for name in standing if name != active),
            branches=next((process.turns.ready for process in self.stage.standing() if process.name == active), ()),
            children=tuple(row.run_id for row in self.journal.runs() if not row.status.settled and self._is_child(row.run_id)),
            started=len(self._started) - 1,
            rank=self.rank,
            held=self.stage.environment.held,
            declined=tuple(sku for sku in declined if stock.get(sku, RESTOCKED) < RESTOCKED // 2),
            now_us=self.stage.clock.wall_us(),
            said=sum(isinstance(move, Word) and move != CANCELLED for move in self.moves),
            ordering=frozenset(name for name in standing if name in self._ordering),
            forks=tuple(row.run_id for row in self.journal.runs() if row.run_id in self._forks and not row.status.settled),
        )

    def state(self, moment: Moment) -> State:
        """What this moment is told from others by."""
        began = [(name, self._began(name)) for name in (moment.active, *moment.others) if name is not None]
        return state_of(self.stage, self.journal, (moment.active, moment.rank, began, moment.said))

    def _is_child(self, run_id: str) -> bool:
        if run_id == RUN:
            return False
        [first] = decoded(self.journal.first_rows([run_id]).values())
        return isinstance(first, Opened) and first.parent == RUN

    def _note(self, move: Move) -> None:
        actor = actor_of(move)
        if actor is not None and move != CANCELLED:
            self._active = actor
        if isinstance(move, Run | Recover):
            self._started[actor or WORKER] = f"{type(move).__name__} {move.id}"
        elif isinstance(move, Order | Fork | Restart):
            self._ordering[move.by] = repr(move.model_copy(update={"pause": None}))
        if isinstance(move, Fork):
            self._forks.add(move.fork)

    def _began(self, actor: str) -> str:
        return self._started.get(actor) or self._ordering[actor]


def _acts(move: Move) -> TypeGuard[Run | Recover | Resume | Order | Fork | Restart]:
    """Whether it is made place by place, by a process that others can come between. A cancel that comes as a fault is given whole."""
    return isinstance(move, Run | Recover | Resume | Order | Fork | Restart) and move != CANCELLED


@cache
def _stop(point: str, occurrence: int) -> Stop:
    """The n-th passage of a place. Kept: every step of every history ends with one."""
    return Stop.model_validate({"at": point, "occurrence": occurrence})
