"""Disks: what happens to a journal's database behind its back, on every kind of store.

Owns backups, their restoring, and the change of a stored byte. Knows entries as text only. Invariant: what is put back is exactly what was
saved, tokens and epochs included, as with a copied file.
"""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from dataclasses import replace
from typing import Any

import sqlalchemy as sa

from recovery.core.chain import Row
from recovery.ports import Journal
from recovery.storage.database import Database
from recovery.storage.memory import MemoryJournal
from recovery.storage.schema import metadata
from recovery.storage.sql import SqlJournal

PutBack = Callable[[], None]


def backup(journal: Journal) -> PutBack:
    """Save the whole database; what is returned puts it back. Raises TypeError for a journal that is no store of ours."""
    if isinstance(journal, MemoryJournal):
        there = {name: deepcopy(value) for name, value in vars(journal).items() if name != "_lock"}
        return lambda: vars(journal).update(deepcopy(there))
    return _backup(_database(journal))


def corrupt(journal: Journal, run_id: str, seq: int) -> None:
    """Change the body of one entry where it is stored. Raises TypeError, LookupError."""
    if isinstance(journal, MemoryJournal):
        rows: list[Row] = vars(journal)["_runs"][run_id].rows
        rows[seq - 1] = replace(rows[seq - 1], body=_spoiled(rows[seq - 1].body))
        return
    database, run, table = _database(journal), metadata.tables["run"], metadata.tables["journal"]
    number = sa.select(run.c.number).where(run.c.run_id == run_id).scalar_subquery()
    this = (table.c.run == number) & (table.c.seq == seq)
    with database.writing() as connection:
        body: str = connection.execute(sa.select(table.c.body).where(this)).scalar_one()
        connection.execute(sa.update(table).where(this).values(body=_spoiled(body)))


def _backup(database: Database) -> PutBack:
    tables = list(metadata.sorted_tables)
    with database.reading() as connection:
        saved: dict[str, list[dict[str, Any]]] = {
            table.name: [dict(row) for row in connection.execute(sa.select(table)).mappings()] for table in tables
        }

    def put_back() -> None:
        with database.writing() as connection:
            for table in reversed(tables):
                connection.execute(sa.delete(table))
            for table in tables:
                if saved[table.name]:
                    connection.execute(sa.insert(table), saved[table.name])

    return put_back


def _database(journal: Journal) -> Database:
    if not isinstance(journal, SqlJournal):
        raise TypeError(f"{type(journal).__name__} is no store of ours")
    found: Database = vars(journal)["_database"]
    return found


def _spoiled(body: str) -> str:
    """The same length, one character changed."""
    return body[:-2] + ("0" if body[-2] != "0" else "1") + body[-1]
