"""What a program is asked to do, and how it says how long it took: one line of JSON each way. Standard library only, for any environment.

    python with_NAME.py DIRECTORY [URL]

DIRECTORY: for its files. URL: of PostgreSQL; without it the program keeps its records in SQLite, in DIRECTORY. It says {"ready": true} when it could begin, then
answers each {"turn": ..., "runs": R, "steps": S}. Invariant: every step is a function that returns its number and does nothing else.
"""

from __future__ import annotations

import asyncio
import gc
import json
import os
import resource
import statistics
import sys
import time
from collections.abc import Callable
from typing import Any

DIRECTORY, URL = sys.argv[1], sys.argv[2] if len(sys.argv) > 2 else ""
TICK_SECONDS = 0.001

Turn = Callable[[int, int], "dict[str, Any] | None"]


def sqlite(name: str) -> str:
    return f"{DIRECTORY}/{name}"


def serve(**turns: Turn) -> None:
    """Until this process is killed, or standard input ends. A turn returns more to be said, or nothing. What is imported is taken out of the collector's
    sight, for all programs alike, as `recover worker` does: once before the first turn and once behind it, since all of them import things when they first use them."""
    _out_of_sight()
    _say({"ready": True, "turns": sorted(turns)})
    for taken, line in enumerate(sys.stdin):
        asked = json.loads(line)
        spent, began = _spent(), time.perf_counter()
        more = turns[asked["turn"]](asked["runs"], asked["steps"]) or {}
        _say({"seconds": time.perf_counter() - began, "processor": _spent() - spent} | more)
        if taken == 0:
            _out_of_sight()
    os._exit(0)  # no background thread of a library holds it up


async def ticking(work: Any) -> dict[str, float]:
    """Do the work on this loop, and measure how late the loop comes to a timer meanwhile: milliseconds beyond the tick."""
    late: list[float] = []
    ended = asyncio.Event()

    async def tick() -> None:
        while not ended.is_set():
            began = time.perf_counter()
            await asyncio.sleep(TICK_SECONDS)
            late.append(1000 * (time.perf_counter() - began - TICK_SECONDS))

    ticker = asyncio.create_task(tick())
    await work
    ended.set()
    await ticker
    ordered = sorted(late)
    return {
        "stall_median": statistics.median(ordered),
        "stall_999": ordered[min(len(ordered) - 1, int(len(ordered) * 0.999))],
        "stall_most": ordered[-1],
    }


def peak_mb() -> float:
    """The most memory that this process has had, in MB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e6


def _out_of_sight() -> None:
    gc.collect()
    gc.freeze()


def _spent() -> float:
    mine, children = resource.getrusage(resource.RUSAGE_SELF), resource.getrusage(resource.RUSAGE_CHILDREN)
    return mine.ru_utime + mine.ru_stime + children.ru_utime + children.ru_stime


def _say(told: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps(told) + "\n")
    sys.stdout.flush()
