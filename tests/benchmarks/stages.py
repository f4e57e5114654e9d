"""`make profile`: where each microsecond of a step goes, by what the engine does there.

Owns which function belongs to which stage. Steps are taken bare, for their processor time and that of their commits, and once under cProfile, for the shares of all else: a profiler
makes Python dearer than C, so that shares of both beside each other would be wrong. Time of the standard library and of builtins is its callers'. Invariant: the stages of a line add
up to it.
"""

from __future__ import annotations

import argparse
import asyncio
import cProfile
import os
import pstats
import tempfile
import time
from collections import defaultdict
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any, Final, NamedTuple

from recovery import AsyncEngine, AsyncRun, Call, Engine, Run, contracts, effect, workflow
from recovery.ports import Append, AppendResult
from recovery.storage.committing import Committer
from tests.benchmarks.reporting import put_on_page

BEGIN, REQUEST, JUDGE, RECORD, ENCODE, DIGEST, COMMIT, CALL, OUTCOME, DRIVE, REST = STAGES = (
    "begin", "request", "judge", "record", "encode", "digest", "commit", "call", "outcome", "drive", "the rest",
)  # fmt: skip
SAYS: Final = {
    BEGIN: "the step's identity, orders and deadlines",
    REQUEST: "arguments in stored form, fingerprint, key, what is asked for",
    JUDGE: "the two judgements, and whether the outcome rides",
    RECORD: "intent, attempt, observation; the history that is kept",
    ENCODE: "entries as JSON, rows, the append",
    DIGEST: "the chain",
    COMMIT: "the store, and who commits for whom",
    CALL: "what the body is told, the body, its reply in stored form",
    OUTCOME: "the value as the workflow gets it",
    DRIVE: "operations and their carrying out, clocks, locks",
    REST: "the workflow itself, and what no other line names",
}
_FUNCTIONS: Final = {
    ("definitions/signature.py", "decode"): CALL, ("definitions/signature.py", "_misfit"): CALL, ("core/request.py", "intent"): RECORD,
    ("core/request.py", "_valid_until"): RECORD, ("drivers/session.py", "outcome"): OUTCOME, ("definitions/effect.py", "decode_value"): OUTCOME,
    ("definitions/effect.py", "returned"): CALL, ("definitions/bound.py", "invoke"): CALL, ("definitions/bound.py", "arguments"): CALL,
    ("core/machine.py", "situation"): JUDGE, ("core/execution.py", "begin"): BEGIN, ("core/execution.py", "finish"): BEGIN,
    ("drivers/loop.py", "_ask"): CALL, ("codec.py", "fingerprint"): REQUEST, ("codec.py", "canonical"): REQUEST,
    ("codec.py", "_is_simple"): REQUEST, ("core/ids.py", "derive_key"): REQUEST, ("core/ids.py", "check_step_name"): BEGIN,
    ("core/ids.py", "step_id"): BEGIN, ("core/ids.py", "of_generation"): BEGIN, ("drivers/reading.py", "fingerprint_of"): REQUEST,
}  # fmt: skip
_MODULES: Final = {
    "core/steps.py": BEGIN, "core/orders.py": BEGIN, "core/scopes.py": BEGIN, "drivers/session.py": REQUEST, "definitions/run.py": BEGIN,
    "definitions/async_run.py": BEGIN, "definitions/effect.py": REQUEST, "definitions/signature.py": REQUEST, "definitions/bound.py": REQUEST,
    "definitions/registry.py": REQUEST, "core/showing.py": REQUEST, "core/mail.py": REQUEST, "core/moving.py": REQUEST, "core/straight.py": JUDGE,
    "core/judgement.py": JUDGE, "core/evidence.py": JUDGE, "core/findings.py": JUDGE, "core/timing.py": JUDGE, "core/riding.py": JUDGE,
    "core/machine.py": RECORD, "core/ordinary.py": RECORD, "core/execution.py": RECORD, "core/history.py": RECORD, "core/request.py": RECORD, "core/resting.py": RECORD,
    "core/entries.py": ENCODE, "storage/bodies.py": ENCODE, "storage/resting.py": ENCODE, "storage/writer.py": ENCODE, "core/chain.py": DIGEST, "definitions/replies.py": CALL,
    "drivers/asking.py": CALL, "drivers/watching.py": CALL, "drivers/beating.py": CALL, "core/instants.py": CALL, "drivers/loop.py": DRIVE, "drivers/readings.py": DRIVE,
    "drivers/sync.py": DRIVE, "drivers/asynchronous.py": DRIVE, "drivers/riding.py": DRIVE, "drivers/handing.py": DRIVE, "drivers/posting.py": COMMIT, "core/operations.py": DRIVE,
    "clocks.py": DRIVE, "crashpoints.py": DRIVE,
}  # fmt: skip
Place = tuple[str, int, str]


@effect(contracts.Keyed(window=timedelta(days=1)))
def step(call: Call, *, number: int) -> int:
    return number


@effect(contracts.Keyed(window=timedelta(days=1)), name="step")
async def step_async(call: Call, *, number: int) -> int:
    return number


@workflow
def steps(run: Run, count: int) -> int:
    for number in range(count):
        run.perform(step(number=number))
    return count


@workflow(name="steps")
async def steps_async(run: AsyncRun, count: int) -> int:
    for number in range(count):
        await run.perform(step_async(number=number))
    return count


def stage_of(place: Place) -> str | None:
    """The stage that a function of ours belongs to; None for what is of its callers' stage."""
    path, _, function = place
    _, ours, inside = path.rpartition("/recovery/")
    if not ours:
        return None
    storage = COMMIT if inside.startswith("storage/") else None
    shared = inside in {"codec.py", "core/ids.py", "texts.py"}  # called from everywhere
    return _FUNCTIONS.get((inside, function)) or _MODULES.get(inside) or storage or (None if shared else REST)


def shares(profiled: pstats.Stats, without: Collection[str] = ()) -> dict[str, float]:
    """Each stage's part of the time, together 1. without: stages that have no part."""
    table: dict[Place, Any] = profiled.stats  # type: ignore[attr-defined]  # pstats declares none of its fields
    known: dict[Place, dict[str, float]] = {}

    def parts(place: Place, above: frozenset[Place]) -> dict[str, float]:
        """Whose time a function's own time is. above: whom this was asked for, so that what calls itself is asked once."""
        if (stage := stage_of(place)) is not None:
            return {stage: 1.0}
        if place in known:
            return known[place]
        callers = {caller: told[2] for caller, told in table[place][4].items() if caller not in above and caller != place}
        whole, found = sum(callers.values()), defaultdict[str, float](float)
        for caller, seconds in callers.items():
            for stage, part in parts(caller, above | {place}).items():
                found[stage] += part * (seconds / whole if whole else 1 / len(callers))
        known[place] = dict(found) or {REST: 1.0}
        return known[place]

    spent = defaultdict[str, float](float)
    for place, (_, _, own, _, _) in table.items():
        for stage, part in parts(place, frozenset()).items():
            spent[stage] += own * part
    whole = sum(seconds for stage, seconds in spent.items() if stage not in without)
    return {stage: 0.0 if stage in without else spent[stage] / whole for stage in STAGES}


class Spent(NamedTuple):
    """Seconds of the processor: of the thread that the steps are taken in, of that in its commits, and of all threads."""

    mine: float
    committing: float
    all: float


@contextmanager
def committing() -> Iterator[list[float]]:
    """Seconds of the processor of each commit that a thread waits for."""
    took: list[float] = []
    bare = Committer.commit

    def timed(self: Committer, append: Append) -> AppendResult:
        began = time.thread_time()
        try:
            return bare(self, append)
        finally:
            took.append(time.thread_time() - began)

    Committer.commit = timed  # type: ignore[method-assign]  # the engine's own, seen from outside
    try:
        yield took
    finally:
        Committer.commit = bare  # type: ignore[method-assign]


def taken(url: str, count: int, riding: dict[str, Any], *, is_async: bool) -> dict[str, float]:
    """Microseconds of the processor for one step, by stage. What another thread did is the commit's."""
    # of what waits for another thread the processor's time, which costs more to ask for; the other waits in its commits alone
    profiler, numbers = cProfile.Profile(*([time.thread_time] if is_async else [])), iter(range(1_000_000))

    async def in_a_loop() -> Spent:
        async with AsyncEngine(url, workflows=[steps_async], **riding) as engine:

            async def play() -> Spent:
                began = Spent(time.thread_time(), 0.0, time.process_time())
                await engine.run(f"run-{next(numbers)}", steps_async, count)
                return Spent(time.thread_time() - began.mine, 0.0, time.process_time() - began.all)

            await play()
            bare = min([await play() for _ in range(3)])
            profiler.enable()
            await play()
            profiler.disable()
            return bare

    def called() -> Spent:
        with Engine(url, workflows=[steps], **riding) as engine:

            def play() -> Spent:
                began = Spent(time.thread_time(), 0.0, time.process_time())
                with committing() as took:
                    engine.run(f"run-{next(numbers)}", steps, count)
                return Spent(time.thread_time() - began.mine, sum(took), time.process_time() - began.all)

            play()
            bare = min(play() for _ in range(3))
            profiler.runcall(engine.run, f"run-{next(numbers)}", steps, count)
            return bare

    bare = asyncio.run(in_a_loop()) if is_async else called()
    part = shares(pstats.Stats(profiler), () if is_async else {COMMIT})
    beside = {COMMIT: bare.committing + bare.all - bare.mine}
    return {stage: 1e6 * ((bare.mine - bare.committing) * part[stage] + beside.get(stage, 0)) / count for stage in STAGES}


def in_words(columns: dict[str, dict[str, float]]) -> str:
    """The table, in Markdown."""
    lines = [f"| stage | {' | '.join(columns)} | |", f"| --- | {' | '.join('---:' for _ in columns)} | --- |"]
    lines += [
        f"| {stage} | {' | '.join(f'{column[stage]:.1f}' for column in columns.values())} | {SAYS[stage]} |" for stage in STAGES
    ]
    return "\n".join(
        [*lines, f"| **together** | {' | '.join(f'{sum(column.values()):.1f}' for column in columns.values())} | |", ""]
    )


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.stages", description="Where each microsecond of a step goes.")
    parser.add_argument("--steps", type=int, default=1000)
    parser.add_argument("--page", type=Path, default=None, help="a page whose table is rewritten")
    given = parser.parse_args()
    columns: dict[str, dict[str, float]] = {}
    began = os.getloadavg()[0]
    with tempfile.TemporaryDirectory(prefix="stages-") as place:
        for name, url, riding, is_async in (
            ("memory, `def`", "memory://", {}, False),
            ("memory, `async def`", "memory://", {}, True),
            ("SQLite, riding", f"sqlite:///{place}/riding.db", {}, False),
            ("SQLite, strict", f"sqlite:///{place}/strict.db", {"riding": None}, False),
        ):
            columns[name] = taken(url, given.steps, riding, is_async=is_async)
    load = " to ".join(f"{one:.1f}" for one in sorted({began, os.getloadavg()[0]}))
    words = (
        f"Microseconds of the processor for one step; load average {load}, on {os.cpu_count()} processors.\n\n{in_words(columns)}"
    )
    print(words)
    if given.page is not None:
        put_on_page(given.page, "profile", words)


if __name__ == "__main__":
    main()
