"""Ctrl-C at any place between the claim of a run and its end: the run is given up, what is durable is written once, and the next call has the outcome.

Where no lock is held a trace raises it, at each line; elsewhere it is left pending, and comes where a signal can (`tests.interrupts`)."""

from __future__ import annotations

import asyncio
import sys
import threading
from collections import Counter
from collections.abc import Callable, Coroutine
from contextlib import suppress
from inspect import CO_COROUTINE
from pathlib import Path
from types import CodeType, FrameType
from typing import Any, TypeVar

import pytest

import recovery
from recovery import AsyncEngine, AsyncRun, Call, Engine, Environment, Run, effect, workflow
from recovery.core.entries import Status
from tests.integration.world import QUICK, keyed
from tests.interrupts import Interrupting

T = TypeVar("T")

OURS = Path(recovery.__file__).parent
STRUCK = {str(OURS / name) for name in ("claims.py", "reconciler.py", "offspring.py", "crashpoints.py", "storage/writer.py")}
"""Where no lock is held: between a block with one and its end no signal is looked at, but a trace is."""
BEGINNING = {threading.__file__, *(str(OURS / name) for name in ("threads.py", "drivers/sync.py", "drivers/branching.py"))}
"""Where branches are begun and waited for."""
LOOPS = {str(OURS / "drivers" / "posting.py"), asyncio.base_events.__file__, asyncio.events.__file__}
LOOP, LENDING = str(OURS / "drivers" / "posting.py"), str(OURS / "storage" / "committing.py")

sent: Counter[str] = Counter()


@effect(keyed(), environment=Environment("struck"))
def book(call: Call, *, number: int) -> int:
    sent[f"{call.key} {call.attempt}"] += 1
    return number


@workflow
def order(run: Run) -> list[int]:
    return [run.perform(book(number=number)) for number in range(2)]


@effect(keyed(), environment=Environment("struck"))
async def async_book(call: Call, *, number: int) -> int:
    sent[f"{call.key} {call.attempt}"] += 1
    return number


@workflow
async def async_order(run: AsyncRun) -> list[int]:
    return [await run.perform(async_book(number=number)) for number in range(2)]


def is_on_the_way(code: CodeType) -> bool:
    return code.co_filename in STRUCK


def is_of_a_turn(code: CodeType) -> bool:
    """What the loop does between one task and the store, and not the few lines in a task between what it hands in and its waiting for that."""
    if code.co_filename == LENDING:
        return code.co_name == "_lend"
    return code.co_filename == LOOP and not code.co_flags & CO_COROUTINE


class Striking:
    """Counts the lines of a call, and interrupts it at one of them."""

    def __init__(self, at: int, struck: Callable[[CodeType], bool] = is_on_the_way) -> None:
        self.at = at
        self.passed = 0
        self.struck = struck

    def __call__(self, frame: FrameType, event: str, _arg: object) -> Any:
        if not self.struck(frame.f_code):
            return None
        if event == "line":
            self.passed += 1
            if self.passed == self.at:
                sys.settrace(None)
                raise KeyboardInterrupt
        return self


def is_struck(engine: Engine, at: int) -> bool:
    """Whether a call has so many lines; it is broken off there."""
    before = sys.gettrace()
    sys.settrace(Striking(at))
    try:
        engine.run(f"r{at}", order)
    except KeyboardInterrupt:
        return True
    finally:
        sys.settrace(before)
    return False


@pytest.mark.filterwarnings(
    "ignore:coroutine .* was never awaited:RuntimeWarning"
)  # one that was made, and broken off in front of its first line
def test_an_interrupt_at_any_line_gives_the_run_up_and_writes_nothing_twice() -> None:
    at = 1
    with Engine("memory://", workflows=[order], budget=QUICK) as engine:
        while is_struck(engine, at):
            row = engine.journal.find(f"r{at}")
            assert row is None or row.owner is None or row.status.settled, at
            assert engine.run(f"r{at}", order) == [0, 1], at
            at += 1
        assert {info.status for info in engine.list()} == {Status.COMPLETED}
        assert engine.verify().broken == []
    assert at > 300
    assert set(sent.values()) == {1}, "each attempt is sent once"


@pytest.mark.filterwarnings("ignore:coroutine .* was never awaited:RuntimeWarning")  # as above
def test_an_interrupt_wherever_branches_begin_comes_out_once_none_is_at_work() -> None:
    at_work, went_on = set[int](), Counter[str]()

    @effect(keyed(), environment=Environment("struck"))
    def build(call: Call, *, number: int) -> int:
        at_work.add(threading.get_ident())
        went_on[f"{call.key} {call.attempt}"] += 1
        at_work.discard(threading.get_ident())
        return number

    @workflow
    def building(run: Run) -> list[int]:
        return run.map(lambda branch, number: branch.perform(build(number=number)), range(2), limit=2)

    at, place, struck = 0, "somewhere", list[str]()
    with Engine("memory://", workflows=[building], budget=QUICK) as engine:
        engine.run("first", building)
        while place:
            at += 1
            interrupting = Interrupting(at, lambda code: code.co_filename in BEGINNING)
            try:
                with interrupting.block():
                    engine.run(f"g{at}", building)
            except KeyboardInterrupt:
                struck.append(interrupting.place)
            except BaseException as error:
                raise AssertionError(interrupting.place) from error
            place = interrupting.place
            assert not at_work, place
            row = engine.journal.find(f"g{at}")
            assert row is None or row.owner is None or row.status.settled, place
            assert engine.run(f"g{at}", building) == [0, 1], place
        assert engine.verify().broken == []
    assert len(struck) == at - 1 > 100, "none was swallowed"
    assert set(went_on.values()) == {1}, "each attempt is sent once"


async def still_comes(engine: AsyncEngine, number: int) -> list[int]:
    """A later call of the same loop."""
    return await asyncio.wait_for(engine.run(f"a{number}", async_order), 60)


def test_an_interrupt_at_any_line_of_a_turn_of_the_loop_leaves_nobody_waiting() -> None:
    """Whoever waits is cancelled behind it, as `asyncio.run` does, and the loop goes on."""
    at, is_struck = 1, True
    loop = asyncio.new_event_loop()
    engine = AsyncEngine("memory://", workflows=[async_order], budget=QUICK)
    before = sys.gettrace()
    assert loop.run_until_complete(still_comes(engine, 0)) == [0, 1]
    while is_struck:
        task = loop.create_task(engine.run(f"a{at}", async_order))
        sys.settrace(Striking(at, is_of_a_turn))
        try:
            loop.run_until_complete(task)
            is_struck = False
        except KeyboardInterrupt:
            task.cancel()
            loop.call_soon(loop.stop)
            loop.run_forever()  # where the task had come to its end, its loop is about to stop once more
        finally:
            sys.settrace(before)
        _, waiting = loop.run_until_complete(asyncio.wait({task}, timeout=60))
        assert not waiting, at
        assert task.cancelled() or task.exception() is None or isinstance(task.exception(), KeyboardInterrupt), at
        assert loop.run_until_complete(still_comes(engine, at)) == [0, 1], at
        at += 1
    assert at > 200
    assert loop.run_until_complete(engine.verify()).broken == []
    loop.run_until_complete(engine.close())
    loop.close()


def complete(loop: asyncio.AbstractEventLoop, work: Coroutine[Any, Any, T]) -> T:
    """Its outcome, from a loop that an interrupted call may have left about to stop, more than once."""
    task = loop.create_task(work)
    while not task.done():
        with suppress(RuntimeError):
            loop.run_until_complete(task)
    return task.result()


@pytest.mark.filterwarnings("ignore:coroutine .* was never awaited:RuntimeWarning")  # the loop forgot to begin it
def test_an_interrupt_at_any_place_of_a_loop_keeps_no_later_call_waiting() -> None:
    """Nor in the loop's own code, which then has forgotten what it was to call next; nor where nobody waits any more."""
    at, place = 0, "somewhere"
    loop = asyncio.new_event_loop()
    engine = AsyncEngine("memory://", workflows=[async_order], budget=QUICK)
    assert loop.run_until_complete(still_comes(engine, 0)) == [0, 1]
    while place:
        at += 1
        task = loop.create_task(engine.run(f"a{at}", async_order))
        interrupting = Interrupting(at, lambda code: code.co_filename in LOOPS)
        try:
            with interrupting.block():
                loop.run_until_complete(task)
                loop.run_until_complete(asyncio.sleep(0))
        except KeyboardInterrupt:
            task.cancel()
            loop.call_soon(loop.stop)
            loop.run_forever()
        place = interrupting.place
        assert complete(loop, still_comes(engine, at + 1_000_000)) == [0, 1], place
    assert at > 200
    assert complete(loop, engine.verify()).broken == []
    complete(loop, engine.close())
    loop.close()
