"""Deadlines and timeouts, as a user of Engine and AsyncEngine meets them: journaled once, they bound what begins in their scope, and what they cut
off is unknown and not failed."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest

from recovery import AsyncEngine, AsyncRun, Call, Deadline, Engine, Run, contracts, effect, errors, workflow
from recovery.core.entries import AnswerKind, Intent, Observation, Settled
from recovery.core.policy import Budget
from recovery.ports import Journal
from recovery.testing import ManualClock

from .world import DAY, QUICK, TIMEOUT, Shop, keyed, once

MINUTE = timedelta(minutes=1)
PATIENT = Budget(max_wait=None, backoff=timedelta(milliseconds=1))


def of(kind: type[Any], engine: Engine, run_id: str) -> list[Any]:
    return [entry for entry in engine.history(run_id) if isinstance(entry, kind)]


# -- deadlines ---------------------------------------------------------------------------------------------------------


def test_w4_a_deadline_is_journaled_once_and_a_crash_does_not_move_it(journal: Journal) -> None:
    clock, seen = ManualClock(), list[datetime]()

    @workflow
    def order(run: Run) -> str:
        with run.deadline(10 * MINUTE) as deadline:
            seen.append(deadline.at)
            run.sleep(3 * MINUTE)
        return deadline.at.isoformat()

    with Engine(journal, workflows=[order], clock=clock, budget=QUICK) as engine:
        with pytest.raises(errors.TimerPending):
            engine.run("r", order)
        clock.advance(4 * MINUTE)
        assert engine.run("r", order) == seen[0].isoformat()
    assert len(set(seen)) == 1
    assert len(seen) == 2


def test_a_wait_ends_with_the_deadline_of_its_scope_and_says_so_in_every_replay(journal: Journal) -> None:
    clock = ManualClock()

    @workflow
    def order(run: Run) -> str:
        try:
            with run.deadline(10 * MINUTE, name="by-ten"):
                run.sleep(60 * MINUTE)
        except errors.DeadlinePassed as passed:
            run.sleep(MINUTE)
            return passed.deadline
        return "slept"

    with Engine(journal, workflows=[order], clock=clock, budget=QUICK) as engine:
        for after in (10 * MINUTE, MINUTE):
            with pytest.raises(errors.TimerPending):
                engine.run("r", order)
            clock.advance(after)
        assert engine.run("r", order) == "by-ten#1"


def test_an_uncaught_deadline_fails_the_run_with_what_to_do(journal: Journal) -> None:
    @workflow
    def order(run: Run) -> None:
        with run.deadline(timedelta(0)):
            run.sleep(MINUTE)

    with Engine(journal, workflows=[order]) as engine, pytest.raises(errors.RunFailed) as failed:
        engine.run("r", order)
    assert failed.value.error == "recovery.errors.DeadlinePassed"
    assert "deadline#1" in failed.value.message


def test_an_effect_begun_behind_the_deadline_is_never_sent(journal: Journal) -> None:
    shop = Shop()
    reserve = shop.effect(keyed())

    @workflow
    def order(run: Run) -> str:
        try:
            with run.deadline(timedelta(0)):
                return str(run.perform(reserve(units=2)))
        except errors.DeadlinePassed as passed:
            return passed.fate

    with Engine(journal, workflows=[order]) as engine:
        told = engine.run("r", order)
        assert told == engine.run("r", order)
        [settled, _] = of(Settled, engine, "r")
    assert "proven not executed" in told
    assert settled.row == "never-sent"
    assert shop.sent == {}


def test_no_attempt_lasts_longer_than_the_deadline_of_its_scope(journal: Journal) -> None:
    clock, seen = ManualClock(), list[tuple[datetime, float]]()

    @effect(keyed(), timeout=TIMEOUT)
    def reserve(call: Call) -> str:
        seen.append((call.send_until, call.remaining_seconds()))
        return call.key

    @workflow
    def order(run: Run) -> str:
        with run.deadline(datetime.fromtimestamp(clock.wall_us() / 1_000_000, UTC) + timedelta(seconds=7)) as deadline:
            run.perform(reserve())
        run.perform(reserve())
        return deadline.at.isoformat()

    with Engine(journal, workflows=[order], clock=clock) as engine:
        ends = engine.run("r", order)
        bounded, free = of(Intent, engine, "r")
    assert seen[0] == (datetime.fromisoformat(ends), 7)
    assert seen[1][1] == TIMEOUT.total_seconds()
    assert bounded.valid_until_us == bounded.deadline_us == bounded.attempt.send_until_us
    assert (free.valid_until_us, free.deadline_us) == (None, None)


def test_branches_begun_in_a_scope_are_bounded_by_it_and_the_run_behind_it_is_not(journal: Journal) -> None:
    clock = ManualClock()

    def late(run: Run) -> str:
        try:
            run.sleep(20 * MINUTE)
        except errors.DeadlinePassed:
            return "cut off"
        return "slept"

    @workflow
    def order(run: Run) -> list[str]:
        with run.deadline(10 * MINUTE):
            told = [*run.gather(late, late)]
        return [*told, late(run)]

    with Engine(journal, workflows=[order], clock=clock, budget=PATIENT) as engine:
        assert engine.run("r", order) == ["cut off", "cut off", "slept"]


def test_the_earlier_of_two_scopes_counts(journal: Journal) -> None:
    @workflow
    def order(run: Run) -> str:
        with run.deadline(MINUTE, name="outer"):
            try:
                with run.deadline(DAY, name="inner"):
                    run.sleep(2 * MINUTE)
            except errors.DeadlinePassed as passed:
                return passed.deadline
        return ""

    with Engine(journal, workflows=[order], clock=ManualClock(), budget=PATIENT) as engine:
        assert engine.run("r", order) == "outer#1"


def test_an_async_workflow_sets_its_deadline_in_both_ways(journal: Journal) -> None:
    clock = ManualClock()

    @workflow
    async def order(run: AsyncRun) -> list[str]:
        told = []
        try:
            async with run.deadline(MINUTE) as deadline:
                assert isinstance(deadline, Deadline)
                await run.sleep(2 * MINUTE)
        except errors.DeadlinePassed as passed:
            told.append(passed.step)
        second = await run.deadline(MINUTE)
        try:
            with second:
                await run.gather(lambda b: b.sleep(2 * MINUTE))
        except errors.DeadlinePassed as passed:
            told.append(passed.deadline)
        return told

    async def play() -> list[str]:
        async with AsyncEngine(journal, workflows=[order], clock=clock, budget=PATIENT) as engine:
            assert await engine.run("r", order) == await engine.run("r", order)
            return await engine.run("r", order)

    assert asyncio.run(play()) == ["sleep#1", "deadline#2"]


def test_a_moment_beyond_all_names_is_the_nearest_that_has_one(journal: Journal) -> None:
    """Arithmetic with the ends of time is no failure of a run, let alone a final one."""
    west, east = timezone(timedelta(hours=-12)), timezone(timedelta(hours=12))

    @workflow
    def ends_of_time(run: Run) -> list[str]:
        bounds = [timedelta.min, timedelta.max, datetime.min.replace(tzinfo=east), datetime.max.replace(tzinfo=west)]
        found = [run.deadline(bound).at.isoformat()[:4] for bound in bounds]
        run.sleep_until(datetime.min.replace(tzinfo=east))
        return found

    with Engine(journal, workflows=[ends_of_time], clock=ManualClock()) as engine:
        assert engine.run("r", ends_of_time) == ["0001", "3025", "0001", "9999"]


def test_a_deadline_without_a_time_zone_is_refused_before_anything_happened(journal: Journal) -> None:
    @workflow
    def order(run: Run) -> None:
        run.deadline(datetime(2030, 1, 1))  # noqa: DTZ001  # the mistake

    with Engine(journal, workflows=[order]) as engine, pytest.raises(errors.DefinitionError, match=r"run\.deadline"):
        engine.run("r", order)


# -- timeouts ----------------------------------------------------------------------------------------------------------


def told(history: Any) -> list[AnswerKind]:
    return [entry.answer.kind for entry in history if isinstance(entry, Observation)]


def test_a_timeout_of_a_def_effect_means_unknown_and_not_failed(journal: Journal) -> None:
    @effect(contracts.Opaque(), timeout=TIMEOUT)
    def post(call: Call) -> str:
        raise TimeoutError  # as a client library does that was given `call.remaining_seconds()`

    @workflow
    def order(run: Run) -> str:
        return run.perform(post())

    with Engine(journal, workflows=[order], budget=QUICK) as engine:
        with pytest.raises(errors.EffectInDoubt):
            engine.run("r", order)
        assert told(engine.history("r")) == [AnswerKind.UNREACHABLE]


def test_a_timeout_of_a_def_effect_that_did_it_is_found_by_the_same_key(journal: Journal) -> None:
    shop = Shop(fail=once(TimeoutError()))
    reserve = shop.effect(keyed())

    @workflow
    def order(run: Run) -> int:
        return run.perform(reserve(units=2), key="k")

    with Engine(journal, workflows=[order], budget=PATIENT) as engine:
        assert engine.run("r", order) == 1
    assert (shop.executions["k"], shop.sent["k"]) == (1, 2)


def test_an_async_effect_is_cut_off_at_its_timeout_and_is_unknown(journal: Journal) -> None:
    cut = []

    @effect(contracts.Opaque(), timeout=timedelta(milliseconds=200))  # where a busy machine takes longer to send, nothing leaves
    async def post(call: Call) -> str:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            cut.append(call.attempt)
            raise
        return call.key

    @workflow
    async def order(run: AsyncRun) -> str:
        return await run.perform(post())

    async def play() -> None:
        async with AsyncEngine(journal, workflows=[order], budget=PATIENT) as engine:
            with pytest.raises(errors.EffectInDoubt):
                await engine.run("r", order)
            assert told(await engine.history("r"))[-1] is AnswerKind.UNREACHABLE

    asyncio.run(play())
    assert len(cut) == 1
