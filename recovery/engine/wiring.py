"""Wiring: everything an engine is made of, for both colours. No I/O before first use.

Owns the choice of clock, identity and lease keeping. `sync` and `asynchronous` add the driver and the signatures.
"""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable, Coroutine, Iterable, Mapping
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Self, TypeVar, cast

from recovery.claims import World
from recovery.clocks import DatabaseClock, SystemClock
from recovery.core.durations import stated
from recovery.core.entries import Verb
from recovery.core.errors import DefinitionError, EngineClosed
from recovery.core.limits import Queue, by_name
from recovery.core.operations import Op
from recovery.core.policy import RIDING, Budget, Lease, Riding
from recovery.core.wording import of_type
from recovery.definitions.environment import Environment, Listing
from recovery.definitions.listing import ReceiptRow
from recovery.definitions.recovered import RunInfo
from recovery.definitions.registry import Registry, Workflows
from recovery.definitions.schedule import Schedule
from recovery.definitions.workflow import Workflow
from recovery.drivers.asking import Progress, Surroundings, refuse_async
from recovery.drivers.riding import Watchman
from recovery.engine.leases import Leases
from recovery.obeying import orders
from recovery.operators.informing import info_of
from recovery.ports import Clock, Journal, Owner, RunRow
from recovery.processes import identify, proven_dead
from recovery.storage import open_journal
from recovery.storage.committing import Committer
from recovery.vaults import Vault

if TYPE_CHECKING:
    from sqlalchemy import Engine as SqlEngine

    from recovery.storage.urls import Address

T = TypeVar("T")


def listed(environment: Environment, rows: Iterable[ReceiptRow], since: datetime | None) -> list[ReceiptRow]:
    """What a listing gave, those from `since` on. Raises DefinitionError for what is no row."""
    found = list(rows)
    for row in found:
        if not isinstance(row, ReceiptRow):
            problem = f"its listing gave {of_type(row)}"
            raise DefinitionError(what="environment", name=environment.name, problem=problem, advice="Give ReceiptRow values.")
    return [row for row in found if since is None or row.at >= since]


def _address(database: str | Journal | SqlEngine, schema: str, table_prefix: str) -> str | Address | None:
    """Where a journal is to be opened; None: it is one already. Raises StoreUrlError, DefinitionError."""
    if not isinstance(database, str) and hasattr(database, "dialect"):
        from recovery.storage.urls import lent

        return lent(database, schema, table_prefix)
    if schema or table_prefix:
        advice = "Add ?schema=...&table_prefix=... to its URL, which every command and worker is given."
        raise DefinitionError(
            what="engine", name=str(database), problem="schema= and table_prefix= belong to a SQLAlchemy engine", advice=advice
        )
    return database if isinstance(database, str) else None


class Wiring:
    """The common base of the engines.

    database: a URL (sqlite:///file.db, postgresql://..., memory://), a journal that is already open, or SQLAlchemy's Engine of a service's own,
    over psycopg (its pool is used, and its sessions are told nothing) or over sqlite3 (its file is used).
    schema, table_prefix: where in the database of such an engine the tables are; a URL says it itself.
    environments: those whose receipts `orphans` lists.
    budget: attempts, probes and waiting per call; lease: how long an owner may be silent; wait_for_owner: how long `run` and
    `recover` wait for a run that somebody else works on before they raise LeaseUnavailable.
    clock: None takes the database's on PostgreSQL and this host's elsewhere.
    riding: how outcomes may wait for the next commit of their run; None (strict): each is durable before its workflow goes on.
    queues: the limits of queues that workers with this engine keep.
    encryption: a `recovery.encryption.Keyring`, under whose current key values are encrypted from now on; None: they are stored as they are.
    """

    is_async = False

    def __init__(
        self,
        database: str | Journal | SqlEngine,
        *,
        schema: str = "",
        table_prefix: str = "",
        workflows: Iterable[Workflow[..., Any]] = (),
        environments: Iterable[Environment] = (),
        budget: Budget | None = None,
        lease: Lease | None = None,
        wait_for_owner: timedelta = timedelta(0),
        clock: Clock | None = None,
        encryption: Vault | None = None,
        riding: Riding | None = RIDING,
        queues: Iterable[Queue] = (),
    ) -> None:
        self.database = _address(database, schema, table_prefix)
        self.journal: Journal = cast("Journal", database) if self.database is None else open_journal(self.database)
        self.encryption = encryption
        if encryption is not None:
            self.journal.vault = encryption
        self.queues = by_name(queues)
        self.scheduled: dict[str, Schedule] = {}
        self._closed = False
        self._registry = Registry()
        self.environments = tuple(environments)
        self.budget = budget or Budget()
        if lease is not None and not isinstance(lease, Lease):  # a timedelta, say
            advice = "Pass Lease(term=..., renew_every=...)."
            raise DefinitionError(what="engine", name="lease", problem=f"it is {lease!r}", advice=advice)
        self.lease = lease or Lease()
        self.wait_for_owner = stated(wait_for_owner, "engine", "wait_for_owner")
        if riding is not None and not isinstance(riding, Riding):  # riding=False is what an effect takes
            advice = "Pass Riding(...), or None to be strict."
            raise DefinitionError(what="engine", name="riding", problem=f"it is {riding!r}", advice=advice)
        self.riding = riding
        self._watchman = None if riding is None else Watchman(riding.limit)
        self._clock = clock
        self._committer = Committer(self.journal)
        self._leases = Leases(self.journal, self.lease.renew_every)
        self._registry.workflows.build_in(self.built_in())
        for workflow in workflows:
            self.add(workflow)

    def built_in(self) -> Mapping[str, Callable[[], Workflow[..., Any]]]:
        """Workflows of the engine's own."""
        return {}

    def add(self, workflow: Workflow[..., Any]) -> None:
        """Know one more workflow, or version of one. Raises DefinitionError on another one of the same name and version, or of the other
        colour."""
        if isinstance(workflow, Workflow) and workflow.is_async is not self.is_async:
            raise DefinitionError(
                what="workflow",
                name=workflow.name,
                problem="it is an `async def`, and Engine runs `def`" if workflow.is_async else "it is a `def`, and AsyncEngine runs `async def`",
                advice="Use AsyncEngine for `async def` workflows and Engine for `def` workflows.",
            )  # fmt: skip
        self._registry.add_workflow(workflow)

    @property
    def workflows(self) -> Workflows:
        """What this engine can run, by name; of several versions, the one that was registered last."""
        return self._registry.workflows

    def on(self, database: str | Journal) -> Self:
        """An engine like this one, its workflows included, on another database."""
        other = type(self)(
            database,
            workflows=self.workflows.every(),
            environments=self.environments,
            budget=self.budget,
            lease=self.lease,
            wait_for_owner=self.wait_for_owner,
            clock=None if isinstance(self._clock, DatabaseClock) else self._clock,  # another database has another clock
            encryption=self.encryption,
            riding=self.riding,
            queues=self.queues.values(),
        )
        other.scheduled.update(self.scheduled)
        return other

    def priority_in(self, queue: str, priority: int | None) -> int:
        """As it was stated, else that of the queue."""
        if priority is not None:
            return priority
        return self.queues[queue].priority if queue in self.queues else 0

    def listings(self) -> list[tuple[Environment, Listing]]:
        """The environments that can list their receipts. Raises DefinitionError where a sync engine meets an `async def`."""
        found = [(environment, environment.listing) for environment in self.environments if environment.listing is not None]
        for environment, listing in found:
            refuse_async(inspect.iscoroutinefunction(listing) and not self.is_async, "environment", environment.name)
        return found

    @property
    def clock(self) -> Clock:
        """The one clock of both ends of every window."""
        if self._clock is None:
            shared = self.journal.url.startswith("postgresql")
            self._clock = DatabaseClock(self.journal) if shared else SystemClock()
        return self._clock

    def opened(self) -> Journal:
        """The journal, for one call. Raises EngineClosed."""
        if self._closed:
            raise EngineClosed(database=self.journal.url)
        return self.journal

    def allowed(self, procedure: Coroutine[Op[Any], Any, T]) -> Coroutine[Op[Any], Any, T]:
        """The procedure, for a driver. Raises EngineClosed, and then it never begins."""
        if self._closed:
            procedure.close()
        self.opened()
        return procedure

    def surroundings(self, progress: Progress | None = None) -> Surroundings:
        return Surroundings(
            self.journal,
            self.clock,
            self._committer,
            progress,
            unwanted=self._unwanted,
            watchman=self._watchman,
        )

    def _unwanted(self, run_id: str) -> bool:
        """Whether a run that is at work here was cancelled or taken over, as the last renewal of its lease has heard."""
        said = orders(self._leases.messages(run_id))
        return self._leases.lost(run_id) or any(order.verb is Verb.CANCEL for order in said)

    def world(self, *, wait_for_owner: timedelta | None = None, budget: Budget | None = None) -> World:
        """What the reconciler is given, with this call's own patience."""
        return World(
            workflows=self._registry.workflows,
            budget=budget or self.budget,
            lease=self.lease,
            wait_for_owner=self.wait_for_owner if wait_for_owner is None else wait_for_owner,
            token=self.new_token,
            identify=self.identify,
            proven_dead=self.proven_dead,
            raise_mark=self.clock.raise_mark,
            hold=self._leases.hold,
            drop=self._leases.drop,
            held_contracts=self._leases.held_contracts,
            hearing=self._leases.hearing,
            messages=self._leases.messages,
            tell=self._leases.read_inbox,
            abandon=self._leases.abandon,
            abandoned=self._leases.abandoned,
            riding=self.riding,
            vault=self.journal.vault,
        )

    def new_token(self) -> str:
        return os.urandom(16).hex()  # half of what `secrets` takes, once for each append

    def identify(self, token: str) -> Owner:
        return identify(token)

    def proven_dead(self, owner: Owner) -> bool:
        return proven_dead(owner)

    def info(self, row: RunRow) -> RunInfo:
        """The run row for people."""
        return info_of(row, self.proven_dead)

    def flush(self) -> None:
        """Give up leases and connections. Everything that returned is durable already; a later call opens them again."""
        if self._watchman is not None:
            self._watchman.close()
        self._leases.close()
        self._committer.close()
        self.journal.close()
