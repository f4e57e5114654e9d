"""A recoverer is killed with SIGKILL wherever it records, in a settled run, what speaks against an outcome: recorded once, never flipped."""

from __future__ import annotations

import pytest

from recovery import Engine, Found
from recovery.core.entries import Observation, Source, Verdict
from recovery.core.errors import ExitCode
from recovery.storage.reading import read
from tests.crash.children import started
from tests.crash.orders import HOLD, RELEASE, WHO
from tests.crash.sampling import sampled
from tests.crash.stage import Stage, Story
from tests.crash.workflows import Booking, reserve


def told_otherwise(stage: Stage, colour: str) -> Story:
    """A run that is settled, and a webhook that names another reservation for its first step."""
    story = stage.new_run("plain", colour)
    story.check_outcome(story.work("run"))
    Engine(stage.journal).observe(story.run_id, "reserve#1", Found(Booking("other", 2), receipt="other"), effect=reserve)
    return story


def contradictions(story: Story) -> list[tuple[str, Source | None]]:
    """What the journal holds behind the run's end, in order."""
    entries = read(story.stage.journal, story.run_id).entries
    [end] = [number for number, row in enumerate(story.rows()) if row.kind == "settled" and row.step == ""]
    return [
        (entry.row, None) if isinstance(entry, Verdict) else ("told", entry.source)
        for entry in entries[end + 1 :]
        if isinstance(entry, Verdict | Observation)
    ]


def test_a_contradiction_is_recorded_once_wherever_its_recorder_was_killed(stage: Stage, colour: str) -> None:
    passages = told_otherwise(stage, colour).work("recover").passages
    assert {"claim.after", "load.after", "append.verdict.before", "append.verdict.after", "release.before"} <= set(passages)
    numbered = [f"{point}:{passages[: at + 1].count(point)}" for at, point in enumerate(passages)]
    for point in sampled(numbered, f"{stage.kind} {colour}"):
        story = told_otherwise(stage, colour)
        outcome = story.outcome_bytes()
        assert story.work("recover", point).killed
        recorded = contradictions(story)
        assert recorded in ([], [("told", Source.PUSH), ("contradicted", None)]), f"half a record at {point}"
        story.check_outcome(story.work("recover"))
        assert contradictions(story) == [("told", Source.PUSH), ("contradicted", None)]
        assert story.outcome_bytes() == outcome
        story.check_settles_nothing_new()
        story.check_once()


@pytest.mark.parametrize("side", ["before", "after"])
def test_the_late_reply_against_a_persons_word_is_recorded_once(stage: Stage, colour: str, side: str) -> None:
    """The worker stands still, its step is resolved as not executed and the run ends; then it says what it has done."""
    story = stage.new_run("plain", colour)
    with started(story.child("run", stop_at="send.after:1", lease=3600.0)) as (stale,):
        stale.wait_until_stopped()
        word = ("resolve", "{run}", "reserve#1", "--not-executed", "--evidence", "log", *WHO)
        for words in (HOLD, word, RELEASE):
            assert story.ordered(words).returncode == 0
        assert story.work("recover").returncode == ExitCode.FAILED
        settled = [row for row in story.rows() if row.kind == "settled"]
        stale.go_on()
        assert stale.wait().report["error"] == "FencedOut"
    assert story.work("recover", f"append.verdict.{side}").killed
    assert contradictions(story) == ([("told", Source.LATE), ("contradicted", None)] if side == "after" else [])
    for _ in range(2):
        assert story.work("recover").returncode == ExitCode.FAILED
        assert contradictions(story) == [("told", Source.LATE), ("contradicted", None)]
    assert [row for row in story.rows() if row.kind == "settled"] == settled, "an outcome has flipped"
    assert set(stage.executions(story.run_id).values()) == {1}
