"""Ordering by what the server says, not by sleeping: wait until one backend really waits for another."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import psycopg

SECONDS_MAX = 60.0


def wait_for(condition: Callable[[], bool], what: str) -> None:
    """Poll until it holds; fail after a bounded time."""
    until = time.monotonic() + SECONDS_MAX
    pause = threading.Event()
    while not condition():
        assert time.monotonic() < until, f"never happened: {what}"
        pause.wait(0.002)


def wait_until_blocked_by(watcher: psycopg.Connection, pid: int) -> None:
    """Until some backend waits for a lock that backend `pid` holds."""

    def blocked() -> bool:
        query = "SELECT count(*) FROM pg_stat_activity WHERE %s = ANY (pg_blocking_pids(pid))"
        row = watcher.execute(query, (pid,)).fetchone()
        return row is not None and row[0] > 0

    wait_for(blocked, f"a backend waiting for {pid}")


def in_thread(call: Callable[[], Any]) -> Future[Any]:
    """Start a call that is expected to block."""
    pool = ThreadPoolExecutor(max_workers=1)
    started = pool.submit(call)
    pool.shutdown(wait=False)
    return started


def together(calls: list[Callable[[], Any]]) -> list[Any]:
    """Start all calls at one barrier, in threads; their results in order."""
    barrier = threading.Barrier(len(calls))

    def at_barrier(call: Callable[[], Any]) -> Any:
        barrier.wait(SECONDS_MAX)
        return call()

    with ThreadPoolExecutor(max_workers=len(calls)) as pool:
        return [future.result(60) for future in [pool.submit(at_barrier, call) for call in calls]]
