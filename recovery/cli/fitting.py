"""`recover check-versions`, `versions`, `change-version` and `export`: what they do.

Owns those commands. Invariants: none asks or sends anything, and only `change-version` writes.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from recovery.cli import documents
from recovery.cli.output import Output
from recovery.cli.target import Target, finished
from recovery.core.errors import AppNotFound, ExitCode, RecoveryError
from recovery.engine import Engine
from recovery.operators.fitting import Checked, Fit
from recovery.operators.moving import Moved
from recovery.operators.versions import Versions

if TYPE_CHECKING:
    from recovery.cli.target import AnyEngine

Document = dict[str, Any]


def check(output: Output, target: Target, run_id: str | None, *, settled: bool, version: str | None) -> ExitCode:
    """Replay what the database holds. Raises AppNotFound, RunNotFound."""
    engine = _with_app(target)
    try:
        found: Checked = finished(engine.check(run_id, settled=settled, version=version))
    finally:
        engine.flush()
    return _told(output, found)


def check_files(output: Output, target: Target, paths: list[Path], run_id: str | None) -> ExitCode:
    """Replay exported journals. Raises AppNotFound, and what `replay_journal` raises."""
    from recovery.testing.journaled import replay_journal

    workflows = _with_app(target).workflows.every()
    fits = [fit for path in paths for fit in replay_journal(workflows, path, run_id=run_id)]
    return _told(output, Checked(fits=fits))


def export(output: Output, target: Target, run_id: str, out: Path | None) -> ExitCode:
    """Write one run as text. Raises RunNotFound, JournalCorrupt, and AppNotFound where the file cannot be written."""
    from recovery.storage.exported import exported

    journal = target.journal()
    try:
        text = exported(journal, run_id)
    finally:
        journal.close()
    if out is not None:
        try:
            out.write_text(text, encoding="utf-8")
        except OSError as error:
            raise AppNotFound(
                problem=f"{out} cannot be written ({error.strerror or error})", advice="Name another file."
            ) from error
    if out is None and not output.as_json:
        output.verbatim(text)
        return ExitCode.SETTLED
    from recovery.console.fitting import exported as report

    output.answer(
        lambda: {"run_id": run_id, "out": None if out is None else str(out), "text": text if out is None else None},
        lambda _paper: report(run_id, text.count('{"seq": '), str(out)),
    )
    return ExitCode.SETTLED


def versions(output: Output, target: Target) -> ExitCode:
    """Which versions are in use. Exit 6 where a run cannot be read."""
    engine = target.looking() if target.app is not None else Engine(target.journal())
    try:
        found: Versions = finished(engine.versions())
    finally:
        engine.flush()
    from recovery.console.versions import versions as report

    output.answer(lambda: _versions(found), lambda _paper: report(found, has_app=target.app is not None))
    return ExitCode.CORRUPT if found.broken else ExitCode.SETTLED


def change_version(output: Output, target: Target, run_id: str, *, to: str | None, by: str, reason: str, plan: bool) -> ExitCode:
    """Move a run. Raises AppNotFound, OverrideRefused, Diverged, LeaseUnavailable."""
    engine = _with_app(target) if plan else _app(target).engine()
    try:
        if plan:
            done: Moved = finished(engine.plan_version(run_id, version=to))
        else:
            done = finished(engine.change_version(run_id, version=to, by=by, reason=reason))
    finally:
        engine.flush()
    from recovery.console.versions import moved as report

    output.answer(lambda: _moved(done, planned=plan), lambda paper: report(paper, done, planned=plan))
    return ExitCode.SETTLED


def _app(target: Target) -> Target:
    if target.app is None:
        raise AppNotFound(
            problem="It needs the app whose workflows are to be replayed",
            advice="Name it with --app module:engine, RECOVERY_APP or [tool.recovery] in pyproject.toml.",
        )
    return target


def _with_app(target: Target) -> AnyEngine:
    return _app(target).looking()


def _told(output: Output, found: Checked) -> ExitCode:
    from recovery.console.fitting import checked as report

    output.answer(lambda: _document(found), lambda paper: report(paper, found))
    return found.exit_code


def _document(found: Checked) -> Document:
    return {
        "exit_code": int(found.exit_code),
        "runs": [_fit(fit) for fit in found.fits],
        "unknown": found.unknown,
        "broken": {run_id: _error(why) for run_id, why in found.broken.items()},
    }


def _fit(fit: Fit) -> Document:
    return {
        "run_id": fit.run_id,
        "workflow": fit.workflow,
        "version": fit.version,
        "against": fit.against,
        "status": fit.status.value,
        "fits": fit.fits,
        "then": fit.then,
        "same_outcome": fit.same_outcome,
        "error": None if fit.error is None else documents.error(fit.error),
    }


def _versions(found: Versions) -> Document:
    told = [
        {
            "workflow": one.workflow,
            "version": one.version,
            "registered": one.registered,
            "newest": one.newest,
            "open": one.open,
            "statuses": {status.value: count for status, count in one.runs.items()},
            "example": one.example,
            "taken_over_by": one.taken_over_by,
            "removable": found.removable(one),
        }
        for one in found.in_use
    ]
    return {"versions": told, "broken": found.broken}


def _moved(done: Moved, *, planned: bool) -> Document:
    return {
        "run_id": done.run_id,
        "workflow": done.workflow,
        "before": done.before,
        "after": done.after,
        "steps": done.steps,
        "dropped": list(done.dropped),
        "then": done.then,
        "planned": planned,
    }


def _error(why: RecoveryError | str) -> Any:
    return why if isinstance(why, str) else documents.error(why)
