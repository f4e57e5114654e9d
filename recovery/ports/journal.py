"""The journal: all that a store of runs does, as each of its callers needs it, and what it says of itself.

Owns what holds for every method. Knows no store. Invariant: a method that is needed by one kind of caller stands with that one.
"""

# pyright: reportReturnType=false
# The body of a protocol's method is its docstring; mypy checks those who implement it.
from __future__ import annotations

from typing import Protocol

from recovery.ports.claiming import Claiming
from recovery.ports.operating import Operating
from recovery.ports.reading import Reading
from recovery.ports.scheduling import Scheduling
from recovery.ports.telling import Telling
from recovery.ports.writing import Writing
from recovery.vaults import Vault


class Journal(Writing, Reading, Claiming, Telling, Operating, Scheduling, Protocol):
    """A store of runs. Synchronous; safe for several threads; the async driver calls it from a thread of its own.

    Every method may raise StoreUnavailable (whether a write is stored is then unknown; all writes here are safe to repeat as they
    stand), SchemaMismatch (not migrated, or newer than this code) and StoreUrlError."""

    url: str  # for people, without password
    vault: Vault | None  # what messages and late evidence are encrypted by, and rows by whoever chains them; None: nothing is

    def namespace(self) -> str:
        """The database's random name, fixed at its creation and kept in backups. Goes into keys and chains, so that asking for it
        is the first step of writing: it creates an SQLite file that is not there."""

    def incarnation(self) -> int:
        """The first half of every new epoch: 0, and higher with each declaration that the database was restored."""

    def now_us(self) -> int:
        """The database's own clock, in microseconds since the Unix epoch (for SQLite and memory: this host's)."""

    def close(self) -> None:
        """Give up connections. Safe to repeat; a later call on the store opens them again."""
