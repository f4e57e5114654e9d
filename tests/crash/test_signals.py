"""Waiting for people with real kills, on both databases: whoever waits, whoever answers, and whoever listens (W6, S28, I10).

The service counts what was really booked. What listeners heard between the kills must be a beginning of what is true in the end.
"""

from __future__ import annotations

from datetime import timedelta

import pytest

from recovery import Engine
from recovery.core.entries import Status
from recovery.core.exitcodes import ExitCode
from recovery.operators.telling import Event
from tests.crash.children import Ended
from tests.crash.stage import Stage, Story

PLACES = (("sqlite", "sync"), ("postgresql", "async"), ("sqlite", "async"), ("postgresql", "sync"))

WAITS = ("append.decision.before:2", "append.decision.after:2", "release.before:1", "release.after:1")
"""Where the first worker dies: around the entry that says that it waits, and while it lets go."""

TAKES = (
    "append.decision.before:1",  # the answer is in the inbox, and in no entry
    "append.decision.after:1",  # it is taken in, and nothing follows on it
    "append.intent.after:1",  # the approved call is durable, and not sent
    "send.after:1",  # it happened, and nobody has heard
    "append.decision.before:2",  # the next wait, and its message is there already
)
"""Where whoever goes on with the answer dies."""

PLAYS = [(wait, *PLACES[number % 4]) for number, wait in enumerate(WAITS)]
GOING_ON = [(take, *PLACES[number % 4]) for number, take in enumerate(TAKES)]
SPEAKERS = [(f"deliver.{side}:1", *PLACES[number]) for number, side in enumerate(("before", "after"))]


class Listener:
    """Goes on from its last position each time, without asking for what it has heard."""

    def __init__(self, story: Story) -> None:
        self.story = story
        self.heard: list[Event] = []

    def listen(self) -> None:
        engine = Engine(self.story.stage.journal)
        self.heard += engine.listen(self.story.run_id, after=len(self.heard), wait=timedelta(0))

    def check(self) -> None:
        """What was heard between the kills is what one that comes late hears in one go."""
        self.listen()
        assert self.heard == list(Engine(self.story.stage.journal).listen(self.story.run_id))


def killed(ended: Ended) -> None:
    assert ended.killed, ended


def waits(story: Story) -> None:
    """A fresh process leaves the run waiting: unowned, with its first booking made once."""
    assert story.work("recover").returncode == ExitCode.WAITING
    row = story.stage.journal.find(story.run_id)
    assert row is not None
    assert (row.status, row.owner) == (Status.WAITING, None)
    assert story.stage.executions(story.run_id) == {f"{story.run_id}:1": 1}


def answered(story: Story, armed: str = "") -> Ended:
    """The command of a person, who looks first what is to be approved."""
    [wait] = Engine(story.stage.journal).waits(story.run_id)
    words = ["signal", "{run}", "approval", "--value", '"yes"', "--by", "ann", "--about", wait.about]
    return story.ordered(words, armed)


def noted(story: Story) -> None:
    assert story.ordered(["send", "{run}", "notes", "--value", '"quickly"', "--by", "ann"]).returncode == 0


def brought_to_its_end(story: Story, listener: Listener) -> None:
    ended = story.work("recover")
    assert ended.returncode == 0, ended
    assert ended.report["value"]["refused"] == "yes, quickly"
    assert story.stage.executions(story.run_id) == {f"{story.run_id}:1": 1, f"{story.run_id}:2": 1}
    before = story.rows()
    assert story.work("recover").report["value"] == ended.report["value"]
    assert story.rows() == before
    listener.check()


def stage_of(request: pytest.FixtureRequest, kind: str) -> Stage:
    made: Stage = request.getfixturevalue(f"{kind}_stage")
    return made


@pytest.mark.parametrize(("kill", "kind", "colour"), PLAYS)
def test_who_dies_around_a_wait_has_waited(request: pytest.FixtureRequest, kill: str, kind: str, colour: str) -> None:
    story = stage_of(request, kind).new_run("approved", colour)
    listener = Listener(story)
    killed(story.work("run", kill))
    listener.listen()
    waits(story)
    listener.listen()
    assert answered(story).returncode == 0
    noted(story)
    brought_to_its_end(story, listener)


@pytest.mark.parametrize(("kill", "kind", "colour"), GOING_ON)
def test_who_dies_with_the_answer_asks_nobody_again(request: pytest.FixtureRequest, kill: str, kind: str, colour: str) -> None:
    story = stage_of(request, kind).new_run("approved", colour)
    listener = Listener(story)
    assert story.work("run").returncode == ExitCode.WAITING
    assert answered(story).returncode == 0
    noted(story)
    killed(story.work("recover", kill))
    listener.listen()
    brought_to_its_end(story, listener)


@pytest.mark.parametrize(("kill", "kind", "colour"), SPEAKERS)
def test_who_dies_while_he_answers_answers_again(request: pytest.FixtureRequest, kill: str, kind: str, colour: str) -> None:
    story = stage_of(request, kind).new_run("approved", colour)
    listener = Listener(story)
    assert story.work("run").returncode == ExitCode.WAITING
    killed(answered(story, kill))
    there = kill.startswith("deliver.after")
    assert len(story.stage.journal.inbox(story.run_id)) == there
    second = story.ordered(["signal", "{run}", "approval", "--value", '"no"', "--by", "bob", "--about", "0123456789"])
    assert second.returncode == ExitCode.USAGE
    assert answered(story).returncode == 0
    assert len(story.stage.journal.inbox(story.run_id)) == 1
    noted(story)
    brought_to_its_end(story, listener)
