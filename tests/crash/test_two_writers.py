"""Two writers of one run inside one process: a thread that was overtaken while its effect was under way, and its successor."""

from __future__ import annotations

import json
from concurrent.futures import Future, ThreadPoolExecutor
from datetime import timedelta
from threading import Event

from recovery import Call, Engine, Run, contracts, effect, workflow
from recovery.core.entries import Observation, Source, decode
from recovery.core.errors import FencedOut
from recovery.ports import Journal
from recovery.testing.pieces import in_one_piece
from tests.crash.silence import silent

WAIT_SECONDS = 30
# Overtaken after 0.2 s of silence, and silent from the start.
SHORT = silent(timedelta(seconds=0.2))


def test_a_superseded_thread_appends_nothing_and_leaves_one_piece_of_evidence(journal: Journal) -> None:
    under_way, overtaken = Event(), Event()
    calls: list[str] = []

    @effect(contracts.Keyed(window=timedelta(hours=24)))
    def charge(call: Call) -> int:
        calls.append(call.key)
        if len(calls) == 1:
            under_way.set()
            assert overtaken.wait(WAIT_SECONDS)
        return 7

    @workflow
    def pay(run: Run) -> int:
        return run.perform(charge())

    with (
        ThreadPoolExecutor(1) as pool,
        Engine(journal, workflows=[pay], lease=SHORT, wait_for_owner=timedelta(seconds=WAIT_SECONDS)) as engine,
    ):
        stale: Future[int] = pool.submit(engine.run, "run-1", pay)
        assert under_way.wait(WAIT_SECONDS)
        assert engine.recover("run-1").result() == 7
        before = in_one_piece(journal, "run-1")
        overtaken.set()
        refused = stale.exception(WAIT_SECONDS)
        assert isinstance(refused, FencedOut)
        assert refused.ours == "0.1"
        assert refused.epoch == "0.2"
        assert in_one_piece(journal, "run-1") == before
        assert len(set(calls)) == 1  # one key, which the environment sees twice and executes once

        for _ in range(2):  # whoever asks again gets the outcome, and the evidence is not doubled
            assert pool.submit(engine.run, "run-1", pay).result(WAIT_SECONDS) == 7
        [kept] = journal.evidence("run-1")
        observation = decode(kept.kind, json.loads(kept.body))
        assert isinstance(observation, Observation)
        assert (observation.source, str(kept.epoch), observation.answer.value) == (Source.LATE, "0.1", 7)
        assert in_one_piece(journal, "run-1") == before
