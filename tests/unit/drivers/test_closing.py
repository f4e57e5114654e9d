"""What a coroutine that is closed still tells the store, wherever it is closed."""

from __future__ import annotations

import asyncio
import threading

from recovery import AsyncEngine, AsyncRun, workflow
from recovery.drivers.closing import Closing
from recovery.drivers.posting import post_of
from tests.conformance.blocking import wait_for

WAIT_SECONDS = 60


begun = threading.Event()


@workflow
async def stays(_run: AsyncRun) -> None:
    begun.set()
    await asyncio.Event().wait()


def test_one_that_is_closed_in_the_middle_of_another_call_of_its_thread_gives_its_run_up() -> None:
    """As the garbage collector does it, in a call that hands something to the store, or keeps a lease."""
    engine, loop = AsyncEngine("memory://", workflows=[stays]), asyncio.new_event_loop()

    def is_owned() -> bool:
        row = engine.journal.find("r")
        return row is not None and row.owner is not None

    async def started() -> asyncio.Task[None]:
        task = asyncio.get_running_loop().create_task(engine.run("r", stays))
        await asyncio.to_thread(begun.wait, WAIT_SECONDS)
        return task

    task = loop.run_until_complete(started())
    assert is_owned()

    def close() -> None:
        with post_of(loop).threads._shutdown_lock, engine._committer._lock, engine._leases._lock:
            task.get_coro().close()  # type: ignore[union-attr]  # it is a coroutine

    closing = threading.Thread(target=close, daemon=True)
    closing.start()
    closing.join(WAIT_SECONDS)
    assert not closing.is_alive()
    wait_for(lambda: not is_owned(), "the run is given up")
    task.cancel()
    loop.run_until_complete(asyncio.wait({task}))
    assert isinstance(task.exception(), RuntimeError)  # there is no coroutine any more
    loop.run_until_complete(engine.close())
    loop.close()


def test_each_is_done_though_one_fails() -> None:
    closing, done = Closing(), threading.Event()
    closing.hand_in(lambda: 1 / 0)
    closing.hand_in(done.set)
    assert done.wait(WAIT_SECONDS)
