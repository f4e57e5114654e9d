"""Faults: what a database driver's errors mean to a caller.

Owns the one translation of driver errors, at the edge. Knows nothing of statements. Invariant: nothing of SQLAlchemy, sqlite3 or
psycopg leaves the storage layer, and only what is known to be about the database itself (and not about this moment) is blamed on
its URL; everything else is StoreUnavailable, after which every write may be repeated as it stands.
"""

from __future__ import annotations

import errno
import os
import re
import sqlite3
from typing import Final

from sqlalchemy.exc import ArgumentError, DataError, DBAPIError, IntegrityError
from sqlalchemy.exc import TimeoutError as PoolTimeout

from recovery.core.errors import InvariantViolated, StoreDamaged, StoreUnavailable, StoreUrlError
from recovery.storage.sqlite_library import LIBRARY

# Primary result codes (https://www.sqlite.org/rescode.html): the file itself is wrong, and waiting does not help.
_SQLITE_UNUSABLE: Final = {
    sqlite3.SQLITE_CANTOPEN: "its file cannot be opened",
    sqlite3.SQLITE_NOTADB: "its file is not an SQLite database",
    sqlite3.SQLITE_PERM: "access to its file is denied",
    sqlite3.SQLITE_AUTH: "access to its file is denied",
    sqlite3.SQLITE_READONLY: "its file may not be written",
}
_SQLITE_TRANSIENT: Final = {sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED}

# Classes and codes of https://www.postgresql.org/docs/current/errcodes-appendix.html.
_POSTGRES_UNUSABLE: Final = {
    "25006": "it is read-only (a standby?)",
    "28000": "it refuses this user",
    "28P01": "it refuses this password",
    "3D000": "there is no such database",
    "42501": "this user lacks a permission",
}
_POSTGRES_MISSING: Final = {"42P01", "42703", "3F000"}  # no such table, column, schema
_SQLITE_MISSING: Final = ("no such table", "no such column")
_POSTGRES_TRANSIENT: Final = ("08", "40", "53", "55P03", "57P", "58")
# A server that refuses a connection sends its code before libpq keeps codes: only the text is left.
_SERVER_PASSING: Final = (
    "starting up",
    "shutting down",
    "recovery mode",
    "not yet accepting",
    "too many",
    "connection slots",
    "terminating",
)

# What libpq says of an option before it speaks to any server; the words are those of its fe-connect.c.
_OPTION_REFUSED: Final = re.compile(r'invalid (port number|integer value|"?\w+"? value)|definition of service .* not found')

_POSTGRES_OUR_FAULT: Final = ("22", "42")  # a value or a statement that the server cannot understand

_PASSING: Final = {errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.EMFILE, errno.ENFILE, errno.ENOMEM}

_SQLITE_FILES: Final = 4
"""What a connection opens: the file, its log, its shared memory, and for an instant the directory."""

ASKED: Final = "It was only asked, and nothing was written"
WRITING: Final = "Whether the last write is stored is unknown until it does"
MIGRATE: Final = "Run `recover migrate` on it."
MIGRATE_OR_SAY_WHERE: Final = "Run `recover migrate` on it; if its journal has a schema or table_prefix, say it in the URL."
"""Where nothing was found: to whoever left out, or misspelt, the place of a journal that is there."""


def transient(error: Exception) -> bool:
    """Whether the same call may succeed a moment later."""
    if isinstance(error, PoolTimeout):
        return True
    if not isinstance(error, DBAPIError):
        return False
    if error.connection_invalidated:
        return True
    cause = error.orig
    if isinstance(cause, LIBRARY.Error):
        return _sqlite_code(cause) in _SQLITE_TRANSIENT
    state = _sqlstate(cause)
    if state:
        return state.startswith(_POSTGRES_TRANSIENT)
    return type(cause).__name__ in {"OperationalError", "ConnectionTimeout"} and not _refused(cause)


def translated(error: Exception, url: str, *, writing: bool = True) -> Exception:
    """What to raise instead of a driver's error, `from` it. `url` is the one for people. writing: whether a write was under way."""
    meant = _meaning(error, url)
    return (
        StoreUnavailable(url=url, problem=meant.problem, fate=ASKED)
        if isinstance(meant, StoreUnavailable) and not writing
        else meant
    )


def _meaning(error: Exception, url: str) -> Exception:
    if isinstance(error, ArgumentError):
        return StoreUrlError(url=url, problem=first_line(error), advice="Check the URL.")
    if not isinstance(error, DBAPIError):
        return StoreUnavailable(url=url, problem=first_line(error), fate=WRITING)
    cause = error.orig
    if isinstance(error, IntegrityError):
        return _not_understood(cause, url)
    if isinstance(cause, LIBRARY.Error):
        if (damage := _damage(cause)) is not None:
            return StoreDamaged(url=url, problem=damage)
        problem = _SQLITE_UNUSABLE.get(_sqlite_code(cause))
        if _sqlite_code(cause) == sqlite3.SQLITE_CANTOPEN and (missing := _no_descriptors()):
            return StoreUnavailable(url=url, problem=missing, fate="Nothing was written")
        if problem is not None:
            return StoreUrlError(
                url=url, problem=problem, advice="Check the path and its permissions, or restore it from a backup."
            )
        if any(words in str(cause) for words in _SQLITE_MISSING):
            return _incomplete(cause, url)
        if _sqlite_code(cause) == sqlite3.SQLITE_ERROR:
            return _not_understood(cause, url)
        return StoreUnavailable(url=url, problem=first_line(cause), fate=WRITING)
    state = _sqlstate(cause)
    if state in _POSTGRES_MISSING:
        return _incomplete(cause, url)
    if state in _POSTGRES_UNUSABLE:
        return StoreUrlError(url=url, problem=_POSTGRES_UNUSABLE[state], advice="Check the URL and what its user may do.")
    if state.startswith(_POSTGRES_OUR_FAULT) or isinstance(error, DataError):  # the latter: the driver itself cannot say a value
        return _not_understood(cause, url)
    if not state and (_refused(cause) or type(cause).__name__ == "ProgrammingError"):
        return StoreUrlError(url=url, problem=first_line(cause), advice="Check the URL.")
    return StoreUnavailable(url=url, problem=first_line(cause), fate=WRITING)


def passing(error: OSError, url: str, *, fate: str) -> StoreUnavailable:
    """What the system refused at this moment, of a file or directory that may be right."""
    where = f", {error.filename}" if error.filename else ""
    return StoreUnavailable(url=url, problem=f"{error.strerror or type(error).__name__}{where}", fate=fate)


def is_passing(error: OSError) -> bool:
    """Whether it says something about the moment, and nothing about the path."""
    return error.errno in _PASSING


def _no_descriptors() -> str:
    """SQLite says of every file that it cannot be opened, and not why. Whether it is for want of descriptors is asked, as many as it may need at a time."""
    opened: list[int] = []
    try:
        for _ in range(_SQLITE_FILES):
            opened.append(os.open(os.devnull, os.O_RDONLY))  # noqa: PERF401  # those before the one that fails are closed
    except OSError as error:
        return error.strerror or "no file can be opened"
    finally:
        for file in opened:
            os.close(file)
    return ""


def _incomplete(cause: BaseException | None, url: str) -> StoreDamaged:
    """Its version was read before, and says that all tables are there: what is gone was taken away, and no migration brings it back."""
    return StoreDamaged(url=url, problem=f"a part of its schema is gone: {first_line(cause)}")


def _not_understood(cause: BaseException | None, url: str) -> InvariantViolated:
    return InvariantViolated(f"The database {url} refused what this code believes legal: {first_line(cause)}. Nothing was written.")


def _sqlite_code(error: BaseException | None) -> int:
    return getattr(error, "sqlite_errorcode", 0) & 0xFF  # the low byte of an extended code is its primary one


def _damage(error: BaseException | None) -> str | None:
    """What is broken inside the file. The driver's own words would quote what is stored."""
    if _sqlite_code(error) == sqlite3.SQLITE_CORRUPT:
        return "its file is not well formed"
    return "a text in it is not UTF-8" if "Could not decode to UTF-8" in str(error) else None


def _sqlstate(cause: BaseException | None) -> str:
    return getattr(cause, "sqlstate", None) or ""


def _refused(cause: BaseException | None) -> bool:
    """Whether the server refuses the connection, or its library an option, and will do so again."""
    text = str(cause)
    by_server = "FATAL:" in text and not any(words in text for words in _SERVER_PASSING)
    return by_server or _OPTION_REFUSED.search(text) is not None


def first_line(error: BaseException | None) -> str:
    """One line for a sentence: drivers add hints and statements below it."""
    line = str(error).strip().partition("\n")[0]
    return (line.partition("failed: FATAL:")[2] or line).strip().rstrip(".") or type(error).__name__
