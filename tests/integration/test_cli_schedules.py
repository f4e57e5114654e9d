"""`recover schedules`: what is listed with and without the app, orders, and a run that is triggered."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from recovery.cli import app
from recovery.core.instants import iso
from recovery.ports import Scheduled
from recovery.storage import open_journal

APP = """
from recovery import Engine, Run, workflow

@workflow
def report(run: Run) -> str:
    return "reported"

engine = Engine("sqlite:///scheduled.db", workflows=[report])
engine.schedule("yearly", report(), cron="0 0 1 1 *", queue="slow")
engine.schedule("other", report(), cron="0 0 1 1 *")
"""
NEXT_US = 4_070_908_800_000_000  # 2099-01-01


@pytest.fixture(autouse=True)
def _place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delitem(sys.modules, "scheduled_app", raising=False)
    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / "scheduled_app.py").write_text(APP)
    journal = open_journal("sqlite:///scheduled.db")
    journal.namespace()
    journal.keep_schedule(Scheduled("yearly", 1, "0 0 1 1 *", "UTC", 1, NEXT_US, last_run="yearly:x", last_tick_us=1))
    journal.close()


def said(*arguments: str, code: int = 0) -> Any:
    came = CliRunner().invoke(app, ["schedules", *arguments, "--json"])
    assert came.exit_code == code, came.output
    return json.loads(came.stdout)


def test_what_is_there_is_listed_and_what_no_worker_has_brought_up() -> None:
    without = said("list", "--db", "sqlite:///scheduled.db")
    [row] = without["schedules"]
    assert (row["name"], row["next"], row["last_run"], row["paused"]) == ("yearly", iso(NEXT_US), "yearly:x", False)
    assert row["last_run_stored"] is False
    assert without["not_brought_up"] == []
    assert said("list", "--app", "scheduled_app:engine")["not_brought_up"] == [
        {"name": "other", "cron": "0 0 1 1 *", "timezone": "UTC"}
    ]
    shown = CliRunner().invoke(app, ["schedules", "list", "--app", "scheduled_app:engine"]).stdout
    assert "2099-01-01 00:00:00" in shown
    assert "no worker has brought it up" in shown
    assert "yearly:x, not stored yet" in shown


def test_a_schedule_is_paused_and_resumed_by_somebody_for_a_reason() -> None:
    order = ("yearly", "--by", "ann", "--reason", "holidays", "--db", "sqlite:///scheduled.db")
    assert said("pause", *order)["paused"] is True
    assert "paused by ann: holidays" in CliRunner().invoke(app, ["schedules", "list", "--db", "sqlite:///scheduled.db"]).stdout
    assert said("pause", *order, code=2)["error"]["type"] == "OverrideRefused"
    assert said("resume", *order)["paused"] is False
    assert said("pause", "nightly", *order[1:], code=2)["error"]["type"] == "OverrideRefused"


def test_a_run_of_now_is_triggered_by_the_app_alone() -> None:
    came = said("trigger", "yearly", "--app", "scheduled_app:engine")
    assert came["is_new"]
    journal = open_journal("sqlite:///scheduled.db")
    [row] = journal.runs()
    assert (row.run_id, row.queue) == (came["run_id"], "slow")
    journal.close()
    listed = CliRunner().invoke(app, ["runs", "--db", "sqlite:///scheduled.db"]).stdout.splitlines()
    assert (listed[0].split()[:4], listed[1].split()[3]) == (["run", "workflow", "status", "queue"], "slow")
    assert "slow, priority 0" in CliRunner().invoke(app, ["show", row.run_id, "--db", "sqlite:///scheduled.db"]).stdout
    assert said("trigger", "nightly", "--app", "scheduled_app:engine", code=2)["error"]["type"] == "DefinitionError"
    assert said("trigger", "yearly", "--db", "sqlite:///scheduled.db", code=2)["error"]["type"] == "AppNotFound"


def test_a_function_of_the_app_that_raises_is_no_bug_of_ours() -> None:
    Path("scheduled_app.py").write_text(APP + 'engine.schedule("broken", lambda tick: 1 // 0, cron="0 0 1 1 *")\n')
    refused = said("trigger", "broken", "--app", "scheduled_app:engine", code=2)["error"]
    assert refused["type"] == "DefinitionError"
    assert "its function raised ZeroDivisionError" in refused["message"]


def test_a_database_without_schedules_says_so() -> None:
    open_journal("sqlite:///empty.db").namespace()
    assert "no schedules" in CliRunner().invoke(app, ["schedules", "list", "--db", "sqlite:///empty.db"]).stdout
