"""A run that waits for people, who speak between any two of its steps, with a fault and a recoverer (W5, W6, S28)."""

from __future__ import annotations

import pytest

from recovery import reconciler
from recovery.core import waiting
from recovery.testing import Scenario, explore, load
from tests.architecture.source import ROOT
from tests.explorer.editing import edited
from tests.model.planted import Change, planted


def scenario(file: str, name: str) -> Scenario:
    return next(one for one in load(ROOT / "scenarios" / file) if one.name == name)


SUBJECTS = {
    "two answers": scenario("w05-approval.yaml", "two answers, both while the wait is being noted"),
    "a chat": scenario("w06-effect-wait-effect.yaml", "effect, wait, effect, with a chat"),
    "an approval": scenario("s28-approval-then-crash.yaml", "approval, then crash, keyed"),
}


@pytest.mark.parametrize(("subject", "is_async"), [("two answers", False), ("a chat", True), ("an approval", True)])
def test_the_promises_hold_whenever_people_speak(subject: str, is_async: bool) -> None:
    explored = explore(SUBJECTS[subject], faults=1, recoverers=2, histories_max=15, is_async=is_async)
    assert [f"{found.promise}: {found.problem}" for found in explored.violations] == []
    assert explored.histories == 15


def test_people_speak_between_any_two_steps() -> None:
    """Without any fault: wherever the worker stands, and once each."""
    explored = explore(SUBJECTS["two answers"], faults=0, recoverers=1)
    assert explored.complete
    assert not explored.violations
    assert explored.end_states > 1


_READS_AGAIN = "            continue  # whoever spoke before that was durable has woken nobody\n"

_LOOKS_LAST = "    await _read_on(machine)\n"


def test_a_planted_bug_is_found() -> None:
    """The inbox is read neither behind the wait nor before the run is let go: each of the two would do, where there is one branch."""
    come = (waiting, "_come", edited(waiting._come, (_READS_AGAIN, "")))
    last = (reconciler, "heard_meanwhile", edited(waiting.heard_meanwhile, (_LOOKS_LAST, "")))
    with planted(Change(name="an answer in between is overlooked", patches=(come, last))):
        explored = explore(SUBJECTS["two answers"], faults=0, recoverers=1)
    assert [found.promise for found in explored.violations] == ["I8"]
    assert "the run is not due" in explored.violations[0].problem
