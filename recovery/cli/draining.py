"""`recover --all`: every open run that can go on by itself, as far as it can be brought; with --plan what would be done about each.

Owns how one run is brought on or planned for, whichever colour the app has. Invariant: the exit code is the worst of all open runs, those included that
were left alone.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from recovery.cli.output import Output
from recovery.cli.target import Target
from recovery.core.child_errors import ChildOpen
from recovery.core.errors import AppNotFound, ExitCode
from recovery.definitions.recovered import Recovered
from recovery.engine.bringing import Bringing
from recovery.engine.draining import Bring, Drained, Stands
from recovery.engine.draining import drain as drained
from recovery.engine.foreseeing import foreseen
from recovery.operators.planning import Plan
from recovery.ports import RunRow

if TYPE_CHECKING:
    from recovery.cli.target import AnyEngine


AT_ONCE: Final = 16
"""Runs at a time, unless somebody says how many: what they append shares commits, and beyond this many hardly more of them."""


def drain(output: Output, target: Target, max_wait: timedelta, *, at_once: int | None, plan: bool, probe: bool) -> ExitCode:
    """Bring on, or plan for, each run that can go on; then say what came of it, and what was left alone."""
    from recovery.console.progress import counted

    if target.app is None and not plan:
        advice = (
            "Name it with --app module:engine, RECOVERY_APP or [tool.recovery] in pyproject.toml; --all --plan works without one."
        )
        raise AppNotFound(problem="Runs are brought on by the app's workflows, and there is no app", advice=advice)
    engine = target.looking() if plan else target.engine()
    gc.collect()
    gc.freeze()  # what is imported stays: to look it through again and again is a tenth of what a run costs
    bring = _planning(engine, probe=probe) if plan else _recovering(engine, max_wait, at_once or AT_ONCE)
    try:
        with counted("runs planned for" if plan else "runs brought on") as one_more:
            came = drained(engine, _telling(bring, one_more))
    finally:
        engine.flush()
    from recovery.console.draining import drained as report

    output.answer(lambda: _document(came, plan=plan), lambda _: report(came, plan=plan))
    return came.exit_code


def _telling(bring: Bring, one_more: Callable[[], None]) -> Bring:
    """The same, and each run is counted as its turn ends."""

    def told(rows: Iterator[RunRow]) -> Iterator[tuple[RunRow, Callable[[], Stands]]]:
        for each in bring(rows):
            one_more()
            yield each

    return told


def _recovering(engine: AnyEngine, max_wait: timedelta, at_once: int) -> Bring:
    budget = replace(engine.budget, max_wait=max_wait, max_answer_wait=timedelta(0))
    world = engine.world(wait_for_owner=timedelta(0), budget=budget)

    def bring(rows: Iterator[RunRow]) -> Iterator[tuple[RunRow, Callable[[], Stands]]]:
        for row, result in Bringing(engine, world, at_once).bring(rows):
            yield row, partial(_stands, result)

    return bring


def _stands(result: Callable[[], Recovered[Any]]) -> Stands:
    came = result()
    problem = "" if came.error is None else str(came.error)
    return Stands(came.status, came.exit_code, problem, for_child=isinstance(came.error, ChildOpen))


def _planning(engine: AnyEngine, *, probe: bool) -> Bring:
    def planned(row: RunRow, plan: Callable[[], Plan]) -> Stands:
        made = plan()
        told = "; ".join([*(f"{step.step}: {step.action}" for step in made.steps), made.then])
        return Stands(row.status, made.exit_code, told)

    def bring(rows: Iterator[RunRow]) -> Iterator[tuple[RunRow, Callable[[], Stands]]]:
        for row, plan in foreseen(engine, rows, probe=probe):
            yield row, partial(planned, row, plan)

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
