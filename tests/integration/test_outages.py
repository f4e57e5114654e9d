"""Workers and a PostgreSQL server that is killed while runs are at work, and started again."""

from __future__ import annotations

import asyncio
import secrets
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from recovery import AsyncEngine, AsyncRun, Call, Engine, Run, contracts, effect, workflow
from recovery.core.entries import Intent, Status
from tests.integration.cli_place import until
from tests.integration.test_workers import FAST, do, working
from tests.postgres import PostgresServer

BEGAN, GATE = threading.Event(), threading.Event()
SENT: list[str] = []


@effect(contracts.Keyed(window=timedelta(hours=24)))
def post(call: Call, *, name: str) -> str:
    SENT.append(call.key)
    BEGAN.set()
    assert GATE.wait(120)
    return f"posted {name}"


@workflow
def letter(run: Run, name: str) -> str:
    return run.perform(post(name=name)) + run.perform(post(name=f"{name} again"))


@workflow(name="letter")
async def async_letter(run: AsyncRun, name: str) -> str:
    return await run.perform(post(name=name)) + await run.perform(post(name=f"{name} again"))


@pytest.fixture(params=["def", "async def"])
def engine(request: pytest.FixtureRequest, postgres_url: str, postgres_server: PostgresServer) -> Iterator[Engine | AsyncEngine]:
    made = (
        Engine(postgres_url, workflows=[letter]) if request.param == "def" else AsyncEngine(postgres_url, workflows=[async_letter])
    )
    do(made.enqueue(letter("a") if isinstance(made, Engine) else async_letter("a"), run_id="a"))
    BEGAN.clear()
    GATE.clear()
    SENT.clear()
    yield made
    postgres_server.start_again()  # whatever the test did
    made.flush()


def row(engine: Engine | AsyncEngine) -> Any:
    found = engine.journal.find("a")
    assert found is not None
    return found


def test_a_run_at_work_waits_out_an_outage_and_appends_under_its_own_claim(
    engine: Engine | AsyncEngine, postgres_server: PostgresServer
) -> None:
    with working(engine) as (worker, told):
        assert BEGAN.wait(60)
        until("readiness", lambda: worker.ready)
        postgres_server.kill()
        GATE.set()
        until("the run to wait for the server, which the store's own retries do no longer", lambda: worker._patience.waiting == 1)
        told.until("unreachable")
        assert not worker.ready
        assert worker.alive(60)
        postgres_server.start_again()
        told.until("brought on", run_id="a", status="completed")
        told.until("reached again")
        until("readiness", lambda: worker.ready)
    assert len(SENT) == len(set(SENT)) == 2
    said = [event for event, _ in told.all]
    assert (said.count("unreachable"), said.count("reached again")) == (1, 1)
    assert (row(engine).epoch.n, row(engine).crashes) == (2, 0)


@pytest.mark.parametrize("engine", ["def"], indirect=True)
def test_a_run_whose_patience_is_over_is_brought_on_by_whoever_reaches_the_server_again(
    engine: Engine | AsyncEngine, postgres_server: PostgresServer
) -> None:
    with working(engine, replace(FAST, patience=timedelta(0))) as (_, told):
        assert BEGAN.wait(60)
        postgres_server.kill()
        GATE.set()
        assert "did not answer" in told.until("interrupted", run_id="a")["problem"]
        postgres_server.start_again()
        engine.journal.release("a", row(engine).owner.token, row(engine).epoch)  # in the place of the lease's end, in half a minute
        told.until("brought on", run_id="a", status="completed")
    assert row(engine).status is Status.COMPLETED
    assert len(set(SENT)) == 2


# -- W14 ---------------------------------------------------------------------------------------------------------------

MANY = 100


class Outside:
    """A service with receipts, and a body for each key. It holds up what `holds` says until it is told to go on."""

    def __init__(self) -> None:
        self.receipts: dict[str, tuple[str, int]] = {}
        self.held_up: list[asyncio.Future[None]] = []
        self.goes_on = False

    async def act(self, key: str, body: str, *, holds: bool) -> int:
        told, receipt = self.receipts.setdefault(key, (body, len(self.receipts) + 1))
        assert told == body, "another decision under the same key"
        if holds and not self.goes_on:
            self.held_up.append(asyncio.get_running_loop().create_future())
            await self.held_up[-1]
        return receipt

    def go_on(self) -> None:
        self.goes_on = True
        for each in self.held_up:
            each.get_loop().call_soon_threadsafe(each.set_result, None)


@pytest.mark.parametrize("away", [PostgresServer.kill, PostgresServer.shut_down], ids=["killed", "shut down"])
def test_w14_a_hundred_runs_outlive_a_restart_of_the_server_with_their_outcomes(
    postgres_url: str, postgres_server: PostgresServer, away: Callable[[PostgresServer], None]
) -> None:
    outside = Outside()

    @effect(contracts.Keyed(window=timedelta(hours=24)))
    async def act(call: Call, *, body: str, holds: bool) -> int:
        return await outside.act(call.key, body, holds=holds)

    @workflow
    async def order(run: AsyncRun, number: int) -> list[int | str]:
        first = await run.perform(act(body="", holds=number % 2 == 0))
        pick = await run.decide("pick", lambda: secrets.token_hex(8))
        second = await run.perform(act(body=pick, holds=number % 2 == 1))
        return [first, pick, second]

    names = [f"order-{number}" for number in range(MANY)]
    engine = AsyncEngine(postgres_url, workflows=[order])
    try:
        for number, name in enumerate(names):
            do(engine.enqueue(order(number), run_id=name))
        with working(engine, replace(FAST, concurrency=MANY)) as (_, told):
            until("all of them under way", lambda: len(outside.held_up) == MANY)
            away(postgres_server)
            outside.go_on()
            told.until("unreachable")  # all places are taken
            postgres_server.start_again()
            told.until("reached again")
            for name in names:
                told.until("brought on", run_id=name, status="completed")
        for name in names:
            first, pick, second = do(engine.get(name)).result()
            assert {outside.receipts[key] for key in keys_of(engine, name)} == {("", first), (pick, second)}
            found = engine.journal.find(name)
            assert found is not None
            assert (found.epoch.n, found.crashes) == (2, 0), "by the worker that had it"
        assert len(outside.receipts) == 2 * MANY
    finally:
        postgres_server.start_again()  # whatever came before
        do(engine.close())


def keys_of(engine: AsyncEngine, run_id: str) -> list[str]:
    return [entry.key for entry in do(engine.history(run_id)) if isinstance(entry, Intent)]
