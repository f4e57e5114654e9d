"""The app of `test_crowd`, copied into a directory of its own: a service that keeps receipts in files, and runs whose first worker dies with all of them under way.

`python crowd.py RUNS` is that worker.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import threading
from datetime import timedelta
from pathlib import Path

from recovery import AsyncEngine, AsyncRun, Call, Environment, contracts, effect, workflow

URL, GATE = "CROWD_DB", "gate"
_under_way: list[str] = []


def append(name: str, line: str) -> None:
    with Path(name).open("a") as file:
        file.write(f"{line}\n")


def is_new(name: str) -> bool:
    try:
        Path(name).touch(exist_ok=False)
    except FileExistsError:
        return False
    return True


@effect(contracts.Keyed(window=timedelta(hours=24)), environment=Environment("files", scope="here"))
async def book(call: Call, *, number: int) -> int:
    append("sent", call.key)
    if not is_new(f"receipt-{number}"):
        return number
    append("done", call.key)
    _under_way.append(call.key)
    if len(_under_way) == int(sys.argv[-1]):
        os.kill(os.getpid(), signal.SIGKILL)
    await asyncio.Event().wait()
    raise AssertionError("nobody answers the first worker")


@workflow
async def order(run: AsyncRun, number: int) -> int:
    return await run.perform(book(number=number))


def wait_for_the_others() -> None:
    """While there is a gate, whoever comes says that it is there, and waits."""
    if Path(GATE).exists():
        Path(f"ready-{os.getpid()}").touch()
    while Path(GATE).exists():
        threading.Event().wait(0.01)


wait_for_the_others()
engine = AsyncEngine(os.environ.get(URL, "memory://"), workflows=[order])


async def begin(runs: int) -> None:
    async with engine:
        await asyncio.gather(*(engine.run(f"order-{number}", order, number) for number in range(runs)))


if __name__ == "__main__":
    asyncio.run(begin(int(sys.argv[-1])))
