"""The commands of `recover schedules`, as typer knows them.

Owns names, help and the checking of arguments; what they do is in `schedules`, imported when they are called. Invariant: a schedule is defined in code; what is
said here pauses it, resumes it, or stores one more run of it.
"""

from __future__ import annotations

from typing import Annotated

import typer

from recovery.cli.common import App, Common, Db, Debug, Json, app, carry_out
from recovery.cli.operating import By, Why
from recovery.cli.output import Output
from recovery.core.errors import ExitCode

schedules = typer.Typer(
    short_help="List, pause, resume and trigger schedules.",
    help="The schedules of a database: when their next runs begin, which were the last, and whether they are paused.",
    no_args_is_help=True,
    rich_markup_mode=None,
)
app.add_typer(schedules, name="schedules")

Name = Annotated[str, typer.Argument(metavar="NAME", help="The schedule, as the app names it.")]


@schedules.command("list", short_help="List schedules, their next ticks and last runs.")
def schedules_list(context: typer.Context, app: App = None, db: Db = None, as_json: Json = False, debug: Debug = False) -> None:
    """List the schedules that a worker has brought up, and those of the app that none has."""

    def work(output: Output, common: Common) -> ExitCode:
        from recovery.cli.schedules import listed

        return listed(output, common.target())

    carry_out(context, Common(db, app, as_json, debug), work)


@schedules.command("pause")
def schedules_pause(
    context: typer.Context,
    name: Name,
    by: By,
    reason: Why,
    app: App = None,
    db: Db = None,
    as_json: Json = False,
    debug: Debug = False,
) -> None:
    """Let the ticks of a schedule pass. What has begun goes on."""

    def work(output: Output, common: Common) -> ExitCode:
        from recovery.cli.schedules import said

        return said(output, common.target(), name, paused=True, by=by, reason=reason)

    carry_out(context, Common(db, app, as_json, debug), work)


@schedules.command("resume")
def schedules_resume(
    context: typer.Context,
    name: Name,
    by: By,
    reason: Why,
    app: App = None,
    db: Db = None,
    as_json: Json = False,
    debug: Debug = False,
) -> None:
    """Let a paused schedule begin its ticks again, those from now on."""

    def work(output: Output, common: Common) -> ExitCode:
        from recovery.cli.schedules import said

        return said(output, common.target(), name, paused=False, by=by, reason=reason)

    carry_out(context, Common(db, app, as_json, debug), work)


@schedules.command("trigger", short_help="Store a run of this moment for a worker.")
def schedules_trigger(
    context: typer.Context, name: Name, app: App = None, db: Db = None, as_json: Json = False, debug: Debug = False
) -> None:
    """Store a run of this moment for a worker, beside those of the ticks, paused or not. Needs the app."""

    def work(output: Output, common: Common) -> ExitCode:
        from recovery.cli.schedules import triggered

        return triggered(output, common.target(), name)

    carry_out(context, Common(db, app, as_json, debug), work)
