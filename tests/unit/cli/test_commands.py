"""Assembling: a command that is asked for by its name is the one that all of them would have; and what is said before any command runs."""

from __future__ import annotations

from collections import Counter

import pytest
from typer.testing import CliRunner

from recovery.cli import app, assembled
from recovery.cli.contents import SECTIONS

WHOLE = assembled()


@pytest.mark.parametrize("name", sorted(WHOLE.commands))
def test_a_command_that_is_assembled_alone_is_the_same(name: str) -> None:
    alone = assembled(name)
    assert list(alone.commands) == [name]
    assert [each.name for each in alone.params] == [each.name for each in WHOLE.params]
    here, there = alone.commands[name], WHOLE.commands[name]
    assert here.help == there.help
    assert [(each.name, each.opts) for each in here.params] == [(each.name, each.opts) for each in there.params]
    assert sorted(getattr(here, "commands", ())) == sorted(getattr(there, "commands", ()))


@pytest.mark.parametrize("asked", ["", "shwo", "--help", "incident-7"])
def test_all_are_assembled_for_whoever_asks_for_none_of_them(asked: str) -> None:
    assert list(assembled(asked).commands) == list(WHOLE.commands)


def test_each_command_is_told_under_one_heading() -> None:
    assert Counter(name for names in SECTIONS.values() for name in names) == Counter(list(WHOLE.commands))
    told = CliRunner().invoke(app, ["--help"]).stdout
    assert [line[:-1] for line in told.splitlines() if line[:-1] in SECTIONS] == list(SECTIONS)


@pytest.mark.parametrize(
    ("typed", "missing"),
    [
        ("resolve", "Missing: RUN, STEP, --by, --reason, --evidence."),
        ("resolve r1 book#1 --reason seen", "Missing: --by, --evidence."),
        ("fork r1 --by ann", "Missing: NEW-RUN, --reason."),
        ("schedules pause nightly", "Missing: --by, --reason."),
        ("resolve r1 book#1 --reason seen --by ann", "Missing option '--evidence'."),
    ],
)
def test_all_that_is_missing_is_said_at_once(typed: str, missing: str) -> None:
    ended = CliRunner().invoke(app, typed.split())
    assert (ended.exit_code, missing in ended.stderr) == (2, True), ended.stderr


@pytest.mark.parametrize(
    ("typed", "problem"),
    [
        ("--run-id r1 --max-wait -1", "it should be greater than or equal to 0"),
        ("--run-id r1 --max-wait soon", "it should be a valid number"),
        ("runs --limit 1.5", "it should be a valid integer"),
    ],
)
def test_a_wrong_value_is_refused_in_words_about_what_was_typed(typed: str, problem: str) -> None:
    ended = CliRunner().invoke(app, typed.split())
    assert ended.exit_code == 2
    assert ended.stderr.rstrip().endswith(f": {problem}"), ended.stderr
