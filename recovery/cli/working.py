"""`recover worker`: works until it is told to end.

Owns signals, the words for what happens, and the exit code. Invariants: the first SIGTERM or SIGINT lets what is at work go on for as long as --drain says and hands
back the rest; the second one ends the process at once, whose runs are then found by its death; nothing but events reaches standard output.
"""

from __future__ import annotations

import gc
import json
import os
import signal
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext
from typing import Any

from recovery.cli.health import serving
from recovery.cli.output import Output
from recovery.cli.target import Target
from recovery.clocks import SystemClock
from recovery.console import words
from recovery.core.errors import AppNotFound, ExitCode
from recovery.core.instants import iso
from recovery.core.showing import shown
from recovery.engine.working import Worker, Working


def work(output: Output, target: Target, working: Working, health: int | None) -> ExitCode:
    """Work, and say what happens, one event a line. health: a port on this host's loopback, 0 for any free one."""
    if target.app is None:
        advice = "Name it with --app module:engine, RECOVERY_APP or [tool.recovery] in pyproject.toml."
        raise AppNotFound(problem="A worker runs the app's workflows, and there is no app", advice=advice)
    engine = target.engine()
    clock = SystemClock()  # the engine's may ask the database, which need not answer yet: a worker that starts in an outage waits

    def tell(event: str, about: Mapping[str, Any]) -> None:
        said = {"event": event, "at": iso(clock.wall_us()), **about}
        line = json.dumps(shown(said), ensure_ascii=False, default=str) if output.as_json else _line(event, about)
        output.verbatim(f"{line}\n")

    worker = Worker(engine, working, tell)
    gc.collect()
    gc.freeze()  # what is imported stays: looking it through again and again takes tens of milliseconds each time, in which no run goes on
    try:
        with _ended_by_signals(worker), nullcontext() if health is None else serving(worker, health) as port:
            health_port = {} if port is None else {"health_port": port}
            serves = {} if working.queues is None else {"queues": list(working.queues)}
            about = {"process": os.getpid(), "database": engine.journal.url, "concurrency": working.concurrency}
            tell("started", about | serves | health_port)
            whole = worker.work()
            tell("ended", {"left": worker.at_work})
    finally:
        if not worker.at_work:  # else their threads use it
            engine.flush()
    if not whole:
        output.stream.flush()
        os._exit(ExitCode.UNRESOLVED)  # a thread of user code cannot be ended otherwise; its runs are found by our death
    return ExitCode.SETTLED


def _line(event: str, about: Mapping[str, Any]) -> str:
    run_id = f" {words.bounded(str(about['run_id']))}" if "run_id" in about else ""
    rest = ", ".join(
        f"{name.replace('_', ' ')} {words.bounded(_said(value))}" for name, value in about.items() if name != "run_id" and value
    )
    return f"{event}{run_id}" + (f": {rest}" if rest else "")


def _said(value: Any) -> str:
    return " ".join(name or '""' for name in value) if isinstance(value, list) else str(value)


@contextmanager
def _ended_by_signals(worker: Worker) -> Iterator[None]:
    told: list[int] = []

    def end(number: int, frame: Any) -> None:  # noqa: ARG001  # a handler's signature
        if told:
            os._exit(128 + number)
        told.append(number)
        worker.stop()

    before = {number: signal.signal(number, end) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
