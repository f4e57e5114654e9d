"""Every way out of user code but death gives the run up: nobody has to wait for the lease of a process that works on nothing."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from recovery import AsyncEngine, AsyncRun, Call, Engine, Riding, Run, Status, effect, errors, workflow
from recovery.drivers.asking import Progress, Surroundings
from recovery.drivers.asynchronous import AsyncDriver
from recovery.drivers.strands import Lock, Strand, Threads
from recovery.ports import Journal

from .world import QUICK, keyed, once

LEAVING = [KeyboardInterrupt, SystemExit, GeneratorExit, asyncio.CancelledError]
PLACES = ["workflow", "decision", "effect"]


def order_that_leaves(place: str, leave: Callable[[], None]) -> Any:
    """A sync workflow whose code leaves at one place, the first time."""

    @effect(keyed())
    def book(call: Call) -> int:
        if place == "effect":
            leave()
        return 1

    @workflow
    def order(run: Run, key: str = "k") -> int:
        number = run.decide("number", lambda: 1 if place != "decision" else (leave(), 1)[1])
        booked = run.perform(book(), key=key)
        if place == "workflow":
            leave()
        return number + booked

    return order


@pytest.mark.parametrize("leaves", LEAVING)
@pytest.mark.parametrize("place", PLACES)
def test_whatever_user_code_leaves_with_gives_the_run_up(journal: Journal, place: str, leaves: type[BaseException]) -> None:
    order = order_that_leaves(place, once(leaves("now")))
    with Engine(journal, workflows=[order], budget=QUICK) as engine:
        with pytest.raises(leaves):
            engine.run("r", order)
        [info] = engine.list()
        assert (info.status, info.owner) == (Status.RUNNING, None)
        assert engine.run("r", order) == 2


def test_an_async_run_whose_coroutine_is_closed_gives_the_run_up(journal: Journal) -> None:
    """As a loop that ends with tasks left over, or the garbage collector, closes it: nothing can be awaited any more."""
    at_work, given_up, release = asyncio.Event(), threading.Event(), journal.release

    @effect(keyed())
    async def book(call: Call) -> int:
        if not at_work.is_set():
            at_work.set()
            await asyncio.Event().wait()
        return 1

    @workflow
    async def order(run: AsyncRun) -> int:
        return await run.perform(book(), key="k")

    def noted(*given: Any) -> bool:
        released = release(*given)
        given_up.set()
        return released

    journal.release = noted  # type: ignore[method-assign]
    engine = AsyncEngine(journal, workflows=[order], budget=QUICK)
    loop = asyncio.new_event_loop()
    loop.set_exception_handler(lambda _loop, _context: None)  # it complains of the task that is left over
    task = loop.create_task(engine.run("r", order))
    loop.run_until_complete(at_work.wait())
    task.get_coro().close()  # type: ignore[union-attr]
    assert given_up.wait(30)
    row = journal.find("r")
    assert row is not None
    assert (row.status, row.owner) == (Status.RUNNING, None)
    loop.close()

    async def again() -> int:
        async with engine:
            return (await engine.recover("r")).result()  # type: ignore[no-any-return]

    assert asyncio.run(again()) == 1


def test_an_async_run_that_is_closed_over_what_rides_begins_no_look_at_it(
    journal: Journal, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The look that was due found a commit on its way, and left what rides to whoever makes it; which is closed, where no loop runs."""
    looked, stored, answered, given_up = asyncio.Event(), threading.Event(), threading.Event(), threading.Event()
    look, append, release = AsyncDriver._look, journal.append, journal.release

    @effect(keyed())
    async def book(call: Call) -> int:
        return 1

    @workflow
    async def order(run: AsyncRun) -> int:
        return await run.perform(book()) + await run.perform(book())

    def seen(self: AsyncDriver, head: int) -> None:
        look(self, head)
        looked.set()

    def slow(batch: Any) -> Any:
        if batch[0].head == 1:  # the first intent's
            return append(batch)
        assert stored.wait(30)
        came = append(batch)
        answered.set()
        return came

    def noted(*given: Any) -> bool:
        released = release(*given)
        given_up.set()
        return released

    monkeypatch.setattr(AsyncDriver, "_look", seen)
    journal.append, journal.release = slow, noted  # type: ignore[method-assign]
    engine = AsyncEngine(journal, workflows=[order], budget=QUICK, riding=Riding(limit=timedelta(milliseconds=2)))
    loop = asyncio.new_event_loop()
    loop.set_exception_handler(lambda _loop, _context: None)  # it complains of the task that is left over
    task = loop.create_task(engine.run("r", order))
    loop.run_until_complete(looked.wait())
    task.get_coro().close()  # type: ignore[union-attr]
    stored.set()
    assert answered.wait(30)
    assert given_up.wait(30)
    row = journal.find("r")
    assert row is not None
    assert row.owner is None
    loop.close()


@pytest.mark.parametrize(("fails", "heard"), [(KeyboardInterrupt, KeyboardInterrupt), (RuntimeError, errors.ThreadUnavailable)])
def test_a_lease_that_cannot_be_kept_alive_gives_the_run_up(
    journal: Journal, monkeypatch: pytest.MonkeyPatch, fails: type[BaseException], heard: type[BaseException]
) -> None:
    """Interrupted between the claim and the work, or where the system has no thread left to give."""
    start, left = threading.Thread.start, [fails("can't start new thread")]

    def starting(thread: threading.Thread) -> None:
        if thread.name == "recovery-leases" and left:
            raise left.pop()
        start(thread)

    monkeypatch.setattr(threading.Thread, "start", starting)
    order = order_that_leaves("nowhere", lambda: None)
    before = set(threading.enumerate())
    with Engine(journal, workflows=[order], budget=QUICK) as engine:
        with pytest.raises(heard):
            engine.run("r", order)
        [info] = engine.list()
        assert (info.status, info.owner) == (Status.RUNNING, None)
        assert engine.run("r", order) == 2
        assert "recovery-leases" in {thread.name for thread in set(threading.enumerate()) - before}


def test_an_async_run_that_can_have_no_thread_says_so_and_is_given_up(journal: Journal, monkeypatch: pytest.MonkeyPatch) -> None:
    """Between its steps: the thread that commits has ended, and there is no other."""
    start, done, lost = threading.Thread.start, list[str](), list[str]()

    def starting(thread: threading.Thread) -> None:
        if thread.name == "recovery-commits":
            raise RuntimeError("can't start new thread")
        start(thread)

    @effect(keyed())
    async def book(call: Call) -> int:
        done.append(call.key)
        return 1

    engine = AsyncEngine(journal, budget=QUICK)

    @workflow
    async def order(run: AsyncRun) -> int:
        booked = await run.perform(book(), key="first")
        await run.decide("look", lambda: 1)
        if not lost:
            lost.append("the thread that commits")
            engine._committer.close()
            monkeypatch.setattr(threading.Thread, "start", starting)
        return booked + await run.perform(book(), key="second")

    async def twice() -> None:
        async with engine:
            with pytest.raises(errors.ThreadUnavailable, match="Nothing more was sent"):
                await engine.run("r", order)
            monkeypatch.setattr(threading.Thread, "start", start)
            [info] = await engine.list()
            assert (info.status, info.owner, done) == (Status.RUNNING, None, ["first"])
            assert await engine.run("r", order) == 2

    asyncio.run(twice())
    assert done == ["first", "second"]


class Interrupted(Engine):
    """Runs on strands of the test's."""

    strands: Threads = Threads()

    def surroundings(self, progress: Progress | None = None) -> Surroundings:
        return replace(super().surroundings(progress), strands=self.strands)


class Striking(Threads):
    """Threads in whose locks an interrupt strikes, once: when the one that is left as the `left`th was let go of, or before the procedure under it goes on."""

    def __init__(self, left: int, *, before: bool) -> None:
        self.left = left
        self.before = before

    def lock(self) -> Lock:
        return Struck(threading.RLock(), self)

    def strike(self, *, before: bool) -> None:
        if before is self.before:
            self.left -= 1
            if not self.left:
                raise KeyboardInterrupt


class Struck:
    def __init__(self, lock: Lock, striking: Striking) -> None:
        self.acquire, self.release = lock.acquire, lock.release
        self._striking = striking

    def __enter__(self) -> None:
        self._striking.strike(before=True)
        self.acquire()

    def __exit__(self, *_: object) -> None:
        self.release()
        self._striking.strike(before=False)


@pytest.mark.filterwarnings("ignore:coroutine .* was never awaited:RuntimeWarning")  # an interrupt in front of its first step
@pytest.mark.parametrize("before", [True, False])
def test_an_interrupt_between_two_operations_gives_the_run_up(before: bool) -> None:
    """In our own code, while the procedure of a run stands still: nobody else would tell that it is to end."""

    order = order_that_leaves("nowhere", lambda: None)
    with Interrupted("memory://", workflows=[order], budget=QUICK) as engine:
        moment = 0
        for moment in range(1, 200):
            engine.strands = Striking(moment, before=before)
            try:
                engine.run(f"r{moment}", order, key=f"{moment}")
                break
            except KeyboardInterrupt:
                engine.strands = Threads()
            assert all(info.owner is None or info.status.settled for info in engine.list()), moment
            assert engine.run(f"r{moment}", order, key=f"{moment}") == 2
        assert 20 < moment < 199


class Unbegun(Threads):
    """Threads of which the third is not begun: an interrupt strikes in front of it."""

    def __init__(self) -> None:
        self.made = 0

    def strand(self, work: Callable[..., Any], *args: Any) -> Strand:
        self.made += 1
        return Never(target=work, args=args) if self.made == 3 else super().strand(work, *args)


class Never(threading.Thread):
    """It may be there all the same, and come neither to its work nor to its end: an interrupt can leave what a thread says hello with taken for ever."""

    ident = 1

    def start(self) -> None:
        raise KeyboardInterrupt

    def join(self, timeout: float | None = None) -> None:
        raise AssertionError("nobody may wait for it")


def test_an_interrupt_in_front_of_a_branch_keeps_no_other_one_waiting() -> None:
    """A replay lets the steps of branches return in turn, and the first turn is that of one which is not begun."""
    last, came, returned = threading.Event(), list[str](), list[int]()

    @effect(keyed())
    def book(call: Call, *, number: int) -> int:
        if number < 2:
            assert last.wait(30)
        return number

    @workflow
    def order(run: Run) -> list[int]:
        def one(branch: Run, number: int) -> int:
            booked = branch.perform(book(number=number))
            if number == 2:
                last.set()
            branch.perform(book(number=number + 10))
            returned.append(number)
            return booked

        booked = run.map(one, range(3), limit=3)
        if not came:
            raise KeyboardInterrupt
        return booked

    with Interrupted("memory://", workflows=[order], budget=QUICK) as engine:
        with pytest.raises(KeyboardInterrupt):
            engine.run("r", order)
        returned.clear()

        def interrupted() -> None:
            try:
                engine.run("r", order)
            except KeyboardInterrupt:
                came.append("interrupted")

        engine.strands = Unbegun()
        replaying = threading.Thread(target=interrupted, daemon=True)
        replaying.start()
        replaying.join(30)
        assert came == ["interrupted"]
        assert returned == []
        engine.strands = Threads()
        assert engine.run("r", order) == [0, 1, 2]
