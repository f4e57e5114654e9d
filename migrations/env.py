"""The alembic environment: runs migrations on the connection that the caller hands in.

Owns nothing but the wiring. `recovery.storage.migrate` calls it; so does `alembic` in a checkout, with the database in
RECOVERY_DB (its settings are in pyproject.toml). Each migration is one transaction.
"""

from __future__ import annotations

import os

import sqlalchemy as sa
from alembic import context

from recovery.storage.place import Place
from recovery.storage.schema import VERSION_TABLE, metadata
from recovery.storage.urls import parsed


def ours(_object: object, name: str | None, kind: str, _reflected: bool, _compare_to: object) -> bool:
    """Other tables in the same database are not ours to compare or drop."""
    return kind != "table" or name in metadata.tables


def migrate_on(connection: sa.Connection, place: Place) -> None:
    context.configure(
        connection=connection,
        target_metadata=metadata,
        place=place,
        version_table=place.named(VERSION_TABLE),
        version_table_schema=place.schema or None,
        include_object=ours,
        # SQLite has no identities; alembic would take their absence for a changed default.
        compare_server_default=connection.dialect.name == "postgresql",
        render_as_batch=connection.dialect.name == "sqlite",
    )
    with context.begin_transaction():
        context.run_migrations()


given = context.config.attributes.get("connection")
if given is not None:
    migrate_on(given, context.config.attributes["place"])
else:
    with sa.create_engine(parsed(os.environ["RECOVERY_DB"]).url).connect() as opened:
        migrate_on(opened, Place())
