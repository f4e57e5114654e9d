"""`recover signal`, `send`, `waits`, `query` and `listen` as typed: exit codes, documents and words."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from recovery import cli

APP = """
import os
from dataclasses import dataclass
from datetime import timedelta
from recovery import Call, Engine, Run, contracts, effect, workflow

@dataclass
class Approval:
    approved: bool

@effect(contracts.Keyed(window=timedelta(hours=24)))
def buy(call: Call, *, units: int) -> str:
    return f"{units} units"

@workflow
def purchase(run: Run, units: int) -> str:
    call = buy(units=units)
    run.publish("stage", "asking")
    answer = run.wait_for("approval", schema=Approval, about=call, by=["ann", "bob"], timeout=timedelta(days=1))
    run.publish("stage", "buying" if answer.approved else "declined")
    note = run.receive("notes", schema=str)
    return f"{run.perform(call)}: {note}" if answer.approved else note

engine = Engine(os.environ["DESK_DB"], workflows=[purchase])
"""

Typed = Callable[..., Result]


@pytest.fixture
def typed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Typed]:
    """`recover ARGUMENTS --app desk:engine`, where a run waits for an approval."""
    for name in [name for name in os.environ if name.startswith(("RECOVERY_", "FORCE_COLOR", "COLUMNS"))]:
        monkeypatch.delenv(name)
    (tmp_path / "desk.py").write_text(APP)
    monkeypatch.setenv("DESK_DB", url := f"sqlite:///{tmp_path / 'desk.db'}")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "desk", raising=False)

    def type_in(*arguments: str, app: bool = True) -> Result:
        return CliRunner().invoke(cli.app, [*arguments, *(("--app", "desk:engine") if app else ("--db", url))])

    import desk  # type: ignore[import-not-found]  # written just now

    from recovery import errors

    with desk.engine as engine:  # open meanwhile: commands of this process use it, too
        with pytest.raises(errors.AnswerPending):
            engine.run("r1", desk.purchase, 2)
        yield type_in
    sys.modules.pop("desk", None)


def document(ended: Result) -> Any:
    return json.loads(ended.stdout)


def about(typed: Typed) -> str:
    return str(document(typed("waits", "r1", "--json"))["waits"][0]["about"])


def answer(typed: Typed, value: str = '{"approved": true}', by: str = "ann", *more: str, app: bool = True) -> Result:
    return typed("signal", "r1", "approval", "--value", value, "--by", by, *more, app=app)


def test_a_run_is_asked_about_answered_and_goes_on(typed: Typed) -> None:
    waiting = typed("--run-id", "r1", "--json")
    assert waiting.exit_code == 8
    assert document(waiting)["error"]["type"] == "AnswerPending"
    [one] = document(typed("waits", "--json"))["waits"]
    assert (one["step"], one["by"], one["effect"], one["arguments"]) == ("approval#1", ["ann", "bob"], "buy", {"units": 2})
    assert one["until"] > one["since"]
    said = answer(typed, '{"approved": true}', "ann", "--about", one["about"][:8], "--json")
    assert said.exit_code == 0
    assert document(said)["signal"]["waited_for"] is True
    assert typed("--run-id", "r1").exit_code == 8  # now for a note
    assert document(typed("send", "r1", "notes", "--value", '"quickly"', "--by", "bob", "--json"))["message"]["number"] == 2
    ended = typed("--run-id", "r1", "--json")
    assert (ended.exit_code, document(ended)["outcome"]["value"]) == (0, "2 units: quickly")


def test_a_run_that_waits_for_an_answer_is_explained_by_who_answers_it(typed: Typed) -> None:
    def why() -> tuple[str, list[str]]:
        told = document(typed("explain", "r1", "--json"))["why"]
        return told["acts"], told["commands"]

    named = about(typed)
    assert why() == (
        "a person",
        [f"recover signal r1 approval#1 --value JSON --by WHO --about {named[:12]}", "recover --run-id r1"],
    )
    assert "Only ann or bob may answer." in " ".join(typed("explain", "r1").stdout.split())
    answer(typed, '{"approved": true}', "ann", "--about", named)
    assert why() == ("a worker", ["recover --run-id r1"])
    assert typed("--run-id", "r1").exit_code == 8
    assert why() == ("a person", ["recover send r1 notes --value JSON --by WHO", "recover --run-id r1"])


def test_every_command_says_that_somebody_must_speak_although_the_wait_has_an_end(typed: Typed) -> None:
    for _ in range(2):  # taken up, and left alone
        assert typed("--all").exit_code == 8
    assert "1 left: waiting for what somebody must say (`recover waits` lists it)" in typed("--all").stdout
    assert document(typed("--all", "--json"))["left"] == {"waiting": 1}
    assert document(typed("waits", "--json"))["waits"][0]["until"] is not None
    assert [typed("--run-id", "r1").exit_code, typed("--run-id", "r1", "--plan").exit_code] == [8, 8]
    assert typed("--run-id", "r1", "--plan", app=False).exit_code == 8
    answer(typed, '{"approved": true}', "ann", "--about", about(typed))
    typed("send", "r1", "notes", "--value", '"no"', "--by", "ann")
    plan = typed("--run-id", "r1", "--plan")
    assert (plan.exit_code, "take in what ann has said to approval" in " ".join(plan.stdout.split())) == (4, True)


def test_a_command_looks_for_an_answer_as_long_as_it_was_told_to(typed: Typed) -> None:
    assert typed("--run-id", "r1", "--max-wait", "0.1").exit_code == 8
    answer(typed, '{"approved": false}', "ann", "--about", about(typed))
    typed("send", "r1", "notes", "--value", '"no"', "--by", "ann")
    assert typed("--run-id", "r1", "--max-wait", "60").exit_code == 0


def test_the_reports_say_it_in_words(typed: Typed) -> None:
    told = typed("waits", app=False).stdout
    for part in ("run r1", "the answer to approval", "Approval, by ann, bob", 'buy {"units": 2}', about(typed)[:12]):
        assert part in told
    assert "the answer to approval" in typed("runs", app=False).stdout
    said = answer(typed, '{"approved": true}', "ann", "--about", about(typed))
    assert "approval#1 is answered by ann" in said.stdout
    assert "nothing has changed" in answer(typed, '{"approved": true}', "ann", "--about", about(typed)).stdout
    assert "said" in typed("waits", "r1").stdout
    typed("--run-id", "r1")
    shown = typed("show", "r1", app=False).stdout
    for part in ("for the answer to approval", '{"approved": true}, said by ann', "stage is", "the next message of notes"):
        assert part in shown
    early = typed("signal", "r1", "elsewhere", "--value", "1", "--by", "ann").stdout
    assert "has not come to that wait" in early
    assert "notes#1" in early
    assert "goes on" not in early, "the run still waits for something else"
    assert "message" in typed("send", "r1", "notes", "--value", '"x"', "--by", "bob").stdout


@pytest.mark.parametrize(
    ("value", "by", "named", "says"),
    [
        ('{"approved": "perhaps"}', "ann", True, "value.approved"),
        ('{"approved": true}', "cleo", True, "to be answered by ann, bob"),
        ('{"approved": true}', "ann", False, "must name the call"),
        ("{approved: true}", "ann", True, "it is not JSON"),
    ],
)
def test_what_does_not_fit_is_refused_with_two(typed: Typed, value: str, by: str, named: bool, says: str) -> None:
    refused = answer(typed, value, by, *(("--about", about(typed)) if named else ()))
    assert refused.exit_code == 2
    assert says in refused.stderr
    assert document(typed("waits", "r1", "--json"))["waits"][0]["said_by"] == ""


def test_a_second_answer_is_told_who_was_first(typed: Typed) -> None:
    answer(typed, '{"approved": false}', "bob", "--about", about(typed), app=False)
    refused = answer(typed, '{"approved": true}', "ann", "--about", about(typed), app=False)
    assert refused.exit_code == 2
    assert "answered by bob" in refused.stderr
    for command in (("signal", "nobody", "approval"), ("send", "nobody", "notes")):
        assert typed(*command, "--value", "1", "--by", "ann").exit_code == 2
    assert typed("waits", "nobody").exit_code == 2


def test_what_is_published_and_what_happens_can_be_read_without_the_app(typed: Typed) -> None:
    assert document(typed("query", "r1", "--json", app=False))["published"]["stage"]["value"] == "asking"
    assert "asking" in typed("query", "r1", "stage", app=False).stdout
    assert typed("query", "r1", "nothing", app=False).stdout == "nothing is published as nothing\n"
    heard = document(typed("listen", "r1", "--wait", "0", "--json", app=False))
    assert [event["happened"] for event in heard["events"]] == ["opened", "published", "waits"]
    assert heard["position"] == 3
    answer(typed, '{"approved": false}', "ann", "--about", about(typed))
    typed("send", "r1", "notes", "--value", '"no"', "--by", "ann")
    typed("--run-id", "r1")
    rest = document(typed("listen", "r1", "--after", "3", "--json", app=False))
    assert [event["happened"] for event in rest["events"]] == ["answered", "published", "waits", "answered", "ended"]
    told = typed("listen", "r1", app=False).stdout.splitlines()
    assert len(told) == 8
    assert "published  published#2  stage" in told[4]
    assert typed("listen", "r1", "--after", "99", app=False).exit_code == 2
