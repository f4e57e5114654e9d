"""Rates of environments: attempts wait until one may be made, by the clock of the engine, on every store."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from recovery import AsyncEngine, AsyncRun, Budget, Call, Engine, Environment, Rate, Retry, Run, contracts, effect, workflow
from recovery.core.effect_errors import Unresolved
from recovery.core.entries import Attempt, Entry, Intent, Status, Verdict
from recovery.core.errors import DefinitionError, RunFailed
from recovery.core.instants import iso
from recovery.engine.working import Working
from recovery.ports import Journal
from recovery.testing import ManualClock
from tests.integration.test_workers import do, working

MINUTE = timedelta(minutes=1)
MINUTE_US = 60_000_000
SCOPES = ["here"]
mail_service = Environment("mail", scope=lambda: SCOPES[0], rate=Rate(2, per=MINUTE))
slow_service = Environment("slow", rate=Rate(1, per=MINUTE))
quick_service = Environment("quick", rate=Rate(1, per=timedelta(milliseconds=200)))
keyed = contracts.Keyed(window=timedelta(hours=24))

SENT: list[str] = []
FAILING: list[str] = []


@effect(keyed, environment=mail_service, timeout=timedelta(seconds=10))
def send(call: Call, *, to: str) -> str:
    SENT.append(to)
    return f"sent to {to}"


@effect(keyed, environment=slow_service, timeout=timedelta(seconds=10))
def post(call: Call, *, to: str) -> str:
    SENT.append(f"{to} {call.attempt}")
    if to in FAILING:
        FAILING.remove(to)
        raise ConnectionError("lost")
    return f"posted to {to}"


@effect(contracts.Keyed(window=timedelta(hours=24), valid_for=timedelta(seconds=30)), environment=slow_service)
def offer(call: Call, *, to: str) -> str:
    SENT.append(to)
    return to


@effect(keyed, environment=quick_service)
def ping(call: Call, *, to: str) -> str:
    SENT.append(to)
    return to


@workflow
def letters(run: Run, people: list[str]) -> list[str]:
    return [run.perform(send(to=person)) for person in people]


@workflow(name="letters")
async def async_letters(run: AsyncRun, people: list[str]) -> list[str]:
    return [await run.perform(send(to=person)) for person in people]


@workflow
def parcel(run: Run, to: str) -> str:
    return run.perform(post(to=to))


@workflow
def offers(run: Run, to: str) -> str:
    run.perform(post(to=to))
    return run.perform(offer(to=to))


@workflow
def retried(run: Run, to: str) -> str:
    run.perform(post(to=to))
    return run.perform(post(to=to), retry=Retry(within=timedelta(seconds=30)))


@workflow
def pinging(run: Run, to: str) -> str:
    return run.perform(ping(to=to))


@pytest.fixture(autouse=True)
def _clean() -> Iterator[None]:
    yield
    SENT.clear()
    FAILING.clear()
    SCOPES[:] = ["here"]


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(datetime(2026, 3, 1, 12, tzinfo=UTC))


def made(journal: Journal, clock: ManualClock, max_wait: timedelta | None = timedelta(seconds=10)) -> Engine:
    return Engine(journal, workflows=[letters, parcel, offers, retried], clock=clock, budget=Budget(max_wait=max_wait))


def entries(engine: Engine, run_id: str, *kinds: type[Entry]) -> list[Any]:
    return [entry for entry in engine.history(run_id) if isinstance(entry, kinds)]


def attempts(engine: Engine, run_id: str) -> list[Attempt]:
    found = entries(engine, run_id, Intent, Attempt)
    return [each for entry in found if (each := entry.attempt if isinstance(entry, Intent) else entry) is not None]


def test_a_wait_beyond_the_calls_patience_leaves_the_run_until_the_next_may_leave(journal: Journal, clock: ManualClock) -> None:
    engine = made(journal, clock)
    began_us = clock.wall_us()
    with pytest.raises(Unresolved, match="rate-limited") as left:
        engine.run("r", letters, ["a", "b", "c"])
    assert left.value.next_look == iso(began_us + MINUTE_US)
    row = journal.find("r")
    assert row is not None
    assert (row.status, row.next_look_us, row.owner) == (Status.WAITING, began_us + MINUTE_US, None)
    assert SENT == ["a", "b"]
    assert len(attempts(engine, "r")) == 2
    [put_off] = entries(engine, "r", Verdict)
    assert (put_off.step, put_off.action, put_off.reason, put_off.row) == ("send#3", "wait", "rate-limited", "first-send")
    again = engine.recover("r")
    assert (again.status, journal.find("r").head) == (Status.WAITING, row.head)  # type: ignore[union-attr]  # I7
    clock.advance(MINUTE)
    assert engine.recover("r").result() == ["sent to a", "sent to b", "sent to c"]
    assert SENT == ["a", "b", "c"]
    last = attempts(engine, "r")[-1]
    assert last.sent_at_us == began_us + MINUTE_US
    assert last.send_until_us == last.sent_at_us + 10_000_000  # its deadline begins behind the wait


def test_within_the_calls_patience_it_is_waited_for_and_nothing_is_noted(journal: Journal, clock: ManualClock) -> None:
    engine = made(journal, clock, None)
    began_us = clock.wall_us()
    engine.run("r", letters, list("abcde"))
    assert [each.sent_at_us - began_us for each in attempts(engine, "r")] == [0, 0, MINUTE_US, MINUTE_US, 2 * MINUTE_US]
    assert entries(engine, "r", Verdict) == []


def test_both_colours_wait_alike(journal: Journal, clock: ManualClock) -> None:
    engine = AsyncEngine(journal, workflows=[async_letters], clock=clock, budget=Budget(max_wait=None))
    began_us = clock.wall_us()
    assert do(engine.run("r", async_letters, list("abc"))) == ["sent to a", "sent to b", "sent to c"]
    assert clock.wall_us() >= began_us + MINUTE_US


def test_all_workers_of_a_database_take_of_one_rate_and_each_scope_has_its_own(journal: Journal, clock: ManualClock) -> None:
    first, second = made(journal, clock), made(journal, clock)
    first.run("a", letters, ["a"])
    second.run("b", letters, ["b"])
    with pytest.raises(Unresolved):
        first.run("c", letters, ["c"])
    SCOPES[:] = ["elsewhere"]
    second.run("d", letters, ["d"])
    assert SENT == ["a", "b", "d"]


def test_a_replay_takes_nothing(journal: Journal, clock: ManualClock) -> None:
    engine = made(journal, clock)
    engine.run("a", letters, ["a"])
    for _ in range(5):
        engine.run("a", letters, ["a"])
        engine.recover("a")
    engine.run("b", letters, ["b"])
    assert SENT == ["a", "b"]


def test_who_is_put_off_comes_one_after_the_other(journal: Journal, clock: ManualClock) -> None:
    engine = made(journal, clock)
    engine.run("r", letters, ["a", "b"])
    began_us = clock.wall_us()
    for name in "cdefg":
        with pytest.raises(Unresolved):
            engine.run(name, letters, [name])
    looks = [journal.find(name).next_look_us - began_us for name in "cdefg"]  # type: ignore[union-attr,operator]
    assert looks == [MINUTE_US + each * MINUTE_US // 2 for each in range(5)]


def test_a_further_attempt_waits_too(journal: Journal, clock: ManualClock) -> None:
    FAILING.append("ann")
    engine = made(journal, clock, None)
    engine.run("r", parcel, "ann")
    first, second = attempts(engine, "r")
    assert second.sent_at_us - first.sent_at_us == MINUTE_US
    assert SENT == ["ann 1", "ann 2"]


def test_a_cancel_ends_the_wait_and_nothing_is_sent(journal: Journal, clock: ManualClock) -> None:
    engine = made(journal, clock)
    engine.run("r", parcel, "ann")
    with pytest.raises(Unresolved):
        engine.run("s", parcel, "ben")
    assert engine.cancel("s", by="ann", reason="too late").status is Status.CANCELLED
    assert SENT == ["ann 1"]


def test_what_may_not_leave_any_more_behind_the_wait_does_not(journal: Journal, clock: ManualClock) -> None:
    engine = made(journal, clock, None)
    began_us = clock.wall_us()
    with pytest.raises(RunFailed, match="NotExecuted"):
        engine.run("r", offers, "ann")
    assert SENT == ["ann 1"]
    assert clock.wall_us() <= began_us + MINUTE_US  # at the end of its validity, and not of the wait


def test_a_wait_ends_when_its_policy_lets_no_attempt_begin_any_more(journal: Journal, clock: ManualClock) -> None:
    engine = made(journal, clock, None)
    began_us = clock.wall_us()
    with pytest.raises(RunFailed, match="RetriesExhausted"):
        engine.run("r", retried, "ann")
    assert SENT == ["ann 1"]
    assert clock.wall_us() < began_us + MINUTE_US


def test_workers_bring_on_what_was_put_off(journal: Journal) -> None:
    engine = Engine(journal, workflows=[pinging])
    for number in range(4):
        engine.enqueue(pinging(f"p{number}"), run_id=f"p{number}")
    how = Working(poll=timedelta(hours=1), keep=timedelta(0), concurrency=4)
    with working(engine, how) as (_, told):
        for number in range(4):
            told.until("brought on", run_id=f"p{number}", status="completed")
    assert sorted(SENT) == ["p0", "p1", "p2", "p3"]


def test_a_rate_that_is_none_is_refused() -> None:
    with pytest.raises(DefinitionError, match="its rate is an int"):
        Environment("mail", rate=5)  # type: ignore[arg-type]


def test_killed_anywhere_it_keeps_its_promises(crash_everywhere: Any) -> None:
    crash_everywhere(parcel, "ann", effects={post: lambda to: f"posted to {to}"})
