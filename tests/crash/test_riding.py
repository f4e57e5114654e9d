"""A worker whose outcomes ride is killed where a reply is in its memory only: nothing that anybody has seen is lost, and nothing is done twice."""

from __future__ import annotations

import pytest

from tests.crash.stage import Stage, Story
from tests.crash.test_points import killed, recovered

PLACES = (
    "append.intent.before:2",  # the first reply is lost, with the attempt that would have taken it along
    "append.intent.after:2",
    "append.ended.before:1",  # the last one, with the end
    "append.ended.after:1",
)


@pytest.fixture(params=[("sqlite", "sync"), ("postgresql", "async")], ids="-".join)
def story(request: pytest.FixtureRequest) -> Story:
    """Each store and each colour once."""
    kind, colour = request.param
    stage: Stage = request.getfixturevalue(f"{kind}_stage")
    made = stage.new_run("plain", colour)
    made.riding = True
    return made


@pytest.mark.parametrize("place", PLACES)
def test_a_worker_killed_with_a_reply_aboard_is_recovered(story: Story, place: str) -> None:
    killed(story.work("run", place))
    kinds = [row.kind for row in story.rows()]
    replies = {"append.intent.before:2": 0, "append.intent.after:2": 1}.get(place)
    assert replies is None or kinds.count("settled") == replies
    recovered(story)


def test_fewer_commits_carry_the_same_entries(story: Story) -> None:
    strict = story.stage.new_run("plain", story.colour)
    passed = [each.work("run").passages for each in (strict, story)]
    assert [row.kind for row in strict.rows()] == [row.kind for row in story.rows()]
    assert [points.count("append.settled.after") for points in passed] == [2, 0]
