"""recovery: a keyed effect for each step. By default its outcome rides: it becomes durable with the run's next commit. Strict: before the next step begins."""

import asyncio
import os
import threading
from datetime import timedelta
from itertools import count

import turns

from recovery import AsyncEngine, AsyncRun, Call, Engine, Environment, Run, contracts, effect, workflow
from recovery.storage.migrate import migrate

SAID = {"riding": None} if os.environ.get("BENCH_STRICT") else {}
"""Riding is the default."""
KEYED, NOWHERE = contracts.Keyed(window=timedelta(days=1)), Environment("nowhere")
URL = turns.URL or f"sqlite:///{turns.sqlite('journal.db')}"
PAYLOAD = "-" * int(os.environ.get("BENCH_BYTES", "0"))
"""What each step returns beside its number: characters."""
numbers = (f"run-{os.environ.get('BENCH_WORKER', '')}{number}" for number in count(1))


@effect(KEYED, environment=NOWHERE)
def step(call: Call, *, number: int) -> str:
    return f"{number}{PAYLOAD}"


@effect(KEYED, environment=NOWHERE, name="step")
async def step_async(call: Call, *, number: int) -> str:
    return f"{number}{PAYLOAD}"


@workflow
def steps_one_by_one(run: Run, steps: int) -> int:
    for number in range(steps):
        run.perform(step(number=number))
    return steps


@workflow(name="steps_one_by_one")
async def steps_one_by_one_async(run: AsyncRun, steps: int) -> int:
    for number in range(steps):
        await run.perform(step_async(number=number))
    return steps


if turns.URL:
    migrate(URL)  # on a server a person does this
engine = Engine(URL, workflows=[steps_one_by_one], **SAID)


def sequential(runs, steps):
    for _ in range(runs):
        engine.run(next(numbers), steps_one_by_one, steps)


def concurrent(runs, steps):
    async def together():
        async with AsyncEngine(URL, workflows=[steps_one_by_one_async], **SAID) as made:

            async def all_of_them():
                names = [next(numbers) for _ in range(runs)]
                await asyncio.gather(*(made.run(name, steps_one_by_one_async, steps) for name in names))

            return await turns.ticking(all_of_them())

    return asyncio.run(together()) | {"peak": turns.peak_mb()}


def replayed(runs, steps):
    """Runs of before, each found settled: its whole journal is read and verified."""
    for number in range(1, runs + 1):
        assert len(engine.history(f"run-{number}")) > steps


def idle_loop(runs, steps):
    """A loop with nothing to do beside one thread that keeps the interpreter busy: what no program in Python can be better than."""
    ended = threading.Event()

    def busy():
        while not ended.is_set():
            sum(range(1000))

    async def beside():
        thread = threading.Thread(target=busy)
        thread.start()
        found = await turns.ticking(asyncio.sleep(1))
        ended.set()
        thread.join()
        return found

    return asyncio.run(beside())


turns.serve(sequential=sequential, concurrent=concurrent, replayed=replayed, idle_loop=idle_loop)
