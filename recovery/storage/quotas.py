"""Quotas: what was taken lately of each rate, and what a queue with limits has room for, in the same words on every dialect.

Owns the statements over the table `quota`. Knows no runs but how many of a queue somebody has. Invariant: whoever counts what is at work, or takes of a rate, has
the lock of its subject's row first, in a transaction that ends with what it takes; PostgreSQL counts in a later statement than the one that waits for the lock, so
that it sees what was committed meanwhile, and SQLite's writers follow each other.
"""

from __future__ import annotations

import json
from typing import Final

import sqlalchemy as sa
from sqlalchemy import bindparam

from recovery import logs
from recovery.core.limits import Queue, Rate, Taken, counting, is_ahead, left, put_off, took
from recovery.storage.place import text
from recovery.storage.rooms import Room, subject_of
from recovery.storage.schema import OWNED_PREDICATE, quota, run

_log: Final = logs.logger("storage")

_TAKEN: Final = sa.select(quota.c.taken).where(quota.c.subject == bindparam("subject"))
_TAKEN_LOCKED: Final = _TAKEN.with_for_update()
_BEGIN: Final = text("INSERT INTO {quota} (subject, taken, promised_us) VALUES (:subject, '[]', 0) ON CONFLICT DO NOTHING")
_KEEP: Final = sa.update(quota).where(quota.c.subject == bindparam("of_subject")).values(taken=bindparam("now_taken"))
_PROMISED: Final = sa.select(quota.c.promised_us).where(quota.c.subject == bindparam("subject"))
_PROMISE: Final = (
    sa.update(quota).where(quota.c.subject == bindparam("of_subject")).values(promised_us=bindparam("now_promised_us"))
)
_AT_WORK: Final = sa.select(sa.func.count()).select_from(run).where(sa.text(OWNED_PREDICATE), run.c.queue == bindparam("queue"))


def room(connection: sa.Connection, queue: Queue, now_us: int, *, locking: bool) -> Room:
    """What the queue has room for. locking: nobody else takes anything of it until the transaction has ended."""
    subject = subject_of(queue)
    taken = locked(connection, subject) if locking else _read(connection.execute(_TAKEN, {"subject": subject}).scalar())
    at_work = 0 if queue.concurrency is None else connection.execute(_AT_WORK, {"queue": queue.name}).scalar_one()
    return Room(queue, at_work, taken, now_us)


def locked(connection: sa.Connection, subject: str) -> Taken:
    """What was taken, behind the lock of the subject's row."""
    found = connection.execute(_TAKEN_LOCKED, {"subject": subject}).scalar()
    if found is None:
        connection.execute(_BEGIN, {"subject": subject})
        found = connection.execute(_TAKEN_LOCKED, {"subject": subject}).scalar_one()
    return _read(found)


def keep(connection: sa.Connection, subject: str, taken: Taken) -> None:
    """What was taken, from now on."""
    connection.execute(_KEEP, {"of_subject": subject, "now_taken": json.dumps(taken)})


def take(connection: sa.Connection, subject: str, rate: Rate, now_us: int) -> int | None:
    """`ports.Journal.take`, in a writing transaction of its own."""
    stored = locked(connection, subject)
    taken = counting(stored, rate, now_us)
    if not left(taken, rate):
        if is_ahead(stored, rate, now_us):
            keep(connection, subject, taken)
        promised_us = connection.execute(_PROMISED, {"subject": subject}).scalar_one()
        again_us = put_off(taken, rate, promised_us, now_us)
        connection.execute(_PROMISE, {"of_subject": subject, "now_promised_us": again_us})
        return again_us
    keep(connection, subject, took(taken, rate, now_us))
    return None


def _read(stored: str | None) -> Taken:
    """What cannot be read counts for nothing: it is about pace, and the next taker writes it anew."""
    try:
        return tuple((int(at_us), int(count)) for at_us, count in json.loads(stored or "[]"))
    except (TypeError, ValueError) as error:
        _log.error("what was taken of a rate cannot be read", problem=type(error).__name__)
        return ()
