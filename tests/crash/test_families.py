"""A parent, its child and its grandchild in one process, which is killed anywhere: W7 with real kills, on both databases.

The service counts what was really booked. What each run came to is read from the journal, and no worker's report is believed alone.
"""

from __future__ import annotations

import dataclasses

import pytest

from recovery.core.children import settlement
from recovery.core.entries import ADOPTED, Decision, Status
from recovery.storage.reading import read
from tests.crash.children import Ended, started
from tests.crash.stage import Stage, Story

BOOKED = {"unasked", "child", "grandchild", "own"}
HOUR = 3600.0

KILLS = (
    "append.decision.after:2",  # a start is durable, and its child is not stored
    "open.after:2",  # a child is stored, and its parent still owns it
    "open.before:3",
    "append.intent.after:1",  # the child may have sent
    "send.after:1",
    "send.after:2",  # the grandchild has
    "append.ended.before:1",
    "append.ended.after:1",  # the grandchild has settled, and nobody has heard
    "append.ended.after:2",  # the child has
    "append.decision.before:5",  # its parent is about to write it down
    "append.decision.after:5",
    "append.ended.after:3",  # the one that nobody has waited for
    "append.ended.before:4",
)
EVERYWHERE = {"append.ended.after:2"}
"""W7. The others are played in one of the four places, in turn, since time is short: `make kills` plays all in each."""

PLACES = (("sqlite", "sync"), ("postgresql", "async"), ("sqlite", "async"), ("postgresql", "sync"))
PLAYS = [
    (kill, *place)
    for number, kill in enumerate(KILLS)
    for place in (PLACES if kill in EVERYWHERE else [PLACES[number % len(PLACES)]])
]


def killed(ended: Ended) -> None:
    assert ended.killed, ended


def brought_to_its_end(story: Story) -> None:
    """A fresh process brings the family to its one end, and the next one finds nothing to do."""
    ended = story.work("recover")
    assert ended.returncode == 0, ended
    journal, run_id = story.stage.journal, story.run_id
    times = story.stage.executions(run_id)
    assert times == {f"{run_id}:{name}": 1 for name in BOOKED}
    adopted = [entry for entry in read(journal, run_id).entries if isinstance(entry, Decision) and entry.form == ADOPTED]
    assert len(adopted) == 2
    for entry in adopted:
        there = read(journal, entry.value["run_id"])
        assert there.run.status is Status.COMPLETED
        assert settlement(entry) == there.history.ended
    before = story.rows()
    again = story.work("recover")
    assert again.report["value"] == ended.report["value"]
    assert story.rows() == before
    assert story.stage.executions(run_id) == times


@pytest.mark.parametrize(("kill", "kind", "colour"), PLAYS)
def test_a_family_that_is_killed_there_comes_to_its_end(request: pytest.FixtureRequest, kill: str, kind: str, colour: str) -> None:
    stage: Stage = request.getfixturevalue(f"{kind}_stage")
    story = stage.new_run("family", colour)
    killed(story.work("run", kill))
    brought_to_its_end(story)


def test_both_die_one_after_the_other(stage: Stage, colour: str) -> None:
    """The child with its effect done and not heard of, then whoever recovers both, with the child settled and its parent not told."""
    story = stage.new_run("family", colour)
    killed(story.work("run", "send.after:1"))
    killed(story.work("recover", "append.ended.after:2"))
    brought_to_its_end(story)


def test_a_parent_waits_for_a_child_that_another_process_works_on(stage: Stage) -> None:
    """Nobody waits with it: its row says so, and the child's end brings its next look forward."""
    story = stage.new_run("family", "sync")
    killed(story.work("run", "send.before:1"))
    child = dataclasses.replace(story, run_id=f"{story.run_id}.child", durable=[])
    with started(child.child("recover", stop_at="send.after:1", lease=HOUR)) as (other,):
        other.wait_until_stopped()
        waits = story.work("recover", wait=0.0)
        assert (waits.returncode, waits.report["error"]) == (4, "ChildOpen"), waits
        row = stage.journal.find(story.run_id)
        assert row is not None
        assert (row.status, row.owner) == (Status.WAITING, None)
        due_us = row.next_look_us
        other.go_on()
        assert other.wait().returncode == 0
    woken = stage.journal.find(story.run_id)
    assert woken is not None
    assert woken.next_look_us is not None
    assert due_us is not None
    assert woken.next_look_us < due_us
    [message] = stage.journal.inbox(story.run_id)
    assert (message.kind, message.name) == ("settled", child.run_id)
    brought_to_its_end(story)


DIES = [("append.ended.after:2", *PLACES[0]), ("append.ended.after:2", *PLACES[1]), ("", *PLACES[2])]
"""Behind the commit that settles the child, and in front of it."""


@pytest.mark.parametrize(("kill", "kind", "colour"), DIES)
def test_a_parent_that_rests_is_due_as_soon_as_its_child_has_settled_whoever_dies_then(
    request: pytest.FixtureRequest, kill: str, kind: str, colour: str
) -> None:
    """Once, the child's worker had to live a little longer, to tell the parent in a commit of its own."""
    stage: Stage = request.getfixturevalue(f"{kind}_stage")
    story = stage.new_run("family", colour)
    killed(story.work("run", "send.before:1"))
    child = dataclasses.replace(story, run_id=f"{story.run_id}.child", durable=[])
    with started(child.child("recover", armed=kill, stop_at="append.ended.before:2", lease=HOUR)) as (other,):
        other.wait_until_stopped()
        waits = story.work("recover", wait=0.0)
        assert (waits.returncode, waits.report["error"]) == (4, "ChildOpen"), waits
        rested = stage.journal.find(story.run_id)
        assert rested is not None
        if kill:
            other.go_on()
            killed(other.wait())
    row, there = stage.journal.find(story.run_id), stage.journal.find(child.run_id)
    assert row is not None
    assert there is not None
    assert there.status is (Status.COMPLETED if kill else Status.RUNNING)
    if kill:
        assert (row.next_look_us or 0) < (rested.next_look_us or 0)
    else:
        assert row == rested
    assert [(message.kind, message.name) for message in stage.journal.inbox(story.run_id)] == [("settled", child.run_id)] * bool(
        kill
    )
    brought_to_its_end(story)
