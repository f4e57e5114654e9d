"""What workers cost where nearly everything is settled: `make bench-workers`.

Owns the making of a database with many settled runs and some open ones, and the measuring. Knows no peers. Invariant: it prints what it measured, on this machine, and
judges nothing; a benchmark is no test.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import resource
import tempfile
import threading
import time
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

from recovery import Call, Engine, Run, contracts, effect, workflow
from recovery.cli.draining import AT_ONCE, _planning, _recovering
from recovery.engine.draining import drain
from recovery.engine.working import Worker, Working
from tests.benchmarks.building import settled as copied


@effect(contracts.Keyed(window=timedelta(hours=24)))
def touch(call: Call, *, number: int) -> int:
    return number


@workflow
def small(run: Run, number: int) -> int:
    return run.perform(touch(number=number))


def filled(path: Path, settled: int, opened: int) -> Engine:
    """A database with so many settled runs, copies of one, and so many runs that are queued."""
    engine = Engine(f"sqlite:///{path}", workflows=[small])
    engine.run("settled", small, 0)
    copied(engine.journal, "settled", settled)
    for number in range(opened):
        engine.enqueue(small(number), run_id=f"open-{number}")
    return engine


def timed(work: Callable[[], Any]) -> tuple[float, float, Any]:
    """Seconds of the clock, seconds of the processor, and what came."""
    wall, cpu = time.perf_counter(), time.process_time()
    came = work()
    return time.perf_counter() - wall, time.process_time() - cpu, came


def resident_kb() -> int:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize() // 1024


def idle(engine: Engine, seconds: float) -> dict[str, Any]:
    """A worker that finds nothing: its looks, its time on the processor, and what its memory grew by."""
    looks: list[None] = []
    due = engine.journal.claim_due

    def counted(*arguments: Any, **named: Any) -> Any:
        looks.append(None)
        return due(*arguments, **named)

    engine.journal.claim_due = counted  # type: ignore[method-assign]  # measured, not changed
    worker = Worker(engine, Working())
    threading.Timer(seconds, worker.stop).start()
    before = resident_kb()
    wall, cpu, _ = timed(worker.work)
    del engine.journal.claim_due
    return {"seconds": round(wall, 2), "looks": len(looks), "processor_ms": round(cpu * 1000, 1), "grew_kb": resident_kb() - before}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--settled", type=int, default=100_000)
    parser.add_argument("--open", type=int, default=1_000)
    parser.add_argument("--at-once", type=int, default=AT_ONCE)
    parser.add_argument("--idle", type=float, default=10)
    given = parser.parse_args()
    measured: dict[str, Any] = {"settled": given.settled, "open": given.open, "processors": os.cpu_count()}
    with tempfile.TemporaryDirectory() as directory:
        engine = filled(Path(directory) / "plan.db", given.settled, given.open)
        gc.collect()
        gc.freeze()  # as the command and the worker do
        for name, bring in (
            ("plan_all", _planning(engine, probe=True)),
            ("recover_all", _recovering(engine, timedelta(0), given.at_once)),
        ):
            wall, cpu, came = timed(lambda bring=bring: drain(engine, bring))  # type: ignore[misc]
            measured[name] = {"runs": len(came.brought), "seconds": round(wall, 3), "processor_seconds": round(cpu, 3)}
            measured[name]["runs_per_second"] = round(len(came.brought) / wall)
        wall, cpu, came = timed(lambda: drain(engine, bring))
        measured["nothing_open"] = {"runs": len(came.brought), "milliseconds": round(wall * 1000, 2)}
        measured["idle_worker"] = idle(engine, given.idle)
        for name in ("worker", "worker_again"):  # the second time everything that it needs is there
            for number in range(given.open):
                engine.enqueue(small(number), run_id=f"{name}-{number}")
            before = resident_kb()
            wall, cpu, _ = timed(Worker(engine, Working(until_idle=True)).work)
            measured[name] = {
                "runs": given.open, "seconds": round(wall, 3), "processor_seconds": round(cpu, 3), "grew_kb": resident_kb() - before,
                "runs_per_second": round(given.open / wall),
            }  # fmt: skip
        engine.close()
    print(json.dumps(measured, indent=2))


if __name__ == "__main__":
    main()
