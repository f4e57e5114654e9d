"""Riding: what is durable when, as a user of either engine meets it, on every store."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Generator, Sequence
from contextlib import suppress
from datetime import timedelta
from typing import Any

import pytest

from recovery import AsyncEngine, AsyncRun, Call, Engine, Riding, Run, contracts, effect, errors, workflow
from recovery.core.contracts import Contract
from recovery.core.entries import Settled, Source, Status
from recovery.definitions.effect import Effect
from recovery.drivers.asynchronous import AsyncDriver
from recovery.ports import Append, AppendResult, Journal, Owner

from .desk import Body, Desk
from .world import DAY, kinds

Steps = Generator[Any, Any, Any]

SLOWLY = Riding(limit=timedelta(hours=1))
"""Nothing becomes durable by itself while a test looks."""

KEYED = contracts.Keyed(window=DAY)
LONG_SECONDS = 60.0
"""Far beyond what anything here takes on a busy machine."""


@pytest.fixture(params=["sync", "async"])
def colour(request: pytest.FixtureRequest) -> str:
    return str(request.param)


class Watched:
    """A journal that keeps what was appended, and that can be gone from one moment on."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self.commits: list[list[str]] = []
        self.appended = threading.Condition()
        self.dead = False

    def __getattr__(self, name: str) -> Any:
        return getattr(self._journal, name)

    def append(self, batch: Sequence[Append]) -> list[AppendResult]:
        if self.dead:
            raise errors.StoreUnavailable(url="a test", problem="it is gone", fate="Nothing was stored")
        results = self._journal.append(batch)
        with self.appended:
            self.commits += [[row.kind for row in member.rows] for member in batch]
            self.appended.notify_all()
        return results

    def wait_for(self, commits: int) -> bool:
        with self.appended:
            return self.appended.wait_for(lambda: len(self.commits) >= commits, LONG_SECONDS)


class World:
    """An environment that does each key once, and what it has heard."""

    def __init__(self, colour: str, contract: Contract = KEYED, **how: Any) -> None:
        self.replies: dict[str, int] = {}
        self.sent: list[str] = []
        self.poke = (self._async_effect if colour == "async" else self._effect)(contract, **how)

    def _poke(self, call: Call, n: int) -> int:
        self.sent.append(call.step)
        return self.replies.setdefault(call.key, 100 * len(self.replies) + n)

    def _effect(self, contract: Contract, **how: Any) -> Effect[..., int]:
        @effect(contract, name="poke", **how)
        def poke(call: Call, *, n: int) -> int:
            return self._poke(call, n)

        return poke

    def _async_effect(self, contract: Contract, **how: Any) -> Effect[..., int]:
        @effect(contract, name="poke", **how)
        async def poke(call: Call, *, n: int) -> int:
            return self._poke(call, n)

        return poke

    def chain(self, count: int) -> Body:
        def chain(run: Any) -> Steps:
            done = []
            for n in range(count):
                done.append((yield run.perform(self.poke(n=n))))
            return done

        return chain


def test_n_effects_in_a_row_are_n_commits_and_one(journal: Journal, colour: str) -> None:
    watched = Watched(journal)
    assert Desk(watched, colour, World(colour).chain(5), riding=SLOWLY).start("chain") == [0, 101, 202, 303, 404]
    assert watched.commits == [["intent"], *[["settled", "intent"]] * 4, ["settled", "settled"]]


def test_strict_mode_is_two_commits_for_each_and_one(journal: Journal, colour: str) -> None:
    watched = Watched(journal)
    Desk(watched, colour, World(colour).chain(3), riding=None).start("chain")
    assert watched.commits == [*[["intent"], ["settled"]] * 3, ["settled"]]


def test_an_effect_can_be_strict_by_itself(journal: Journal, colour: str) -> None:
    watched = Watched(journal)
    Desk(watched, colour, World(colour, riding=False).chain(2), riding=SLOWLY).start("chain")
    assert watched.commits == [*[["intent"], ["settled"]] * 2, ["settled"]]


def test_a_key_that_is_forgotten_too_soon_makes_an_effect_strict(journal: Journal, colour: str) -> None:
    watched, short = Watched(journal), contracts.Keyed(window=timedelta(minutes=30))
    Desk(watched, colour, World(colour, short).chain(2), riding=SLOWLY).start("chain")
    assert watched.commits == [*[["intent"], ["settled"]] * 2, ["settled"]]


def test_what_rides_and_is_lost_is_learnt_again_and_done_once(journal: Journal, colour: str) -> None:
    """I1 and I2: nothing can be stored any more between the reply and the next commit, and nothing that anybody has seen is lost."""
    watched, world = Watched(journal), World(colour)
    dies = [True]

    def chain(run: Any) -> Steps:
        first = yield run.perform(world.poke(n=1))
        second = yield run.perform(world.poke(n=2))
        watched.dead = bool(dies and dies.pop())
        third = yield run.perform(world.poke(n=3))
        return [first, second, third]

    assert isinstance(Desk(watched, colour, chain, riding=SLOWLY).start("chain"), errors.StoreUnavailable)
    assert kinds(Engine(journal).history("r")) == ["opened", "intent", "settled", "intent"]
    assert Desk(journal, colour, chain, riding=SLOWLY).start("chain") == [1, 102, 203]
    assert world.sent == ["poke#1", "poke#2", "poke#2", "poke#3"]
    assert len(world.replies) == 3


def test_before_a_decision_everything_is_durable(journal: Journal, colour: str) -> None:
    watched, world, seen = Watched(journal), World(colour), []

    def plan(run: Any) -> Steps:
        yield run.perform(world.poke(n=1))
        return (yield run.decide("plan", lambda: seen.append(watched.commits[-1]) or 7))

    assert Desk(watched, colour, plan, riding=SLOWLY).start("plan") == 7
    assert seen == [["settled"]]


def test_a_run_that_stops_has_kept_what_rode(journal: Journal, colour: str) -> None:
    """It waits for somebody: the wait becomes durable, and what the workflow went on from with it."""
    watched, world = Watched(journal), World(colour)

    def asks(run: Any) -> Steps:
        yield run.perform(world.poke(n=1))
        return (yield run.wait_for("go", schema=str))

    desk = Desk(watched, colour, asks, riding=SLOWLY)
    assert isinstance(desk.start("asks"), errors.AnswerPending)
    assert watched.commits == [["intent"], ["settled", "decision"]]
    desk.signal("r", "go", "now", by="ann")
    assert desk.start("asks") == "now"
    assert world.sent == ["poke#1"]


def test_an_interrupted_run_has_kept_what_rode(journal: Journal, colour: str) -> None:
    watched, world = Watched(journal), World(colour)

    def breaks_off(run: Any) -> Steps:
        yield run.perform(world.poke(n=1))
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        Desk(watched, colour, breaks_off, riding=SLOWLY).start("breaks_off")
    assert watched.commits == [["intent"], ["settled"]]


def test_nothing_rides_for_longer_than_its_limit(journal: Journal) -> None:
    """While the workflow itself does something that takes long."""
    watched, world = Watched(journal), World("sync")

    @workflow
    def slow(run: Run) -> bool:
        run.perform(world.poke(n=1))
        return watched.wait_for(2)

    with Engine(watched, workflows=[slow], riding=Riding(limit=timedelta(milliseconds=2))) as engine:  # type: ignore[arg-type]
        assert engine.run("r", slow)
    assert watched.commits == [["intent"], ["settled"], ["settled"]]


def test_nor_under_an_event_loop(journal: Journal) -> None:
    watched, world = Watched(journal), World("async")

    @workflow
    async def slow(run: AsyncRun) -> bool:
        await run.perform(world.poke(n=1))
        return await asyncio.to_thread(watched.wait_for, 2)

    async def story() -> bool:
        async with AsyncEngine(watched, workflows=[slow], riding=Riding(limit=timedelta(milliseconds=2))) as engine:  # type: ignore[arg-type]
            return await engine.run("r", slow)

    assert asyncio.run(story())
    assert watched.commits == [["intent"], ["settled"], ["settled"]]


def test_what_rides_behind_a_refused_commit_is_looked_after_again(journal: Journal, monkeypatch: pytest.MonkeyPatch) -> None:
    """The one look that was due found a commit on its way, which would have taken it along; but another run owns the key."""
    world, looked = World("async"), threading.Event()
    look = AsyncDriver._look

    class Slow(Watched):
        def append(self, batch: Sequence[Append]) -> list[AppendResult]:
            if any(claim.key == "taken" for member in batch for claim in member.keys) and self.commits:
                assert looked.wait(LONG_SECONDS)
            return super().append(batch)

    def seen(self: AsyncDriver, head: int) -> None:
        look(self, head)
        looked.set()

    @workflow
    async def first(run: AsyncRun) -> int:
        return await run.perform(world.poke(n=1), key="taken")

    watched = Slow(journal)

    @workflow
    async def second(run: AsyncRun) -> bool:
        await run.perform(world.poke(n=2))
        with suppress(errors.KeyReused):
            await run.perform(world.poke(n=3), key="taken")
        return await asyncio.to_thread(watched.wait_for, 3)

    async def story() -> bool:
        async with AsyncEngine(journal, workflows=[first], riding=None) as engine:
            await engine.run("first", first)
        monkeypatch.setattr(AsyncDriver, "_look", seen)
        async with AsyncEngine(watched, workflows=[second], riding=Riding(limit=timedelta(milliseconds=2))) as engine:  # type: ignore[arg-type]
            return await engine.run("second", second)

    assert asyncio.run(story())
    assert watched.commits[:3] == [["intent"], ["settled", "intent"], ["settled"]]


def test_a_log_says_only_what_is_durable(journal: Journal, colour: str, caplog: pytest.LogCaptureFixture) -> None:
    """I10: a line may build on what rides."""
    watched, world = Watched(journal), World(colour)
    said: list[tuple[str, int]] = []

    class Listening(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            said.append((record.recovery["event"], len(watched.commits)))  # type: ignore[attr-defined]

    def talking(run: Any) -> Steps:
        run.log.info("begun")
        value = yield run.perform(world.poke(n=1))
        run.log.info(f"got {value}")
        yield run.perform(world.poke(n=2))
        return value

    logger, listening = logging.getLogger("recovery.run"), Listening()
    caplog.set_level(logging.INFO, logger="recovery")
    logger.addHandler(listening)
    try:
        Desk(watched, colour, talking, riding=SLOWLY).start("talking")
    finally:
        logger.removeHandler(listening)
    assert said == [("begun", 0), ("got 1", 2)]


def test_a_superseded_worker_hears_of_it_and_its_reply_is_late_evidence(journal: Journal, colour: str) -> None:
    world = World(colour)

    def taken(run: Any) -> Steps:
        yield run.perform(world.poke(n=1))
        seen = journal.find("r")
        assert seen is not None
        assert journal.claim(seen, Owner("another"), lease_term_us=1, at_us=1) is not None
        yield run.perform(world.poke(n=2))

    assert isinstance(Desk(journal, colour, taken, riding=SLOWLY).start("taken"), errors.FencedOut)
    assert world.sent == ["poke#1"], "nothing is sent over a reply that was not kept"
    [late] = journal.evidence("r")
    assert late.step == "poke#1"


def test_what_a_watcher_could_not_store_stops_the_run_at_its_next_step(journal: Journal) -> None:
    """Nobody waited for that commit, so the workflow hears of it late, and nothing has left meanwhile."""
    world, claimed, tried = World("sync"), threading.Event(), threading.Event()

    class Taken(Watched):
        def append(self, batch: Sequence[Append]) -> list[AppendResult]:
            by_the_watcher = batch[-1].rows[-1].kind == "settled"
            if by_the_watcher:
                assert claimed.wait(LONG_SECONDS)  # however long the claim takes: it comes first
            results = super().append(batch)
            if by_the_watcher:
                tried.set()
            return results

    @workflow
    def taken(run: Run) -> int:
        run.perform(world.poke(n=1))
        seen = journal.find("r")
        assert seen is not None
        assert journal.claim(seen, Owner("another"), lease_term_us=1, at_us=1) is not None
        claimed.set()
        assert tried.wait(LONG_SECONDS)
        with suppress(Exception):  # as users do
            run.perform(world.poke(n=2))
        return run.perform(world.poke(n=3))

    engine = Engine(Taken(journal), workflows=[taken], riding=Riding(limit=timedelta(milliseconds=2)))  # type: ignore[arg-type]
    with engine, pytest.raises(errors.FencedOut):
        engine.run("r", taken)
    assert world.sent == ["poke#1"]
    [late] = journal.evidence("r")
    assert (late.step, '"late"' in late.body, Source.LATE.value) == ("poke#1", True, "late")


def test_branches_take_each_other_along(journal: Journal) -> None:
    """Whoever commits an entry of a run commits what rides in it: fewer commits than effects and one."""
    watched, world = Watched(journal), World("sync")

    @workflow
    def wide(run: Run) -> list[int]:
        return run.map(lambda branch, n: branch.perform(world.poke(n=n)), range(4), limit=1)

    with Engine(watched, workflows=[wide], riding=SLOWLY) as engine:  # type: ignore[arg-type]
        assert engine.run("r", wide) == [0, 101, 202, 303]
        history = engine.history("r")
        assert engine.run("r", wide) == [0, 101, 202, 303]
    assert len(watched.commits) == 5
    assert [entry.step for entry in history if isinstance(entry, Settled)][-1] == ""
    row = journal.find("r")
    assert row is not None
    assert row.status is Status.COMPLETED
