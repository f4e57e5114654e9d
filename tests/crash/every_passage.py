"""A family is killed at every passage of every crash point, in both colours and on both databases. Minutes, so only `make kills` runs it.

EVERY=N kills at each N-th passage only.
"""

from __future__ import annotations

import os

from tests.crash.stage import Stage
from tests.crash.test_families import brought_to_its_end, killed
from tests.crash.worker import KILL


def test_a_family_that_is_killed_at_any_passage_comes_to_its_end(stage: Stage, colour: str) -> None:
    passages = stage.new_run("family", colour).work("run").passages
    recovered = 0
    for passage in range(1, len(passages) + 1, int(os.environ.get("EVERY", "1"))):
        story = stage.new_run("family", colour)
        surroundings = {**story.environment(), KILL: str(passage)}
        killed(stage.nursery.worker([*story.arguments("run"), "--hurried"], surroundings))
        if stage.journal.find(story.run_id) is not None:  # else it died before there was a run
            brought_to_its_end(story)
            recovered += 1
    assert recovered > 0
