"""Reports on a terminal and in a pipe say the same words."""

from __future__ import annotations

import io
import re

from rich.text import Text

from recovery.console import plan as plans
from recovery.console.draining import drained
from recovery.console.paper import Paper, facts
from recovery.console.plan import plan
from recovery.console.report import abridged
from recovery.console.runs import STYLES, runs
from recovery.console.story import Claim, Scene, ending, scene
from recovery.core.entries import Status
from recovery.core.errors import ExitCode
from recovery.core.rows import Action
from recovery.engine.draining import Brought, Drained
from recovery.operators.planning import Plan, PlannedStep


def printed(*, terminal: bool, make: object) -> str:
    stream = io.StringIO()
    paper = Paper(stream, terminal=terminal, width=100 if terminal else None)
    paper.print(make(paper))  # type: ignore[operator]
    return re.sub(r"\x1b\[[0-9;]*m", "", stream.getvalue())


def bare(text: str) -> list[str]:
    return re.sub("[╭╮╰╯│─:]", " ", text).split()


PLAN = Plan(
    run_id="r",
    head=3,
    head_digest="abc",
    at_us=1_764_442_983_000_000,
    steps=(
        PlannedStep(
            step="reserve#1", effect="reserve", environment="inventory", scope="w", key="k", action="resend", row="resend",
            reason="same-key-inside-window", assumptions=(), next_look_us=None, unknown=("whether it rains",),
        ),
    ),
    then="then it goes on",
    from_journal_alone=True,
    exit_code=ExitCode.UNRESOLVED,
)  # fmt: skip


def test_a_panel_and_its_plain_form_have_the_same_words() -> None:
    def make(paper: Paper) -> object:
        return paper.panel("title", facts([("name", "value"), ("other", Text("more"))]))

    plain, boxed = printed(terminal=False, make=make), printed(terminal=True, make=make)
    assert plain == "title:\n  name   value\n  other  more\n"
    assert bare(plain) == bare(boxed)
    assert "╭" in boxed


def test_a_plan_is_one_line_for_each_intent() -> None:
    assert printed(terminal=False, make=lambda paper: plan(paper, PLAN, "")).splitlines() == [
        "plan for run r; nothing was sent or appended:",
        "  reserve#1: send it again under the same key (same-key-inside-window, row resend); reserve in inventory/w, key k",
        "  then it goes on",
        "  From the journal alone: without an app that has this workflow, its code was not asked.",
        "  Unknown: whether it rains.",
        "  as of 2025-11-29 19:03:03 UTC, journal head 3 abc",
    ]


def test_every_action_and_status_has_its_words() -> None:
    assert set(plans._WOULD) == {action.value for action in Action}
    assert set(STYLES) == set(Status)


def test_no_runs_is_said() -> None:
    assert printed(terminal=False, make=lambda _: runs([])) == "no runs\n"


def test_a_claim_that_does_not_hold_shows_both_sides() -> None:
    told = Scene("title", ("line",), (Claim("it is one", 1, 1), Claim("it is two", 2, 3)))
    out = printed(terminal=False, make=lambda paper: scene(paper, 1, told))
    assert out == "1. title:\n  line\n  ✓ it is one\n  ✗ it is two: expected 2, found 3\n"
    assert not told.holds
    assert "1 of the claims above do not hold" in str(ending([told], "fine"))
    assert str(ending([Scene("t", claims=(Claim("x", 1, 1),))], "fine")) == "fine"


def test_a_terminal_without_width_still_gets_words() -> None:
    stream = io.StringIO()
    Paper(stream, terminal=True, width=0).print(Text("settled"))
    assert "settled" in stream.getvalue()


def test_of_thousands_of_runs_that_did_not_end_well_the_first_are_told_and_all_are_counted() -> None:
    brought = [
        Brought(run_id=f"r{number:04d}", workflow="w", status=Status.WAITING, code=ExitCode.WAITING, problem="it waits")
        for number in range(1200)
    ]
    told = printed(terminal=False, make=lambda _: drained(Drained(brought=brought), plan=False)).splitlines()
    assert (told[0], told[99]) == ("r0000 waiting  it waits", "r0099 waiting  it waits")
    assert told[100:] == ["… and 1,100 more; all of them with --json", "1,200 taken up, 1,200 waiting"]


def test_of_a_long_recovery_the_first_steps_are_told_and_the_last() -> None:
    lines = [f"s#{number}: sent" for number in range(20_000)]
    told = abridged(lines)
    assert (told[:50], told[-50:]) == (lines[:50], lines[-50:])
    assert told[50:-50] == ["… 19,900 steps more; all of them with --json"]
    assert abridged(lines[:100]) == lines[:100]
