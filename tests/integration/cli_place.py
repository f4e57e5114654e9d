"""A directory with an app in it, and the real commands run there. Shared by the command-line tests."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from recovery.core.errors import SchemaMismatch, StoreUrlError
from recovery.ports import RunRow
from recovery.storage import open_journal
from tests.warm import Program, WarmParent

APP = "shop:engine"
_OURS = ("RECOVERY_", "SHOP_DB", "FORCE_COLOR", "NO_COLOR", "COLUMNS")


@dataclass(frozen=True)
class Ended:
    code: int
    out: str
    err: str

    @property
    def document(self) -> Any:
        """What --json printed: one document and nothing else."""
        return json.loads(self.out)

    @property
    def sentence(self) -> str:
        """The one line of a refusal: no traceback, no second line, nothing on stdout."""
        assert self.out == ""
        assert "Traceback" not in self.err
        assert self.err.count("\n") == 1, self.err
        return self.err.strip()


@dataclass
class Place:
    """`url`: of the journal that the app uses."""

    directory: Path
    url: str
    parent: WarmParent
    environment: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        shutil.copy(Path(__file__).with_name("cli_shop.py"), self.directory / "shop.py")

    def _environ(self, extra: dict[str, str]) -> dict[str, str]:
        kept = {name: value for name, value in os.environ.items() if not name.startswith(_OURS)}
        return kept | {"SHOP_DB": self.url} | self.environment | extra

    def recover(self, *arguments: str, fresh: bool = False, **extra: str) -> Ended:
        """`recover ARGUMENTS`, in a pipe. `fresh`: in an interpreter of its own."""
        return self.run_python("-m", "recovery", *arguments, fresh=fresh, **extra)

    def recover_installed(self, *arguments: str) -> Ended:
        """The same by the installed command, in a fresh interpreter."""
        command = [str(Path(sys.executable).with_name("recover")), *arguments]
        ended = subprocess.run(
            command,
            cwd=self.directory,
            env=self._environ({}),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=240,
        )
        return Ended(ended.returncode, ended.stdout, ended.stderr)

    def run_python(self, *arguments: str, fresh: bool = False, **extra: str) -> Ended:
        ended = self.parent.run(arguments, directory=self.directory, environment=self._environ(extra), fresh=fresh)
        return Ended(ended.returncode, ended.stdout, ended.stderr)

    def recovering(self, *arguments: str, stdout: int | None = None, **extra: str) -> Program:
        environment = self._environ(extra)
        return self.parent.start(["-m", "recovery", *arguments], directory=self.directory, environment=environment, stdout=stdout)

    def worker(self, *arguments: str, crash_at: str = "") -> Ended:
        """The app's worker, killed at a crash point if one is named."""
        extra = {"RECOVERY_CRASH_AT": crash_at} if crash_at else {}
        ended = self.run_python("shop.py", *arguments, **extra)
        assert (ended.code == -signal.SIGKILL) is bool(crash_at), ended.err
        return ended

    def working(self, *arguments: str) -> Program:
        return self.parent.start(["shop.py", *arguments], directory=self.directory, environment=self._environ({}))

    def ledger(self) -> list[str]:
        """What really happened in the world."""
        path = self.directory / "ledger"
        return path.read_text().splitlines() if path.exists() else []

    def touch(self, name: str) -> None:
        (self.directory / name).touch()

    def remove(self, name: str) -> None:
        (self.directory / name).unlink()

    def files(self) -> set[str]:
        return {path.name for path in self.directory.iterdir()} - {"__pycache__"}

    def row(self, run_id: str) -> RunRow | None:
        """The run as the journal has it, read here and not by a command."""
        journal = open_journal(self.url, create=False)
        try:
            return journal.find(run_id)
        except (StoreUrlError, SchemaMismatch):
            return None  # the worker is still making it
        finally:
            journal.close()

    def head(self, run_id: str) -> str:
        row = self.row(run_id)
        assert row is not None
        return row.head_digest

    def entries(self, run_id: str) -> int:
        row = self.row(run_id)
        return 0 if row is None else row.head


def until(what: str, condition: Any, seconds: float = 60) -> None:
    """Poll a fact of the outside world; fail if it does not come true."""
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            pytest.fail(f"{what} did not come true within {seconds} s")
        time.sleep(0.02)
