"""Claims that are left while the store does not answer: the process that left them lives on, and nobody takes its runs for at work."""

from __future__ import annotations

import asyncio
import threading
from datetime import timedelta
from typing import Any

import pytest

from recovery import AsyncEngine, AsyncRun, Call, Engine, Run, contracts, effect, workflow
from recovery.core.policy import Lease
from recovery.errors import LeaseUnavailable, StoreUnavailable
from recovery.ports import Journal

QUICK = Lease(term=timedelta(hours=1), renew_every=timedelta(milliseconds=5))
SLOW = Lease(term=timedelta(hours=2), renew_every=timedelta(hours=1))
"""Under which nothing happens in a test but what its own calls bring about."""

SENT: list[str] = []


class Failing:
    """A journal that can be out of reach, from the call of some method on, which may be carried out all the same."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self.from_method = ""
        self.carried_out = False
        self.down = False
        self.released = threading.Event()

    def __setattr__(self, name: str, value: Any) -> None:
        if name == "vault":
            self._journal.vault = value
        object.__setattr__(self, name, value)

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._journal, name)
        return self._kept_from(name, found) if callable(found) else found

    def _kept_from(self, name: str, method: Any) -> Any:
        def call(*given: Any, **named: Any) -> Any:
            struck = name == self.from_method
            if self.down or (struck and not self.carried_out):
                self.down = True
                raise StoreUnavailable(url="it", problem="out of reach", fate="Unknown")
            came = method(*given, **named)
            if struck:
                self.down = True
                raise StoreUnavailable(url="it", problem="out of reach", fate="Unknown")
            if name == "release":
                self.released.set()
            return came

        return call

    def back(self) -> None:
        self.from_method, self.down = "", False


@pytest.fixture
def failing(journal: Journal) -> Failing:
    SENT.clear()
    return Failing(journal)


@effect(contracts.Keyed(window=timedelta(hours=24)), riding=False)
def send(call: Call) -> str:
    SENT.append(call.key)
    return "sent"


@effect(contracts.Keyed(window=timedelta(hours=24)), riding=False, name="asend")
async def asend(call: Call) -> str:
    SENT.append(call.key)
    return "sent"


@workflow
def sends(run: Run) -> str:
    return run.perform(send())


@workflow
async def asends(run: AsyncRun) -> str:
    return await run.perform(asend())


class Sync:
    def __init__(self, journal: Any, lease: Lease) -> None:
        self.engine = Engine(journal, workflows=[sends], lease=lease)

    def run(self) -> str:
        return self.engine.run("r", sends)

    def close(self) -> None:
        self.engine.close()


class Looped:
    def __init__(self, journal: Any, lease: Lease) -> None:
        self.engine = AsyncEngine(journal, workflows=[asends], lease=lease)

    def run(self) -> str:
        return asyncio.run(self.engine.run("r", asends))

    def close(self) -> None:
        asyncio.run(self.engine.close())


Colour = type[Sync] | type[Looped]
LOST = [("open_runs", True), ("append", False), ("append", True)]
"""Where the store is out of reach from, and whether what was asked there was done: the first append is the intent's."""


@pytest.mark.parametrize("colour", [Sync, Looped])
@pytest.mark.parametrize(("method", "carried_out"), LOST)
def test_who_left_a_run_goes_on_with_it_at_once(failing: Failing, colour: Colour, method: str, carried_out: bool) -> None:
    ours = colour(failing, SLOW)
    failing.from_method, failing.carried_out = method, carried_out
    with pytest.raises(StoreUnavailable):
        ours.run()
    failing.back()
    assert ours.run() == "sent"
    assert len(set(SENT)) == 1
    assert failing.find("r").crashes == 0, "nobody died"
    ours.close()


@pytest.mark.parametrize("colour", [Sync, Looped])
@pytest.mark.parametrize(("method", "carried_out"), LOST)
def test_everybody_else_can_once_the_store_answers_again(
    failing: Failing, journal: Journal, colour: Colour, method: str, carried_out: bool
) -> None:
    ours, others = colour(failing, QUICK), colour(journal, SLOW)
    failing.from_method, failing.carried_out = method, carried_out
    with pytest.raises(StoreUnavailable):
        ours.run()
    with pytest.raises(LeaseUnavailable):
        others.run()
    failing.back()
    assert failing.released.wait(30)
    assert others.run() == "sent"
    assert len(set(SENT)) == 1
    ours.close()
    others.close()


@pytest.mark.parametrize("colour", [Sync, Looped])
def test_an_engine_that_is_closed_gives_up_what_it_left(failing: Failing, journal: Journal, colour: Colour) -> None:
    ours, others = colour(failing, SLOW), colour(journal, SLOW)
    failing.from_method = "append"
    with pytest.raises(StoreUnavailable):
        ours.run()
    failing.back()
    ours.close()
    assert others.run() == "sent"
    others.close()
