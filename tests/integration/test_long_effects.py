"""Long effects: heartbeats, silence, cancelling, leases and connections, through both engines."""

from __future__ import annotations

import asyncio
import threading
import time
from datetime import timedelta
from itertools import pairwise
from typing import Any

import pytest

from recovery import AsyncEngine, AsyncRun, Call, Engine, Run, contracts, effect, errors, workflow
from recovery.core.entries import AnswerKind, Observation, Source
from recovery.core.heartbeats import HEARTBEAT
from recovery.core.policy import Budget, Lease
from recovery.ports import Journal
from recovery.storage.memory import MemoryJournal
from recovery.storage.reading import read
from recovery.testing import ManualClock

from .world import QUICK, TIMEOUT, Killed, keyed

PATIENT = Budget(max_wait=None, backoff=timedelta(milliseconds=1))
LONG = timedelta(minutes=10)  # of one attempt: no test waits for it
SILENCE = timedelta(milliseconds=50)
AWAIT = 60  # seconds that a busy machine gets


def beats(journal: Journal, run_id: str = "r") -> list[Any]:
    heard = [step.heard.last for step in read(journal, run_id).history.effects]
    return [beat.progress for beat in heard if beat is not None]


def kept(journal: Journal, run_id: str = "r") -> int:
    return sum(item.kind == HEARTBEAT for item in journal.evidence(run_id))


# -- progress ----------------------------------------------------------------------------------------------------------


def test_progress_survives_the_worker_and_is_offered_to_the_next_attempt(journal: Journal) -> None:
    seen: list[Any] = []
    dies = [True]

    @effect(keyed(), timeout=LONG)
    def copy(call: Call) -> str:
        seen.append(call.last_heartbeat)
        call.heartbeat({"files": 3})
        if dies:
            dies.pop()
            raise Killed
        return "copied"

    @workflow
    def backup(run: Run) -> str:
        return run.perform(copy())

    with Engine(journal, workflows=[backup], budget=PATIENT) as engine, pytest.raises(Killed):
        engine.run("r", backup)
    assert beats(journal) == [{"files": 3}]
    with Engine(journal, workflows=[backup], budget=PATIENT) as engine:
        assert engine.run("r", backup) == "copied"
        assert [entry.answer.kind for entry in engine.history("r") if isinstance(entry, Observation)] == []
    assert seen == [None, {"files": 3}]


def test_an_attempt_in_the_same_process_gets_the_very_last_one(journal: Journal) -> None:
    seen: list[Any] = []

    @effect(keyed(), timeout=LONG)
    def copy(call: Call) -> str:
        seen.append(call.last_heartbeat)
        for number in range(100):
            call.heartbeat(number)
        if call.attempt == 1:
            raise TimeoutError
        return "copied"

    @workflow
    def backup(run: Run) -> str:
        return run.perform(copy())

    with Engine(journal, workflows=[backup], clock=ManualClock(), budget=PATIENT) as engine:
        assert engine.run("r", backup) == "copied"
    assert seen == [None, 99]
    assert kept(journal) == 3  # the first of each attempt, and the last of the one that failed; no time went by


def test_heartbeats_of_an_async_effect_are_kept_beside_the_loop(journal: Journal) -> None:
    @effect(keyed(), timeout=LONG, heartbeat=LONG)
    async def copy(call: Call) -> str:
        call.heartbeat("half")
        return "copied"

    @workflow
    async def backup(run: AsyncRun) -> str:
        return await run.perform(copy())

    async def play() -> None:
        async with AsyncEngine(journal, workflows=[backup]) as engine:
            assert await engine.run("r", backup) == "copied"

    asyncio.run(play())
    assert beats(journal) == ["half"]


@pytest.mark.parametrize("progress", [float("nan"), object(), "x" * 20_000])
def test_progress_that_cannot_be_kept_is_refused_where_it_is_said(journal: Journal, progress: Any) -> None:
    refused: list[str] = []

    @effect(contracts.Opaque(), timeout=LONG)
    def copy(call: Call) -> str:
        with pytest.raises(errors.ValueNotStorable) as raised:
            call.heartbeat(progress)
        refused.append(str(raised.value))
        return "copied"

    @workflow
    def backup(run: Run) -> str:
        return run.perform(copy())

    with Engine(journal, workflows=[backup]) as engine:
        assert engine.run("r", backup) == "copied"
    assert "heartbeat of 'copy'" in refused[0]


# -- silence -----------------------------------------------------------------------------------------------------------


def silent(journal: Journal) -> tuple[Observation, ...]:
    return tuple(entry for entry in read(journal, "r").entries if isinstance(entry, Observation))


def left_alone() -> None:
    """Wait for the threads that were left alone: what they hear is kept before their engine is closed."""
    for thread in threading.enumerate():
        if thread.name == "recovery-effect":
            thread.join(AWAIT)


def test_a_def_effect_that_falls_silent_is_given_up_and_what_it_comes_to_is_late_evidence(journal: Journal) -> None:
    goes_on, ended, told = threading.Event(), threading.Event(), list[bool]()

    @effect(contracts.Opaque(), timeout=LONG, heartbeat=SILENCE)
    def copy(call: Call) -> str:
        call.heartbeat()
        assert goes_on.wait(AWAIT)
        told.append(call.cancelled)
        ended.set()
        return "copied"

    @workflow
    def backup(run: Run) -> str:
        return run.perform(copy())

    with Engine(journal, workflows=[backup], budget=QUICK) as engine:
        with pytest.raises(errors.EffectInDoubt):
            engine.run("r", backup)
        [observation] = silent(journal)
        assert observation.answer.kind is AnswerKind.UNREACHABLE
        assert observation.answer.detail.endswith("HeartbeatMissed")
        goes_on.set()
        assert ended.wait(AWAIT)
        left_alone()
        assert engine.run("r", backup) == "copied"
    assert told == [True]


def test_an_async_effect_that_falls_silent_is_cancelled(journal: Journal) -> None:
    @effect(contracts.Opaque(), timeout=LONG, heartbeat=SILENCE)
    async def copy(call: Call) -> str:
        call.heartbeat()
        await asyncio.Event().wait()
        return "copied"

    @workflow
    async def backup(run: AsyncRun) -> str:
        return await run.perform(copy())

    async def play() -> None:
        async with AsyncEngine(journal, workflows=[backup], budget=QUICK) as engine:
            with pytest.raises(errors.EffectInDoubt):
                await engine.run("r", backup)

    asyncio.run(play())
    assert silent(journal)[0].answer.detail.endswith("HeartbeatMissed")


@pytest.mark.parametrize("is_async", [False, True])
def test_one_that_beats_may_take_many_times_its_silence(is_async: bool) -> None:
    """On a machine that is so busy that a beat comes too late, the attempt that missed it was silent in fact, and another one is made."""
    silence, pause, said = 0.3, threading.Event(), dict[int, list[float]]()

    def work(call: Call) -> str:
        times = said.setdefault(call.attempt, [])
        for number in range(20):
            times.append(time.monotonic())
            call.heartbeat(number)
            pause.wait(0.04)
        times.append(time.monotonic())
        return "copied"

    @effect(keyed(), timeout=LONG, heartbeat=timedelta(seconds=silence))
    def copy(call: Call) -> str:
        return work(call)

    @effect(keyed(), timeout=LONG, heartbeat=timedelta(seconds=silence), name="copy")
    async def async_copy(call: Call) -> str:
        return await asyncio.to_thread(work, call)

    @workflow
    def backup(run: Run) -> str:
        return run.perform(copy())

    @workflow(name="backup")
    async def async_backup(run: AsyncRun) -> str:
        return await run.perform(async_copy())

    async def play() -> str:
        async with AsyncEngine(MemoryJournal(), workflows=[async_backup], budget=PATIENT) as engine:
            return await engine.run("r", async_backup)

    if is_async:
        assert asyncio.run(play()) == "copied"
    else:
        with Engine(MemoryJournal(), workflows=[backup], budget=PATIENT) as engine:
            assert engine.run("r", backup) == "copied"
    *given_up, last = said.values()
    assert last[-1] - last[0] > 2 * silence
    assert all(max(after - before for before, after in pairwise(times)) > 0.8 * silence for times in given_up)


def test_the_total_timeout_bounds_a_def_effect_that_beats_for_ever(journal: Journal) -> None:
    goes_on = threading.Event()

    @effect(contracts.Opaque(), timeout=timedelta(milliseconds=300), heartbeat=LONG)
    def copy(call: Call) -> str:
        while not goes_on.wait(0.01):
            call.heartbeat()
        return "copied"

    @workflow
    def backup(run: Run) -> str:
        return run.perform(copy())

    with Engine(journal, workflows=[backup], budget=PATIENT) as engine:
        with pytest.raises(errors.EffectInDoubt):
            engine.run("r", backup)
        assert silent(journal)[-1].answer.detail == "TimeoutError"
        goes_on.set()
        left_alone()


# -- cancelling --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("long", [False, True])
def test_a_cancel_of_its_run_reaches_an_effect_that_looks(journal: Journal, long: bool) -> None:
    begun, stopped = threading.Event(), threading.Event()

    @effect(contracts.Opaque(), timeout=LONG, heartbeat=LONG if long else None)
    def copy(call: Call) -> str:
        begun.set()
        pause = threading.Event()
        for _ in range(100 * AWAIT):
            if call.cancelled:
                stopped.set()
                raise InterruptedError
            pause.wait(0.01)
        return "copied"

    @workflow
    def backup(run: Run) -> str:
        return run.perform(copy())

    lease = Lease(term=timedelta(seconds=30), renew_every=timedelta(milliseconds=20))
    with Engine(journal, workflows=[backup], budget=QUICK, lease=lease) as engine:

        def work() -> None:
            with pytest.raises(errors.RecoveryError):
                engine.run("r", backup)

        worker = threading.Thread(target=work)
        worker.start()
        assert begun.wait(AWAIT)
        engine.cancel("r", by="ann", reason="no longer needed")
        worker.join(AWAIT)
    assert stopped.is_set()


def test_nobody_else_cancels_it(journal: Journal) -> None:
    seen: list[bool] = []

    @effect(keyed(), timeout=TIMEOUT)
    def copy(call: Call) -> str:
        seen.append(call.cancelled)
        return "copied"

    @workflow
    def backup(run: Run) -> str:
        return run.perform(copy())

    with Engine(journal, workflows=[backup]) as engine:
        engine.run("r", backup)
    assert seen == [False]
    assert Source.LATE not in {entry.source for entry in silent(journal)}
