"""Engine: for `def` workflows."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import datetime, timedelta
from operator import attrgetter
from types import TracebackType
from typing import Any, ParamSpec, Self, TypeVar, cast

from recovery import hindsight, reconciler
from recovery.core.entries import Entry, Source, Status
from recovery.core.policy import Budget
from recovery.definitions.answer import Answer
from recovery.definitions.effect import Effect
from recovery.definitions.listing import ReceiptRow
from recovery.definitions.recovered import Recovered, RunInfo
from recovery.definitions.told import answered
from recovery.definitions.workflow import Workflow
from recovery.drivers.asking import Progress
from recovery.drivers.sync import SyncDriver, finish
from recovery.engine import restoring, verifying
from recovery.engine.compensating import SyncCompensating
from recovery.engine.controlling import SyncControlling
from recovery.engine.employing import SyncEmploying
from recovery.engine.enqueueing import SyncEnqueueing
from recovery.engine.restoring import Declared, Orphan
from recovery.engine.scheduling import SyncScheduling
from recovery.engine.speaking import SyncSpeaking
from recovery.engine.verifying import Verified
from recovery.engine.versioning import SyncVersioning
from recovery.engine.wiring import listed
from recovery.storage.listing import Damaged, log_damaged, readable
from recovery.storage.reading import read

P = ParamSpec("P")
R = TypeVar("R")


class Engine(SyncControlling, SyncVersioning, SyncSpeaking, SyncCompensating, SyncEnqueueing, SyncScheduling, SyncEmploying):
    """Runs and recovers `def` workflows. `with` and `close` flush. Safe for several threads."""

    def run(self, run_id: str, workflow: Workflow[P, R], /, *args: P.args, **kwargs: P.kwargs) -> R:
        """Run a workflow under a run id, or return the original outcome of that run id.

        Settled: the original outcome, nothing is done. Orphaned: it is recovered. Live elsewhere: waits `wait_for_owner`, then
        raises LeaseUnavailable. Another input or workflow under the same id: RunInputDiffers, before anything happens.
        Raises RunFailed, EffectInDoubt, Unresolved or Diverged as the run stands, and StoreUnavailable.
        """
        self.add(workflow)
        given = workflow.bind(*args, **kwargs)
        procedure = reconciler.run(self.world(), run_id, workflow, given)
        recovered: Recovered[R] = finish(SyncDriver(self.surroundings(), run_id=run_id).drive(self.allowed(procedure)))
        return recovered.result()

    def recover(
        self,
        run_id: str,
        *,
        wait_for_owner: timedelta | None = None,
        budget: Budget | None = None,
        progress: Progress | None = None,
        if_head: str | None = None,
    ) -> Recovered[Any]:
        """Bring a run as far as it can be brought, and say where it stands. Raises RunNotFound, LeaseUnavailable, JournalCorrupt.

        if_head: the head that a plan was made at (its digest, or the beginning of it); raises HeadMoved if the journal has moved since.
        """
        world = self.world(wait_for_owner=wait_for_owner, budget=budget)
        procedure = reconciler.recover(world, run_id, if_head)
        return finish(SyncDriver(self.surroundings(progress), run_id=run_id).drive(self.allowed(procedure)))

    def observe(
        self,
        run_id: str,
        step: str,
        answer: Answer[Any],
        *,
        effect: Effect[..., Any] | None = None,
        source: Source = Source.PUSH,
    ) -> bool:
        """Keep what the environment told by itself about a step, such as in a signed webhook, which you have verified.

        It is kept outside the fence, whoever works on the run, and judged at the next load; a settled outcome never changes. effect: whose
        types the answer's value has; without it, the value is plain JSON. Durable on return. False: it was known already.
        Raises RunNotFound and NotObservable.
        """
        procedure = hindsight.observe(run_id, step, answered(answer, effect), source)
        return finish(SyncDriver(self.surroundings()).drive(self.allowed(procedure)))

    def declare_restored(self, *, by: str, reason: str) -> Declared:
        """Declare that the database was restored from a backup, so that effects of the lost time may exist which it does not know.

        Every run that is not settled then asks before it sends, and parks where it cannot ask. Durable on return. Raises NotAttributed.
        """
        return finish(SyncDriver(self.surroundings()).drive(self.allowed(restoring.declare(by, reason))))

    def orphans(self, *, since: datetime | None = None) -> list[Orphan]:
        """Receipts in the engine's environments without an intent here, oldest first. Asks the listings only; writes nothing."""
        found: list[Orphan] = []
        for environment, listing in self.listings():
            rows = listed(environment, cast("Iterable[ReceiptRow]", listing(since)), since)
            procedure = restoring.unknown_keys(environment.name, environment.current_scope(), rows)
            found += finish(SyncDriver(self.surroundings()).drive(self.allowed(procedure)))
        return sorted(found, key=attrgetter("at"))

    def verify(self, run_id: str | None = None, *, against_environment: bool = False) -> Verified:
        """Verify the chain of one run, or of all. against_environment: also ask about every applied effect, read-only.

        Nothing is repaired, and a lost effect is reported and never done again. Raises RunNotFound."""
        procedure = verifying.verify(run_id, self.workflows, self.budget, against_environment=against_environment)
        return finish(SyncDriver(self.surroundings()).drive(self.allowed(procedure)))

    def get(self, run_id: str) -> Recovered[Any]:
        """Where a run stands; changes nothing. `result` raises RunUnsettled while there is no outcome, RunHeld where it is held. Raises RunNotFound."""
        return finish(SyncDriver(self.surroundings()).drive(self.allowed(reconciler.look(self.world(), run_id))))

    def list(
        self,
        *,
        status: Status | None = None,
        limit: int = 1000,
        after: str = "",
        on_damaged: Callable[[Damaged], None] = log_damaged,
    ) -> list[RunInfo]:
        """Runs by id, those behind `after`; fewer than `limit`: there are no more.

        on_damaged: told of each run whose own row cannot be read, and which is passed over; by default it is logged as an error. `get` of it raises JournalCorrupt.
        """
        statuses = None if status is None else [status]
        rows = readable(self.opened(), on_damaged, statuses=statuses, limit=limit, after=after)
        return [self.info(row) for row in rows]

    def history(self, run_id: str) -> tuple[Entry, ...]:
        """The run's entries, verified. Raises RunNotFound, JournalCorrupt, IncompatibleVersion."""
        return tuple(read(self.opened(), run_id).entries)

    def close(self) -> None:
        """Flush and give up connections. What is at work goes on to its end; every later call raises EngineClosed. Safe to repeat."""
        self._closed = True
        self.flush()

    def __enter__(self) -> Self:
        self._closed = False  # an engine of a module is entered once per life of its service
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()
