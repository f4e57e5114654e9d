"""What people say to an explored run: what follows on it is played, and where nobody says it, that is told."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import pytest

from recovery import AsyncRun, Call, Run, contracts, effect, workflow
from recovery.pytest_plugin import CrashEverywhere
from recovery.testing import Exploration, answers, explore, sends
from recovery.testing.moves import Signal
from tests.integration.cli_typed import typed


@dataclass(frozen=True)
class Approval:
    approved: bool


@effect(contracts.Keyed(window=timedelta(hours=24)))
def charge(call: Call, *, cents: int) -> str:
    raise AssertionError("the exploration acts in its place")


@effect(contracts.Keyed(window=timedelta(hours=24)))
async def acharge(call: Call, *, cents: int) -> str:
    raise AssertionError("the exploration acts in its place")


@workflow
def buying(run: Run) -> str:
    bound = charge(cents=5)
    if not run.wait_for(
        "approval", schema=Approval, about=bound, by=["carl"], timeout=timedelta(hours=1), default=Approval(False)
    ).approved:
        return "no"
    return run.perform(bound)


@workflow
async def abuying(run: AsyncRun) -> str:
    bound = acharge(cents=5)
    answer = await run.wait_for(
        "approval", schema=Approval, about=bound, by=["carl"], timeout=timedelta(hours=1), default=Approval(False)
    )
    return await run.perform(bound) if answer.approved else "no"


@workflow
def chat(run: Run) -> str:
    return run.perform(charge(cents=len(run.receive("chat", schema=str))))


YES = answers("approval", Approval(True), by="carl")
NO = answers("approval", Approval(False), by="carl")
APPROVAL = "the answer to approval"
nobody = Exploration(buying)


@pytest.mark.parametrize(("subject", "paying"), [(buying, charge), (abuying, acharge)])
def test_what_follows_on_an_answer_is_played(subject: Any, paying: Any) -> None:
    charged: list[int] = []
    effects = {paying: lambda cents: charged.append(cents) or "paid"}
    assert explore(subject, effects=effects, faults=0, recoverers=1)
    assert charged == []
    assert explore(subject, effects=effects, says=[YES], faults=0, recoverers=1)
    assert set(charged) == {5}


@pytest.mark.parametrize(
    ("subject", "says", "unanswered"),
    [
        (buying, [], (APPROVAL,)),
        (abuying, [], (APPROVAL,)),
        (buying, [YES], ()),
        (abuying, [NO], ()),
        (buying, [answers("approval", Approval(True), by="somebody")], (APPROVAL,)),
    ],
)
def test_a_wait_that_nobody_answers_is_told(subject: Any, says: list[Signal], unanswered: tuple[str, ...]) -> None:
    explored = explore(subject, says=says, faults=0, recoverers=1)
    assert (bool(explored), explored.unanswered) == (True, unanswered)


def test_a_message_that_nobody_sends_is_told() -> None:
    assert explore(chat, faults=0, recoverers=1).unanswered == ("the next message of chat",)
    explored = explore(chat, says=[sends("chat", "hello")], faults=0, recoverers=1)
    assert (bool(explored), explored.unanswered) == (True, ())


def test_several_processes_tell_it_too() -> None:
    assert explore(nobody, faults=1, recoverers=1, histories_max=20, jobs=2).unanswered == (APPROVAL,)


def test_a_test_is_warned_of_what_it_does_not_play() -> None:
    with pytest.warns(UserWarning, match="What follows on the answer to approval was not played"):
        CrashEverywhere()(buying, faults=0)
    assert CrashEverywhere()(buying, says=[YES], faults=0)


def test_the_command_tells_it() -> None:
    came = typed("explore", f"{__name__}:nobody", "--bound", "0", "--recoverers", "1", "--jobs", "1")
    assert (came.code, "not played     what follows on the answer to approval" in came.out) == (0, True)
    line = typed("explore", f"{__name__}:nobody", "--bound", "0", "--recoverers", "1", "--jobs", "1", "--json")
    assert line.document["unanswered"] == [APPROVAL]
