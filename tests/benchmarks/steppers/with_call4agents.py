"""call4agents: a ledger of effects within a run, WAL and synchronous=FULL, which is its default."""

import asyncio
from itertools import count

import call4agents
import turns

call4agents.init(turns.URL or turns.sqlite("ledger.sqlite"), b"a secret of this deployment")
numbers = count(1)


@call4agents.effect(name="step", idempotent_for=86_400)
def step(number):
    return number


@call4agents.effect(name="step", idempotent_for=86_400)
async def step_async(number):
    return number


def sequential(runs, steps):
    for _ in range(runs):
        with call4agents.run(f"run-{next(numbers)}"):
            for number in range(steps):
                step(number)


async def one_by_one(run, steps):
    with call4agents.run(run):
        for number in range(steps):
            await step_async(number)


def concurrent(runs, steps):
    async def all_of_them():
        await asyncio.gather(*(one_by_one(f"run-{next(numbers)}", steps) for _ in range(runs)))

    return asyncio.run(turns.ticking(all_of_them()))


turns.serve(sequential=sequential, concurrent=concurrent)
