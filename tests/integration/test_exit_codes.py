"""Exit codes: wherever it is asked how a run stands, the answer is one code. A table of states, and every command that tells of one."""

from __future__ import annotations

import importlib
import json
import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

import pytest
import sqlalchemy as sa
from typer.testing import CliRunner

from recovery import cli
from recovery.core.errors import ExitCode, RecoveryError
from recovery.core.resting import RestsFor

APP = """
import os
from datetime import timedelta
from recovery import Budget, Call, Engine, Run, contracts, effect, workflow

changed = False

@effect(contracts.Opaque())
def mail(call: Call) -> str:
    raise TimeoutError("no reply")

@effect(contracts.Keyed(window=timedelta(hours=24)))
def book(call: Call) -> str:
    raise TimeoutError("no reply")

@workflow
def stand(run: Run, how: str) -> str:
    return HOW[how](run)

def fails(run: Run) -> str:
    raise ValueError("not today")

def sleeps(run: Run) -> str:
    run.sleep(timedelta(days=1))
    return "awake"

def answer(run: Run) -> str:
    return run.wait_for("answer", schema=str)

def answer_in_time(run: Run) -> str:
    return run.wait_for("answer", schema=str, timeout=timedelta(days=1))

def message(run: Run) -> str:
    return run.receive("topic", schema=str)

def doubt(run: Run) -> str:
    return run.perform(mail())

def unreachable(run: Run) -> str:
    return run.perform(book())

def diverges(run: Run) -> str:
    run.decide("new" if changed else "old", lambda: 1)
    return answer(run)

def child(how: str):
    return lambda run: run.call_child(stand(how), run_id=f"{run.run_id}.{how.replace(chr(32), chr(45))}")

def both(*hows: str):
    return lambda run: "".join(run.gather(*(lambda branch, how=how: HOW[how](branch) for how in hows)))

HOW = {name: value for name, value in list(globals().items()) if callable(value)}
HOW |= {
    "returns": lambda run: "done",
    "child answer": child("answer"),
    "child message": child("message"),
    "grandchild answer": child("child answer"),
    "child sleeps": child("sleeps"),
    "child doubt": child("doubt"),
    "child diverges": child("diverges"),
    "answer+sleeps": both("answer", "sleeps"),
    "sleeps+answer": both("sleeps", "answer"),
    "child answer+sleeps": both("child answer", "sleeps"),
    "sleeps+child answer": both("sleeps", "child answer"),
    "answer+child message": both("answer", "child message"),
    "child message+child answer": both("child message", "child answer"),
    "sleeps+child doubt": both("sleeps", "child doubt"),
    "doubt+answer": both("doubt", "answer"),
}

engine = Engine(os.environ["DESK_DB"], workflows=[stand], budget=Budget(max_wait=timedelta(0)))
"""

Desk = Any


@pytest.fixture
def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Desk]:
    for name in [name for name in os.environ if name.startswith(("RECOVERY_", "FORCE_COLOR", "COLUMNS"))]:
        monkeypatch.delenv(name)
    (tmp_path / "standing_desk.py").write_text(APP)
    monkeypatch.setenv("DESK_DB", f"sqlite:///{tmp_path / 'desk.db'}")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "standing_desk", raising=False)
    desk = importlib.import_module("standing_desk")
    with desk.engine:  # open meanwhile: commands of this process use it, too
        yield desk
    sys.modules.pop("standing_desk", None)


def typed(*arguments: str, app: bool = True) -> int:
    where = ("--app", "standing_desk:engine") if app else ("--db", os.environ["DESK_DB"])
    ended = CliRunner().invoke(cli.app, [*arguments, *where])
    return ended.exit_code


def told(*arguments: str) -> Any:
    """The document that a command prints."""
    return json.loads(CliRunner().invoke(cli.app, [*arguments, "--app", "standing_desk:engine", "--json"]).stdout)


def stand(desk: Desk, how: str) -> None:
    """Begin run r and leave it as it comes to stand by itself."""
    try:
        desk.engine.run("r", desk.stand, how)
    except RecoveryError:
        return
    assert how == "returns"  # with all else the call has raised


def held(desk: Desk) -> None:
    desk.engine.hold("r", by="ann", reason="we look")


def paused(desk: Desk) -> None:
    desk.engine.pause("r", by="ann", reason="we look")


def child_held(desk: Desk) -> None:
    desk.engine.hold("r.answer", by="ann", reason="we look")
    recovered(desk)


def cancelled(desk: Desk) -> None:
    desk.engine.cancel("r", by="ann", reason="nobody wants it")


def changed(desk: Desk) -> None:
    desk.changed = True
    recovered(desk)


def recovered(desk: Desk) -> None:
    desk.engine.recover("r")


def owned(desk: Desk) -> None:
    with sa.create_engine(os.environ["DESK_DB"]).begin() as connection:
        connection.exec_driver_sql(
            "UPDATE run SET owner_token = 'other', owner_host = 'elsewhere', lease_term_us = 3600000000 WHERE run_id = 'r'"
        )


PLAN: Final = ("--run-id", "r", "--plan")
LOOKS: Final[dict[str, Callable[[Desk], int]]] = {
    "--plan": lambda _: typed(*PLAN),
    "--plan --no-probe": lambda _: typed(*PLAN, "--no-probe"),
    "--plan without the app": lambda _: typed(*PLAN, app=False),
    "--all --plan": lambda _: typed("--all", "--plan"),
    "--all --plan without the app": lambda _: typed("--all", "--plan", app=False),
    "engine.get": lambda desk: int(desk.engine.get("r").exit_code),
}
"""They change nothing, so that each of them is asked of the same state."""
ACTS: Final[dict[str, Callable[[Desk], int]]] = {
    "--run-id": lambda _: typed("--run-id", "r", "--no-wait"),
    "--run-id again": lambda _: typed("--run-id", "r", "--no-wait"),
    "--all": lambda _: typed("--all", "--max-wait", "0"),
    "--plan behind it": lambda _: typed(*PLAN),
}
SETTLED: Final = {"--all --plan": 0, "--all --plan without the app": 0, "--all": 0}
"""What has settled is never looked at where all open runs are."""
OWNED: Final = {"engine.get": 8}
"""It says how the run stands, whoever has it."""

S, F, D, U, X, W = ExitCode.SETTLED, ExitCode.FAILED, ExitCode.IN_DOUBT, ExitCode.UNRESOLVED, ExitCode.DIVERGED, ExitCode.WAITING
TABLE: Final[list[tuple[str, Callable[[Desk], None] | None, ExitCode, RestsFor, dict[str, int]]]] = [
    ("returns", None, S, RestsFor.NOTHING, SETTLED),
    ("fails", None, F, RestsFor.NOTHING, SETTLED),
    ("answer", cancelled, F, RestsFor.NOTHING, SETTLED),
    ("doubt", None, D, RestsFor.NOTHING, {}),
    ("answer", held, D, RestsFor.NOTHING, {}),
    ("sleeps", held, D, RestsFor.NOTHING, {}),
    ("answer", paused, D, RestsFor.NOTHING, {}),
    ("diverges", changed, X, RestsFor.NOTHING, {}),
    ("unreachable", None, U, RestsFor.ENVIRONMENT, {}),
    ("sleeps", None, U, RestsFor.TIME, {}),
    ("answer", None, W, RestsFor.ANSWER, {}),
    ("answer_in_time", None, W, RestsFor.ANSWER, {}),
    ("message", None, W, RestsFor.MESSAGE, {}),
    ("answer", owned, ExitCode.OWNED, RestsFor.ANSWER, OWNED),
    ("child answer", None, W, RestsFor.CHILD_ANSWER, {}),
    ("child message", None, W, RestsFor.CHILD_ANSWER, {}),
    ("grandchild answer", None, W, RestsFor.CHILD_ANSWER, {}),
    ("child sleeps", None, U, RestsFor.CHILD, {}),
    ("child doubt", None, D, RestsFor.NOTHING, {}),
    ("child answer", child_held, D, RestsFor.NOTHING, {}),
    ("child diverges", changed, X, RestsFor.CHILD, {"engine.get": 4, "--plan without the app": 4}),
    ("answer+sleeps", None, U, RestsFor.TIME, {}),
    ("sleeps+answer", None, U, RestsFor.TIME, {}),
    ("child answer+sleeps", None, U, RestsFor.TIME, {}),
    ("sleeps+child answer", None, U, RestsFor.TIME, {}),
    ("answer+child message", None, W, RestsFor.ANSWER, {}),
    ("child message+child answer", None, W, RestsFor.CHILD_ANSWER, {}),
    ("sleeps+child doubt", None, D, RestsFor.NOTHING, {}),
    ("doubt+answer", None, D, RestsFor.NOTHING, {}),
]


@pytest.mark.parametrize(
    ("how", "then", "code", "rests_for", "apart"),
    TABLE,
    ids=[f"{how}{'' if then is None else f' {then.__name__}'}" for how, then, *_ in TABLE],
)
def test_every_command_says_of_one_run_how_it_stands(
    desk: Desk, how: str, then: Callable[[Desk], None] | None, code: ExitCode, rests_for: RestsFor, apart: dict[str, int]
) -> None:
    stand(desk, how)
    if then is not None:
        then(desk)
    [row] = [row for row in desk.engine.list() if row.run_id == "r"]
    assert row.rests_for is rests_for
    told = {command: ask(desk) for command, ask in [*LOOKS.items(), *ACTS.items()]}
    assert told == {command: int(code) for command in told} | apart


def test_once_a_child_has_its_answer_a_plan_for_its_parent_says_that_there_is_something_to_do(desk: Desk) -> None:
    """The parent's row still says that somebody must speak: it is woken when the child has settled, and not before."""
    stand(desk, "grandchild answer")
    assert typed("signal", "r.child-answer.answer", "answer", "--value", '"yes"', "--by", "ann") == 0
    assert [info.rests_for for info in desk.engine.list() if info.run_id == "r"] == [RestsFor.CHILD_ANSWER]
    assert typed(*PLAN) == ExitCode.UNRESOLVED
    assert typed("--run-id", "r") == ExitCode.SETTLED


def test_an_answer_that_does_not_fit_is_refused_although_a_branch_in_front_of_its_wait_sleeps(desk: Desk) -> None:
    stand(desk, "sleeps+answer")
    assert typed("signal", "r", "answer", "--value", "7", "--by", "ann") == ExitCode.USAGE
    assert typed("signal", "r", "answer", "--value", '"yes"', "--by", "ann") == 0


def test_in_json_a_run_and_a_child_say_what_they_rest_for_and_a_plan_its_exit_code(desk: Desk) -> None:
    stand(desk, "child message")
    shown = told("show", "r")
    assert (shown["run"]["rests_for"], shown["children"][0]["rests_for"]) == ("child_answer", "message")
    assert {run["run_id"]: run["rests_for"] for run in told("runs")["runs"]} == {"r": "child_answer", "r.message": "message"}
    assert told(*PLAN)["exit_code"] == ExitCode.WAITING
    assert told("--all")["exit_code"] == ExitCode.WAITING
