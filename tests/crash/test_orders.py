"""An operator is killed with SIGKILL at every point that an order passes, and gives the order again: it is there once, and whole.

The orders are the real commands. What an order makes durable is found afterwards by reading the journal, never by what the command said.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

import pytest
from typer.testing import CliRunner

from recovery import Engine, cli
from recovery.core.entries import Entry, OutcomeKind, Override, Settled, Status
from recovery.crashpoints import POINTS, VARIABLE
from recovery.ports import Journal
from recovery.storage import open_journal
from recovery.storage.reading import read
from tests.crash.orders_app import leave_in_doubt, settle_long_ago
from tests.crash.test_points import ORDERS

WHO = ("--by", "ann", "--reason", "x")
HERE = Path(__file__).parents[2]


@dataclass
class Books:
    """A database with one run in doubt, `r`, and one settled long ago, `old`."""

    url: str
    journal: Journal

    def killed(self, *arguments: str, crash_at: str) -> bool:
        """`recover ARGUMENTS` in a process of its own, which dies there."""
        environment = {name: value for name, value in os.environ.items() if not name.startswith("RECOVERY_")} | {VARIABLE: crash_at}
        command = [sys.executable, "-m", "recovery", *arguments, "--db", self.url]
        ended = subprocess.run(command, cwd=HERE, env=environment, capture_output=True, timeout=60)
        return ended.returncode == -signal.SIGKILL

    def order(self, *arguments: str) -> int:
        """The same here, to its end."""
        return CliRunner().invoke(cli.app, [*arguments, "--db", self.url]).exit_code

    def entries(self) -> list[Entry]:
        return read(self.journal, "r").entries

    def verbs(self) -> list[str]:
        return [entry.verb.value for entry in self.entries() if isinstance(entry, Override)]


@pytest.fixture
def books(sqlite_url: str) -> Books:
    journal = open_journal(sqlite_url)
    leave_in_doubt(Engine(journal), "r")
    settle_long_ago(Engine(journal), "old", timedelta(days=400))
    return Books(sqlite_url, journal)


def killed_then_given_again(books: Books, point: str, arguments: Sequence[str]) -> int:
    assert books.killed(*arguments, crash_at=point), f"{arguments[0]} does not pass {point}"
    return books.order(*arguments)


@pytest.mark.parametrize("side", ["before", "after"])
def test_a_hold_of_a_run(books: Books, side: str) -> None:
    again = killed_then_given_again(books, f"append.override.{side}", ["hold", "r", *WHO])
    assert (again, books.verbs()) == (2 if side == "after" else 0, ["hold"])
    row = books.journal.find("r")
    assert row is not None
    assert row.status is Status.HELD


@pytest.mark.parametrize("side", ["before", "after"])
def test_a_hold_of_a_contract(books: Books, side: str) -> None:
    assert killed_then_given_again(books, f"hold.{side}", ["hold", "--contract", "mail", *WHO]) == 0
    assert [hold.subject for hold in books.journal.holds()] == ["mail"]


@pytest.mark.parametrize("side", ["before", "after"])
def test_a_resolution_is_whole_or_not_there(books: Books, side: str) -> None:
    arguments = ["resolve", "r", "mail#1", "--not-executed", "--evidence", "log", *WHO]
    again = killed_then_given_again(books, f"append.settled.{side}", arguments)
    assert (again, books.verbs()) == (2 if side == "after" else 0, ["resolve"])
    settled = [entry for entry in books.entries() if isinstance(entry, Settled)]
    assert [(entry.outcome, entry.heuristic) for entry in settled] == [(OutcomeKind.NOT_EXECUTED, True)]


@pytest.mark.parametrize("side", ["before", "after"])
def test_a_forgetting_is_whole_or_not_there(books: Books, side: str) -> None:
    assert killed_then_given_again(books, f"forget.{side}", ["forget", "old"]) == (2 if side == "after" else 0)
    assert books.journal.stub("old") is not None
    loaded = books.journal.load("old")
    assert loaded is not None
    assert loaded[1] == []
    assert books.journal.key_owner("world", "", "mail-old") is not None


def test_every_point_of_an_order_is_reached_here() -> None:
    here = {"append.override", "hold", "forget"}
    assert {point.rpartition(".")[0] for point in POINTS if point.startswith(ORDERS)} == here == set(ORDERS)
