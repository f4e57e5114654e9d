"""The register of keys: once, look_up, close, prune, inside the service's own transaction.

Owns what each state of a key answers to each question. Knows nothing of how a key is held. Invariant: absent -> (fenced) -> applied,
rejected or closed, and never back; the decision commits with the caller's transaction, effect included, or not at all.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import timedelta
from typing import Any, NoReturn

import sqlalchemy as sa
from sqlalchemy import event

from recovery.core.errors import InvalidName, InvariantViolated
from recovery.core.ids import Epoch, check_key
from recovery.receipts.holding import Held, held, read_clock
from recovery.receipts.records import JSON, Absent, Kind, Receipt, decode, encode, parse_epoch, rejection_fields, rejection_name
from recovery.receipts.refusals import (
    Closed,
    Expired,
    KeyMismatch,
    KeyUnfit,
    RetentionTooShort,
    Superseded,
    TooLate,
    TransactionUnfit,
    Unfinished,
)


class Receipts:
    """The receipts of one service. Holds no connection and no state: one object serves all threads.

    window: how long values are kept at least; None: for ever. Keys are kept for ever in either case.
    block: how long a call waits for another transaction before InFlight.
    clock_us: the environment's clock, microseconds since the Unix epoch. Default: on PostgreSQL the database's, on SQLite this
    host's. ``not_after_us`` is compared with it: it must not go back, nor differ between hosts that share the table, by more than
        the clock error that clients reckon with.
    """

    def __init__(
        self,
        table: sa.Table,
        *,
        window: timedelta | None = None,
        block: timedelta = timedelta(seconds=5),
        clock_us: Callable[[], int] | None = None,
    ) -> None:
        self.table = table
        self.window = window
        self.block = block
        self._clock_us = clock_us

    def once(
        self,
        connection: sa.Connection,
        *,
        key: str,
        fingerprint: str,
        work: Callable[[], JSON],
        rejects: Sequence[type[Exception]] = (),
        scope: str = "",
        not_after_us: int | None = None,
        epoch: Epoch | None = None,
        who: str = "",
    ) -> Receipt:
        """Run ``work`` unless this key is decided; return its receipt, ``replayed`` or not. Durable when your transaction commits.

        ``work`` runs in a savepoint on ``connection``. It returns JSON, or raises one of ``rejects``: then what it did is rolled back and
        the rejection is remembered. Whatever else it raises passes through; effect and receipt are rolled back, nothing is remembered.

        Concurrent calls with one key wait for the first one's transaction to end. ``not_after_us`` and ``epoch`` refuse late copies, for work
        that is not decided yet. Raises KeyUnfit, KeyMismatch, InFlight, Closed, Expired, TooLate, Superseded, Unfinished, TransactionUnfit, ValueNotStorable.
        """
        if not fingerprint:
            raise TransactionUnfit(key=key, problem="the request has no fingerprint", advice="Use receipts.fingerprint(request).")
        with self._held(connection, scope, key) as hold:
            row = hold.row
            if row is not None and row.kind != Kind.FENCED:
                return self._replay(row, fingerprint)
            if not_after_us is not None and hold.now_us > not_after_us:
                raise TooLate(scope=scope, key=key, not_after_us=not_after_us, as_of_us=hold.now_us)
            epoch = self._raised(row, epoch)
            if row is not None:
                self._write(connection, scope, key, kind=Kind.OPEN)
            kind, error, text = self._try(connection, key, work, rejects)
            at_us = hold.now_us
            self._write(
                connection,
                scope,
                key,
                kind=kind,
                fingerprint=fingerprint,
                error=error,
                value=text,
                epoch=str(epoch or ""),
                who=who,
                at_us=at_us,
            )
            return Receipt(
                scope=scope,
                key=key,
                kind=kind,
                fingerprint=fingerprint,
                at_us=at_us,
                value=decode(text),
                error=error,
                who=who,
                replayed=False,
            )

    def look_up(
        self, connection: sa.Connection, *, key: str, scope: str = "", fingerprint: str = "", epoch: Epoch | None = None
    ) -> Receipt | Absent:
        """What is decided about a key, waiting for a transaction that is deciding it. Authoritative: an Absent means that none had decided it.

        Takes the key for a moment, so it needs a connection that may write, to the primary. With an ``epoch``, an absence also refuses lower
        epochs from then on, once your transaction commits. Raises InFlight, Unfinished, Superseded; KeyMismatch if you give a fingerprint.
        """
        with self._held(connection, scope, key) as hold:
            if hold.row is not None and hold.row.kind != Kind.FENCED:
                return self._receipt(hold.row, fingerprint)
            if epoch is None:
                hold.let_go()
            else:
                raised = str(self._raised(hold.row, epoch))
                self._write(connection, scope, key, kind=Kind.FENCED, epoch=raised, at_us=hold.now_us)
            return Absent(scope=scope, key=key, as_of_us=hold.now_us)

    def close(
        self,
        connection: sa.Connection,
        *,
        key: str,
        scope: str = "",
        fingerprint: str = "",
        epoch: Epoch | None = None,
        who: str = "",
    ) -> Receipt:
        """The outcome of a key if it has one; otherwise the key is refused for ever: a receipt of kind ``closed``. Safe to repeat.

        Durable when your transaction commits; only then is a ``closed`` a proof. Raises InFlight, Unfinished, Superseded; KeyMismatch if you
        give a fingerprint and the key belongs to another request."""
        with self._held(connection, scope, key) as hold:
            if hold.row is not None and hold.row.kind != Kind.FENCED:
                return self._receipt(hold.row, fingerprint)
            raised = str(self._raised(hold.row, epoch) or "")
            at_us = hold.now_us
            self._write(connection, scope, key, kind=Kind.CLOSED, fingerprint=fingerprint, epoch=raised, who=who, at_us=at_us)
            return Receipt(scope=scope, key=key, kind=Kind.CLOSED, fingerprint=fingerprint, at_us=at_us, who=who, replayed=False)

    def prune(self, connection: sa.Connection, *, older_than: timedelta | None = None, limit: int = 1000) -> int:
        """Drop the values of at most ``limit`` receipts older than ``older_than`` (default: the window) and return how many.

        The keys stay, and are refused as Expired: a pruned key never runs again. Repeat
        until it returns 0. Raises RetentionTooShort for less than the window."""
        older_than = older_than if older_than is not None else self.window
        if older_than is None or (self.window is not None and older_than < self.window):
            raise RetentionTooShort(window=self.window or "ever", older_than=older_than)
        horizon_us = read_clock(connection, self._clock_us) - older_than // timedelta(microseconds=1)
        t = self.table
        old = (
            sa.select(t.c.scope, t.c.key)
            .where(t.c.value.is_not(None), t.c.at_us < horizon_us)
            .order_by(t.c.at_us)
            .limit(limit)
            .with_for_update(skip_locked=True)  # two prunes beside each other then cannot deadlock
        )
        pruned = connection.execute(
            sa.update(t).where(sa.tuple_(t.c.scope, t.c.key).in_(old)).values(value=None).returning(t.c.key)
        )
        return len(pruned.all())

    def listed(
        self, connection: sa.Connection, *, scope: str = "", since_us: int = 0, after: str = "", limit: int = 1000
    ) -> list[Receipt]:
        """At most ``limit`` decided keys of a scope behind the key ``after``, by key: those decided at ``since_us`` or later, on the
        environment's clock. What is being decided at this moment is not shown. For finding effects that a client has forgotten."""
        t = self.table
        decided = sa.select(t).where(
            t.c.scope == scope, t.c.key > after, t.c.at_us >= since_us, t.c.kind.not_in([str(Kind.OPEN), str(Kind.FENCED)])
        )
        return [self._receipt(row, "") for row in connection.execute(decided.order_by(t.c.key).limit(limit))]

    # -- one key -------------------------------------------------------------------------------------------------------

    @contextmanager
    def _held(self, connection: sa.Connection, scope: str, key: str) -> Iterator[Held]:
        _check_key(key)
        with held(connection, self.table, scope=scope, key=key, block=self.block, clock_us=self._clock_us) as hold:
            if hold.row is not None and hold.row.kind == Kind.OPEN:
                raise Unfinished(scope=scope, key=key)
            yield hold

    def _try(
        self, connection: sa.Connection, key: str, work: Callable[[], JSON], rejects: Sequence[type[Exception]]
    ) -> tuple[Kind, str, str]:
        """The effect in a savepoint of its own, so that a rejection's receipt outlives its rolled-back effect."""
        with _no_commit(connection, key):
            try:
                with connection.begin_nested():
                    return Kind.APPLIED, "", encode(work(), where=f"receipt of key {key!r}")
            except tuple(rejects) as error:
                name = next(rejection_name(declared) for declared in rejects if isinstance(error, declared))
                return Kind.REJECTED, name, encode(rejection_fields(error), where=f"rejection of key {key!r}")

    def _write(self, connection: sa.Connection, scope: str, key: str, **columns: Any) -> None:
        t = self.table
        written = connection.execute(sa.update(t).where(t.c.scope == scope, t.c.key == key).values(**columns).returning(t.c.key))
        if written.one_or_none() is None:
            raise InvariantViolated(f"the held row of key {key!r} is gone")

    def _replay(self, row: sa.Row[Any], fingerprint: str) -> Receipt:
        if row.kind == Kind.CLOSED:
            raise Closed(scope=row.scope, key=row.key, at_us=row.at_us, who=row.who)
        receipt = self._receipt(row, fingerprint)
        if receipt.pruned:
            raise Expired(scope=row.scope, key=row.key, kind=row.kind, at_us=row.at_us)
        return receipt

    def _receipt(self, row: sa.Row[Any], fingerprint: str) -> Receipt:
        if fingerprint and row.fingerprint and row.fingerprint != fingerprint:
            raise KeyMismatch(scope=row.scope, key=row.key, recorded=row.fingerprint, given=fingerprint)
        receipt = Receipt(
            scope=row.scope,
            key=row.key,
            kind=Kind(row.kind),
            fingerprint=row.fingerprint,
            at_us=row.at_us,
            error=row.error,
            who=row.who,
            pruned=row.value is None and row.kind != Kind.CLOSED,
        )
        return receipt if row.value is None else replace(receipt, value=decode(row.value))

    def _raised(self, row: sa.Row[Any] | None, epoch: Epoch | None) -> Epoch | None:
        """The higher of the epoch seen and the epoch carried. Raises Superseded for a lower one, and for none where one was seen."""
        seen = parse_epoch(row.epoch) if row is not None else None
        if seen is not None and (epoch is None or epoch < seen):
            raise Superseded(scope=row.scope if row else "", key=row.key if row else "", seen=str(seen), given=str(epoch or "none"))
        return epoch


def _check_key(key: object) -> None:
    """What a service was sent is not typed: a header that is missing comes as None."""
    if not isinstance(key, str):
        raise KeyUnfit(key=key, problem="the request has no key")
    try:
        check_key(key)
    except InvalidName as error:
        raise KeyUnfit(key=key, problem=f"a key has {error.rule}") from error


@contextmanager
def _no_commit(connection: sa.Connection, key: str) -> Iterator[None]:
    """A commit inside the work would make the open row and half an effect durable: refuse it."""

    def refuse(committing: sa.Connection) -> NoReturn:
        # Behind a failed commit SQLAlchemy sends no rollback: the pool would hand the open transaction to its next user.
        committing.connection.rollback()
        raise TransactionUnfit(key=key, problem="its work committed the transaction", advice="Commit after `once` has returned.")

    event.listen(connection, "commit", refuse)
    try:
        yield
    finally:
        event.remove(connection, "commit", refuse)
