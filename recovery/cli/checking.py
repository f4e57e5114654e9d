"""The commands about a restored database: `restored`, `orphans` and `verify`, as typer knows them.

Owns names, help and the checking of arguments; what a command does is in `restoring`, imported when it is called. Invariant: a declaration
names who makes it and why.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated

import typer

from recovery.cli.common import App, Common, Db, Debug, Json, app, carry_out
from recovery.cli.output import Output
from recovery.core.errors import ExitCode


@app.command(short_help="Declare that the database was restored from a backup.")
def restored(
    context: typer.Context,
    by: Annotated[str, typer.Option("--by", metavar="WHO", help="Who declares it.")],
    reason: Annotated[str, typer.Option("--reason", metavar="TEXT", help="Which backup, and why.")],
    app: App = None,
    db: Db = None,
    as_json: Json = False,
    debug: Debug = False,
) -> None:
    """Declare that the database was restored from a backup: every run that is not settled then asks before it sends."""
    if not by.strip() or not reason.strip():
        raise typer.BadParameter("say who declares it, and why.", param_hint="--by, --reason")

    def work(output: Output, common: Common) -> ExitCode:
        from recovery.cli import restoring

        return restoring.restored(output, common.target(), by=by, reason=reason)

    carry_out(context, Common(db, app, as_json, debug), work)


@app.command(short_help="List receipts of the app's environments without an intent.")
def orphans(
    context: typer.Context,
    since: Annotated[
        str | None,
        typer.Option("--since", metavar="TIME", help="Only receipts from then on: ISO 8601, UTC unless it says otherwise."),
    ] = None,
    app: App = None,
    db: Db = None,
    as_json: Json = False,
    debug: Debug = False,
) -> None:
    """List receipts in the app's environments that no intent in this database explains. Exit 3 if there are any."""
    begin = None if since is None else _time(since)

    def work(output: Output, common: Common) -> ExitCode:
        from recovery.cli import restoring

        return restoring.orphans(output, common.target(), since=begin)

    carry_out(context, Common(db, app, as_json, debug), work)


@app.command(short_help="Verify the digest chain of every run.")
def verify(
    context: typer.Context,
    run_id: Annotated[str | None, typer.Option("--run-id", metavar="ID", help="Only this run.")] = None,
    against_env: Annotated[
        bool, typer.Option("--against-env", help="Ask the environments about every applied effect, read-only. Needs the app.")
    ] = False,
    app: App = None,
    db: Db = None,
    as_json: Json = False,
    debug: Debug = False,
) -> None:
    """Verify the digest chain of every run, and with --against-env that its effects are still there. Repairs and repeats nothing."""

    def work(output: Output, common: Common) -> ExitCode:
        from recovery.cli import restoring

        return restoring.verify(output, common.target(), run_id, against_environment=against_env)

    carry_out(context, Common(db, app, as_json, debug), work)


def _time(text: str) -> datetime:
    try:
        at = datetime.fromisoformat(text)
    except ValueError as error:
        raise typer.BadParameter(f"{text!r} is not a time such as 2026-01-31T12:00:00Z.", param_hint="--since") from error
    return at if at.utcoffset() is not None else at.replace(tzinfo=UTC)
