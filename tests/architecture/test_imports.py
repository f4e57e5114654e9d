"""Layers, and what importing the package costs."""

from __future__ import annotations

import subprocess
import sys

import grimp
import pytest
from importlinter import cli as importlinter

from tests.architecture.source import ROOT

HEAVY = ["alembic", "asyncio", "httpx", "psycopg", "rich", "sqlalchemy", "starlette", "structlog", "typer", "uvicorn", "yaml"]


def test_import_contracts_hold(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.chdir(ROOT)
    status = importlinter.lint_imports(no_cache=True)
    assert status == 0, capsys.readouterr().out


def test_receipts_stand_alone() -> None:
    """An environment's service uses them without an engine: only the codec and the core are below."""
    graph = grimp.build_graph("recovery", cache_dir=None)
    inside = {name for name in graph.modules if name == "recovery.receipts" or name.startswith("recovery.receipts.")}
    imported = {target for name in inside for target in graph.find_modules_directly_imported_by(name)} - inside
    strangers = {name for name in imported if not name.startswith(("recovery.codec", "recovery.core"))}
    assert strangers == set()


def imported_by(statement: str) -> set[str]:
    code = f"import sys; {statement}; print(*sys.modules, sep='\\n')"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT)
    return set(done.stdout.split())


@pytest.mark.parametrize("module", ["recovery", "recovery.core.entries", "recovery.core.errors"])
def test_importing_stays_cheap(module: str) -> None:
    """A database driver, a CLI or a logger's set-up is imported where it is used, not where `recovery` is."""
    assert imported_by(f"import {module}").isdisjoint(HEAVY)


def test_the_cost_is_measured() -> None:
    """The control: the same look does see a heavy import."""
    assert "sqlalchemy" in imported_by("import sqlalchemy")
