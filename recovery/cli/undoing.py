"""The command that undoes what happened once too often: its name, help and options.

What it does is in `compensating`, imported when it is called. Invariant: an order names who gives it and why; a plan orders nothing.
"""

from __future__ import annotations

import typer

from recovery.cli.common import App, Common, Db, Debug, Json, app, carry_out
from recovery.cli.controlling import PlanOnly
from recovery.cli.operating import By, RunId, Step, Why
from recovery.cli.output import Output
from recovery.core.errors import ExitCode


@app.command(short_help="Undo an effect that happened once too often.")
def compensate(
    context: typer.Context,
    run: RunId,
    step: Step,
    by: By,
    reason: Why,
    plan: PlanOnly = False,
    app: App = None,
    db: Db = None,
    as_json: Json = False,
    debug: Debug = False,
) -> None:
    """Undo what speaks against a step's outcome, a duplicate for one: each by its compensation, in a run of its own. The outcome stands.

    Repeated, it goes on with what was ordered first. Exit 0 once all of it is undone."""

    def work(output: Output, common: Common) -> ExitCode:
        from recovery.cli import compensating

        if plan:
            return compensating.plan(output, common.target(), run, step)
        return compensating.compensate(output, common.target(), run, step, by=by, reason=reason)

    carry_out(context, Common(db, app, as_json, debug), work)
