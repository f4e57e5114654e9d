"""A worker with one effect that lasts until a file is there, and a lease that is much shorter.

    python long_worker.py URL COLOUR

It notes in its directory that the effect has begun, and each time that it was done. An `async def` body blocks its event loop on purpose: the lease is kept
alive by nothing that user code can stop.
"""

from __future__ import annotations

import asyncio
import sys
import time
from datetime import timedelta
from pathlib import Path

from recovery import AsyncEngine, AsyncRun, Call, Engine, Environment, Lease, Run, contracts, effect, workflow

TERM = timedelta(seconds=4)
LEASE = Lease(term=TERM, renew_every=timedelta(milliseconds=100))
RUN = "r"
opaque, house = contracts.Opaque(), Environment("house")


def block(call: Call) -> str:
    Path("begun").touch()
    while not Path("go").exists():
        time.sleep(0.01)
    with Path("done").open("a") as done:
        done.write(f"{call.epoch}\n")
    return "done"


@effect(opaque, environment=house, timeout=timedelta(minutes=10))
def last(call: Call) -> str:
    return block(call)


@effect(opaque, environment=house, timeout=timedelta(minutes=10), name="last")
async def async_last(call: Call) -> str:
    return block(call)


@workflow
def work(run: Run) -> str:
    return run.perform(last())


@workflow(name="work")
async def async_work(run: AsyncRun) -> str:
    return await run.perform(async_last())


async def awaited(url: str) -> str:
    async with AsyncEngine(url, workflows=[async_work], lease=LEASE) as engine:
        return await engine.run(RUN, async_work)


def main(url: str, colour: str) -> None:
    if colour == "async":
        print(asyncio.run(awaited(url)))
        return
    with Engine(url, workflows=[work], lease=LEASE) as engine:
        print(engine.run(RUN, work))


if __name__ == "__main__":
    main(*sys.argv[1:])
