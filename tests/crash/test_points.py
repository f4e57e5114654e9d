"""A worker is killed with SIGKILL at every registered point, and the run is recovered; `make kills` does it each time that it passes one.

Which points a worker passes is learnt from one that nobody kills. A point that nothing here reaches fails its test by name, so that the
registry and reality stay in step.
"""

from __future__ import annotations

import os
from typing import TypeVar
from zlib import crc32

import pytest

from recovery.crashpoints import POINTS
from tests.crash.children import Ended, started
from tests.crash.stage import Stage, Story

T = TypeVar("T")
COLOURS = ("sync", "async")
SHAPES = ("plain", "lossy", "doubtful")

ORPHANED_AT = (
    ("plain", "append.intent.after:2"),  # nothing happened, and the journal cannot know
    ("lossy", "send.after:1"),  # it happened, and the journal cannot know
    ("lossy", "send.before:3"),  # as the first, where only asking and closing are left
    ("lossy", "send.after:3"),
    ("doubtful", "send.after:1"),
)
"""Where the worker dies whose recoverer is killed as well."""

ORDERS = ("append.override", "deliver", "hold", "forget")
"""What only an operator's order passes: `test_orders` kills those."""
DECLARED = ("restored", "incarnation")
"""What only a person's declaration passes: see test_declaring."""


PASSED_BY_RUNS = tuple(point for point in POINTS if not point.startswith(("checkpoint.", "kv.", "schedule")))
"""The others are passed by a save and by a cache that forgets: see test_checkpoints; and by whoever begins what is scheduled: see tests/integration/test_schedules."""


EVERY = int(os.environ.get("EVERY", "0"))
"""At each so-manieth passage, on both databases in both colours (`make kills`); 0: at some, on each database in one colour."""

CASES = [
    (kind, colour, point)
    for number, point in enumerate(PASSED_BY_RUNS)
    for first, kind in enumerate(("sqlite", "postgresql"))
    for colour in (COLOURS if EVERY else [COLOURS[(number // 2 + first) % 2]])  # one of a point's two sides in each
]


@pytest.mark.parametrize(("kind", "colour", "point"), CASES)
def test_a_worker_killed_there_is_recovered(request: pytest.FixtureRequest, kind: str, colour: str, point: str) -> None:
    stage = request.getfixturevalue(f"{kind}_stage")
    places = [(shape, occurrence) for shape in SHAPES for occurrence in passages(stage, shape, colour, point)]
    for shape, occurrence in few(places, 2, f"{kind} {colour} {point}"):
        story = stage.new_run(shape, colour)
        killed(story.work("run", f"{point}:{occurrence}"))
        recovered(story)
    if point.startswith(("claim", "load", "evidence", *ORDERS, *DECLARED)):
        assert not places  # what only a recoverer, a superseded worker or an operator passes: the next tests, and test_orders
    else:
        assert places, f"no worker passes {point}"


@pytest.mark.parametrize(("kind", "colour", "point"), CASES)
def test_a_recoverer_killed_there_is_recovered(request: pytest.FixtureRequest, kind: str, colour: str, point: str) -> None:
    stage = request.getfixturevalue(f"{kind}_stage")
    places = [
        (shape, orphaned_at, occurrence)
        for shape, orphaned_at in ORPHANED_AT
        for occurrence in passages(stage, shape, colour, point, orphaned_at)
    ]
    for shape, orphaned_at, occurrence in few(places, 1, f"{kind} {colour} {point}"):
        story = stage.new_run(shape, colour)
        killed(story.work("run", orphaned_at))
        killed(story.work("recover", f"{point}:{occurrence}"))
        recovered(story)
    if point.startswith(("open", "decide", "append.decision", "evidence", *ORDERS, *DECLARED)):
        assert not places  # what only a first run, a superseded worker or an operator passes
    else:
        assert places, f"no recoverer passes {point}"


def few(places: list[T], most: int, case: str) -> list[T]:
    """At most so many of them, evenly spread, other ones for each case and the same in each run."""
    step = EVERY or -(-len(places) // most) or 1
    return places[crc32(case.encode()) % min(step, len(places) or 1) :: step]


@pytest.mark.parametrize("point", ["evidence.before", "evidence.after"])
def test_a_superseded_worker_killed_there_changes_nothing(stage: Stage, colour: str, point: str) -> None:
    story = stage.new_run("plain", colour)
    with started(story.child("run", point, stop_at="send.after", lease=0.2)) as (stale,):
        stale.wait_until_stopped()
        ended = story.work("recover", wait=30)
        story.check_outcome(ended)
        stale.go_on()
        killed(stale.wait())
    kept = stage.journal.evidence(story.run_id)
    assert len(kept) == (1 if point.endswith("after") else 0)
    story.check_growth()
    recovered(story)


def passages(stage: Stage, shape: str, colour: str, point: str, orphaned_at: str = "") -> range:
    """The occurrences of a point in a worker that nobody kills, or in the recoverer of one that was killed there."""
    about = (shape, colour, orphaned_at)
    if about not in stage.traces:
        story = stage.new_run(shape, colour)
        ended = story.work("run", orphaned_at)
        if orphaned_at:
            killed(ended)
            ended = story.work("recover")
        stage.traces[about] = ended.passages
    return range(1, stage.traces[about].count(point) + 1)


def killed(ended: Ended) -> None:
    assert ended.killed, ended


def recovered(story: Story) -> None:
    """A fresh process brings the run to the one outcome; the next one finds nothing to do."""
    ended = story.work("recover" if story.durable else "run")  # killed before it was opened: there is nothing yet
    if story.shape == "doubtful":
        story.check_doubt(ended)
    else:
        story.check_outcome(ended)
    story.check_once()
    story.check_settles_nothing_new()
