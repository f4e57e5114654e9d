"""A coroutine function's time: none is measured for one that waits for nothing, and one that waits is let go at its end, whatever it awaits."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Generator
from typing import Any

import pytest

from recovery.drivers.watching import Watch

AT_ONCE, LONG_SECONDS = 0.001, 60.0


def awaited(body: Callable[[], Coroutine[Any, Any, Any]], seconds: float | None) -> Any:
    return asyncio.run(Watch().awaited(body, seconds))


def test_who_waits_for_nothing_needs_no_timer() -> None:
    """A loop without timers would still have it."""

    async def body() -> str:
        return "done"

    async def watched() -> tuple[str, int]:
        loop = asyncio.get_running_loop()
        set_before = len(loop._scheduled)  # type: ignore[attr-defined]  # asyncio's own heap
        came = await Watch().awaited(body, LONG_SECONDS)
        return came, len(loop._scheduled) - set_before  # type: ignore[attr-defined]  # as above

    assert asyncio.run(watched()) == ("done", 0)


def test_what_it_raises_is_raised_before_and_behind_its_first_wait() -> None:
    async def at_once() -> None:
        raise LookupError("at once")

    async def later() -> None:
        await asyncio.sleep(0)
        raise LookupError("later")

    for body, said in ((at_once, "at once"), (later, "later")):
        with pytest.raises(LookupError, match=said):
            awaited(body, LONG_SECONDS)


def test_it_gets_what_it_waits_for() -> None:
    """A turn of the loop, a future's result, a future's error."""

    async def body() -> list[Any]:
        loop, came = asyncio.get_running_loop(), list[Any]()
        await asyncio.sleep(0)
        for setting in ("set_result", "set_exception"):
            future = loop.create_future()
            loop.call_soon(getattr(future, setting), LookupError("said"))
            try:
                came.append(await future)
            except LookupError as error:
                came.append(str(error))
        return came

    came = awaited(body, LONG_SECONDS)
    assert isinstance(came[0], LookupError)
    assert came[1] == "said"


def test_who_waits_too_long_is_cancelled_and_may_tidy_up() -> None:
    tidied = []

    async def body() -> None:
        try:
            await asyncio.get_running_loop().create_future()
        finally:
            await asyncio.sleep(0)
            tidied.append(True)

    with pytest.raises(TimeoutError):
        awaited(body, AT_ONCE)
    assert tidied == [True]


def test_its_time_begins_before_its_first_step_however_long_that_takes() -> None:
    """A deadline that is counted from behind it would let an attempt act when nobody reckons with it any more."""

    async def watched() -> bool:
        loop = asyncio.get_running_loop()
        began, waited_for = list[float](), loop.create_future()

        async def body() -> None:
            began.append(loop.time())
            while loop.time() <= began[0] + AT_ONCE:
                pass
            await waited_for

        watching = asyncio.ensure_future(Watch().awaited(body, LONG_SECONDS))
        await asyncio.sleep(0)
        [timer] = loop._scheduled  # type: ignore[attr-defined]  # asyncio's own heap
        waited_for.set_result(None)
        await watching
        return bool(timer.when() <= began[0] + LONG_SECONDS)

    assert asyncio.run(watched())


def test_a_cancelled_caller_cancels_it() -> None:
    heard = []

    async def body() -> None:
        try:
            await asyncio.get_running_loop().create_future()
        except asyncio.CancelledError as error:
            heard.append(str(error))
            raise

    async def cancelled() -> None:
        watching = asyncio.ensure_future(Watch().awaited(body, None))
        await asyncio.sleep(0)
        watching.cancel("by hand")
        await watching

    with pytest.raises(asyncio.CancelledError):
        asyncio.run(cancelled())
    assert heard == ["by hand"]


def test_a_closed_caller_closes_it() -> None:
    closed = []

    class Asked:
        def __await__(self) -> Generator[Any, Any, None]:
            yield None

    async def body() -> None:
        try:
            await Asked()
        except GeneratorExit:
            closed.append(True)
            raise

    async def outside() -> None:
        watching = Watch().awaited(body, None)
        watching.send(None)
        watching.close()

    asyncio.run(outside())
    assert closed == [True]


def test_an_awaitable_of_another_make_is_awaited_as_it_is() -> None:
    class Made(Coroutine[Any, Any, str]):
        """As a compiled extension has it."""

        def __init__(self) -> None:
            self._inner = self._body()

        async def _body(self) -> str:
            await asyncio.sleep(LONG_SECONDS)
            return "never"

        def __await__(self) -> Generator[Any, Any, str]:
            return self._inner.__await__()

        def send(self, value: Any) -> Any:
            return self._inner.send(value)

        def throw(self, *error: Any) -> Any:
            return self._inner.throw(*error)

        def close(self) -> None:
            self._inner.close()

    with pytest.raises(TimeoutError):
        awaited(Made, AT_ONCE)
