"""Employing: a worker in a process of one's own, as a method of both engines.

Owns the thread that it works in, and its end. What a worker does is in `working`. Invariant: when the block ends, nothing that it took is at work any more, or it is said.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from recovery.engine.wiring import Wiring
from recovery.threads import Thread

if TYPE_CHECKING:
    from recovery.engine.working import Worker, Working

Tell = Callable[[str, Mapping[str, Any]], None]


class _Employed:
    """What both colours have."""

    def __init__(self, worker: Worker) -> None:
        self._worker = worker

    @property
    def ready(self) -> bool:
        """Whether the database answers and runs are taken."""
        return self._worker.ready

    @property
    def at_work(self) -> int:
        """How many runs are."""
        return self._worker.at_work

    def stop(self) -> None:
        """Take no more runs. Returns at once; may be called from anywhere, signal handlers included."""
        self._worker.stop()


class Employed(_Employed):
    """A worker beside a program's other work. `with engine.worker():` works in a thread until the end of the block, then takes no more, lets what is at work
    go on for as long as `drain` says, and hands the rest back. What ended the worker before is raised at the end of the block. `run()` works in this thread until `stop()`."""

    _error: BaseException | None = None

    def run(self) -> bool:
        """Work until `stop`, or with `until_idle` until nothing is due. Whether nothing was left behind."""
        return self._worker.work()

    def _run(self) -> None:
        try:
            self.run()
        except BaseException as error:  # noqa: BLE001  # raised where the block ends
            self._error = error

    def __enter__(self) -> Self:
        self._thread = Thread(self._run, name="recovery-worker")
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.stop()
        self._thread.join()
        if self._error is not None and error is None:
            raise self._error


class AsyncEmployed(_Employed):
    """As Employed, for `async with` and `await`. Its runs have an event loop of their own, which nothing on the program's loop can stop."""

    async def run(self) -> bool:
        """As Employed.run. Cancelled, the worker ends as at `stop`, and is waited for."""
        work = asyncio.ensure_future(asyncio.to_thread(self._worker.work))
        try:
            return await asyncio.shield(work)
        except asyncio.CancelledError:
            self.stop()
            await work
            raise

    async def __aenter__(self) -> Self:
        self._task = asyncio.create_task(self.run())
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.stop()
        await self._task


def _nothing(event: str, about: Mapping[str, Any]) -> None:
    """Nobody listens."""


class SyncEmploying(Wiring):
    """What Engine has."""

    def worker(self, how: Working | None = None, tell: Tell = _nothing) -> Employed:
        """A worker in this process: `with engine.worker(Working(concurrency=4)):`. See `Employed`.

        how: None is `Working()`. tell: called in the worker's thread with a fixed word (claimed, brought on, lost, unreachable, draining, ...) and what it is
        about, a mapping."""
        return Employed(_worker(self, how, tell))


class AsyncEmploying(Wiring):
    """What AsyncEngine has."""

    def worker(self, how: Working | None = None, tell: Tell = _nothing) -> AsyncEmployed:
        """As Engine.worker, for `async with`."""
        return AsyncEmployed(_worker(self, how, tell))


def _worker(engine: Wiring, how: Working | None, tell: Tell) -> Worker:
    from recovery.engine.working import Worker, Working  # here: most programs have none

    engine.opened()
    return Worker(engine, how or Working(), tell)
