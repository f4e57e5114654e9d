"""Which SQLite journals are kept with: Python's own, or pysqlite3's where RECOVERY_SQLITE=pysqlite3 says so.

Owns the choice, and what is known against it. Invariant: one library for all journals of a process, and never another one unasked: two
libraries in one process take away each other's locks on a file, and the app may open it with Python's own.
"""

from __future__ import annotations

import os
import sqlite3
from functools import cache
from importlib import import_module
from types import ModuleType
from typing import Final

from recovery.core.errors import ExtraMissing
from recovery.logs import logger

VARIABLE: Final = "RECOVERY_SQLITE"
PYSQLITE3: Final = "pysqlite3"

FIXED: Final = "3.51.3"
_FAULT: Final = ((3, 7, 0), (3, 51, 3))
_BACKPORTS: Final = (((3, 44, 6), (3, 45, 0)), ((3, 50, 7), (3, 51, 0)))


def _chosen() -> ModuleType:
    if os.environ.get(VARIABLE) != PYSQLITE3:
        return sqlite3
    try:
        return import_module(f"{PYSQLITE3}.dbapi2")
    except ImportError as error:
        raise ExtraMissing(what=f"{VARIABLE}={PYSQLITE3}", missing=PYSQLITE3, extra="sqlite") from error


LIBRARY: Final = _chosen()


def may_damage(version: tuple[int, ...]) -> bool:
    """Whether this SQLite has the WAL-reset fault: of 3.7.0 to 3.51.2, but for 3.44.6 and 3.50.7 and what followed them there.

    In write-ahead logging, where two connections write or checkpoint one file at the same instant, a part of a transaction can fail to reach
    the database file, which then is damaged; very rare (https://www.sqlite.org/wal.html#walresetbug)."""
    first, fixed = _FAULT
    return first <= version < fixed and not any(since <= version < until for since, until in _BACKPORTS)


@cache
def warn_once() -> None:
    """Say once a process, in the log, that its SQLite has the fault."""
    if may_damage(LIBRARY.sqlite_version_info):
        logger("storage").warning(
            "this SQLite has the WAL-reset fault, which can damage a file that several connections use, very rarely",
            version=LIBRARY.sqlite_version,
            fixed_in=FIXED,
            advice=f"install pysqlite3 and set {VARIABLE}={PYSQLITE3}, or use a Python with a newer SQLite",
        )
