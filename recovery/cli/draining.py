"""`recover --all`: every open run that can go on by itself, as far as it can be brought; with --plan what would be done about each.

Owns how one run is brought on or planned for, whichever colour the app has. Invariant: the exit code is the worst of all open runs, those included that
were left alone.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any, TypeAlias

from recovery.cli.output import Output
from recovery.cli.planning import code_of
from recovery.cli.target import Target
from recovery.core.entries import Status
from recovery.core.errors import ExitCode
from recovery.definitions.recovered import Recovered
from recovery.engine.draining import Drained
from recovery.engine.draining import drain as drained
from recovery.operators.planning import Plan
from recovery.ports import RunRow

if TYPE_CHECKING:
    from recovery.cli.target import AnyEngine

Bring: TypeAlias = Callable[[RunRow], tuple[Status, ExitCode, str]]


def drain(output: Output, target: Target, max_wait: timedelta, *, plan: bool, probe: bool) -> ExitCode:
    """Bring on, or plan for, each run that can go on; then say what came of it, and what was left alone."""
    engine = target.looking() if plan else target.engine()
    try:
        with _finishing() as finish:
            came = drained(engine, _planning(engine, finish, probe=probe) if plan else _recovering(engine, finish, max_wait))
    finally:
        engine.flush()
    from recovery.console.draining import drained as report

    output.answer(lambda: _document(came, plan=plan), lambda _: report(came, plan=plan))
    return came.exit_code


@contextmanager
def _finishing() -> Iterator[Callable[[Any], Any]]:
    """What an engine's method gave, whichever colour the engine has; all of them on one event loop."""
    with asyncio.Runner() as runner:
        yield lambda came: runner.run(came) if asyncio.iscoroutine(came) else came


def _recovering(engine: AnyEngine, finish: Callable[[Any], Any], max_wait: timedelta) -> Bring:
    budget = replace(engine.budget, max_wait=max_wait, max_answer_wait=timedelta(0))

    def bring(row: RunRow) -> tuple[Status, ExitCode, str]:
        came: Recovered[Any] = finish(engine.recover(row.run_id, wait_for_owner=timedelta(0), budget=budget))
        return came.status, came.exit_code, "" if came.error is None else str(came.error)

    return bring


def _planning(engine: AnyEngine, finish: Callable[[Any], Any], *, probe: bool) -> Bring:
    def bring(row: RunRow) -> tuple[Status, ExitCode, str]:
        made: Plan = finish(engine.plan(row.run_id, probe=probe))
        return (
            row.status,
            code_of(made, row.status),
            "; ".join([*(f"{step.step}: {step.action}" for step in made.steps), made.then]),
        )

    return bring


def _document(came: Drained, *, plan: bool) -> dict[str, Any]:
    runs = [
        {
            "run_id": one.run_id,
            "workflow": one.workflow,
            "status": one.status.value,
            "exit_code": int(one.code),
            "problem": one.problem,
        }
        for one in came.brought
    ]
    left = {code.name.lower(): count for code, count in sorted(came.left.items())}
    damaged = [{"run_id": one.run_id, "problem": one.problem} for one in came.damaged]
    return {"plan": plan, "runs": runs, "left": left, "damaged": damaged, "exit_code": int(came.exit_code)}
