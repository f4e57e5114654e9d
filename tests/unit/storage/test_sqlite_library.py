"""Which SQLite is used, and what is said about one that has a published fault."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from recovery.storage.sqlite_library import may_damage

SHIM = """
import sqlite3
from sqlite3.dbapi2 import *
sqlite_version_info, sqlite_version = {version}, "of the shim"
def connect(*args, **kwargs):
    print("by pysqlite3")
    return sqlite3.connect(*args, **kwargs)
"""

WRITE = """
import sqlite3, sys
sqlite3.sqlite_version_info, sqlite3.sqlite_version = {version}, "of the test"
from recovery import logs
from recovery.storage import open_journal
from recovery.storage.migrate import migrate
logs.configure(json=True)
url = "sqlite:///a.db"
migrate(url)
open_journal(url).runs()
sys.stderr.write("read\\n")
for _ in range(2):
    open_journal(url).raise_incarnation(0, 1)
"""


def wrote(
    directory: Path, version: tuple[int, ...], shim: tuple[int, ...] | None = None, asked: str = ""
) -> tuple[list[str], list[str]]:
    """Lines on standard output and on standard error of a process whose Python has that SQLite, and perhaps a pysqlite3 beside it."""
    if shim is not None:
        (directory / "pysqlite3").mkdir()
        (directory / "pysqlite3" / "__init__.py").touch()
        (directory / "pysqlite3" / "dbapi2.py").write_text(SHIM.format(version=shim))
    path = os.pathsep.join([str(directory), str(Path(__file__).parents[3])])
    ended = subprocess.run(
        [sys.executable, "-c", WRITE.format(version=version)],
        cwd=directory, env=os.environ | {"PYTHONPATH": path, "RECOVERY_SQLITE": asked}, capture_output=True, text=True, check=True,
    )  # fmt: skip
    return ended.stdout.splitlines(), ended.stderr.splitlines()


@pytest.mark.parametrize(
    ("version", "has_it"),
    [
        ((3, 6, 23), False),
        ((3, 7, 0), True),
        ((3, 40, 1), True),
        ((3, 44, 5), True),
        ((3, 44, 6), False),
        ((3, 45, 0), True),
        ((3, 50, 6), True),
        ((3, 50, 7), False),
        ((3, 51, 0), True),
        ((3, 51, 2), True),
        ((3, 51, 3), False),
        ((3, 53, 0), False),
    ],
)
def test_the_versions_with_the_wal_reset_fault(version: tuple[int, ...], has_it: bool) -> None:
    assert may_damage(version) is has_it


def test_the_fault_is_said_once_and_only_to_who_writes(tmp_path: Path) -> None:
    _, said = wrote(tmp_path, (3, 40, 1))
    assert said[0] == "read"
    [line] = said[1:]
    assert '"logger": "recovery.storage"' in line
    assert '"level": "warning"' in line
    assert "WAL-reset fault" in line
    assert '"fixed_in": "3.51.3"' in line


def test_a_sqlite_without_the_fault_is_not_spoken_of(tmp_path: Path) -> None:
    assert wrote(tmp_path, (3, 51, 3)) == ([], ["read"])


def test_the_sqlite_of_pysqlite3_is_used_for_everything_where_it_is_asked_for(tmp_path: Path) -> None:
    by_it, said = wrote(tmp_path, (3, 40, 1), shim=(3, 53, 4), asked="pysqlite3")
    assert set(by_it) == {"by pysqlite3"}
    assert said == ["read"]


def test_nobody_gets_another_library_unasked(tmp_path: Path) -> None:
    """An app may open the file with Python's own, and two libraries in one process take away each other's locks."""
    by_it, said = wrote(tmp_path, (3, 40, 1), shim=(3, 53, 4))
    assert by_it == []
    assert len(said) == 2


def test_a_library_that_is_asked_for_and_not_there_is_named(tmp_path: Path) -> None:
    (tmp_path / "pysqlite3.py").write_text("raise ImportError")
    code = "from recovery.storage import open_journal; open_journal('sqlite:///a.db')"
    path = os.pathsep.join([str(tmp_path), str(Path(__file__).parents[3])])
    asked = os.environ | {"RECOVERY_SQLITE": "pysqlite3", "PYTHONPATH": path}
    ended = subprocess.run([sys.executable, "-c", code], env=asked, capture_output=True, text=True, check=False)
    assert "RECOVERY_SQLITE=pysqlite3 needs pysqlite3, not installed here" in ended.stderr
    assert "pip install -e '.[sqlite]'" in ended.stderr
