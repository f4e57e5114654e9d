"""Storage: journals in memory, in SQLite, in PostgreSQL.

Owns the choice of a backend from a URL. Invariant: importing this package and opening a journal do no I/O and import no driver.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from recovery.ports import Journal

if TYPE_CHECKING:
    from recovery.storage.urls import Address

__all__ = ["open_journal"]


def open_journal(url: str | Address, *, create: bool = True) -> Journal:
    """The journal at ``memory://``, ``sqlite:///path`` or ``postgresql://...``. Nothing is opened before its first use.

    url: or an address that `recovery.storage.urls` has made of one, or of a service's own engine.

    create: an SQLite file that does not exist is created by the first write, and an older one is migrated. With False (for commands
    that only read) both are refused, StoreUrlError and SchemaMismatch, and nothing on disk changes. PostgreSQL is never migrated by
    itself. Every ``memory://`` journal is a new one. Raises StoreUrlError for a URL that names no database.
    """
    if url == "memory://":
        from recovery.storage.memory import MemoryJournal

        return MemoryJournal()
    from recovery.storage.sql import SqlJournal
    from recovery.storage.urls import parsed

    address = parsed(url) if isinstance(url, str) else url
    if address.url.get_backend_name() == "sqlite":
        from recovery.storage.sqlite import SqliteDatabase

        return SqlJournal(SqliteDatabase(address, create=create))
    from recovery.storage.postgres import PostgresDatabase

    return SqlJournal(PostgresDatabase(address))
