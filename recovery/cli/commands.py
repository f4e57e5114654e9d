"""`recover` itself, and the commands that look at runs, as typer knows them.

Owns names, help and the checking of arguments; what a command does is in the module of its name, imported when it is called, so that
`--help` stays cheap. Invariant: options that contradict each other are refused before anything is opened.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Annotated

import typer

from recovery.cli.common import App, Common, Db, Debug, Json, app, carry_out
from recovery.cli.output import Output
from recovery.core.entries import Status
from recovery.core.errors import ExitCode

_SECONDS_MAX = 10**9
_LIMIT_MAX = 10**6
_DIGEST_MIN = 8

RunId = Annotated[str | None, typer.Option("--run-id", metavar="ID", help="The run to recover.")]
Every = Annotated[bool, typer.Option("--all", help="Every open run that can go on by itself: queued, due or orphaned.")]
Planned = Annotated[
    bool,
    typer.Option(
        "--plan", help="Say what would be done; send and append nothing. Asks what changes nothing, where there is an app."
    ),
]
NoProbe = Annotated[bool, typer.Option("--no-probe", help="With --plan: ask nothing either.")]
Concurrency = Annotated[
    int | None, typer.Option("--concurrency", metavar="N", min=1, max=10_000, help="With --all: how many runs at a time; 16.")
]
IfHead = Annotated[
    str | None,
    typer.Option(
        "--if-head", metavar="DIGEST", help="Go on only from this head, as --plan names it (8 characters or more); else exit 7."
    ),
]
NoWait = Annotated[bool, typer.Option("--no-wait", help="Do not wait for the run's owner (exit 7) or for a named time (exit 4).")]
MaxWait = Annotated[
    float | None,
    typer.Option(
        "--max-wait",
        metavar="SECONDS",
        min=0,
        max=_SECONDS_MAX,
        help="How long to wait for either, and for an answer that the run waits for. Default: as the app says, or 60, and for no answer. "
        "With --all: how long each run may wait for a named time; 0.",
    ),
]
Version = Annotated[bool, typer.Option("--version", help="Print the version.")]


def _check_fit(
    run_id: str | None,
    if_head: str | None,
    max_wait: float | None,
    concurrency: int | None,
    *,
    every: bool,
    plan: bool,
    no_probe: bool,
) -> None:
    """Options that contradict each other. Raises BadParameter."""
    if concurrency is not None and (plan or not every):
        raise typer.BadParameter("it belongs to --all without --plan.", param_hint="--concurrency")
    if every and (run_id is not None or if_head is not None):
        raise typer.BadParameter("it takes every run, and --run-id and --if-head belong to one.", param_hint="--all")
    if max_wait is not None and not max_wait >= 0:
        raise typer.BadParameter("it is not a number.", param_hint="--max-wait")
    if plan and if_head is not None:
        raise typer.BadParameter("a plan is made at whatever head there is; it names it.", param_hint="--if-head")
    if no_probe and not plan:
        raise typer.BadParameter("it belongs to --plan.", param_hint="--no-probe")
    if if_head is not None and len(if_head) < _DIGEST_MIN:
        raise typer.BadParameter(f"give at least {_DIGEST_MIN} characters of the digest.", param_hint="--if-head")


@app.callback(invoke_without_command=True)
def recover(
    context: typer.Context,
    run_id: RunId = None,
    every: Every = False,
    app: App = None,
    db: Db = None,
    plan: Planned = False,
    no_probe: NoProbe = False,
    concurrency: Concurrency = None,
    if_head: IfHead = None,
    no_wait: NoWait = False,
    max_wait: MaxWait = None,
    as_json: Json = False,
    debug: Debug = False,
    version: Version = False,
) -> None:
    """Recover a run, or hand on to a command."""
    common = Common(db, app, as_json, debug)
    asked = plan or no_probe or no_wait or max_wait is not None or if_head is not None or concurrency is not None
    if version:
        import recovery

        typer.echo(f"recover {recovery.__version__}")
        raise typer.Exit(0)
    if context.invoked_subcommand is not None:
        if run_id is not None or every or asked:
            raise typer.BadParameter(
                "--run-id, --all, --plan, --no-probe, --concurrency, --if-head, --no-wait and --max-wait belong to `recover --run-id ID` without a command."
            )
        context.obj = common
        return
    if run_id is None and not every:
        if asked:
            raise typer.BadParameter("say which run: --run-id ID, or --all for every one that can go on.")
        typer.echo(context.get_help(), err=True)
        raise typer.Exit(int(ExitCode.USAGE))
    _check_fit(run_id, if_head, max_wait, concurrency, every=every, plan=plan, no_probe=no_probe)
    chosen = run_id or ""
    wait = timedelta(0) if no_wait else None if max_wait is None else timedelta(seconds=max_wait)

    def work(output: Output, common: Common) -> ExitCode:
        if every:
            from recovery.cli.draining import drain

            return drain(output, common.target(), wait or timedelta(0), at_once=concurrency, plan=plan, probe=not no_probe)
        if plan:
            from recovery.cli.planning import plan as say

            return say(output, common.target(), chosen, probe=not no_probe)
        from recovery.cli.recovering import Patience, recover

        return recover(output, common.target(), chosen, Patience(wait), if_head=if_head)

    carry_out(context, common, work)


@app.command()
def runs(
    context: typer.Context,
    status: Annotated[Status | None, typer.Option("--status", metavar="STATUS", help=f"Only these: {', '.join(Status)}.")] = None,
    limit: Annotated[int, typer.Option("--limit", metavar="N", min=1, max=_LIMIT_MAX, help="At most so many.")] = 100,
    app: App = None,
    db: Db = None,
    as_json: Json = False,
    debug: Debug = False,
) -> None:
    """List runs, by id."""

    def work(output: Output, common: Common) -> ExitCode:
        from recovery.cli import reading

        return reading.runs(output, common.target(), status=status, limit=limit)

    carry_out(context, Common(db, app, as_json, debug), work)


@app.command(short_help="Show a run as a timeline.")
def show(
    context: typer.Context,
    run_id: Annotated[str, typer.Argument(metavar="ID", help="The run.")],
    limit: Annotated[int, typer.Option("--limit", metavar="N", min=0, help="At most the last N lines; 0: all.")] = 200,
    app: App = None,
    db: Db = None,
    as_json: Json = False,
    debug: Debug = False,
) -> None:
    """Show a run as a timeline: decided, intended, attempted, observed, adopted."""

    def work(output: Output, common: Common) -> ExitCode:
        from recovery.cli import reading

        return reading.show(output, common.target(), run_id, limit=limit)

    carry_out(context, Common(db, app, as_json, debug), work)


@app.command()
def migrate(context: typer.Context, app: App = None, db: Db = None, as_json: Json = False, debug: Debug = False) -> None:
    """Bring the database to the schema of this version."""

    def work(output: Output, common: Common) -> ExitCode:
        from recovery.cli.migrating import migrate

        return migrate(output, db=common.db, app=common.app)

    carry_out(context, Common(db, app, as_json, debug), work)
