"""Schedules: the statements over the table of schedules, in the same words on every dialect.

Owns how a row becomes the value of `ports`. Knows no cron. Invariant: a row is changed by compare-and-set on its revision, and made once.
"""

from __future__ import annotations

from dataclasses import asdict, fields
from typing import Final

import sqlalchemy as sa
from sqlalchemy import bindparam

from recovery.ports import Scheduled
from recovery.storage.place import text
from recovery.storage.schema import schedule

_FIELDS: Final = tuple(field.name for field in fields(Scheduled))
_EVERY: Final = sa.select(*(schedule.c[name] for name in _FIELDS)).order_by(schedule.c.name)
_MOVE: Final = (
    sa.update(schedule)
    .where(schedule.c.name == bindparam("of_name"), schedule.c.revision == bindparam("of_revision"))
    .values({name: bindparam(f"new_{name}") for name in _FIELDS if name != "name"})
    .returning(schedule.c.name)
)
_MAKE: Final = text(
    """
INSERT INTO {schedule} (name, revision, cron, timezone, through_us, next_us, last_run, last_tick_us, paused, "by", reason)
VALUES (:name, :revision, :cron, :timezone, :through_us, :next_us, :last_run, :last_tick_us, :paused, :by, :reason)
ON CONFLICT DO NOTHING RETURNING name
"""
)


def every(connection: sa.Connection) -> list[Scheduled]:
    """All of them, by name."""
    return [Scheduled(**row) for row in connection.execute(_EVERY).mappings().all()]


def keep(connection: sa.Connection, row: Scheduled) -> bool:
    """`ports.Journal.keep_schedule`, in a writing transaction of its own."""
    columns = asdict(row)
    if row.revision == 1:
        return connection.execute(_MAKE, columns).first() is not None
    moved = {f"new_{name}": value for name, value in columns.items() if name != "name"}
    return connection.execute(_MOVE, moved | {"of_name": row.name, "of_revision": row.revision - 1}).first() is not None
