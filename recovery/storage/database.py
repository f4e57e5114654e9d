"""Database: what one dialect must be able to do for the one Core implementation.

Owns the seam between `sql` and its dialects, and nothing else. Invariant: a dialect decides how a transaction is held and how a batch
is fenced; what is written and what it means is the same on all of them.
"""

# pyright: reportReturnType=false
# The body of a protocol's method is its docstring; mypy checks those who implement it.

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Protocol

import sqlalchemy as sa

from recovery.ports import Append, AppendResult, NewRun


class Database(Protocol):
    """One database and its connections. Opens nothing before its first use; safe for several threads."""

    url: str  # for people, without password

    def ready(self, *, writing: bool) -> bool:
        """Make sure that the schema is ours to use, at the cost of one comparison once it is.

        False: there is no database yet, and this is a read, so that there will be none. Raises SchemaMismatch, StoreUrlError."""

    def reading(self) -> AbstractContextManager[sa.Connection]:
        """A connection for one statement, which sees what is committed."""

    def snapshot(self) -> AbstractContextManager[sa.Connection]:
        """A connection all of whose statements see one committed state."""

    def writing(self) -> AbstractContextManager[sa.Connection]:
        """A connection in a write transaction: durable when the block ends, nothing happened when it raises."""

    def transaction(self) -> AbstractContextManager[sa.Connection]:
        """As `writing`, for several statements that are durable together or not at all."""

    def open_together(self, batch: Sequence[NewRun]) -> int | None:
        """Insert the runs and their rows in one transaction, at the incarnation that is returned; or write nothing and return None: one of the run
        ids may be there, or they are too much for one statement."""

    def open_run(self, new: NewRun) -> bool:
        """Insert the run and its rows, or write nothing and return False if the run id is there."""

    def insert_evidence(self, connection: sa.Connection, columns: dict[str, object]) -> None:
        """Insert unless an identical item is there."""

    def insert_hold(self, connection: sa.Connection, columns: dict[str, object]) -> None:
        """Insert unless its token is there."""

    def append(self, batch: Sequence[Append]) -> list[AppendResult]:
        """`ports.Journal.append`, without retries."""

    def tell_due(self, connection: sa.Connection, looks_us: int | None = None) -> None:
        """Have other processes that listen look at what is due, when the transaction commits. looks_us: when the run is due that this is about."""

    def listen(self, wake: Callable[[], None]) -> Callable[[], None]:
        """What other processes say by `tell_due`, as `ports.Journal.listen`; nothing where none can."""

    def now_us(self) -> int:
        """`ports.Journal.now_us`, its own readiness included."""

    def interrupted(self) -> None:
        """A call of this thread was broken off anywhere: take back what it may have kept, and leave other threads' connections alone."""

    def close(self) -> None:
        """Give up connections; the next use opens them again."""
