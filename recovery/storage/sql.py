"""The journal in an SQL database: `ports.Journal` over SQLAlchemy Core, the same on SQLite and PostgreSQL.

Owns which transaction holds which statements, and that every call passes through `retry`. Knows no dialect. Invariant: every write here
is safe to repeat as it stands, because it is a compare-and-set, or an insert that recognises its own row.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import count
from typing import TypeVar

from recovery.core.chain import Row
from recovery.core.entries import Status
from recovery.core.ids import Epoch
from recovery.core.limits import Rate
from recovery.ports import (
    Append,
    AppendResult,
    Delivery,
    Due,
    Evidence,
    Hold,
    Message,
    NewRun,
    Owner,
    RunRow,
    Scheduled,
    Standing,
    Stored,
    Stub,
    Wanted,
)
from recovery.storage import claiming, due, inbox, payloads, quotas, schedules, several, snapshots, standing
from recovery.storage import statements as say
from recovery.storage.bell import Bell
from recovery.storage.database import Database
from recovery.storage.resting import opened_delivery, opened_message, sealed_message, sealed_words, sealing_of
from recovery.storage.retry import persistently
from recovery.storage.rules import check_rises, check_rows, goes_on, row_of
from recovery.vaults import Vault

T = TypeVar("T")


class SqlJournal:
    """A journal in one database. See `ports.Journal` for what each method promises."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._namespace: str | None = None
        self.url = database.url
        self.vault: Vault | None = None
        self._bell = Bell()

    def namespace(self) -> str:
        if self._namespace is None:  # fixed for the life of the database
            self._namespace = self._meta()[0]
        return self._namespace

    def incarnation(self) -> int:
        return self._meta()[1]

    def raise_incarnation(self, seen: int, to: int) -> int:
        check_rises(seen, to)

        def raised() -> int:
            with self._database.writing() as connection:
                connection.execute(say.RAISE_INCARNATION, {"seen": seen, "to": to})
            return self._meta()[1]

        return self._write(raised)

    def open_run(self, new: NewRun) -> RunRow | None:
        [row] = self.open_runs([new])
        return row

    def open_runs(self, batch: Sequence[NewRun]) -> list[RunRow | None]:
        for new in batch:
            check_rows(new.run_id, 0, new.rows)
        plain = [new for new in batch if not new.payloads and not new.let_go]
        together = plain if len({new.run_id for new in plain}) == len(plain) else []
        incarnation = self._write(lambda: self._database.open_together(together)) if together else None
        if incarnation is None:
            return [self._opened(new) for new in batch]
        stored = {new.run_id for new in together}
        return [row_of(new, incarnation) if new.run_id in stored else self._opened(new) for new in batch]

    def _opened(self, new: NewRun) -> RunRow | None:
        def opened() -> RunRow | None:
            stored = self._database.open_run(new)
            return self._found(new.run_id) if stored or not new.let_go else None

        row = self._write(opened)
        self._bell.opened(new)
        return row if new.let_go or (row is not None and row.owner is not None and row.owner.token == new.owner.token) else None

    def find(self, run_id: str) -> RunRow | None:
        return self._read(lambda: self._found(run_id), None)

    def find_all(self, run_ids: Sequence[str]) -> dict[str, RunRow]:
        def found() -> dict[str, RunRow]:
            with self._database.reading() as connection:
                rows = connection.execute(say.FIND_ALL, {"run_ids": list(run_ids)}).mappings().all()
            return {row["run_id"]: say.to_run(row) for row in rows}

        return self._read(found, {})

    def runs(
        self, *, statuses: Sequence[Status] | None = None, reason: str | None = None, limit: int = 1000, after: str = ""
    ) -> list[RunRow]:
        def listed() -> list[RunRow]:
            with self._database.reading() as connection:
                # All of them first: where one cannot be read, a cursor left open would keep its connection at this moment for ever.
                rows = connection.execute(say.runs(statuses, limit, after, reason)).mappings().all()
            return [say.to_run(row) for row in rows]

        return self._read(listed, [])

    def claim(self, seen: RunRow, owner: Owner, *, lease_term_us: int, at_us: int) -> RunRow | None:
        values = claiming.claim_of(seen, owner, lease_term_us, at_us)

        def claimed() -> RunRow | None:
            with self._database.writing() as connection:
                row = connection.execute(claiming.CLAIM, values).mappings().first()
                if row is not None:
                    return say.to_run(row)
            # Somebody was faster; or we were, and never heard of it.
            return self._found(seen.run_id)

        now = self._write(claimed)
        return now if now is not None and now.owner is not None and now.owner.token == owner.token else None

    def claim_many(self, seen: Sequence[RunRow], owner: Owner, *, lease_term_us: int, at_us: int) -> list[RunRow]:
        def claimed() -> list[RunRow]:
            with self._database.transaction() as connection:
                return several.claim(connection, seen, owner, lease_term_us=lease_term_us, at_us=at_us)

        return self._write(claimed)

    def stream_many(self, run_ids: Sequence[str], take: Callable[[Stored], T]) -> dict[str, T]:
        def taken() -> dict[str, T]:
            with self._database.snapshot() as connection:
                return snapshots.read_many(connection, self.url, run_ids, take)

        return self._read(taken, {})

    def due(self, wanted: Wanted) -> Due:
        def listed() -> Due:
            with self._database.snapshot() as connection:
                found = due.look(connection, wanted)
            return Due(tuple(row for _, row in found.runs), found.next_due_us)

        return self._read(listed, Due((), None))

    def claim_due(self, wanted: Wanted, owner: Owner, *, lease_term_us: int) -> Due:
        calls = count()

        def claimed() -> Due:
            with self._database.transaction() as connection:
                return due.claim(connection, wanted, owner, lease_term_us, again=next(calls) > 0)

        return (
            self._write(claimed) if self._read(lambda: True, False) else Due((), None)
        )  # there is nothing in a database that is not there

    def take(self, subject: str, rate: Rate, now_us: int) -> int | None:
        def taken() -> int | None:
            with self._database.transaction() as connection:
                return quotas.take(connection, subject, rate, now_us)

        return self._write(taken)

    def schedules(self) -> list[Scheduled]:
        def listed() -> list[Scheduled]:
            with self._database.reading() as connection:
                return schedules.every(connection)

        return self._read(listed, [])

    def keep_schedule(self, row: Scheduled) -> bool:
        def kept() -> bool:
            with self._database.writing() as connection:
                return schedules.keep(connection, row)

        return self._write(kept)

    def owned(self, after: tuple[str, str] = ("", ""), limit: int = 1000) -> list[RunRow]:
        def listed() -> list[RunRow]:
            with self._database.reading() as connection:
                return due.owned(connection, after, limit)

        return self._read(listed, [])

    def standing(self, now_us: int) -> list[Standing]:
        def listed() -> list[Standing]:
            with self._database.snapshot() as connection:
                return standing.counted(connection, now_us)

        return self._read(listed, [])

    def renew(self, run_id: str, owner: str, epoch: Epoch) -> bool:
        def renewed() -> bool:
            with self._database.writing() as connection:
                return connection.execute(claiming.RENEW, say.held_by(run_id, owner, epoch)).first() is not None

        return self._write(renewed)

    def release(self, run_id: str, owner: str, epoch: Epoch, due_us: int | None = None) -> bool:
        held = say.held_by(run_id, owner, epoch) | {"due_us": due_us}

        def released() -> bool:
            with self._database.writing() as connection:
                let_go = connection.execute(claiming.RELEASE, held).first()
                if let_go is not None:
                    if goes_on(let_go.status, let_go.next_look_us):
                        # A statement of its own: who dies in front of it leaves a run that is found by looking.
                        self._database.tell_due(connection, let_go.next_look_us)
                    return True
            row = self._found(run_id)  # it was not ours; or we have released it already, and never heard of it
            return row is not None and row.owner is None and row.epoch == epoch

        came = self._write(released)
        self._bell.ring()
        return came

    def stream(self, run_id: str, take: Callable[[Stored], T]) -> T | None:
        def taken() -> T | None:
            with self._database.snapshot() as connection:
                return snapshots.read(connection, self.url, run_id, take)

        return self._read(taken, None)

    def append(self, batch: Sequence[Append]) -> list[AppendResult]:
        for member in batch:
            check_rows(member.run_id, member.head, member.rows)
        sealed = batch if self.vault is None else [sealed_words(self, member) for member in batch]
        came = self._write(lambda: self._database.append(sealed))
        self._bell.appended(sealed)
        return came

    def first_rows(self, run_ids: Sequence[str]) -> dict[str, Row]:
        def found() -> dict[str, Row]:
            with self._database.reading() as connection:
                rows = connection.execute(say.FIRST_ROWS, {"run_ids": list(run_ids)}).all()
            return {row.run_id: say.to_row(row, row.run_id) for row in rows}

        return self._read(found, {})

    def payloads(self, digests: Sequence[str]) -> dict[str, bytes]:
        def found() -> dict[str, bytes]:
            with self._database.reading() as connection:
                return payloads.find(connection, digests)

        return self._read(found, {})

    def key_owner(self, environment: str, scope: str, key: str) -> tuple[str, str, str] | None:
        def owner() -> tuple[str, str, str] | None:
            with self._database.reading() as connection:
                return say.key_owner(connection, environment, scope, key)

        return self._read(owner, None)

    def add_evidence(self, evidence: Evidence) -> None:
        columns = say.evidence_columns(evidence)

        def kept() -> None:
            with self._database.writing() as connection:
                self._database.insert_evidence(connection, columns)

        self._write(kept)

    def evidence(self, run_id: str) -> list[Evidence]:
        def listed() -> list[Evidence]:
            with self._database.reading() as connection:
                return snapshots.whole(connection.execute(say.EVIDENCE, {"run_id": run_id}).all(), run_id, self.url)

        return self._read(listed, [])

    def deliver(self, message: Message) -> Delivery:
        sealing = sealing_of(self, message.run_id)
        sealed = sealed_message(message, sealing)

        def delivered() -> Delivery:
            with self._database.transaction() as connection:
                came = inbox.deliver(connection, sealed)
                self._database.tell_due(connection)
                return came

        came = self._write(delivered)
        self._bell.ring()
        return opened_delivery(came, sealing)

    def inbox(self, run_id: str, after: int = 0) -> list[Message]:
        def listed() -> list[Message]:
            with self._database.reading() as connection:
                return inbox.behind(connection, run_id, after)

        found: list[Message] = self._read(listed, [])
        sealing = sealing_of(self, run_id) if found else None  # a read creates no database
        return [opened_message(message, sealing) for message in found]

    def add_hold(self, hold: Hold) -> None:
        columns = say.hold_columns(hold)

        def kept() -> None:
            with self._database.writing() as connection:
                self._database.insert_hold(connection, columns)

        self._write(kept)

    def holds(self) -> list[Hold]:
        def listed() -> list[Hold]:
            with self._database.reading() as connection:
                return [say.to_hold(row) for row in connection.execute(say.HOLDS).all()]

        return self._read(listed, [])

    def forget(self, seen: RunRow, stub: Stub) -> bool:
        def forgotten() -> bool:
            with self._database.transaction() as connection:
                number = connection.execute(say.GIVE_UP, say.give_up_of(seen)).scalar()  # from here on nobody else can forget it
                if connection.execute(say.STUB, {"run_id": seen.run_id}).first() is not None:
                    connection.rollback()  # it is forgotten already, by somebody else or by a call that we never heard of
                    return True
                if number is None:
                    return False  # it moved
                for statement in say.FORGET:
                    connection.execute(statement, {"of_number": number, "of_run": seen.run_id})
                payloads.release(connection, number)
                connection.execute(say.INSERT_STUB, say.stub_columns(number, stub))
                return True

        return self._write(forgotten)

    def stub(self, run_id: str) -> Stub | None:
        def kept() -> Stub | None:
            with self._database.reading() as connection:
                row = connection.execute(say.STUB, {"run_id": run_id}).first()
                return None if row is None else say.to_stub(run_id, row)

        return self._read(kept, None)

    def listen(self, wake: Callable[[], None]) -> Callable[[], None]:
        here, elsewhere = self._bell.listen(wake), self._database.listen(wake)

        def end() -> None:
            here()
            elsewhere()

        return end

    def now_us(self) -> int:
        return persistently(self._database.now_us, self.url, self._database.interrupted, writing=False)

    def close(self) -> None:
        self._database.close()

    def _meta(self) -> tuple[str, int]:
        # What is written will be derived from it, so asking for it is the first step of writing: it may create the database.
        def asked() -> tuple[str, int]:
            with self._database.reading() as connection:
                return snapshots.meta(connection, self.url)

        return self._write(asked)

    def _found(self, run_id: str) -> RunRow | None:
        with self._database.reading() as connection:
            return say.found(connection, run_id)

    def _read(self, call: Callable[[], T], nothing: T) -> T:
        def ready_then_call() -> T:
            return call() if self._database.ready(writing=False) else nothing

        return persistently(ready_then_call, self.url, self._database.interrupted, writing=False)

    def _write(self, call: Callable[[], T]) -> T:
        def ready_then_call() -> T:
            self._database.ready(writing=True)
            return call()

        return persistently(ready_then_call, self.url, self._database.interrupted, writing=True)
