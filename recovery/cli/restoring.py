"""`recover restored`, `recover orphans` and `recover verify`: what they do.

Owns those three commands. Invariant: the last two write nothing, neither here nor in an environment.
"""

from __future__ import annotations

import asyncio
from datetime import datetime
from typing import TYPE_CHECKING, Any

from recovery.cli import documents
from recovery.cli.output import Output
from recovery.cli.target import Target
from recovery.core.entries import encode
from recovery.core.errors import AppNotFound, ExitCode
from recovery.engine import AsyncEngine, Engine
from recovery.engine.restoring import Declared, Orphan
from recovery.engine.verifying import Verified

if TYPE_CHECKING:
    from recovery.cli.target import AnyEngine

Document = dict[str, Any]


def restored(output: Output, target: Target, *, by: str, reason: str) -> ExitCode:
    """Raise the incarnation, durably. The database must be there: declaring makes none."""
    with Engine(target.journal()) as engine:
        declared = engine.declare_restored(by=by, reason=reason)
        url = engine.journal.url
    from recovery.console import restoring as report

    output.answer(lambda: _declared(declared, url), lambda paper: report.declared(paper, declared, url))
    return ExitCode.SETTLED


def orphans(output: Output, target: Target, *, since: datetime | None) -> ExitCode:
    """Ask every environment of the app for its receipts. Raises AppNotFound where none can list them."""
    engine = _with_app(target, "listing an environment's receipts")
    try:
        able = [environment.name for environment, _listing in engine.listings()]
        if not able:
            raise AppNotFound(
                problem="No environment of the app can list its receipts",
                advice="Give the engine environments=[...] and define `@environment.receipts` on them.",
            )
        found = asyncio.run(engine.orphans(since=since)) if isinstance(engine, AsyncEngine) else engine.orphans(since=since)
    finally:
        engine.flush()
    from recovery.console import restoring as report

    output.answer(
        lambda: {"environments": able, "orphans": [_orphan(one) for one in found]},
        lambda paper: report.orphans(paper, able, found),
    )
    return ExitCode.IN_DOUBT if found else ExitCode.SETTLED


def verify(output: Output, target: Target, run_id: str | None, *, against_environment: bool) -> ExitCode:
    """Verify chains; with the app, also compare. Raises RunNotFound."""
    engine = _with_app(target, "asking the environments") if against_environment else Engine(target.journal())
    try:
        if isinstance(engine, AsyncEngine):
            found = asyncio.run(engine.verify(run_id, against_environment=against_environment))
        else:
            found = engine.verify(run_id, against_environment=against_environment)
    finally:
        engine.flush()
    from recovery.console import restoring as report

    output.answer(lambda: _verified(found), lambda paper: report.verified(paper, found))
    return found.exit_code


def _with_app(target: Target, what: str) -> AnyEngine:
    """The app's engine over a journal that is only read."""
    if target.app is None:
        advice = "Name it with --app module:engine, RECOVERY_APP or [tool.recovery] in pyproject.toml."
        raise AppNotFound(problem=f"It needs the app for {what}", advice=advice)
    return target.looking()


def _declared(declared: Declared, url: str) -> Document:
    made = declared.restoration
    return {
        "database": url,
        "by": made.by,
        "reason": made.reason,
        "at": documents.time(made.at),
        "before": made.before,
        "incarnation": made.incarnation,
        "unsettled": list(declared.unsettled),
    }


def _orphan(one: Orphan) -> Document:
    return {
        "environment": one.environment,
        "scope": one.scope,
        "key": one.key,
        "fingerprint": one.fingerprint,
        "outcome": one.outcome,
        "at": documents.time(one.at),
    }


def _verified(found: Verified) -> Document:
    return {
        "exit_code": int(found.exit_code),
        "runs": found.runs,
        "entries": found.entries,
        "unopened": found.unopened,
        "broken": [
            {"run_id": one.run_id, "seq": one.seq, "field": one.field, "problem": one.problem, "exit_code": int(one.exit_code)}
            for one in found.broken
        ],
        "asked": found.asked,
        "effects": [
            {
                "run_id": one.run_id,
                "step": one.step,
                "effect": one.effect,
                "environment": one.environment,
                "scope": one.scope,
                "key": one.key,
                "recorded": one.recorded,
                "verdict": one.verdict.value,
                "answered": None if one.answered is None else encode(one.answered),
                "why": one.why,
            }
            for one in found.compared
        ],
    }
