"""freezegun around an engine: frozen wall time reaches recorded times and windows, and the boot clock goes on (semantics, section 2)."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from datetime import UTC, datetime, timedelta

import pytest
from freezegun import freeze_time

from recovery import AsyncEngine, AsyncRun, Budget, Call, Engine, Run, contracts, effect, workflow
from recovery.core.entries import Opened, Verdict
from recovery.core.instants import instant_us
from recovery.errors import EffectInDoubt, Unresolved

NOON = datetime(2030, 1, 1, 12, tzinfo=UTC)
WINDOW = timedelta(hours=24)
IMPATIENT = Budget(max_wait=timedelta(0))
PATIENT = Budget(max_wait=timedelta(seconds=30), backoff=timedelta(milliseconds=1))


class Shop:
    """Loses so many replies, then answers."""

    def __init__(self, lost: int) -> None:
        self.lost = lost
        self.calls: list[Call] = []

    def order(self, call: Call) -> str:
        self.calls.append(call)
        if len(self.calls) <= self.lost:
            raise ConnectionError("the reply is lost")
        return "R1"


shop = Shop(0)


@pytest.fixture(autouse=True)
def _new_shop() -> None:
    shop.__init__(lost=1)  # type: ignore[misc]


@effect(contracts.Keyed(window=WINDOW))
def order(call: Call) -> str:
    return shop.order(call)


@effect(contracts.Keyed(window=WINDOW), name="order")
async def aorder(call: Call) -> str:
    return shop.order(call)


def now() -> datetime:
    return datetime.now(UTC)


@workflow
def buy(run: Run) -> tuple[datetime, str]:
    return run.decide("at", now), run.perform(order(), key="order-1")


@workflow(name="buy")
async def abuy(run: AsyncRun) -> tuple[datetime, str]:
    return await run.decide("at", now), await run.perform(aorder(), key="order-1")


def test_recorded_times_are_the_frozen_ones(sqlite_url: str) -> None:
    with freeze_time(NOON), Engine(sqlite_url, workflows=[buy], budget=IMPATIENT) as engine:
        with pytest.raises(Unresolved):
            engine.run("run-1", buy)
        entries = engine.history("run-1")
    opened = entries[0]
    assert isinstance(opened, Opened)
    assert opened.at_us == instant_us(NOON)
    assert {datetime.fromtimestamp(entry.at_us / 1_000_000, UTC).date() for entry in entries if hasattr(entry, "at_us")} == {
        NOON.date()
    }
    [call] = shop.calls
    assert NOON < call.send_until < NOON + timedelta(hours=1)


def test_a_decision_tells_the_frozen_time(sqlite_url: str) -> None:
    shop.lost = 0
    with freeze_time(NOON), Engine(sqlite_url, workflows=[buy]) as engine:
        assert engine.run("run-1", buy) == (NOON, "R1")
        assert engine.recover("run-1").result() == (NOON, "R1")


@pytest.mark.parametrize(("later", "sent"), [(WINDOW - timedelta(hours=1), 2), (WINDOW, 1)])
def test_a_tick_beyond_the_window_ends_re_sending(sqlite_url: str, later: timedelta, sent: int) -> None:
    """One side of `not_after` and the other: within it the key is sent again, behind it nothing is, and a person is asked."""
    with freeze_time(NOON) as frozen, Engine(sqlite_url, workflows=[buy], budget=IMPATIENT) as engine:
        with pytest.raises(Unresolved):
            engine.run("run-1", buy)
        frozen.tick(later)
        recovered = engine.recover("run-1")
        verdict = engine.history("run-1")[-1]
    assert len(shop.calls) == sent
    if sent == 2:
        assert recovered.result() == (NOON, "R1")
    else:
        assert isinstance(recovered.error, EffectInDoubt)
        assert isinstance(verdict, Verdict)
        assert (verdict.row, verdict.at_us // 1_000_000) == ("key-expired", instant_us(NOON + later) // 1_000_000)


def test_an_engine_that_waits_goes_on_with_the_boot_clock(sqlite_url: str) -> None:
    """Nobody ticks, and the back-off of two lost replies ends all the same."""
    shop.lost = 2
    with freeze_time(NOON), Engine(sqlite_url, workflows=[buy], budget=PATIENT) as engine:
        assert engine.run("run-1", buy) == (NOON, "R1")


def test_an_event_loop_needs_its_real_time(sqlite_url: str) -> None:
    """freezegun also stops `time.monotonic`, by which an event loop sleeps: without `real_asyncio` the back-off would never end."""
    shop.lost = 2

    async def main() -> tuple[datetime, str]:
        async with AsyncEngine(sqlite_url, workflows=[abuy], budget=PATIENT) as engine:
            return await engine.run("run-1", abuy)

    with freeze_time(NOON, real_asyncio=True):
        assert asyncio.run(main()) == (NOON, "R1")


def test_an_event_loop_that_waits_for_nothing_needs_none(sqlite_url: str) -> None:
    shop.lost = 0

    async def main() -> tuple[datetime, str]:
        async with AsyncEngine(sqlite_url, workflows=[abuy]) as engine:
            return await engine.run("run-1", abuy)

    with freeze_time(NOON):
        assert asyncio.run(main()) == (NOON, "R1")


FIRST_USE = """
import sys
from datetime import UTC, datetime
from freezegun import freeze_time
from recovery import Call, Engine, Run, contracts, effect, workflow

@effect(contracts.Opaque())
def tell(call: Call, *, text: str) -> str:
    return text

@workflow
def talk(run: Run, text: str) -> datetime:
    run.perform(tell(text=text))
    return run.decide("at", lambda: datetime.now(UTC).isoformat()) and datetime.now(UTC)

with freeze_time("2030-01-01"):
    import recovery.testing, recovery.receipts
    with Engine(sys.argv[1], workflows=[talk]) as engine:
        assert engine.run("frozen", talk, "a") == datetime(2030, 1, 1, tzinfo=UTC)

with Engine(sys.argv[1], workflows=[talk]) as engine:
    assert engine.run("frozen", talk, "a") == datetime(2030, 1, 1, tzinfo=UTC)
    assert engine.run("thawed", talk, "b") < datetime(2030, 1, 1, tzinfo=UTC)
"""


def test_the_first_use_may_be_frozen(sqlite_url: str) -> None:
    """The store, its migration and everything else that is imported when it is first used; the app itself was there before."""
    done = subprocess.run([sys.executable, "-W", "error", "-c", FIRST_USE, sqlite_url], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_a_type_may_be_defined_while_the_clock_stands(sqlite_url: str) -> None:
    with freeze_time(NOON):

        @workflow
        def stamp(run: Run, given: datetime | None) -> list[datetime]:
            return [given or NOON, run.decide("at", now)]

        with Engine(sqlite_url, workflows=[stamp]) as engine:
            assert engine.run("run-1", stamp, None) == [NOON, NOON]
    with Engine(sqlite_url, workflows=[stamp]) as engine:
        assert engine.run("run-1", stamp, None) == [NOON, NOON]
