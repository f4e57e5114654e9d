"""SQLite: one file, one writer at a time, write-ahead log, synced at each commit.

Owns the connections to a file, its creation at the first write, and the transaction that fences a batch. Invariant: a write transaction is
BEGIN IMMEDIATE from its first statement (a deferred one that reads and then writes fails at once, whatever the busy timeout), and
nothing is acknowledged that `synchronous=FULL` has not synced, through the drive's own memory where the system leaves that to us. Nobody but SQLite ever opens the file, since closing it drops our locks;
and at a fork nothing has it open, see `parting`.
"""

from __future__ import annotations

import errno
import os
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any, Final, TypeVar
from urllib.parse import quote
from weakref import WeakSet

import sqlalchemy as sa
from sqlalchemy import event
from sqlalchemy.dialects.sqlite import insert

from recovery.core.errors import InvariantViolated, SchemaMismatch, StoreUrlError
from recovery.forks import ask
from recovery.ports import Append, Appended, AppendResult, NewRun
from recovery.storage import inbox, payloads
from recovery.storage import statements as say
from recovery.storage.ahead import Ahead
from recovery.storage.alone import alone_at
from recovery.storage.bare import Bare, cursor_of
from recovery.storage.faults import MIGRATE, MIGRATE_OR_SAY_WHERE, passing
from recovery.storage.filesystems import refuse_network
from recovery.storage.leaving import leave
from recovery.storage.names import sync_names
from recovery.storage.parting import Readers, refuse_inherited
from recovery.storage.place import tables_at
from recovery.storage.schema import VERSION, evidence, hold
from recovery.storage.schema import run as run_table
from recovery.storage.sqlite_library import LIBRARY, warn_once
from recovery.storage.together import apart, ordinary, together_at
from recovery.storage.turns import Turns
from recovery.storage.urls import Address, is_file, sqlite_path
from recovery.storage.version import schema_version

T = TypeVar("T")
G = TypeVar("G", Append, NewRun)

BUSY_TIMEOUT_MS: Final = 10_000
PARTING_SECONDS: Final = BUSY_TIMEOUT_MS / 1000
"""For so long a fork waits for a thread that is at the file: as long as that may wait for another process."""
CHECKPOINT_PAGES: Final = 4000  # of the log; larger than the default, so that a busy writer is interrupted less often
STATEMENTS_MAX: Final = 256  # that a connection keeps prepared: a dozen sizes of each one that writes a batch
_FRAME_BYTES: Final = 4096 + 24  # of a page in the log

# A copy made by VACUUM INTO has left write-ahead logging; the first writer puts it back.
_WRITER_SETTINGS: Final = (
    "journal_mode = WAL",
    "synchronous = FULL",
    "fullfsync = ON",  # on macOS, where a plain sync stops at the drive's memory; SQLite ignores it where there is no such call
    "checkpoint_fullfsync = ON",
    "foreign_keys = ON",
    f"wal_autocheckpoint = {CHECKPOINT_PAGES}",
    # What a statement of many rows would need to take them back: beyond 64 kB, SQLite would write the pages that it touches into a file of its own first.
    "temp_store = MEMORY",
)
_REQUIRED: Final = {
    "journal_mode": "wal",
    "synchronous": 2,
    "fullfsync": 1,
    "checkpoint_fullfsync": 1,
    "foreign_keys": 1,
    "busy_timeout": BUSY_TIMEOUT_MS,
}

_APPENDED: Final = Appended()
_INSERT_RUN: Final = (
    insert(run_table).values(epoch_incarnation=say.THE_INCARNATION).on_conflict_do_nothing().returning(run_table.c.number)
)
_INSERT_EVIDENCE: Final = insert(evidence).on_conflict_do_nothing()
_INSERT_HOLD: Final = insert(hold).on_conflict_do_nothing()


class SqliteDatabase:
    """A journal's file. With `create=False` a missing or older file is refused and left alone."""

    def __init__(self, address: Address, *, create: bool) -> None:
        self.url = address.shown
        self._path = sqlite_path(address.url)
        self._network_accepted = address.network_accepted
        # mode=rw: opening a connection never creates a file, whatever happened to it since we looked.
        self._address = sa.URL.create(
            "sqlite+pysqlite", database=f"file:{quote(str(self._path))}", query={"mode": "rw", "uri": "true"}
        )
        self._tables = tables_at(address.place)
        self._together, self._alone = together_at(address.place), alone_at(address.place)
        self._create = create
        self._lock = threading.RLock()  # one writer per process; the file's own lock holds off other processes
        self._turns = Turns(self._path, BUSY_TIMEOUT_MS / 1000)
        self._readers = Readers()
        self._forking: set[int] = set()  # threads that fork, and have `_lock` then
        self._ready = False
        self._writing: WeakSet[Any] = WeakSet()  # the pool's records of connections that write
        self._made: WeakSet[Any] = WeakSet()  # the records of all, those too that a pool was left with when it was disposed of
        self._writer = self._engine("BEGIN IMMEDIATE", self._writer_connected, pool_size=1, max_overflow=0)
        self._bare = Bare(self._writer, Ahead(self._path, CHECKPOINT_PAGES * _FRAME_BYTES))
        self._reader = self._engine("BEGIN", self._connected, pool_size=4, max_overflow=16)
        ask(self)

    # -- connections ---------------------------------------------------------------------------------------------------

    def _engine(self, begin: str, connected: Callable[[Any, object], None], **pool: int) -> sa.Engine:
        arguments = {"check_same_thread": False, "cached_statements": STATEMENTS_MAX}
        engine = sa.create_engine(self._address, module=LIBRARY, poolclass=sa.QueuePool, connect_args=arguments, **pool)
        self._tables.listen(engine)
        event.listen(engine, "connect", connected)
        event.listen(engine, "begin", lambda connection: connection.exec_driver_sql(begin))
        return engine

    def _connected(self, connection: Any, record: Any) -> None:
        refuse_inherited(self._path, self.url)
        self._made.add(record)
        connection.isolation_level = None  # transactions are begun by us, not by the driver
        _pragma(connection, f"busy_timeout = {BUSY_TIMEOUT_MS}")

    def _writer_connected(self, connection: Any, record: Any) -> None:
        """Set what durability and integrity rest on, and read it back: SQLite ignores what it cannot do."""
        self._connected(connection, record)
        self._writing.add(record)
        warn_once()
        self._require_local()
        for setting in _WRITER_SETTINGS:
            _pragma(connection, setting)
        for name, wanted in _REQUIRED.items():
            found = _pragma(connection, name)
            if found != wanted:
                raise StoreUrlError(
                    url=self.url,
                    problem=f"its {name} is {found} and must be {wanted}",
                    advice="Keep it on a local disk: a network file system cannot do this.",
                )
        self._sync_names()

    def _require_local(self) -> None:
        if not self._network_accepted:
            refuse_network(self._path, self.url)

    def _sync_names(self) -> None:
        """The log that was just opened may be new, and SQLite does not look at what the sync of its name came to: after a power cut it would be gone, with all
        that was acknowledged in it. Nor does it ask about the file's own name, whose creator may have crashed before its sync."""
        try:
            sync_names(self._path.parent)
        except OSError as error:
            raise passing(error, self.url, fate="Nothing was written") from error

    @contextmanager
    def reading(self) -> Iterator[sa.Connection]:
        with self._readers.inside(), self._reader.begin() as connection:
            yield connection

    snapshot = reading

    @contextmanager
    def writing(self) -> Iterator[sa.Connection]:
        with self._lock, self._turns, self._writer.begin() as connection:
            yield connection

    transaction = writing

    def close(self) -> None:
        with self._lock:
            self._reader.dispose()
            self._writer.dispose()
            self._turns.drop()
            self._ready = False

    def interrupted(self) -> None:
        self._readers.interrupted()
        with self._lock:  # so that a writing connection is in nobody's hands but those of the broken call
            for record in list(self._writing):
                record.invalidate()  # rolls back, and gives up the file's lock
            self._reader.dispose()
            self._writer.dispose()
            self._turns.drop()

    def parting(self) -> None:
        self._forking.add(me := threading.get_ident())  # first: whoever is interrupted behind it gives back what was got
        until = time.monotonic() + PARTING_SECONDS
        if not self._lock.acquire(timeout=PARTING_SECONDS):
            self._forking.discard(me)
            return  # what is open stays so, and the child finds it
        if self._readers.shut(max(0.0, until - time.monotonic())) and not self._bare.busy:
            self._reader.dispose()
            self._writer.dispose()
            for record in list(self._made):  # one that was at work when its pool was disposed of went back to that, open
                record.close()

    def parted(self) -> None:
        if (me := threading.get_ident()) in self._forking:
            self._readers.open()
            with suppress(RuntimeError):  # interrupted in front of it, or behind it
                self._lock.release()
            self._forking.discard(me)  # last: whoever is interrupted before it is told once more

    def forked(self) -> None:
        self._lock = threading.RLock()
        self._forking = set()
        self._made = WeakSet()
        self._readers.forked()
        self._turns.forked()
        leave(self._reader)
        leave(self._writer)
        self._bare.forked()

    # -- schema --------------------------------------------------------------------------------------------------------

    def ready(self, *, writing: bool) -> bool:
        if self._ready:
            return True
        with self._lock:
            if not is_file(self._path, self.url):
                return self._absent(writing=writing)
            self._check_file()
            refuse_inherited(self._path, self.url)
            found = self._version()
            if found is None and self._create and not writing:
                return False  # a read neither makes a journal out of an empty file nor puts tables into somebody else's
            if found != VERSION:
                self._outdated(found)
            self._ready = True
        return True

    def _absent(self, *, writing: bool) -> bool:
        if not self._create:
            raise StoreUrlError(
                url=self.url, problem="there is no database there", advice="Check the path, or start a run to create it."
            )
        if not writing:
            return False
        self._migrate()
        self._ready = True
        return True

    def _check_file(self) -> None:
        """SQLite's own words for this are hard to tell apart. Asked, not tried: to open the file and close it again would take the locks of
        every connection that this process has to it, and another process, believing itself alone, would remove the log under them."""
        if not os.access(self._path, os.R_OK, effective_ids=os.access in os.supports_effective_ids):
            problem = os.strerror(errno.EACCES)
            raise StoreUrlError(url=self.url, problem=problem, advice="Check the path and its permissions.")

    def _outdated(self, found: str | None) -> None:
        """Older, or empty: migrate if we may create. Newer was refused by `schema_version`."""
        if self._create:
            self._migrate()
            return
        problem = "holds no journal" if found is None else f"has schema version {found}, this code needs {VERSION}"
        raise SchemaMismatch(url=self.url, problem=problem, advice=MIGRATE_OR_SAY_WHERE if found is None else MIGRATE)

    def _version(self) -> str | None:
        """Asked on a connection of its own, which demands nothing: the file may not be a journal yet."""
        engine = sa.create_engine(self._address, module=LIBRARY, poolclass=sa.NullPool)
        with engine.connect() as connection:
            return schema_version(connection, self.url, self._tables)

    def _migrate(self) -> None:
        from recovery.storage.migrate import migrate_file  # and alembic, which costs more than all else here

        self._require_local()
        migrate_file(self._path, self.url, self._tables.place)

    # -- writing -------------------------------------------------------------------------------------------------------

    def open_together(self, batch: Sequence[NewRun]) -> int | None:
        return self._committed(self._together.opened, batch)

    def open_run(self, new: NewRun) -> bool:
        with self.writing() as connection:
            number = connection.execute(_INSERT_RUN, say.new_run_columns(new)).scalar()
            if number is None:
                return False
            self._alone.rows(cursor_of(connection), new.run_id, new.rows)
            payloads.refer(connection, ((number, item) for item in new.payloads))
            return True

    def insert_evidence(self, connection: sa.Connection, columns: dict[str, object]) -> None:
        connection.execute(_INSERT_EVIDENCE, columns)

    def insert_hold(self, connection: sa.Connection, columns: dict[str, object]) -> None:
        connection.execute(_INSERT_HOLD, columns)

    def append(self, batch: Sequence[Append]) -> list[AppendResult]:
        """One transaction for the batch; a member that is refused writes nothing and does not disturb the others."""
        together = ordinary(batch)
        written = self._alone.written if len(batch) == 1 else self._together.written
        if len(together) == len(batch) and self._committed(written, batch):
            return [_APPENDED] * len(batch)
        with self.writing() as connection:
            first = apart(together, batch) if len(together) < len(batch) else []
            done = {member.run_id for member in first} if first and self._written_together(connection, first) else frozenset()
            return [_APPENDED if member.run_id in done else self._append_one(connection, member) for member in batch]

    def _committed(self, written: Callable[[Any, Sequence[G]], T], batch: Sequence[G]) -> T:
        """Commit what nothing stands in the way of, which is nearly everything, at the cost of little more than SQLite's own. False or None: nothing was written."""
        with self._lock, self._turns:
            return self._bare.committed(lambda cursor: written(cursor, batch))

    def _written_together(self, connection: sa.Connection, members: Sequence[Append]) -> bool:
        """The same within a transaction that has more to write."""
        with connection.begin_nested() as nested:
            written = self._together.written(cursor_of(connection), members)
            if not written:
                nested.rollback()
        return written

    def _append_one(self, connection: sa.Connection, member: Append) -> AppendResult:
        refused = say.key_taken(connection, member)
        number = None if refused else connection.execute(say.FENCE, say.fence_of(member)).scalar()
        if number is None:
            reason = say.explained(connection, member)
            if reason is None:  # nothing can move while we hold the write lock
                raise InvariantViolated(
                    f"Run {member.run_id!r}: the fence refused an append without a reason. Nothing was written."
                )
            return reason
        self._alone.brought(cursor_of(connection), member)
        inbox.tell(connection, member.words)
        return _APPENDED

    def tell_due(self, connection: sa.Connection, looks_us: int | None = None) -> None:
        """Nothing tells other processes of a change in a file."""

    def listen(self, wake: Callable[[], None]) -> Callable[[], None]:  # noqa: ARG002  # one signature
        return lambda: None

    def now_us(self) -> int:
        return time.time_ns() // 1000


def _pragma(connection: Any, text: str) -> Any:
    rows = connection.execute(f"PRAGMA {text}").fetchall()
    return rows[0][0] if rows else None
