"""Watching a run: what it publishes, what a listener hears, and what a log says. Nothing is shown that a crash could take back."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Generator, Iterator
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import pytest

from recovery import AsyncEngine, Engine, Run, errors, workflow
from recovery.core.entries import PUBLISHED, Decision
from recovery.operators.telling import Event
from recovery.ports import Append, AppendResult, Journal
from recovery.storage import open_journal

from .desk import Desk
from .world import Killed, Shop, keyed

Steps = Generator[Any, Any, Any]
NOW = timedelta(0)

PLACES = [("sqlite", "async"), ("postgresql", "sync")]


@pytest.fixture(params=PLACES, ids="-".join)
def place(request: pytest.FixtureRequest) -> tuple[str, str]:
    store, colour = request.param
    return "memory://" if store == "memory" else request.getfixturevalue(
        {"sqlite": "sqlite_url"}.get(store, "postgres_url")
    ), colour


@pytest.fixture
def colour(place: tuple[str, str]) -> str:
    return place[1]


@pytest.fixture
def journal(place: tuple[str, str]) -> Iterator[Journal]:
    opened = open_journal(place[0])
    yield opened
    opened.close()


@dataclass
class Progress:
    done: int
    of: int


def work(run: Any) -> Steps:
    run.publish("progress", Progress(0, 2))
    yield run.decide("first", lambda: 1)
    run.publish("progress", Progress(1, 2))
    run.publish("mood", "good")
    yield run.wait_for("go", schema=str)
    run.publish("progress", Progress(2, 2))
    return "done"


def heard(desk: Desk, after: int = 0, wait: timedelta = NOW) -> list[Event]:
    if desk.colour == "sync":
        return list(desk.engine.listen("r", after=after, wait=wait))

    async def collected() -> list[Event]:
        return [event async for event in desk.engine.listen("r", after=after, wait=wait)]

    return asyncio.run(collected())


def test_what_is_published_last_is_what_a_query_gives(journal: Journal, colour: str) -> None:
    desk = Desk(journal, colour, work)
    desk.start("work")
    assert desk.query("r", "progress").value == {"done": 1, "of": 2}
    assert desk.query("r", "mood").value == "good"
    assert desk.query("r", "nothing") is None
    assert list(desk.query("r")) == ["progress", "mood"]
    desk.signal("r", "go", "now", by="ann")
    assert desk.start("work") == "done"
    assert desk.query("r", "progress").value == {"done": 2, "of": 2}
    with pytest.raises(errors.RunNotFound):
        desk.query("nobody")


def test_a_publication_is_durable_with_what_follows_on_it_and_said_once(journal: Journal, colour: str) -> None:
    commits: list[int] = []

    class Counting:
        def __getattr__(self, name: str) -> Any:
            return getattr(journal, name)

        def append(self, batch: list[Append]) -> list[AppendResult]:
            commits.append(len(batch[0].rows))
            return journal.append(batch)

    desk = Desk(Counting(), colour, work)  # type: ignore[arg-type]  # a journal in all but name
    desk.start("work")
    assert commits == [2, 3]  # each publication rides on the step behind it
    desk.recover("r")
    assert len([e for e in desk.history("r") if isinstance(e, Decision) and e.form == PUBLISHED]) == 3


def test_a_publication_that_no_type_can_store_is_refused_where_it_is_made(journal: Journal, colour: str) -> None:
    def wrong(run: Any) -> Steps:
        run.publish("what", object())
        yield run.decide("x", lambda: 1)

    assert isinstance(Desk(journal, colour, wrong).start("wrong"), errors.ValueNotStorable)


def test_another_publication_in_its_place_is_a_divergence(journal: Journal, colour: str) -> None:
    name = {"is": "progress"}

    def changing(run: Any) -> Steps:
        run.publish(name["is"], 1)
        yield run.wait_for("go", schema=str)

    desk = Desk(journal, colour, changing)
    desk.start("changing")
    name["is"] = "mood"
    assert isinstance(desk.start("changing"), errors.Diverged)


def test_a_listener_that_goes_on_misses_nothing_and_hears_nothing_twice(journal: Journal, colour: str) -> None:
    desk = Desk(journal, colour, work)
    desk.start("work")
    first = heard(desk)
    assert [event.happened.value for event in first] == ["opened", "published", "decided", "published", "published", "waits"]
    assert heard(desk, after=first[-1].position) == []
    desk.signal("r", "go", "now", by="ann")
    desk.start("work")
    whole = heard(desk)
    assert [event.position for event in whole] == list(range(1, len(desk.history("r")) + 1))
    for position in range(len(whole) + 1):
        assert whole[:position] + heard(desk, after=position) == whole
    assert (whole[-1].happened.value, whole[-1].value) == ("ended", "done")
    with pytest.raises(errors.ListenerAhead):
        heard(desk, after=len(whole) + 1)
    with pytest.raises(errors.RunNotFound):
        list(Engine(journal).listen("nobody"))


def test_a_listener_waits_for_what_comes(journal: Journal, colour: str) -> None:
    """The run goes on while the listener looks: at its third look the answer is given and the run recovered."""
    worker = Desk(journal, colour, work)
    worker.start("work")

    class Happening:
        looks = 0

        def __getattr__(self, name: str) -> Any:
            return getattr(journal, name)

        def find(self, run_id: str) -> Any:
            Happening.looks += 1
            if Happening.looks == 4:
                journal_of = Engine(journal, clock=worker.clock) if colour == "sync" else None
                if journal_of is not None:
                    journal_of.signal("r", "go", "now", by="ann")
                    worker.recover("r")
                else:
                    _in_a_thread(lambda: (worker.signal("r", "go", "now", by="ann"), worker.recover("r")))
            return journal.find(run_id)

    listener = Engine(Happening()) if colour == "sync" else AsyncEngine(Happening())  # type: ignore[arg-type]
    if isinstance(listener, Engine):
        events = list(listener.listen("r"))
    else:

        async def collected() -> list[Event]:
            return [event async for event in listener.listen("r")]

        events = asyncio.run(collected())
    assert events[-1].happened.value == "ended"
    assert [event.position for event in events] == list(range(1, len(events) + 1))


def _in_a_thread(call: Any) -> None:
    """Beside the loop that runs in this one."""
    from threading import Thread

    thread = Thread(target=call)
    thread.start()
    thread.join()


@pytest.mark.parametrize("dies_at", range(1, 6))
def test_nothing_is_heard_that_a_crash_takes_back(dies_at: int) -> None:
    """The worker dies right before its n-th append; whoever listened then has heard a part of what is true in the end (I10)."""
    journal = open_journal("memory://")
    shop = Shop()
    reserve = shop.effect(keyed())
    seen: list[Event] = []
    appends = 0

    class Dying:
        def __getattr__(self, name: str) -> Any:
            return getattr(journal, name)

        def append(self, batch: list[Append]) -> list[AppendResult]:
            nonlocal appends
            appends += 1
            if appends == dies_at:
                if journal.find("r") is not None:
                    seen.extend(Engine(journal).listen("r", wait=NOW))
                raise Killed
            return journal.append(batch)

    number = iter(range(100))

    @workflow
    def job(run: Run) -> int:
        run.publish("stage", next(number))  # another value in each life, on purpose
        drawn = run.decide("draw", lambda: next(number))
        run.publish("stage", next(number))
        return drawn + run.perform(reserve(units=1))

    with suppress(Killed):
        Engine(Dying(), workflows=[job]).run("r", job)  # type: ignore[arg-type]
    Engine(journal, workflows=[job]).run("r", job)
    whole = list(Engine(journal).listen("r"))
    assert seen == whole[: len(seen)]
    assert seen + list(Engine(journal).listen("r", after=len(seen))) == whole


def test_a_log_names_run_and_step_and_says_nothing_twice(journal: Journal, colour: str, caplog: pytest.LogCaptureFixture) -> None:
    def talking(run: Any) -> Steps:
        run.log.info("begun")
        yield run.decide("first", lambda: 1)
        run.log.warning("between", number=1)
        yield run.wait_for("go", schema=str)
        run.log.debug("unheard")
        run.log.info("behind")
        return "done"

    caplog.set_level(logging.INFO, logger="recovery")
    desk = Desk(journal, colour, talking)
    desk.start("talking")
    desk.signal("r", "go", "now", by="ann")  # reads the workflow again, silently
    desk.start("talking")
    desk.start("talking")
    said = [r.recovery for r in caplog.records if r.name == "recovery.run"]  # type: ignore[attr-defined]  # the fields
    assert [(one["event"], one["run_id"], one["step"]) for one in said] == [
        ("begun", "r", ""), ("between", "r", "first#1"), ("behind", "r", "go#1"),
    ]  # fmt: skip
    assert said[1]["number"] == 1
