"""PostgreSQL: one statement fences and writes a whole batch.

Owns when which statement is said and how its answers are read; `batches` and `single` have the statements, `sessions` the connections. Invariant: nothing is written unless the UPDATE of its
run's row matched epoch, owner and head *in the same statement*: a claim that commits first makes it match nothing, and a claim that comes
later waits for its row lock. Reading the epoch first, or joining it into the INSERT, lets a stale writer commit after a claim.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Final

import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import insert

from recovery.core.errors import SchemaMismatch, StoreUnavailable
from recovery.forks import watch
from recovery.ports import Append, Appended, AppendResult, NewRun
from recovery.storage import inbox, payloads
from recovery.storage import statements as say
from recovery.storage.batches import APPEND, OPEN, appending, opening
from recovery.storage.faults import MIGRATE, MIGRATE_OR_SAY_WHERE, WRITING
from recovery.storage.listening import listening, notify
from recovery.storage.place import tables_at, text
from recovery.storage.schema import (
    DUE_PREDICATE,
    OPEN_PREDICATE,
    OWNED_PREDICATE,
    RESUMED_PREDICATE,
    VERSION,
    evidence,
    hold,
    run_due,
    run_open,
    run_owned,
    run_resumed,
)
from recovery.storage.schema import run as run_table
from recovery.storage.sessions import Sessions, connecting
from recovery.storage.single import single_at
from recovery.storage.staying import numbered
from recovery.storage.urls import Address
from recovery.storage.version import schema_version

if TYPE_CHECKING:
    from psycopg.pq.abc import PGresult

for _index, _predicate in (
    (run_open, OPEN_PREDICATE),
    (run_due, DUE_PREDICATE),
    (run_resumed, RESUMED_PREDICATE),
    (run_owned, OWNED_PREDICATE),
):
    _index.dialect_kwargs["postgresql_where"] = sa.text(_predicate)  # said here for the sake of who has SQLite: see there

ROUNDS_MAX: Final = 8

_LOCKED: Final = text("""
SELECT locked.number
FROM (SELECT run_id FROM json_array_elements_text(CAST(:runs AS json)) AS w (run_id) ORDER BY run_id) AS w CROSS JOIN LATERAL (
    SELECT run.number FROM {run} AS run WHERE run.run_id = w.run_id FOR NO KEY UPDATE) AS locked
""")
"""The rows of runs, locked in the order in which APPEND locks them. Statements behind it see all that was said before it had them."""

_OPEN: Final = text("""
INSERT INTO {journal} (run, seq, kind, step, body, epoch_incarnation, epoch_n, token, digest)
SELECT :run, e.* FROM json_to_recordset(CAST(:entries AS json)) AS e (
    seq bigint, kind text, step text, body text, epoch_incarnation bigint, epoch_n bigint, token text, digest text)
""")
_INSERT_RUN: Final = (
    insert(run_table).values(epoch_incarnation=say.THE_INCARNATION).on_conflict_do_nothing().returning(run_table.c.number)
)
_INSERT_EVIDENCE: Final = insert(evidence).on_conflict_do_nothing()
_INSERT_HOLD: Final = insert(hold).on_conflict_do_nothing()
_NOW: Final = sa.text("SELECT CAST(extract(epoch FROM clock_timestamp()) * 1000000 AS bigint)")


class PostgresDatabase:
    """A journal's database on a server. It is migrated by `recover migrate`, never by itself."""

    def __init__(self, address: Address) -> None:
        self.url = address.shown
        self._address = address
        self._tables = tables_at(address.place)
        self._single = single_at(address.place)
        self._append, self._open = (numbered(str(self._tables.statement(each.bare))) for each in (APPEND, OPEN))
        engine = address.lent or connecting(address.url, self.url)
        self._sessions = Sessions(engine, self.url, self._tables, shared=address.lent is not None)
        self._ready = False
        self.reading, self.snapshot = self._sessions.statement, self._sessions.snapshot
        self.writing, self.transaction = self._sessions.writing, self._sessions.transaction
        watch(self)

    def close(self) -> None:
        self._sessions.give_up()
        self._ready = False

    def interrupted(self) -> None:
        self._sessions.interrupted()

    def forked(self) -> None:
        self._sessions.forked()

    def ready(self, *, writing: bool) -> bool:  # noqa: ARG002 -- a server's database is there or not, whatever is asked of it
        if self._ready:
            return True
        self._sessions.require()
        with self.reading() as connection:
            found = schema_version(connection, self.url, self._tables)
        if found != VERSION:
            problem = "is not migrated" if found is None else f"has schema version {found}, this code needs {VERSION}"
            raise SchemaMismatch(url=self.url, problem=problem, advice=MIGRATE_OR_SAY_WHERE if found is None else MIGRATE)
        self._ready = True
        return True

    # -- writing -------------------------------------------------------------------------------------------------------

    def open_together(self, batch: Sequence[NewRun]) -> int | None:
        found = self._bare(self._open, OPEN.as_arrays(opening(batch)))
        return _number(found, 0) if found else None

    def open_run(self, new: NewRun) -> bool:
        with self.transaction() as connection:
            number = connection.execute(_INSERT_RUN, say.new_run_columns(new)).scalar()
            if number is None:
                return False
            connection.execute(_OPEN, {"run": number, "entries": json.dumps([say.row_columns(row) for row in new.rows])})
            payloads.refer(connection, ((number, item) for item in new.payloads))
            if new.let_go:
                self.tell_due(connection, new.next_look_us)
            return True

    def insert_evidence(self, connection: sa.Connection, columns: dict[str, object]) -> None:
        connection.execute(_INSERT_EVIDENCE, columns)

    def insert_hold(self, connection: sa.Connection, columns: dict[str, object]) -> None:
        connection.execute(_INSERT_HOLD, columns)

    def append(self, batch: Sequence[Append]) -> list[AppendResult]:
        """Nearly always one statement on a bare connection. Whoever it did not write, or not as far as is known, is asked for again with care."""
        alone = self._single.statement(batch[0]) if len(batch) == 1 else None
        if alone is not None and (found := self._sessions.bare(*alone)) is not None and found.ntuples:
            return [Appended()]
        results: dict[int, AppendResult] = {}
        for group in _groups(batch):
            written = self._written_bare(batch, group) if alone is None else set()
            results.update((index, Appended()) for index in written)
            if left := [index for index in group if index not in written]:
                self._append_group(batch, left, results)
        return [results[index] for index in range(len(batch))]

    def _written_bare(self, batch: Sequence[Append], group: list[int]) -> set[int]:
        members = [batch[index] for index in group]
        if any(len(member.keys) > 1 or member.payloads or member.words for member in members):
            return set()
        found = self._bare(self._append, APPEND.as_arrays(appending(batch, group)))
        return {_number(found, at) for at in range(found.ntuples)} if found else set()

    def _bare(self, statement: tuple[str, tuple[str, ...]], values: Mapping[str, bytes]) -> PGresult | None:
        text, names = statement
        return self._sessions.bare(text, [values[name] for name in names])

    def tell_due(self, connection: sa.Connection, looks_us: int | None = None) -> None:
        notify(connection, self._address.place, looks_us)

    def listen(self, wake: Callable[[], None]) -> Callable[[], None]:
        return listening(self._address, wake)

    def now_us(self) -> int:
        self.ready(writing=False)
        with self.reading() as connection:
            return int(connection.execute(_NOW).scalar_one())

    def _append_group(self, batch: Sequence[Append], group: list[int], results: dict[int, AppendResult]) -> None:
        """Ask the fence, then explain each refusal; what nothing stands in the way of any more is asked again."""
        for _ in range(ROUNDS_MAX):
            written = self._fenced(batch, group)
            results.update((index, Appended()) for index in written)
            group = [index for index in group if index not in written]
            if not group:
                return
            with self.reading() as connection:
                reasons = {index: say.explained(connection, batch[index]) for index in group}
            results.update((index, reason) for index, reason in reasons.items() if reason is not None)
            group = [index for index in group if reasons[index] is None]
            if not group:
                return
        raise StoreUnavailable(url=self.url, problem="its keys change hands faster than they can be asked for", fate=WRITING)

    def _fenced(self, batch: Sequence[Append], group: list[int]) -> set[int]:
        """Which members the statement wrote. A member with several keys is alone in its group, so that it can be rolled back."""
        values = APPEND.as_json(appending(batch, group))
        large = any(batch[index].payloads for index in group)
        told = {word.run_id for index in group for word in batch[index].words}
        if len(batch[group[0]].keys) <= 1 and not large and not told:
            with self.writing() as connection:
                return set(connection.execute(APPEND.core, values).scalars())
        with self.transaction() as connection:
            if told:  # who is told has said by now whether it rests, or says so behind us and then finds our rows
                runs = json.dumps([*told.union(batch[index].run_id for index in group)])
                connection.execute(_LOCKED, {"runs": runs}).all()
            written = {row.member: row.number for row in connection.execute(APPEND.core, values).all()}
            for index in written:
                inbox.tell(connection, batch[index].words)
            if told and written:
                self.tell_due(connection)
            # Behind the fence: whoever waits for a payload's row holds the rows of its runs, as one who forgets does.
            payloads.refer(connection, ((number, item) for index, number in written.items() for item in batch[index].payloads))
            # One key lost: the others that were just inserted must go, too.
            if not written:
                connection.rollback()
            return set(written)


def _number(found: PGresult, at: int) -> int:
    """What stands first in a row."""
    return int(found.get_value(at, 0) or b"")


def _groups(batch: Sequence[Append]) -> Iterator[list[int]]:
    """Members that fit one statement: one per run, and alone if it claims several keys. Order is kept within a run."""
    group: list[int] = []
    runs: set[str] = set()
    for index, member in enumerate(batch):
        alone = len(member.keys) > 1
        if group and (alone or member.run_id in runs):
            yield group
            group, runs = [], set()
        group.append(index)
        runs.add(member.run_id)
        if alone:
            yield group
            group, runs = [], set()
    if group:
        yield group
