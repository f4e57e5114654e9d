"""The directories of demonstrations: what a killed one left goes with the next, and nothing else does."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from dataclasses import asdict
from pathlib import Path

import pytest

from recovery.cli.staging import OWNER, PREFIX, stage
from recovery.processes import identify

KILLED = """
import os, signal
from recovery.cli.staging import stage
with stage() as directory:
    (directory / "journal.db").write_text("")
    os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.fixture
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(tempfile, "tempdir", None)
    return tmp_path


def test_what_a_killed_demonstration_left_goes_with_the_next(temporary: Path) -> None:
    assert subprocess.run([sys.executable, "-c", KILLED], check=False).returncode == -9
    [left] = temporary.iterdir()
    assert {path.name for path in left.iterdir()} == {OWNER, "journal.db"}
    with stage() as mine:
        assert list(temporary.iterdir()) == [mine]
    assert list(temporary.iterdir()) == []


def test_nothing_goes_whose_process_is_not_proven_dead(temporary: Path) -> None:
    living, nobodys, odd, elsewhere = (temporary / f"{PREFIX}{name}" for name in ("living", "nobodys", "odd", "elsewhere"))
    target = temporary / "target"
    for directory in (living, nobodys, odd, target):
        directory.mkdir()
    (living / OWNER).write_text(json.dumps(asdict(identify(""))))
    (odd / OWNER).write_text('{"pid": []}')
    (target / OWNER).write_text(json.dumps(asdict(identify("")) | {"process_start": 1}))
    elsewhere.symlink_to(target)
    before = set(temporary.iterdir())
    with stage() as mine:
        assert set(temporary.iterdir()) == before | {mine}
    assert set(temporary.iterdir()) == before
