"""One SQLite file, several journals in one process: none costs another its locks.

A process has its locks on a file only as long as it closes no descriptor of that file, whoever opened it. SQLite knows that and keeps its own
descriptors open. Whoever else opens the file and closes it takes the locks of every connection away: another process then believes that it
is the last one, removes the log under them, and what they commit afterwards is lost.
"""

from __future__ import annotations

import sqlite3
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from recovery import Engine, storage
from recovery.storage.migrate import migrate
from tests.architecture.source import ROOT
from tests.conformance.making import opened

COMING_AND_GOING = """
import sys
from recovery import storage
from tests.conformance.making import opened

journal = storage.open_journal(sys.argv[1])
opened(journal, "elsewhere")
journal.close()
"""


def look(url: str) -> None:
    with closing(storage.open_journal(url, create=False)) as journal:
        journal.runs()


def write(url: str) -> None:
    with closing(storage.open_journal(url)) as journal:
        journal.namespace()


def verify(url: str) -> None:
    with Engine(url) as engine:
        engine.verify()


@pytest.mark.parametrize("use", [look, write, migrate, verify])
def test_who_opens_the_file_again_takes_no_lock_from_its_other_journals(sqlite_url: str, use: Callable[[str], object]) -> None:
    with closing(storage.open_journal(sqlite_url)) as journal:
        opened(journal, "first")
        use(sqlite_url)
        subprocess.run([sys.executable, "-c", COMING_AND_GOING, sqlite_url], cwd=ROOT, check=True, timeout=60)
        assert {row.run_id for row in journal.runs()} == {"elsewhere", "first"}
        opened(journal, "last")
    path = sqlite_url.removeprefix("sqlite:///")
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        assert connection.execute("SELECT run_id FROM run ORDER BY 1").fetchall() == [("elsewhere",), ("first",), ("last",)]
    assert not Path(f"{path}-wal").exists(), "whoever leaves last removes the log"
