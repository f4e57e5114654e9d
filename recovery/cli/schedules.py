"""What `recover schedules` does: one call of the engine, one report.

Owns the documents of schedules. Invariant: listing reads, and neither creates nor migrates a database.
"""

from __future__ import annotations

from typing import Any

from recovery.cli.output import Output
from recovery.cli.target import Target, finished
from recovery.core.errors import AppNotFound, ExitCode
from recovery.core.instants import iso
from recovery.operators.enqueueing import Enqueued
from recovery.ports import Scheduled


def listed(output: Output, target: Target) -> ExitCode:
    """Those in the database; then those of the app that no worker has brought up yet."""
    journal = target.journal()
    try:
        rows = journal.schedules()
        stored = journal.find_all([row.last_run for row in rows if row.last_run])
    finally:
        journal.close()
    there = {row.name for row in rows}
    unknown = [] if target.app is None else [made for name, made in sorted(target.app.scheduled.items()) if name not in there]
    from recovery.console.schedules import schedules

    output.answer(
        lambda: {
            "schedules": [_document(row) | {"last_run_stored": row.last_run in stored} for row in rows],
            "not_brought_up": [{"name": made.name, "cron": made.cron, "timezone": made.timezone} for made in unknown],
        },
        lambda _: schedules(rows, unknown, stored),
    )
    return ExitCode.SETTLED


def said(output: Output, target: Target, name: str, *, paused: bool, by: str, reason: str) -> ExitCode:
    """Pause or resume it. Raises OverrideRefused."""
    engine = target.engine()
    try:
        order = engine.pause_schedule if paused else engine.resume_schedule
        row: Scheduled = finished(order(name, by=by, reason=reason))
    finally:
        engine.flush()
    from recovery.console.schedules import schedules

    output.answer(lambda: _document(row), lambda _: schedules([row], []))
    return ExitCode.SETTLED


def triggered(output: Output, target: Target, name: str) -> ExitCode:
    """Store a run of this moment, and say its id."""
    if target.app is None:
        advice = "Name it with --app module:engine, RECOVERY_APP or [tool.recovery] in pyproject.toml."
        raise AppNotFound(problem="What a schedule starts is said by its app, and there is no app", advice=advice)
    engine = target.engine()
    try:
        came: Enqueued = finished(engine.trigger_schedule(name))
    finally:
        engine.flush()
    from rich.text import Text

    from recovery.console import words

    output.answer(
        lambda: {"run_id": came.run_id, "status": came.status.value, "is_new": came.is_new},
        lambda _: Text(f"run {words.bounded(came.run_id)} enqueued; a worker takes it up"),
    )
    return ExitCode.SETTLED


def _document(row: Scheduled) -> dict[str, Any]:
    return {
        "name": row.name,
        "cron": row.cron,
        "timezone": row.timezone,
        "next": None if row.next_us is None else iso(row.next_us),
        "last_run": row.last_run or None,
        "last_tick": iso(row.last_tick_us) if row.last_run else None,
        "paused": row.paused,
        "by": row.by,
        "reason": row.reason,
    }
