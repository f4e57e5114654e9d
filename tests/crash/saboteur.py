"""The worker program with its write-ahead rule broken on purpose: what the test of system-call order must catch.

    python tests/crash/saboteur.py unsynced|unwritten ...

unsynced: SQLite acknowledges commits that it has not synced. unwritten: an intent is said to be durable and is not even written.
"""

from __future__ import annotations

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


if __name__ == "__main__":
    {"unsynced": unsynced, "unwritten": unwritten}[sys.argv[1]]()
    sys.exit(main(sys.argv[2:]))
