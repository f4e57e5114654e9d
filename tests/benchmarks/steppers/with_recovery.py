"""recovery: a keyed effect for each step. By default its outcome rides: it becomes durable with the run's next commit. Strict: before the next step begins."""

import asyncio
import os
import threading
import time
from datetime import timedelta
from itertools import count

import turns

from recovery import AsyncEngine, AsyncRun, Call, Engine, Environment, Run, contracts, effect, workflow
from recovery.storage.migrate import migrate
from recovery.storage.turns import Turns
from tests.benchmarks import building

SAID = {"riding": None} if os.environ.get("BENCH_STRICT") else {}
"""Riding is the default."""
KEYED, NOWHERE = contracts.Keyed(window=timedelta(days=1)), Environment("nowhere")
URL = turns.URL or f"sqlite:///{turns.sqlite('journal.db')}"
PAYLOAD = "-" * int(os.environ.get("BENCH_BYTES", "0"))
"""What each step returns beside its number: characters."""
to_replay = []
began = []
"""When each step's body was called, by the clock that all processes of a host have."""
watching = False
"""Whether that is kept."""
numbers = (f"run-{os.environ.get('BENCH_WORKER', '')}{number}" for number in count(1))


@effect(KEYED, environment=NOWHERE)
def step(call: Call, *, number: int) -> str:
    if watching:
        began.append(time.monotonic())
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


def watched(runs, steps):
    """The same, with when each step was done, and how long one waited for its turn at the file at most."""
    global watching
    waited = [0.0]
    enter = Turns.__enter__

    def timed(turns):
        asked = time.monotonic()
        enter(turns)
        waited.append(time.monotonic() - asked)

    Turns.__enter__ = timed
    watching = True
    began.clear()
    try:
        sequential(runs, steps)
    finally:
        Turns.__enter__ = enter
        watching = False
    return {"began": began, "longest_wait": max(waited)}


def concurrent(runs, steps):
    async def together():
        async with AsyncEngine(URL, workflows=[steps_one_by_one_async], **SAID) as made:

            async def all_of_them():
                names = [next(numbers) for _ in range(runs)]
                await asyncio.gather(*(made.run(name, steps_one_by_one_async, steps) for name in names))

            return await turns.ticking(all_of_them())

    return asyncio.run(together()) | {"peak": turns.peak_mb()}


def with_a_pattern():
    if engine.journal.find("pattern") is None:
        engine.run("pattern", steps_one_by_one, 1)


def settled(runs, steps):
    """So many settled runs of one step."""
    with_a_pattern()
    building.settled(engine.journal, "pattern", runs)


def built(runs, steps):
    """Runs whose journals end behind so many steps, and whose workflows have not ended."""
    with_a_pattern()
    for _ in range(runs):
        calls, values = (step(number=number) for number in range(steps)), (f"{number}{PAYLOAD}" for number in range(steps))
        to_replay.append(next(numbers))
        building.built(engine, to_replay[-1], steps_one_by_one, {"steps": steps}, "pattern", calls, values)


def replayed(runs, steps):
    """Runs that were built: each is claimed, read, verified and replayed to its end."""
    for _ in range(runs):
        recovered = engine.recover(to_replay.pop())
        assert recovered.value == steps == len(recovered.verdicts)


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


turns.serve(
    sequential=sequential,
    watched=watched,
    concurrent=concurrent,
    settled=settled,
    built=built,
    replayed=replayed,
    idle_loop=idle_loop,
)
