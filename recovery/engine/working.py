"""The worker: claims runs that are due, has them brought on, and lets go of what it cannot finish.

Owns when a look is worth while, how many runs are at work at a time, and the end. Knows neither colours nor signals. Invariants: whatever is at work was
claimed here and is renewed by the leases' thread, outside user code; one run's failure ends neither the worker nor another run; what the worker remembers is
bounded by what is at work and what has just been refused.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import CancelledError, Future
from dataclasses import dataclass, replace
from datetime import timedelta
from functools import partial
from queue import Empty, SimpleQueue
from typing import Any, Final

from recovery import reconciler
from recovery.claims import Taken, World, loaded_together
from recovery.core.contracts import microseconds
from recovery.core.durations import stated
from recovery.core.entries import Override
from recovery.core.errors import DefinitionError, OwnershipError, RecoveryError, StoreUnavailable
from recovery.core.instants import iso
from recovery.crashpoints import around
from recovery.definitions.recovered import Recovered
from recovery.drivers.handing import HandedBack
from recovery.drivers.patience import Patience
from recovery.engine.calendar import Calendar, Refused
from recovery.engine.crew import crew
from recovery.engine.serving import unknown
from recovery.engine.setbacks import Setbacks
from recovery.engine.watch import Watch
from recovery.engine.wiring import Wiring
from recovery.logs import logger
from recovery.operators.quarantining import quarantine
from recovery.ports import RunRow, Wanted

Tell = Callable[[str, Mapping[str, Any]], None]
"""Told what happens: a fixed word, and what it is about."""

GATHER_US: Final = 2_000
"""How long a worker that has fewer than half of its places free waits for more of them before it looks."""

_AT_WORK: Final[dict[Worker, None]] = {}
"""The workers of this process."""

HAND_BACK_SECONDS: Final = 5.0
"""How long a worker that is to end waits for runs to be let go at their next step. Those that are not are found by the death of their owner."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Working:
    """How a worker works. concurrency: runs at a time; queues: those that it serves, None: all; poll: how often it looks while nobody tells it that
    something is due; keep: how long a run may wait for a named time without being let go; crashes: how many workers in a row a run may end before it is
    quarantined; drain: how long runs may go on once the worker is to end, before they are handed back; until_idle: end by itself once nothing is due; patience: for how
    long a run that is at work waits for a database that does not answer, None: for as long as it takes."""

    concurrency: int = 8
    queues: tuple[str, ...] | None = None
    poll: timedelta = timedelta(seconds=1)
    keep: timedelta = timedelta(seconds=1)
    crashes: int = 5
    drain: timedelta = timedelta(seconds=30)
    until_idle: bool = False
    patience: timedelta | None = None

    def __post_init__(self) -> None:
        none = timedelta(0)
        for field in ("poll", "keep", "drain", "patience"):
            if field != "patience" or self.patience is not None:
                stated(getattr(self, field), "worker", field)
        if isinstance(self.queues, str):  # each letter would be a queue, and no run be taken
            raise DefinitionError(
                what="worker", name="queues", problem="it is a str", advice=f"Pass a tuple of names, such as ({self.queues!r},)."
            )
        for field, wrong, problem, advice in (
            ("concurrency", self.concurrency < 1, "it brings on no run", "Let it bring on one or more."),
            ("poll", self.poll <= none, "it never rests", "Look every second or so."),
            ("keep", self.keep < none, "it is negative", "Zero keeps none."),
            ("crashes", self.crashes < 1, "no run could ever be taken over", "Allow one or more."),
            ("drain", self.drain < none, "it is negative", "Zero hands back at once."),
            (
                "patience",
                self.patience is not None and self.patience < none,
                "it is negative",
                "Zero waits for no longer than the store does.",
            ),
        ):
            if wrong:
                raise DefinitionError(what="worker", name=field, problem=problem, advice=advice)


class Worker:
    """Works until it is told to stop. `tell` is called in the thread of `work`."""

    def __init__(self, engine: Wiring, working: Working, tell: Tell = lambda event, about: None) -> None:  # noqa: ARG005  # one signature
        self._engine = engine
        self._working = working
        self._listener: Tell | None = tell
        self._wakes: SimpleQueue[Future[Any] | None] = SimpleQueue()  # its put may be called in a signal handler
        self._at_work: dict[Future[Any], RunRow] = {}
        self._setbacks = Setbacks()
        self._watch = Watch(engine, working.crashes)
        self._calendar = Calendar(engine)
        self._budget = replace(engine.budget, max_wait=working.keep, max_answer_wait=timedelta(0))
        self._patience = Patience(working.patience)
        self._stopping = False
        self._handing_back = False
        self._unreachable = 0
        self._next_due_us: int | None = None
        self._to_serve = working.queues or ()  # until it was said which of them nobody knows
        self.turned_us = engine.clock.boot_us()
        self.reached = False

    @property
    def ready(self) -> bool:
        """Whether the database answered when it was last looked at, no run waits for it, and runs are still taken."""
        return self.reached and not self._stopping and not self._patience.waiting

    @property
    def at_work(self) -> int:
        """How many runs are."""
        return len(self._at_work)

    def reads(self, database: str) -> bool:
        """Whether it takes runs of that database."""
        return self._engine.journal.url == database

    def alive(self, seconds: float) -> bool:
        """Whether it has turned within so many seconds."""
        return self._engine.clock.boot_us() - self.turned_us < seconds * 1_000_000

    def stop(self) -> None:
        """Take no more runs; what is at work goes on for as long as `drain` says. May be called from anywhere, signal handlers included."""
        self._stopping = True
        self._wakes.put(None)

    def wake(self) -> None:
        """Look now: something has become due. May be called from anywhere."""
        self._wakes.put(None)

    def work(self) -> bool:
        """Until `stop`. Whether everything that was at work came to an end of its own, or was handed back. Raises what ended it otherwise, once that is so."""
        self._crew = crew(self._engine, self._working.concurrency, self._patience, lambda: self._handing_back)
        deaf = self._engine.journal.listen(self.wake)
        _AT_WORK[self] = None
        try:
            try:
                self._turn()
            finally:  # whatever ended it: what was taken is not left to itself
                self._stopping = True
                whole = self._drained()
        finally:
            _AT_WORK.pop(self, None)
            deaf()
        return whole

    def _turn(self) -> None:
        while not self._stopping:
            self.turned_us = self._engine.clock.boot_us()
            self._look()
            if self._working.until_idle and self.reached and not self._at_work and not self._watch.suspects:
                break
            self._wait(self._pause_seconds())

    def _drained(self) -> bool:
        self._tell("draining", {"at_work": len(self._at_work)})
        self._until_idle(self._working.drain.total_seconds())
        if self._at_work:
            self._tell("handing back", {"at_work": len(self._at_work)})
            self._handing_back = True
            self._crew.break_off()
            self._until_idle(HAND_BACK_SECONDS)
        if self._at_work:
            return False
        self._crew.close()
        return True

    def _tell(self, event: str, about: Mapping[str, Any]) -> None:
        """One that fails ends the worker, and hears nothing of how."""
        listener, self._listener = self._listener, None
        if listener is not None:
            listener(event, about)
            self._listener = listener

    # -- taking --------------------------------------------------------------------------------------------------------

    def _look(self) -> None:
        free = self._working.concurrency - len(self._at_work)
        if self._patience.waiting:
            self._watch.forget()  # they cannot renew either
        try:
            self._tell_of_unknown_queues()
            self._begin_what_is_scheduled()
            if free > 0:
                self._take(free)
            elif (
                self._patience.waiting or self._unreachable
            ):  # full: it asks only so as to say what its runs wait for, and until when
                self._engine.journal.due(self._wanted(1))
            else:
                return
        except StoreUnavailable as error:
            self.reached = False
            self._next_due_us = None
            if not self._unreachable:
                self._tell("unreachable", {"problem": str(error)})
            self._unreachable += 1
        else:
            self.reached = True
            if self._unreachable:
                self._tell("reached again", {"looks": self._unreachable})
            self._unreachable = 0

    def _tell_of_unknown_queues(self) -> None:
        """Once, when the database has answered: a name that is misspelt would be served for ever, and nothing taken."""
        for queue, known in list(unknown(self._engine, self._to_serve)):
            logger(__name__).warning("a queue to be served is not known", queue=queue, known=known)
            self._tell("unknown queue", {"queue": queue, "known": known})
        self._to_serve = ()

    def _begin_what_is_scheduled(self) -> None:
        """Full or not: another worker may have room."""
        for came in self._calendar.look():
            if isinstance(came, Refused):
                self._tell("schedule refused", {"schedule": came.schedule, "problem": came.problem})
            elif came.run_id:
                self._tell("scheduled", {"schedule": came.schedule, "run_id": came.run_id})
            else:
                self._tell("passed over", {"schedule": came.schedule, "tick": iso(came.tick_us), "problem": came.why})

    def _take(self, free: int) -> None:
        """Each is started as it is claimed: the next claim may raise, and of what was only claimed nobody would renew the lease."""
        world = self._engine.world()
        if any(self._watch.is_suspect(row.crashes) for row in self._at_work.values()):
            return
        for row in self._watch.taken(world, self._wanted(free), alone=not self._at_work):
            self._start(Taken(row))
            self._tell_claimed(row)
            free = 0 if self._watch.is_suspect(row.crashes) else free - 1
        if free < 1 or (self._watch.suspects and self._at_work):
            return  # full, or what is at work is to come to its end first
        with around("claim"):
            found = self._engine.journal.claim_due(self._wanted(free), world.owner(), lease_term_us=world.lease_term_us)
        self._next_due_us = found.next_due_us
        for taken in self._loaded(world, found.runs):
            self._start(taken)
        for row in found.runs:
            self._tell_claimed(row)

    def _wanted(self, free: int) -> Wanted:
        return Wanted(
            now_us=self._engine.clock.wall_us(),
            limit=free,
            queues=self._working.queues,
            workflows=self._engine.workflows.names,
            # A run is let go a moment before we hear that its turn has ended.
            limits=tuple(self._engine.queues.values()),
            passed_over=self._setbacks.passed_over(self.turned_us) | {row.run_id for row in self._at_work.values()},
        )

    def _loaded(self, world: World, rows: Sequence[RunRow]) -> Sequence[Taken]:
        """What was claimed, loaded in one go. Where that cannot be, each loads by itself, and is told why: nothing that was claimed is left to itself."""
        try:
            return loaded_together(world, self._engine.journal, rows)
        except RecoveryError:
            return [Taken(row) for row in rows]

    def _start(self, taken: Taken) -> None:
        world, row = self._engine.world(budget=self._budget), taken.row
        condemned = row.crashes >= self._working.crashes
        held = partial(quarantine, world, row, last_alone=self._watch.is_suspect(row.crashes - 1))
        procedure = held if condemned else partial(reconciler.carry, world, taken)
        future = self._crew.start(procedure)
        self._at_work[future] = row
        future.add_done_callback(self._wakes.put)

    def _tell_claimed(self, row: RunRow) -> None:
        self._tell("claimed", {"run_id": row.run_id, "epoch": str(row.epoch), "crashes": row.crashes})

    # -- waiting -------------------------------------------------------------------------------------------------------

    def _pause_seconds(self) -> float:
        """Until the next look. A full worker is woken by the first run that ends."""
        if self._watch.suspects and not self._at_work and not self._unreachable:
            return 0
        if self._unreachable:
            return max(self._working.poll.total_seconds(), self._patience.pause_seconds(self._unreachable))
        scheduled_us = self._calendar.due_in_us()
        if len(self._at_work) >= self._working.concurrency:
            full_us = microseconds(self._working.poll)
            return (full_us if scheduled_us is None else min(full_us, scheduled_us)) / 1_000_000
        pauses = [
            microseconds(self._working.poll),
            scheduled_us,
            self._watch.due_in_us(self.turned_us),
            self._setbacks.due_in_us(self.turned_us),
        ]
        if self._next_due_us is not None:
            pauses.append(max(0, self._next_due_us - self._engine.clock.wall_us()))
        return min(pause for pause in pauses if pause is not None) / 1_000_000

    def _wait(self, seconds: float) -> None:
        """Until something wakes us; then for all that has woken us meanwhile, and of a worker that is nearly full a moment longer: what is claimed together costs a fraction."""
        try:
            self._ended(self._wakes.get(timeout=seconds))
            ends_us = self._engine.clock.boot_us() + GATHER_US
            while 2 * len(self._at_work) > self._working.concurrency and (left_us := ends_us - self._engine.clock.boot_us()) > 0:
                self._ended(self._wakes.get(timeout=left_us / 1_000_000))
            while True:
                self._ended(self._wakes.get_nowait())
        except Empty:
            return

    def _until_idle(self, seconds: float) -> None:
        ends_us = self._engine.clock.boot_us() + int(seconds * 1_000_000)
        while self._at_work and (left_us := ends_us - self._engine.clock.boot_us()) > 0:
            self.turned_us = self._engine.clock.boot_us()
            self._wait(min(left_us / 1_000_000, self._working.poll.total_seconds()))

    # -- ending --------------------------------------------------------------------------------------------------------

    def _ended(self, future: Future[Any] | None) -> None:
        if future is None:
            return
        row = self._at_work.pop(future)
        self._tell_of_room(row.queue)
        try:
            self._came(row, future.result())
        except (HandedBack, CancelledError):
            self._tell("handed back", {"run_id": row.run_id})
        except OwnershipError as error:
            self._tell("lost", {"run_id": row.run_id, "problem": str(error)})
        except StoreUnavailable as error:  # says nothing about the run, which is due once the database answers
            self._tell("interrupted", {"run_id": row.run_id, "problem": str(error)})
        except Exception as error:  # noqa: BLE001  # of this run: it is open still, and is tried again later and later
            self._refused(row, error)
        except BaseException as error:  # noqa: BLE001  # user code that wants to end the process ends its own run's turn
            self._refused(row, error)

    def _tell_of_room(self, queue: str) -> None:
        """A queue with limits may let one more run begin: this worker looks by itself, and the others of this process are told. Those of others see it at their next look."""
        if queue in self._engine.queues:
            for other in list(_AT_WORK):
                if other is not self and other.reads(self._engine.journal.url):
                    other.wake()

    def _came(self, row: RunRow, came: Recovered[Any] | Override | None) -> None:
        if not isinstance(came, Recovered):
            self._setbacks.forget(row.run_id)
            if came is not None:
                self._tell("quarantined", {"run_id": row.run_id, "problem": came.reason})
            return
        looks_us = None if came.next_look is None else int(came.next_look.timestamp() * 1_000_000)
        next_look = None if looks_us is None else iso(looks_us)
        self._tell("brought on", {"run_id": row.run_id, "status": came.status.value, "next_look": next_look})
        if not came.status.settled and looks_us is not None and looks_us <= self._engine.clock.wall_us():
            self._setbacks.add(row.run_id, self._engine.clock.boot_us())  # it would be due at once, over and over
        else:
            self._setbacks.forget(row.run_id)

    def _refused(self, row: RunRow, error: BaseException) -> None:
        pause = self._setbacks.add(row.run_id, self._engine.clock.boot_us())
        problem = str(error) if isinstance(error, RecoveryError) else type(error).__name__
        logger(__name__).error("a run could not be brought on", run_id=row.run_id, problem=problem)
        self._tell("refused", {"run_id": row.run_id, "problem": problem, "again_in_seconds": pause.total_seconds()})
