"""Journals as older releases left them: the frozen schema, with a whole run in it.

Owns how such a file is made. Invariant: the schema is the frozen migration's; the rows are those of a run of today's code, in the columns that were there.
"""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import Final

import sqlalchemy as sa
from alembic.config import Config
from alembic.script import ScriptDirectory
from sqlalchemy.pool import NullPool

from recovery import Engine
from recovery.storage.migrate import scripts, upgrade
from recovery.storage.place import Place
from recovery.storage.schema import VERSION_TABLE
from tests.power import story

RUN: Final = "run-0"
"""The run that is in it, completed."""


def versions() -> list[str]:
    """Every released schema, oldest first."""
    config = Config()
    config.set_main_option("script_location", str(scripts()))
    return [script.revision for script in ScriptDirectory.from_config(config).walk_revisions()][::-1]


def older(path: Path, version: str) -> None:
    """Make `path` a journal of that version, in which `RUN` is completed."""
    today = path.with_name(f"{path.name}.today")
    with Engine(f"sqlite:///{today}", workflows=[story.errand]) as engine, closing(engine.journal):
        engine.run(RUN, story.errand, 2)
    made = sa.create_engine(f"sqlite:///{path}", poolclass=NullPool)
    with made.begin() as connection:
        upgrade(connection, str(path), Place(), version)
    with made.connect() as connection:
        connection.exec_driver_sql("ATTACH ? AS today", (str(today),))
        for (table,) in connection.exec_driver_sql("SELECT name FROM main.sqlite_master WHERE type = 'table'").all():
            if table != VERSION_TABLE:
                columns = ", ".join(f'"{row[1]}"' for row in connection.exec_driver_sql(f"PRAGMA main.table_info({table})"))
                connection.exec_driver_sql(f"DELETE FROM main.{table}")
                connection.exec_driver_sql(f"INSERT INTO main.{table} ({columns}) SELECT {columns} FROM today.{table}")
        connection.commit()
    made.dispose()
