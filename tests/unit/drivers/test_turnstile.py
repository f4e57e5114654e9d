"""One at a time on an event loop, whoever is cancelled."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any

import pytest

from recovery.drivers.turnstile import Turnstile


async def _inside(turnstile: Turnstile, name: str, came: list[str], leave: asyncio.Event) -> None:
    await turnstile.enter()
    came.append(name)
    try:
        await leave.wait()
    finally:
        turnstile.leave()


async def _a_turn() -> None:
    """Of the loop, in which everybody who can go on does."""
    for _ in range(3):
        await asyncio.sleep(0)


def _played(story: Coroutine[Any, Any, list[str]]) -> list[str]:
    return asyncio.run(story)


def test_they_come_one_at_a_time_in_the_order_in_which_they_came() -> None:
    async def story() -> list[str]:
        turnstile, came, leave = Turnstile(), list[str](), [asyncio.Event() for _ in range(3)]
        tasks = [asyncio.ensure_future(_inside(turnstile, name, came, leave[number])) for number, name in enumerate("abc")]
        for number in range(3):
            await _a_turn()
            assert came == list("abc"[: number + 1])
            assert turnstile.taken
            leave[number].set()
        await asyncio.gather(*tasks)
        assert not turnstile.taken
        return came

    assert _played(story()) == ["a", "b", "c"]


def test_who_is_cancelled_while_waiting_is_passed_over() -> None:
    async def story() -> list[str]:
        turnstile, came, leave = Turnstile(), list[str](), asyncio.Event()
        first, second, third = (asyncio.ensure_future(_inside(turnstile, name, came, leave)) for name in "abc")
        await _a_turn()
        second.cancel()
        await _a_turn()
        leave.set()
        await asyncio.gather(first, third)
        assert not turnstile.taken
        return came

    assert _played(story()) == ["a", "c"]


def test_who_is_cancelled_in_the_moment_it_is_let_in_lets_in_the_next() -> None:
    async def story() -> list[str]:
        turnstile, came, leave = Turnstile(), list[str](), asyncio.Event()
        await turnstile.enter()
        second, third = (asyncio.ensure_future(_inside(turnstile, name, came, leave)) for name in "bc")
        await _a_turn()
        turnstile.leave()
        second.cancel()  # it was let in, and has not gone on yet
        leave.set()
        await third
        assert not turnstile.taken
        return came

    assert _played(story()) == ["c"]


def test_who_is_cancelled_in_the_moment_somebody_leaves_is_passed_over_and_hears_of_nothing_but_that() -> None:
    async def story() -> list[str]:
        turnstile, came, leave = Turnstile(), list[str](), asyncio.Event()
        await turnstile.enter()
        second, third = (asyncio.ensure_future(_inside(turnstile, name, came, leave)) for name in "bc")
        await _a_turn()
        second.cancel()
        turnstile.leave()  # before the cancelled one has had its turn of the loop
        leave.set()
        await third
        with pytest.raises(asyncio.CancelledError):
            await second
        assert not turnstile.taken
        return came

    assert _played(story()) == ["c"]
