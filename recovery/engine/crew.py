"""The crew: carries procedures out beside the thread that hands them over, whichever colour the engine has.

Owns the threads of a `def` engine and the event loop of an `async def` one. Knows nothing of claims. Invariants: no more is carried out at a time than there
is room for; none of its threads keeps a process alive.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from dataclasses import replace
from queue import SimpleQueue
from typing import Any, Protocol

from recovery.core.operations import Op
from recovery.drivers.asking import Surroundings
from recovery.drivers.asynchronous import AsyncDriver
from recovery.drivers.patience import Patience
from recovery.drivers.sync import SyncDriver, finish
from recovery.engine.wiring import Wiring
from recovery.threads import Thread

Procedure = Coroutine[Op[Any], Any, Any]


class Crew(Protocol):
    """Carries procedures out."""

    def start(self, procedure: Callable[[], Procedure]) -> Future[Any]:
        """Carry it out as soon as there is room. The future has what it returned or raised."""
        ...

    def break_off(self) -> None:
        """Interrupt what can be interrupted."""

    def close(self) -> None:
        """No more is handed over; called when nothing is at work."""


def crew(engine: Wiring, size: int, patience: Patience | None, handing_back: Callable[[], bool]) -> Crew:
    """One for as many procedures at a time. patience: with a database that does not answer. handing_back: whether runs are to be let go where they
    would begin something."""
    surroundings = replace(engine.surroundings(), patience=patience, handing_back=handing_back)
    return LoopCrew(surroundings, size) if engine.is_async else ThreadCrew(surroundings, size)


class ThreadCrew:
    """For `def` workflows: a thread each."""

    def __init__(self, surroundings: Surroundings, size: int) -> None:
        self._surroundings = surroundings
        self._handed: SimpleQueue[tuple[Callable[[], Procedure], Future[Any]] | None] = SimpleQueue()
        named = (f"recovery-worker-{number}" for number in range(size))
        self._threads = [Thread(self._work, name=name) for name in named]
        for thread in self._threads:
            thread.start()

    def start(self, procedure: Callable[[], Procedure]) -> Future[Any]:
        future: Future[Any] = Future()
        self._handed.put((procedure, future))
        return future

    def break_off(self) -> None:
        """A thread cannot be interrupted: it lets its run go where it would begin something."""

    def close(self) -> None:
        for _ in self._threads:
            self._handed.put(None)
        for thread in self._threads:
            thread.join()

    def _work(self) -> None:
        while (handed := self._handed.get()) is not None:
            procedure, future = handed
            try:
                came = finish(SyncDriver(self._surroundings).drive(procedure()))
            except BaseException as error:  # noqa: BLE001  # it belongs to whoever waits for the future
                future.set_exception(error)
            else:
                future.set_result(came)
            del handed, procedure, future  # else an idle thread keeps the last run it had


class InlineCrew:
    """For one `def` workflow at a time: in the thread that hands it over, which waits for it. An interrupt is raised there."""

    def __init__(self, surroundings: Surroundings) -> None:
        self._surroundings = surroundings

    def start(self, procedure: Callable[[], Procedure]) -> Future[Any]:
        future: Future[Any] = Future()
        try:
            future.set_result(finish(SyncDriver(self._surroundings).drive(procedure())))
        except Exception as error:  # noqa: BLE001  # it belongs to whoever waits for the future
            future.set_exception(error)
        return future

    def break_off(self) -> None:
        """Nothing is at work: it was broken off where it was."""

    def close(self) -> None:
        """There is no thread."""


class LoopCrew:
    """For `async def` workflows: one event loop in a thread of its own."""

    def __init__(self, surroundings: Surroundings, size: int) -> None:
        self._surroundings = surroundings
        self._room = asyncio.Semaphore(size)
        self._loop = asyncio.new_event_loop()
        self._tasks: set[asyncio.Task[Any]] = set()
        self._thread = Thread(self._turn, name="recovery-worker-loop")
        self._thread.start()

    def _turn(self) -> None:
        try:
            self._loop.run_forever()
            self._loop.run_until_complete(self._loop.shutdown_asyncgens())
        finally:
            self._loop.close()

    def start(self, procedure: Callable[[], Procedure]) -> Future[Any]:
        return asyncio.run_coroutine_threadsafe(self._carried_out(procedure), self._loop)

    async def _carried_out(self, procedure: Callable[[], Procedure]) -> Any:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        try:
            async with self._room:
                return await AsyncDriver(self._surroundings).drive(procedure())
        finally:
            self._tasks.discard(task)

    def break_off(self) -> None:
        """Cancel each task, which then lets its run go."""
        self._loop.call_soon_threadsafe(lambda: [task.cancel() for task in self._tasks])

    def close(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
