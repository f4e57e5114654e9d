"""Version: whether a database's schema is one that this code reads, without alembic.

Owns the reading of the version row. Invariant: a newer schema or format is refused before anything else is read.
"""

from __future__ import annotations

from typing import Final

import sqlalchemy as sa

from recovery.core.errors import SchemaMismatch, StoreDamaged
from recovery.storage.place import Tables
from recovery.storage.schema import FORMAT, VERSION, VERSION_TABLE, meta, version

_VERSION: Final = sa.select(version.c.version_num)
_FORMAT: Final = sa.select(meta.c.format)


def schema_version(connection: sa.Connection, shown_url: str, tables: Tables) -> str | None:
    """The version that the database has, None if it holds no journal. Raises SchemaMismatch if it is newer than this code."""
    place = tables.place
    if not sa.inspect(connection).has_table(place.named(VERSION_TABLE), schema=place.schema or None):
        return None
    found = connection.execute(tables.statement(_VERSION)).scalar()
    if found is None:
        return None
    if not isinstance(found, str) or not found:
        raise StoreDamaged(url=shown_url, problem=f"its version is gone from its table {place.named(VERSION_TABLE)}")
    if found > VERSION:
        raise _newer(shown_url, f"schema version {found}", VERSION)
    stored = connection.execute(tables.statement(_FORMAT)).scalar()
    if type(stored) is not int:
        raise StoreDamaged(url=shown_url, problem=f"its format is gone from its table {place.named(meta.name)}")
    if stored > FORMAT:
        raise _newer(shown_url, f"format {stored}", str(FORMAT))
    return str(found)


def _newer(shown_url: str, found: str, known: str) -> SchemaMismatch:
    return SchemaMismatch(
        url=shown_url, problem=f"has {found}, this version of recovery reads up to {known}", advice="Install a newer recovery."
    )
