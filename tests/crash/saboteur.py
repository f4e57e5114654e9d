"""The worker program, spoilt on purpose in one way.

    python tests/crash/saboteur.py WAY ...

unsynced: SQLite acknowledges commits that it has not synced. unwritten: an intent is said to be durable and is not even written. freezing:
the process is stopped (SIGSTOP) inside the transaction of its first intent. impatient: waits a fifth of a second for SQLite's lock.
minted: each attempt is sent under a key of its own. keeping: a run that rests is not given up.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Sequence
from typing import Any

from recovery import Call, claims
from recovery.drivers import asking
from recovery.ports import Append, Appended
from recovery.storage import alone, sqlite
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
    written = alone.Alone.written

    def freeze(self: Any, cursor: Any, batch: Sequence[Append]) -> bool:
        found = written(self, cursor, batch)
        if any(row.kind == "intent" for member in batch for row in member.rows):
            os.kill(os.getpid(), signal.SIGSTOP)
        return found

    alone.Alone.written = freeze


def impatient() -> None:
    sqlite.BUSY_TIMEOUT_MS = 200
    sqlite._REQUIRED["busy_timeout"] = 200


def minted() -> None:
    def with_key_of_its_own(**said: Any) -> Call:
        return Call(**said | {"key": f"{said['key']}:{said['attempt']}" if said["attempt"] else said["key"]})

    asking.Call = with_key_of_its_own


def keeping() -> None:
    claims._release = lambda *_: None


WAYS = {"unsynced": unsynced, "unwritten": unwritten, "freezing": freezing, "impatient": impatient}
WAYS |= {"minted": minted, "keeping": keeping}

if __name__ == "__main__":
    WAYS[sys.argv[1]]()
    sys.exit(main(sys.argv[2:]))
