"""`recover queues`: what stands in each queue, with the app's limits and without."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from recovery.cli import app
from recovery.core.entries import Status
from recovery.core.instants import iso
from recovery.storage import open_journal
from tests.conformance.making import new_run, opened

APP = """
from datetime import timedelta
from recovery import Engine, Queue, Rate, Run, workflow

@workflow
def page(run: Run, number: int) -> int:
    return number

engine = Engine("DATABASE", workflows=[page], queues=[
    Queue("printer", concurrency=1), Queue("mail", rate=Rate(100, per=timedelta(minutes=1)), priority=-5),
])
engine.schedule("nightly", page(1), cron="0 0 1 1 *", queue="night")
"""


@pytest.fixture
def database(store_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delitem(sys.modules, "queued_app", raising=False)
    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / "queued_app.py").write_text(APP.replace("DATABASE", store_url))
    return store_url


def filled(url: str) -> int:
    """Since when runs are due: for some twelve minutes."""
    journal = open_journal(url)
    since_us = journal.now_us() - 725_000_000
    opened(journal, "at-work")
    for name, queue, look_us in (("p1", "printer", None), ("p2", "printer", 4_070_908_800_000_000), ("c1", "cards", None)):
        run = new_run(journal, name, status=Status.QUEUED)
        stored = journal.open_run(replace(run, queue=queue, next_look_us=look_us, at_us=since_us))
        assert stored is not None
        assert stored.owner is not None
        assert journal.release(name, stored.owner.token, stored.epoch)
    journal.close()
    return since_us


def said(*arguments: str) -> Any:
    came = CliRunner().invoke(app, ["queues", *arguments, "--json"])
    assert came.exit_code == 0, came.output
    return json.loads(came.stdout)


def test_queues_are_those_in_which_runs_stand_and_those_of_the_app(database: str) -> None:
    since = iso(filled(database))
    told = said("--app", "queued_app:engine")
    assert told["limits_known"]
    assert [each["queue"] for each in told["queues"]] == ["", "cards", "mail", "night", "printer"]
    nothing = {"concurrency": None, "rate": None, "priority": None}
    none_there = {"at_work": 0, "due": 0, "due_since": None, "later": 0, "next_due": None}
    by_name = {each.pop("queue"): each for each in told["queues"]}
    assert by_name[""] == none_there | nothing | {"at_work": 1}
    assert by_name["cards"] == none_there | nothing | {"due": 1, "due_since": since}
    rate = {"count": 100, "per_seconds": 60.0}
    assert by_name["mail"] == none_there | {"concurrency": None, "rate": rate, "priority": -5}
    assert by_name["night"] == none_there | nothing
    printer = {"due": 1, "due_since": since, "later": 1, "next_due": "2099-01-01T00:00:00.000000Z"}
    assert by_name["printer"] == none_there | printer | {"concurrency": 1, "rate": None, "priority": 0}


def test_without_the_app_limits_are_not_known(database: str) -> None:
    filled(database)
    told = said("--db", database)
    assert not told["limits_known"]
    assert [each["queue"] for each in told["queues"]] == ["", "cards", "printer"]
    shown = CliRunner().invoke(app, ["queues", "--db", database]).stdout
    assert "limits are the app's" in shown
    assert "rate" not in shown
    assert shown.splitlines()[2].endswith(" ago")


def test_the_list_says_limits_and_how_long_the_first_has_been_due(database: str) -> None:
    filled(database)
    shown = CliRunner().invoke(app, ["queues", "--app", "queued_app:engine"]).stdout.splitlines()
    assert shown[0].split() == ["queue", "rate", "at", "work", "later", "next", "due", "(UTC)", "due", "first", "due"]
    lines = {line.split()[0]: line for line in shown[1:]}
    assert lines['""'].split()[1:] == ["1", "0", "0"]
    assert "0 of 1" in lines["printer"]
    assert "2099-01-01 00:00:00" in lines["printer"]
    assert "100 in 1 min" in lines["mail"]
    assert lines["cards"].endswith(" ago")
    assert "1  12 min " in lines["cards"]
    assert all(len(line) <= 80 for line in shown)


def test_where_there_is_no_database_nothing_is_made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    came = CliRunner().invoke(app, ["queues", "--db", "sqlite:///absent.db"])
    assert came.exit_code == 2
    assert not (tmp_path / "absent.db").exists()
