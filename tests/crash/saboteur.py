"""The worker program, spoilt on purpose in one way.

    python tests/crash/saboteur.py unsynced|unwritten|freezing|impatient ...

unsynced: SQLite acknowledges commits that it has not synced. unwritten: an intent is said to be durable and is not even written. freezing:
the process is stopped (SIGSTOP) inside the transaction of its first intent. impatient: waits a fifth of a second for SQLite's lock.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Sequence
from typing import Any

from recovery.ports import Append, Appended
from recovery.storage import sqlite
from tests.crash.worker import main


def unsynced() -> None:
    sqlite._WRITER_SETTINGS = tuple("synchronous = OFF" if "synchronous" in said else said for said in sqlite._WRITER_SETTINGS)
    sqlite._REQUIRED["synchronous"] = 0


def unwritten() -> None:
    append = sqlite.SqliteDatabase.append

    def forgetting(self: Any, batch: Sequence[Append]) -> Any:
        if any(row.kind == "intent" for member in batch for row in member.rows):
            return [Appended() for _ in batch]
        return append(self, batch)

    sqlite.SqliteDatabase.append = forgetting


def freezing() -> None:
    append_one = sqlite._append_one

    def freeze(connection: Any, member: Append) -> Any:
        result = append_one(connection, member)
        if any(row.kind == "intent" for row in member.rows):
            os.kill(os.getpid(), signal.SIGSTOP)
        return result

    sqlite._append_one = freeze


def impatient() -> None:
    sqlite.BUSY_TIMEOUT_MS = 200
    sqlite._REQUIRED["busy_timeout"] = 200


WAYS = {"unsynced": unsynced, "unwritten": unwritten, "freezing": freezing, "impatient": impatient}

if __name__ == "__main__":
    WAYS[sys.argv[1]]()
    sys.exit(main(sys.argv[2:]))
