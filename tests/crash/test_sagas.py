"""A worker that undoes a saga is killed with SIGKILL anywhere on its way: everything is undone, in its order, and nothing twice.

The service counts what was really done. What the run came to is read from its journal, and no worker's report is believed alone.
"""

from __future__ import annotations

import os
from itertools import product

import pytest

from recovery.core.entries import Intent, OutcomeKind, Settled
from recovery.storage.reading import read
from tests.crash.children import Ended
from tests.crash.sampling import sampled
from tests.crash.stage import Stage, Story
from tests.crash.workflows import SCARCE

KILLS = (
    "append.settled.after:3",  # refused, and nothing of the undoing is durable
    "append.intent.before:4",
    "append.intent.after:4",  # the first undoing may have left
    "send.before:4",
    "send.after:4",  # it was done, and nobody knows
    "append.settled.before:4",
    "append.settled.after:4",  # between the two
    "append.intent.after:5",
    "send.after:5",
    "append.settled.before:5",
    "append.settled.after:5",
    "append.ended.before:1",  # everything is undone, and the run has not ended
)
PLACES = (("sqlite", "sync"), ("postgresql", "async"), ("sqlite", "async"), ("postgresql", "sync"))
PLAYS = (
    [(kill, *place) for kill, place in product(KILLS, PLACES)]
    if os.environ.get("RECOVERY_SWEEP") == "full"
    else sampled([(kill, *PLACES[number % len(PLACES)]) for number, kill in enumerate(KILLS)], "sagas", 3)
)
"""A third of them, each in one place in turn, since time is short; `make sweep` plays all of them everywhere."""


def killed(ended: Ended) -> None:
    assert ended.killed, ended


def undone(story: Story) -> None:
    """A fresh process undoes what is left, and the next one finds nothing to do."""
    ended = story.work("recover")
    assert ended.returncode == 0, ended
    assert ended.report["value"]["refused"] == SCARCE
    run_id, journal = story.run_id, story.stage.journal
    done = {f"{run_id}:{number}" for number in (1, 2)}
    times = story.stage.executions(run_id)
    assert {key: times[key] for key in times if not key.endswith(":3")} == dict.fromkeys(
        done | {f"{key}/comp/1" for key in done}, 1
    )
    entries = read(journal, run_id).entries
    assert [entry.undoes for entry in entries if isinstance(entry, Intent) and entry.undoes] == ["book#2", "book#1"]
    outcomes = {entry.step: entry.outcome for entry in entries if isinstance(entry, Settled)}
    assert outcomes["booking#1/unbook#1"] is outcomes["booking#1/unbook#2"] is OutcomeKind.APPLIED
    before = story.rows()
    assert story.work("recover").report["value"] == ended.report["value"]
    assert story.rows() == before
    assert story.stage.executions(run_id) == times


@pytest.mark.parametrize(("kill", "kind", "colour"), PLAYS)
def test_a_saga_whose_worker_is_killed_there_is_undone(request: pytest.FixtureRequest, kill: str, kind: str, colour: str) -> None:
    stage: Stage = request.getfixturevalue(f"{kind}_stage")
    story = stage.new_run("saga", colour)
    killed(story.work("run", kill))
    undone(story)


def test_two_die_one_after_the_other(sqlite_stage: Stage) -> None:
    """The first with the one undoing done and not heard of, the second with the other."""
    story = sqlite_stage.new_run("saga", "sync")
    killed(story.work("run", "send.after:4"))
    killed(story.work("recover", "send.after:2"))
    undone(story)
