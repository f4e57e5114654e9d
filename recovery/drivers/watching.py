"""Watching: an attempt that says that it is alive, and what becomes of one that says so no more.

Owns the bound between two heartbeats in both colours: a coroutine is cancelled, a `def` body runs in a thread that can be left alone. Knows nothing of
entries. Invariant: whoever is given up is unknown and not failed; a thread that is left alone keeps what it hears as late evidence.
"""

from __future__ import annotations

import asyncio
import contextvars
import time
from collections import deque
from collections.abc import Callable, Coroutine, Generator
from contextlib import suppress
from dataclasses import dataclass
from types import CoroutineType, coroutine
from typing import Any

from recovery.definitions.call import HeartbeatMissed
from recovery.threads import Signal, Thread


def nobody() -> None:
    """Hears a sign of life where none is needed."""


@dataclass(slots=True)
class Watch:
    """One call that is watched. silence: how many seconds may lie between two signs of life; None: it need not say any.

    abandoned: nobody waits for it any more. Said once, and looked at now and then: what no thread sleeps on need be no event, which costs as much as
    a decision's row."""

    silence: float | None = None
    abandoned: bool = False
    _heard: Callable[[], None] = nobody

    def beat(self) -> None:
        """It is alive. From any thread."""
        self._heard()

    def awaited(self, body: Callable[[], Coroutine[Any, Any, Any]], seconds: float | None) -> Coroutine[Any, Any, Any]:
        """Await a coroutine function, at most so long in all, and never longer than `silence` without a sign. Raises TimeoutError."""
        return _within(body(), seconds) if self.silence is None else self._while_it_says(self.silence, body, seconds)

    async def _while_it_says(self, silence: float, body: Callable[[], Coroutine[Any, Any, Any]], seconds: float | None) -> Any:
        loop = asyncio.get_running_loop()
        async with asyncio.timeout(seconds) as limit:
            ends = limit.when()
            if ends is None:
                return await body()

            def extend() -> None:
                with suppress(RuntimeError):  # it is over by now
                    limit.reschedule(min(ends, loop.time() + silence))

            def heard() -> None:
                with suppress(RuntimeError):  # a thread that outlived its loop
                    loop.call_soon_threadsafe(extend)

            extend()
            self._heard = heard
            try:
                return await body()
            except asyncio.CancelledError as error:
                if limit.expired() and loop.time() < ends:
                    raise HeartbeatMissed from error
                raise
            finally:
                self._heard = nobody

    def called(self, body: Callable[[], Any], seconds: float) -> Any:
        """Call a function in a thread of its own, and wait at most so long. Raises TimeoutError; the thread then goes on alone."""
        assert self.silence is not None, "nothing else is called in a thread"
        ended, came, failed = Signal(), list[Any](), list[BaseException]()
        context, signs = contextvars.copy_context(), deque([time.monotonic()], maxlen=1)  # the last one: there may be millions
        self._heard = lambda: signs.append(time.monotonic())

        def work() -> None:
            try:
                came.append(context.run(body))
            except BaseException as error:  # noqa: BLE001  # raised again where it is waited for
                failed.append(error)
            finally:
                ended.set()

        Thread(work, name="recovery-effect").start()
        ends = signs[0] + seconds
        while not ended.wait(max(0.0, min(ends, signs[-1] + self.silence) - time.monotonic())):
            now = time.monotonic()
            if now >= min(ends, signs[-1] + self.silence):
                self.abandoned = True
                if not ended.is_set:  # what it came to in this instant is not thrown away
                    raise TimeoutError if now >= ends else HeartbeatMissed
        if failed:
            raise failed[0]
        return came[0]


async def _within(work: Coroutine[Any, Any, Any], seconds: float | None) -> Any:
    """Await at most so long. No timer is set for a body that comes to its end without waiting for anything. Raises TimeoutError."""
    if not isinstance(work, CoroutineType):  # something of another make, which its task may have to know
        async with asyncio.timeout(seconds):
            return await work
    ends = None if seconds is None else asyncio.get_running_loop().time() + seconds  # the first step counts, too: it may take long
    try:
        first = work.send(None)
    except StopIteration as stop:
        return stop.value
    async with asyncio.timeout_at(ends):
        return await _rest(work, first)


@coroutine
def _rest(work: Coroutine[Any, Any, Any], asked: Any) -> Generator[Any, Any, Any]:
    """What follows the first step of a coroutine, in which it has asked for something."""
    resume: Callable[[Any], Any]
    while True:
        try:
            came = yield asked
        except GeneratorExit:
            work.close()
            raise
        except BaseException as error:  # noqa: BLE001  # cancelled, mostly: it belongs to the body
            resume, came = work.throw, error
        else:
            resume = work.send
        try:
            asked = resume(came)
        except StopIteration as stop:
            return stop.value
