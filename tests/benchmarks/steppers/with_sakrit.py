"""sakrit: a ledger of effects, one worker, WAL and synchronous=FULL, which is its default. It has no runs: a run is the first part of a key."""

import asyncio
from itertools import count

import turns
from sakrit import ArgClass, EffectDecl, Sakrit, SqliteLedger

if turns.URL:
    raise SystemExit("it keeps its ledger in SQLite only")
sakrit = Sakrit(SqliteLedger(turns.sqlite("sakrit.db")), secret=b"a secret of this deployment")
numbers = count(1)
DECLARED = EffectDecl("step", {"number": ArgClass.IDENTITY}, provider_key_param="idempotency_key", provider_ttl_s=86_400)


def one_by_one(run, steps):
    for at in range(steps):
        wrapped = sakrit.effect(DECLARED, key=f"{run}:{at}")(step)
        wrapped(number=at)


def step(number, idempotency_key=None):
    return number


async def step_async(number, idempotency_key=None):
    return number


async def one_by_one_async(run, steps):
    for at in range(steps):
        await sakrit.effect(DECLARED, key=f"{run}:{at}")(step_async)(number=at)


def sequential(runs, steps):
    for _ in range(runs):
        one_by_one(f"run-{next(numbers)}", steps)


def concurrent(runs, steps):
    async def all_of_them():
        await asyncio.gather(*(one_by_one_async(f"run-{next(numbers)}", steps) for _ in range(runs)))

    return asyncio.run(turns.ticking(all_of_them()))


turns.serve(sequential=sequential, concurrent=concurrent)
