"""Schedules as workers bring them up: one run a tick, ticks that were missed, overlaps, orders, and processes that die in between."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, ClassVar

import pytest

from recovery import AsyncEngine, AsyncRun, Engine, Queue, Run, workflow
from recovery.core.entries import Status
from recovery.core.errors import DefinitionError, OverrideRefused, RunNotFound
from recovery.core.instants import instant_us
from recovery.definitions.schedule import Schedule
from recovery.engine.calendar import AGAIN_US, Calendar, Refused
from recovery.engine.working import Working
from recovery.operators.scheduling import AT_ONCE, Ticked
from recovery.ports import Journal, Scheduled
from recovery.storage import open_journal
from recovery.testing import ManualClock
from tests.integration.test_workers import do, working

START = datetime(2026, 3, 1, 12, tzinfo=UTC)
HOUR = timedelta(hours=1)


@workflow
def report(run: Run, day: str) -> str:
    return f"report of {day}"


@workflow(name="report")
async def async_report(run: AsyncRun, day: str) -> str:
    return f"report of {day}"


@workflow
def of_tick(run: Run, tick: datetime) -> str:
    return tick.isoformat()


Make = Callable[..., Engine]


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(START)


@pytest.fixture
def make(journal: Journal, clock: ManualClock) -> Make:
    """An engine with one schedule, as each worker makes its own."""

    def made(name: str = "hourly", starts: Any = None, cron: str = "0 * * * *", **more: Any) -> Engine:
        engine = Engine(journal, workflows=[report], clock=clock, queues=[Queue("late", priority=3)])
        engine.schedule(name, starts or report("x"), cron=cron, **more)
        return engine

    return made


def begun(calendar: Calendar) -> list[str]:
    """The hours (and the days before them) whose runs were begun by one look, with what was passed over."""
    came = list(calendar.look())
    assert all(isinstance(each, Ticked) for each in came)
    return [each.run_id.partition(":")[2] if each.run_id else f"not {each.why}" for each in came if isinstance(each, Ticked)]


def brought_up(engine: Engine) -> Calendar:
    calendar = Calendar(engine)
    assert begun(calendar) == []
    return calendar


def test_each_tick_begins_one_run_and_a_new_schedule_makes_up_for_nothing(make: Make, clock: ManualClock, journal: Journal) -> None:
    calendar = brought_up(make())
    assert calendar.due_in_us() == 3_600_000_000
    clock.advance(HOUR - timedelta(microseconds=1))
    assert begun(calendar) == []
    clock.advance(timedelta(microseconds=1))
    assert begun(calendar) == ["2026-03-01T13:00:00Z"]
    assert begun(calendar) == []
    clock.advance(HOUR)
    assert begun(calendar) == ["2026-03-01T14:00:00Z"]
    assert [row.run_id for row in journal.runs()] == ["hourly:2026-03-01T13:00:00Z", "hourly:2026-03-01T14:00:00Z"]
    assert {row.status for row in journal.runs()} == {Status.QUEUED}


def test_several_workers_begin_a_tick_once(make: Make, clock: ManualClock, journal: Journal) -> None:
    engines = [make() for _ in range(4)]
    for engine in engines:
        brought_up(engine)
    calendars = [Calendar(engine) for engine in engines]
    for _ in range(3):
        clock.advance(HOUR)
        found: list[str] = []
        threads = [threading.Thread(target=lambda mine=calendar, found=found: found.extend(begun(mine))) for calendar in calendars]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(found) == 1
    assert len(journal.runs()) == 3


@pytest.mark.parametrize(
    ("missed", "expected"),
    [
        ({"missed": "skip"}, []),
        ({"missed": "last"}, ["17"]),
        ({"missed": "all"}, ["13", "14", "15", "16", "17"]),
        ({"missed": "all", "missed_max": 2}, ["16", "17"]),
        ({"missed": "skip", "grace": timedelta(minutes=30)}, ["17"]),
        ({}, ["17"]),
    ],
    ids=str,
)
def test_what_was_missed_while_no_worker_was_there(make: Make, clock: ManualClock, missed: Any, expected: list[str]) -> None:
    brought_up(make(**missed))
    clock.advance(5 * HOUR + timedelta(minutes=30))
    calendar = Calendar(make(**missed))
    assert begun(calendar) == [f"2026-03-01T{hour}:00:00Z" for hour in expected]
    assert begun(Calendar(make(**missed))) == []
    clock.advance(timedelta(minutes=30))
    assert begun(calendar) == ["2026-03-01T18:00:00Z"]


@pytest.mark.parametrize("missed", ["skip", "last", "all"])
def test_a_schedule_that_a_clock_far_ahead_has_moved_on_goes_on_now(
    make: Make, clock: ManualClock, journal: Journal, missed: Any, caplog: pytest.LogCaptureFixture
) -> None:
    """A host that starts on a day of next month, and is set right: nothing would begin until that day, and nobody would be told."""
    brought_up(make(missed=missed))
    ahead = Engine(journal, workflows=[report], clock=ManualClock(START + timedelta(days=30)))
    ahead.schedule("hourly", report("x"), cron="0 * * * *", missed=missed, missed_max=3)
    begun(Calendar(ahead))
    clock.advance(HOUR / 2)
    there = {row.run_id for row in journal.runs()}
    calendar = Calendar(make(missed=missed))
    assert begun(calendar) == []
    assert "a clock that was ahead had moved a schedule on" in caplog.text
    clock.advance(HOUR / 2)
    assert begun(calendar) == ["2026-03-01T13:00:00Z"]
    assert {row.run_id for row in journal.runs()} == there | {"hourly:2026-03-01T13:00:00Z"}


def test_clocks_that_differ_by_less_than_the_grace_begin_a_tick_once(make: Make, clock: ManualClock, journal: Journal) -> None:
    behind, ahead = brought_up(make()), make()
    ahead._clock = ManualClock(START + timedelta(seconds=50))
    calendar = Calendar(ahead)
    clock.advance(HOUR - timedelta(seconds=50))
    ahead._clock.advance(HOUR - timedelta(seconds=50))
    assert begun(calendar) == ["2026-03-01T13:00:00Z"]
    clock.advance(timedelta(seconds=50))
    assert begun(behind) == []
    assert len(journal.runs()) == 1


class Counted(Schedule):
    """Knows how often its ticks were counted through."""

    counts: ClassVar[int] = 0

    def last_ticks(self, after_us: int, now_us: int, most: int) -> list[int]:
        Counted.counts += 1
        return Schedule.last_ticks(self, after_us, now_us, most)


def test_what_was_missed_in_a_long_time_is_counted_once_for_a_look_and_begun_a_part_at_a_time(
    make: Make, clock: ManualClock
) -> None:
    missed = 2 * AT_ONCE + 10
    engine = make()
    engine.scheduled["hourly"] = Counted(name="hourly", starts=report("x"), cron="* * * * *", missed="all", missed_max=missed)
    brought_up(engine)
    clock.advance(timedelta(days=30))
    Counted.counts = 0
    calendar, looks = Calendar(engine), list[list[str]]()
    while calendar.due_in_us() == 0:
        looks.append(begun(calendar))
    last = START + timedelta(days=30)
    ticks = [f"{last - timedelta(minutes=before):%Y-%m-%dT%H:%M:%S}Z" for before in reversed(range(missed))]
    assert looks == [ticks[:AT_ONCE], ticks[AT_ONCE : 2 * AT_ONCE], ticks[2 * AT_ONCE :]]
    assert Counted.counts == len(looks)


def test_a_tick_is_passed_over_while_the_run_of_an_earlier_one_has_not_ended(make: Make, clock: ManualClock) -> None:
    engine = make(overlap="skip")
    calendar = brought_up(engine)
    clock.advance(HOUR)
    assert begun(calendar) == ["2026-03-01T13:00:00Z"]
    clock.advance(HOUR)
    assert begun(calendar) == ["not hourly:2026-03-01T13:00:00Z has not ended"]
    engine.recover("hourly:2026-03-01T13:00:00Z")
    clock.advance(HOUR)
    assert begun(calendar) == ["2026-03-01T15:00:00Z"]


def test_a_run_of_a_tick_stands_where_the_schedule_says(make: Make, clock: ManualClock, journal: Journal) -> None:
    for name, more in (("a", {"queue": "late"}), ("b", {"queue": "late", "priority": 1}), ("c", {})):
        calendar = brought_up(make(name, **more))
        clock.advance(HOUR)
        begun(calendar)
    assert [(row.queue, row.priority) for row in journal.runs()] == [("late", 3), ("late", 1), ("", 0)]


def test_a_function_or_a_workflow_is_given_the_tick(make: Make, clock: ManualClock, journal: Journal) -> None:
    engine = make("days", lambda tick: report(tick.date().isoformat()), "0 0 * * *")
    engine.schedule("ticks", of_tick, cron="0 0 * * *")
    calendar = brought_up(engine)
    clock.advance(24 * HOUR)
    assert len(begun(calendar)) == 2
    assert engine.recover("days:2026-03-02T00:00:00Z").result() == "report of 2026-03-02"
    assert engine.recover("ticks:2026-03-02T00:00:00Z").result() == "2026-03-02T00:00:00+00:00"


def test_a_workflow_that_takes_no_tick_is_refused_where_it_is_scheduled(make: Make) -> None:
    engine = make("days", report("x"))
    with pytest.raises(DefinitionError, match="'report' does not take a tick"):
        engine.schedule("wrong", report, cron="0 0 * * *")
    assert list(engine.scheduled) == ["days"]


def test_one_schedule_that_fails_stops_no_other_and_is_tried_again(make: Make, clock: ManualClock) -> None:
    wrong = [ZeroDivisionError()]

    def failing(tick: datetime) -> Any:
        if wrong:
            raise wrong[0]
        return report("x")

    engine = make("a", failing)
    engine.schedule("b", report("y"), cron="0 * * * *")
    calendar = brought_up(engine)
    clock.advance(HOUR)
    first, second = calendar.look()
    assert isinstance(first, Refused)
    assert first.schedule == "a"
    assert "its function raised ZeroDivisionError" in first.problem
    assert isinstance(second, Ticked)
    assert second.run_id == "b:2026-03-01T13:00:00Z"
    wrong.clear()
    clock.advance(timedelta(microseconds=AGAIN_US))
    list(calendar.look())
    assert engine.get("a:2026-03-01T13:00:00Z").status is Status.QUEUED


def test_another_cron_makes_up_for_nothing_and_loses_no_tick_of_now(make: Make, clock: ManualClock) -> None:
    brought_up(make(cron="0 0 * * *", missed="all"))
    clock.advance(3 * HOUR + timedelta(seconds=5))
    assert begun(Calendar(make(missed="all"))) == ["2026-03-01T15:00:00Z"]
    clock.advance(timedelta(minutes=10))
    calendar = Calendar(make(cron="*/10 * * * *", missed="all"))
    assert begun(calendar) == ["2026-03-01T15:10:00Z"]


def test_a_run_that_is_there_with_another_input_stands_for_its_tick(make: Make, clock: ManualClock) -> None:
    """Another version of the app was faster."""
    engine = make()
    calendar = brought_up(engine)
    clock.advance(HOUR)
    engine.enqueue(report("other"), run_id="hourly:2026-03-01T13:00:00Z")
    begun(calendar)
    clock.advance(HOUR)
    assert begun(calendar) == ["2026-03-01T14:00:00Z"]
    assert engine.recover("hourly:2026-03-01T13:00:00Z").result() == "report of other"


def test_a_tick_whose_beginner_died_between_its_two_writes_is_begun_by_whoever_comes(
    make: Make, clock: ManualClock, journal: Journal
) -> None:
    brought_up(make())
    clock.advance(HOUR)
    [row] = journal.schedules()
    tick_us = instant_us(START + HOUR)
    dead = replace(
        row,
        revision=2,
        through_us=tick_us,
        next_us=tick_us + 3_600_000_000,
        last_run="hourly:2026-03-01T13:00:00Z",
        last_tick_us=tick_us,
    )
    assert journal.keep_schedule(dead)
    assert begun(Calendar(make())) == []
    assert [row.run_id for row in journal.runs()] == ["hourly:2026-03-01T13:00:00Z"]


# -- orders ------------------------------------------------------------------------------------------------------------


def test_a_paused_schedule_lets_its_ticks_pass_and_makes_up_for_none(make: Make, clock: ManualClock) -> None:
    engine = make(missed="all")
    calendar = brought_up(engine)
    paused = engine.pause_schedule("hourly", by="ann", reason="the printer is broken")
    assert (paused.paused, paused.by, paused.reason) == (True, "ann", "the printer is broken")
    for _ in range(2):
        clock.advance(HOUR)
        assert begun(calendar) == []
    clock.advance(timedelta(minutes=30))
    assert not engine.resume_schedule("hourly", by="ben", reason="mended").paused
    assert begun(Calendar(engine)) == []
    clock.advance(timedelta(minutes=30))
    assert begun(calendar) == ["2026-03-01T15:00:00Z"]


def test_what_cannot_be_ordered_is_refused(make: Make) -> None:
    engine = make()
    with pytest.raises(OverrideRefused, match="the database has none of that name"):
        engine.pause_schedule("hourly", by="ann", reason="r")
    brought_up(engine)
    with pytest.raises(OverrideRefused, match="it is not paused"):
        engine.resume_schedule("hourly", by="ann", reason="r")
    engine.pause_schedule("hourly", by="ann", reason="r")
    with pytest.raises(OverrideRefused, match="ann has paused it already"):
        engine.pause_schedule("hourly", by="ben", reason="r")
    with pytest.raises(OverrideRefused, match="needs reason"):
        engine.resume_schedule("hourly", by="ann", reason=" ")
    with pytest.raises(DefinitionError, match="it has: hourly"):
        engine.trigger_schedule("daily")
    with pytest.raises(DefinitionError, match="one of that name"):
        engine.schedule("hourly", report("x"), cron="0 * * * *")


def test_a_run_can_be_triggered_beside_the_ticks(make: Make, clock: ManualClock) -> None:
    engine = make()
    calendar = brought_up(engine)
    engine.pause_schedule("hourly", by="ann", reason="r")
    clock.advance(timedelta(seconds=1, microseconds=5))
    assert engine.trigger_schedule("hourly").run_id == "hourly:2026-03-01T12:00:01.000005Z"
    assert not engine.trigger_schedule("hourly").is_new
    assert begun(calendar) == []


def test_both_colours_and_another_database_have_the_same_schedules(journal: Journal, clock: ManualClock) -> None:
    engine = AsyncEngine(journal, clock=clock)
    engine.schedule("hourly", async_report("x"), cron="0 * * * *", timezone="Asia/Kolkata")
    calendar = Calendar(engine)
    assert list(calendar.look()) == []
    clock.advance(HOUR)
    [came] = calendar.look()
    assert isinstance(came, Ticked)
    assert came.run_id == "hourly:2026-03-01T12:30:00Z"
    [row] = do(engine.schedules())
    assert (row.last_run, row.next_us) == (came.run_id, instant_us(START + HOUR * 1.5))
    assert do(engine.trigger_schedule("hourly")).is_new
    assert do(engine.pause_schedule("hourly", by="ann", reason="r")).paused
    assert not do(engine.resume_schedule("hourly", by="ann", reason="r")).paused
    assert list(engine.on("memory://").scheduled) == ["hourly"]


def test_a_worker_begins_what_is_due_although_it_looks_only_every_hour(journal: Journal) -> None:
    engine = Engine(journal, workflows=[report])
    engine.schedule("minutely", report("x"), cron="* * * * *", missed="all")
    now_us = engine.clock.wall_us()
    minutes = now_us // 60_000_000 * 60_000_000
    journal.keep_schedule(Scheduled("minutely", 1, "* * * * *", "UTC", minutes - 120_000_000, minutes - 60_000_000))
    with working(engine, Working(poll=timedelta(hours=1))) as (_, told):
        first = told.until("scheduled", schedule="minutely")
        assert told.until("scheduled")["run_id"] > first["run_id"]
        told.until("brought on", run_id=first["run_id"], status="completed")


# -- processes ---------------------------------------------------------------------------------------------------------

APP = """
from recovery import Engine, Run, workflow

@workflow
def report(run: Run) -> str:
    return "reported"

engine = Engine("sqlite:///scheduled.db", workflows=[report])
engine.schedule("minutely", report(), cron="* * * * *", missed="all")
"""


@pytest.fixture
def app(tmp_path: Path) -> Path:
    (tmp_path / "app.py").write_text(APP)
    return tmp_path


@pytest.mark.parametrize("point", ["schedule.after:3", "open.after:2"])
def test_a_worker_killed_while_it_begins_ticks_leaves_none_out_and_none_twice(app: Path, point: str) -> None:
    journal = open_journal(f"sqlite:///{app / 'scheduled.db'}")
    minutes = int(datetime.now(UTC).timestamp()) // 60 * 60_000_000
    missed = [minutes - 60_000_000 * back for back in (4, 3, 2, 1)]
    journal.namespace()
    journal.keep_schedule(Scheduled("minutely", 1, "* * * * *", "UTC", missed[0] - 60_000_000, missed[0]))
    command = [sys.executable, "-m", "recovery", "worker", "--until-idle", "--app", "app:engine"]
    dead = subprocess.run(
        command, cwd=app, env=os.environ | {"RECOVERY_CRASH_AT": point}, capture_output=True, timeout=120, check=False
    )
    assert dead.returncode == -signal.SIGKILL, dead.stderr
    subprocess.run(command, cwd=app, capture_output=True, timeout=120, check=True)
    ids = [row.run_id for row in journal.runs()]
    named = {f"minutely:{datetime.fromtimestamp(at / 1e6, UTC):%Y-%m-%dT%H:%M:%SZ}" for at in missed}
    assert named <= set(ids)
    assert {row.status for row in journal.runs()} == {Status.COMPLETED}
    journal.close()


def test_a_schedule_is_nobodys_run(make: Make) -> None:
    with pytest.raises(RunNotFound):
        make().get("hourly")
