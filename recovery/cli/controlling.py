"""The commands that say what is to become of a run: cancel, pause, resume.

Owns their names, help and options; what a command does is in `steering`, imported when it is called. Invariant: each names who orders it and why.
"""

from __future__ import annotations

from typing import Annotated

import typer

from recovery.cli.commands import App, Common, Db, Debug, Json, _carry_out, app
from recovery.cli.operating import By, RunId, Why
from recovery.cli.output import Output
from recovery.core.errors import ExitCode

PlanOnly = Annotated[bool, typer.Option("--plan", help="Say what would be done, and do nothing.")]


@app.command(short_help="Cancel a run: settle what is open, begin nothing new.")
def cancel(
    context: typer.Context,
    run: RunId,
    by: By,
    reason: Why,
    plan: PlanOnly = False,
    app: App = None,
    db: Db = None,
    as_json: Json = False,
    debug: Debug = False,
) -> None:
    """Cancel a run: nothing new is begun, what is open is closed, asked or left in doubt, and then the run ends as cancelled. A living worker takes
    that in at its next step or renewal of the lease. Exit 0 once it is cancelled."""

    def work(output: Output, common: Common) -> ExitCode:
        from recovery.cli import steering

        if plan:
            return steering.plan(output, common.target(), run, by=by, reason=reason)
        return steering.cancel(output, common.target(), run, by=by, reason=reason)

    _carry_out(context, Common(db, app, as_json, debug), work)


@app.command(short_help="Pause a run: it begins nothing new until it is resumed.")
def pause(
    context: typer.Context,
    run: RunId,
    by: By,
    reason: Why,
    app: App = None,
    db: Db = None,
    as_json: Json = False,
    debug: Debug = False,
) -> None:
    """Pause a run: it begins nothing new until it is resumed. A living worker finishes the effect that is under way, and stops before its next step."""

    def work(output: Output, common: Common) -> ExitCode:
        from recovery.cli import steering

        return steering.tell(output, common.target(), "pause", run, by=by, reason=reason)

    _carry_out(context, Common(db, app, as_json, debug), work)


@app.command()
def resume(
    context: typer.Context,
    run: RunId,
    by: By,
    reason: Why,
    app: App = None,
    db: Db = None,
    as_json: Json = False,
    debug: Debug = False,
) -> None:
    """Let a paused run go on. The next recovery does."""

    def work(output: Output, common: Common) -> ExitCode:
        from recovery.cli import steering

        return steering.tell(output, common.target(), "resume", run, by=by, reason=reason)

    _carry_out(context, Common(db, app, as_json, debug), work)
