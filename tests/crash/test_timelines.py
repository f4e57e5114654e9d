"""Timelines of the scenarios with real processes: a request that lands late (S05), a worker that is stopped inside its effect (W12), a disk that
is full once the effect has happened (S37).

Time is order here: what lands late is kept on the line until what comes before it has happened.
"""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import psycopg
import pytest

from recovery import Engine
from recovery.core.entries import Observation, Source, decode
from recovery.examples.inventory.client import Absent
from recovery.examples.inventory.process import Inventory
from recovery.storage.migrate import migrate
from tests.crash.children import Ended, Nursery, Started
from tests.crash.line import Line
from tests.crash.mixed import MIXED
from tests.crash.stage import Stage, Story
from tests.crash.worker import ANY, FULL, STOP
from tests.crash.workflows import SERVICE

NEVER = f"{ANY}:1000000"
"""Where a worker would stop itself: it only makes sure that its lease is not renewed."""
LEASE_SECONDS, WAIT_SECONDS = 0.3, 60.0


def started(story: Story, line: Line, **options: float) -> Started:
    """A worker whose network is the line."""
    return story.stage.nursery.start(story.arguments("run", **options), {**story.environment(stop_at=NEVER), SERVICE: line.url})


def signalled(story: Story, worker: Started, number: signal.Signals) -> Ended | None:
    """How it ended; None: it stands still."""
    os.kill(worker.pid, number)
    ended = story.stage.nursery.wait(worker, stopped=number is signal.SIGSTOP)
    story.check_growth()
    return ended


def patiently(story: Story) -> Ended:
    """A recovery for which every time has come that a verdict names."""
    ended = story.stage.nursery.worker([*story.arguments("recover"), "--hurried", "--patient"], story.environment())
    story.check_growth()
    return ended


def happened(story: Story) -> int:
    return story.stage.executions(story.run_id).total()


# -- S05 ---------------------------------------------------------------------------------------------------------------


def test_s05_a_request_lands_after_its_key_was_sent_again(stage: Stage, colour: str) -> None:
    story = stage.new_run("plain", colour)
    with Line(stage.inventory.url, "request") as line:
        worker = started(story, line)
        line.wait_until_holding()
        assert signalled(story, worker, signal.SIGKILL) is not None
        assert isinstance(stage.service.look_up(f"{story.run_id}:1"), Absent)  # as the service can only say
        story.check_outcome(story.work("recover"))
        line.deliver()
    assert (line.status, line.replayed) == (201, True)
    story.check_once()
    story.check_settles_nothing_new()


@pytest.mark.parametrize(("contract", "before", "after"), [("probed", 4, 0), ("blind", 3, 3)])
def test_s05_without_a_key_nothing_is_sent_beside_what_may_still_land(
    stage: Stage, colour: str, contract: str, before: int, after: int
) -> None:
    """Asking says absent, and that is no proof while a copy is on the line; what cannot be asked is in doubt at once."""
    story = stage.new_run("mixed", colour, contract)
    with Line(stage.inventory.url, "request") as line:
        worker = started(story, line)
        line.wait_until_holding()
        assert signalled(story, worker, signal.SIGKILL) is not None
        early = story.work("recover")
        assert early.returncode == before, early
        assert ("probe.after" in early.passages, "send.before" in early.passages) == (contract == "probed", False)
        assert happened(story) == 0
        line.deliver()
    assert (line.status, line.replayed) == (201, False)
    late = patiently(story)
    assert late.returncode == after, late
    assert "send.before" not in late.passages
    assert happened(story) == 1
    assert story.work("recover").returncode == after


# -- W12 ---------------------------------------------------------------------------------------------------------------


def test_w12_what_a_stopped_worker_heard_is_evidence_that_matches(stage: Stage, colour: str) -> None:
    story = stage.new_run("plain", colour)
    with Line(stage.inventory.url, "reply") as line:
        stale = started(story, line, lease=LEASE_SECONDS)
        line.wait_until_holding()
        assert signalled(story, stale, signal.SIGSTOP) is None
        story.check_outcome(story.work("recover", wait=WAIT_SECONDS))
        settled = story.durable
        line.deliver()
        ended = signalled(story, stale, signal.SIGCONT)
    assert line.replayed is False  # its own request was the one that was executed
    assert ended is not None
    assert (ended.returncode, ended.report["error"]) == (7, "FencedOut"), ended
    assert story.rows() == settled
    assert late_value(story)["units"] == 2
    story.check_once()
    story.check_settles_nothing_new()
    assert Engine(stage.journal).get(story.run_id).contradictions == ()


def test_w12_a_second_effect_is_found_out(stage: Stage, colour: str) -> None:
    """The service broke its word and executed both requests. The outcome stays; that there are two is recorded, once, and not by the stopped one."""
    story = stage.new_run("mixed", colour, "lying")
    with Line(stage.inventory.url, "reply") as line:
        stale = started(story, line, lease=LEASE_SECONDS)
        line.wait_until_holding()
        assert signalled(story, stale, signal.SIGSTOP) is None
        recovered = story.work("recover", wait=WAIT_SECONDS)
        assert recovered.returncode == 0, recovered
        settled = story.durable
        line.deliver()
        ended = signalled(story, stale, signal.SIGCONT)
    assert ended is not None
    assert (ended.returncode, ended.report["error"]) == (7, "FencedOut"), ended
    assert story.rows() == settled
    [second] = recovered.report["value"]["outcomes"]
    assert late_value(story)["id"] != second
    for _ in range(2):
        again = Engine(stage.journal, workflows=MIXED["sync"].values()).recover(story.run_id)
        assert again.result().outcomes == [second]
        [against] = again.contradictions
        assert against.step == "reserve_lying#1"
    assert story.rows()[: len(settled)] == settled
    recorded = story.rows()[len(settled) :]
    assert [row.kind for row in recorded] == ["observation", "verdict"]
    assert json.loads(recorded[1].body)["row"] == "contradicted"
    assert happened(story) == 2


def late_value(story: Story) -> dict[str, object]:
    """What the superseded worker left outside the fence."""
    [kept] = story.stage.journal.evidence(story.run_id)
    observation = decode(kept.kind, json.loads(kept.body))
    assert isinstance(observation, Observation)
    assert observation.source is Source.LATE
    assert isinstance(observation.answer.value, dict)
    return observation.answer.value


# -- S37 ---------------------------------------------------------------------------------------------------------------


@contextmanager
def _full_sqlite(stage: Stage) -> Iterator[dict[str, str]]:
    """The kernel lets the worker write no file beyond what the log holds then: EFBIG for its next page, whatever room the machine has."""
    yield {FULL: f"send.after:{stage.url.removeprefix('sqlite:///')}-wal"}


@contextmanager
def _full_postgresql(stage: Stage) -> Iterator[dict[str, str]]:
    """The server answers an outcome's row with 53100 (disk_full), as it does when it cannot extend a table's file; the rest is stored."""
    with psycopg.connect(stage.url, autocommit=True) as connection:
        connection.execute(
            "CREATE FUNCTION no_room() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN"
            " RAISE EXCEPTION 'could not extend file: No space left on device' USING ERRCODE = 'disk_full'; END $$"
        )
        connection.execute(
            "CREATE TRIGGER no_room BEFORE INSERT ON journal FOR EACH ROW"
            " WHEN (NEW.kind IN ('observation', 'verdict', 'settled')) EXECUTE FUNCTION no_room()"
        )
        yield {}
        connection.execute("DROP FUNCTION no_room CASCADE")


FULL_DISKS = {"sqlite": _full_sqlite, "postgresql": _full_postgresql}


@pytest.fixture
def own_stage(store_url: str, inventory: Inventory, crash_directory: Path, nursery: Nursery) -> Iterator[Stage]:
    """A database of the test's own: it is to be full for nobody else, and its log is to grow."""
    migrate(store_url)
    with closing(Stage(store_url, inventory, crash_directory / "inventory.db", nursery)) as made:
        yield made


def test_s37_the_disk_is_full_once_the_effect_has_happened(own_stage: Stage, colour: str) -> None:
    """Nothing of an outcome that is in memory only is used: no next step, no result. Once there is room again it is S01."""
    story = own_stage.new_run("plain", colour)
    with FULL_DISKS[own_stage.kind](own_stage) as armed:
        ended = own_stage.nursery.worker(
            [*story.arguments("run"), "--hurried"], {**story.environment(), STOP: "", FULL: "", **armed}
        )
        story.check_growth()
        assert (ended.returncode, ended.report["error"]) == (4, "StoreUnavailable"), ended
        assert "value" not in ended.report
        assert ended.passages.count("send.before") == 1
        assert story.durable[-1].kind == "intent"
        assert dict(own_stage.executions(story.run_id)) == {f"{story.run_id}:1": 1}
    recovered = story.work("recover")
    assert recovered.passages.count("send.before") == 2  # the same key again, and then the next step
    story.check_outcome(recovered)
    story.check_once()
    story.check_settles_nothing_new()


def test_s37_where_there_is_no_key_the_effect_is_asked_for(own_stage: Stage) -> None:
    story = own_stage.new_run("mixed", "sync", "probed,keyed")
    with FULL_DISKS[own_stage.kind](own_stage) as armed:
        ended = own_stage.nursery.worker(
            [*story.arguments("run"), "--hurried"], {**story.environment(), STOP: "", FULL: "", **armed}
        )
        assert (ended.returncode, ended.report["error"]) == (4, "StoreUnavailable"), ended
        assert happened(story) == 1
    recovered = story.work("recover")
    assert recovered.returncode == 0, recovered
    assert recovered.passages.count("send.before") == 1  # of the second step
    assert happened(story) == 2
