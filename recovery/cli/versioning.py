"""The commands about recorded runs and the code that goes on with them: `check-versions`, `versions`, `change-version` and `export`.

Owns names, help and the checking of arguments, as typer knows them; what a command does is in `fitting`, imported when it is called.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from recovery.cli.common import App, Common, Db, Debug, Json, app, carry_out
from recovery.cli.output import Output
from recovery.core.errors import ExitCode


@app.command("check-versions", short_help="Replay recorded runs against today's code, without any effect.")
def check_versions(
    context: typer.Context,
    run_id: Annotated[str | None, typer.Option("--run-id", metavar="ID", help="Only this run.")] = None,
    settled: Annotated[bool, typer.Option("--settled", help="Also runs that have ended.")] = False,
    version: Annotated[
        str | None,
        typer.Option("--version", metavar="VERSION", help="Against this version of their workflows, not the one that would go on."),
    ] = None,
    journals: Annotated[
        list[Path] | None,
        typer.Option(
            "--journal",
            metavar="PATH",
            exists=True,
            help="Journals that `recover export` wrote, or directories of them (*.journal), in the database's place; may be repeated.",
        ),
    ] = None,
    app: App = None,
    db: Db = None,
    as_json: Json = False,
    debug: Debug = False,
) -> None:
    """Replay every open run against the app's code, without any effect, and name the first entry of each that does not fit. Exit 5 if any."""
    if journals and (settled or version is not None):
        raise typer.BadParameter("journals are replayed whole, each by its own version.", param_hint="--journal")

    def work(output: Output, common: Common) -> ExitCode:
        from recovery.cli import fitting

        if journals:
            return fitting.check_files(output, common.target(), journals, run_id)
        return fitting.check(output, common.target(), run_id, settled=settled, version=version)

    carry_out(context, Common(db, app, as_json, debug), work)


@app.command(short_help="Write a run's journal as text, to be replayed against later code.")
def export(
    context: typer.Context,
    run_id: Annotated[str, typer.Argument(metavar="ID", help="The run.")],
    out: Annotated[
        Path | None, typer.Option("--out", metavar="FILE", help="Write it there, and say so. Default: standard output.")
    ] = None,
    app: App = None,
    db: Db = None,
    as_json: Json = False,
    debug: Debug = False,
) -> None:
    """Write a run's whole journal as text, with what its chain is verified by. Changes nothing."""
    if out is not None and not out.parent.is_dir():
        raise typer.BadParameter(f"{out.parent} is no directory.", param_hint="--out")

    def work(output: Output, common: Common) -> ExitCode:
        from recovery.cli import fitting

        return fitting.export(output, common.target(), run_id, out)

    carry_out(context, Common(db, app, as_json, debug), work)


@app.command(short_help="Say which open runs go by which version of their code.")
def versions(context: typer.Context, app: App = None, db: Db = None, as_json: Json = False, debug: Debug = False) -> None:
    """Say which version of its workflow each open run goes by, and which versions nobody needs any more."""

    def work(output: Output, common: Common) -> ExitCode:
        from recovery.cli import fitting

        return fitting.versions(output, common.target())

    carry_out(context, Common(db, app, as_json, debug), work)


@app.command("change-version", short_help="Move a run to another version of its workflow.")
def change_version(
    context: typer.Context,
    run_id: Annotated[str, typer.Argument(metavar="ID", help="The run.")],
    to: Annotated[
        str | None, typer.Option("--to", metavar="VERSION", help="Which one. Default: the one that new runs start with.")
    ] = None,
    by: Annotated[str, typer.Option("--by", metavar="WHO", help="Who orders this.")] = "",
    reason: Annotated[str, typer.Option("--reason", metavar="TEXT", help="Why.")] = "",
    plan: Annotated[bool, typer.Option("--plan", help="Only say what it would come to.")] = False,
    app: App = None,
    db: Db = None,
    as_json: Json = False,
    debug: Debug = False,
) -> None:
    """Move a run to another version of its workflow, by the migration that this version has. Sends nothing; the next recovery goes on."""
    if not plan and not (by and reason):
        raise typer.BadParameter("say who orders it and why, with --by and --reason; only --plan needs neither.")

    def work(output: Output, common: Common) -> ExitCode:
        from recovery.cli import fitting

        return fitting.change_version(output, common.target(), run_id, to=to, by=by, reason=reason, plan=plan)

    carry_out(context, Common(db, app, as_json, debug), work)
