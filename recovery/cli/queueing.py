"""The commands `worker`, `enqueue` and `queues`, as typer knows them.

Owns names, help and the checking of arguments; what they do is in `working`, `enqueueing` and `standing`, imported when they are called. Invariant: a number that a
worker could not work with is refused before anything is claimed.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Annotated

import typer

from recovery.cli.common import App, Common, Db, Debug, Json, app, carry_out
from recovery.cli.output import Output
from recovery.cli.speaking import moment
from recovery.core.errors import ExitCode

_SECONDS_MAX = 10**9
_RUNS_MAX = 10_000


@app.command(short_help="Bring on runs as they become due, until told to end.")
def worker(
    context: typer.Context,
    concurrency: Annotated[
        int, typer.Option("--concurrency", metavar="N", min=1, max=_RUNS_MAX, help="How many runs at a time.")
    ] = 8,
    queue: Annotated[
        list[str] | None,
        typer.Option(
            "--queue", metavar="NAME", help='Serve this queue; may be repeated; "" is that of runs without one. Default: all.'
        ),
    ] = None,
    poll: Annotated[
        float,
        typer.Option(
            "--poll",
            metavar="SECONDS",
            min=0.01,
            max=_SECONDS_MAX,
            help="How often to look while nobody tells that something is due.",
        ),
    ] = 1,
    drain: Annotated[
        float,
        typer.Option(
            "--drain",
            metavar="SECONDS",
            min=0,
            max=_SECONDS_MAX,
            help="How long runs may go on after SIGTERM or SIGINT; then they are handed back at their next step. A second one ends the process at once.",
        ),
    ] = 30,
    crashes: Annotated[
        int,
        typer.Option(
            "--crashes", metavar="N", min=1, max=_RUNS_MAX, help="Quarantine a run that has ended so many workers in a row."
        ),
    ] = 5,
    health: Annotated[
        int | None,
        typer.Option(
            "--health", metavar="PORT", min=0, max=65535, help="Answer /livez and /readyz on 127.0.0.1; 0: on any free port."
        ),
    ] = None,
    until_idle: Annotated[
        bool, typer.Option("--until-idle", help="End by itself once nothing is due and nothing at work.")
    ] = False,
    patience: Annotated[
        float | None,
        typer.Option(
            "--patience",
            metavar="SECONDS",
            min=0,
            max=_SECONDS_MAX,
            help="For how long a run that is at work waits for a database that does not answer. Default: for as long as it takes.",
        ),
    ] = None,
    app: App = None,
    db: Db = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON document a line on stdout, one for each event.")] = False,
    debug: Debug = False,
) -> None:
    """Claim runs that are due, queued or orphaned, and bring them on, until SIGTERM or SIGINT."""

    def work(output: Output, common: Common) -> ExitCode:
        from recovery.cli.working import work
        from recovery.engine.working import Working

        working = Working(
            concurrency=concurrency,
            queues=None if queue is None else tuple(queue),
            poll=timedelta(seconds=poll),
            crashes=crashes,
            drain=timedelta(seconds=drain),
            until_idle=until_idle,
            patience=None if patience is None else timedelta(seconds=patience),
        )
        return work(output, common.target(), working, health)

    carry_out(context, Common(db, app, as_json, debug), work)


@app.command(short_help="Store a run for a worker.")
def enqueue(
    context: typer.Context,
    workflow: Annotated[str, typer.Argument(metavar="WORKFLOW", help="The workflow, as the app names it.")],
    given: Annotated[
        str | None, typer.Option("--input", metavar="JSON", help="Its arguments by name, an object. Default: none.")
    ] = None,
    run_id: Annotated[str | None, typer.Option("--run-id", metavar="ID", help="The run's id.")] = None,
    key: Annotated[
        str | None, typer.Option("--key", metavar="TEXT", help="A name of yours, such as an order's number, in place of a run id.")
    ] = None,
    queue: Annotated[str, typer.Option("--queue", metavar="NAME", help="Only workers that serve this queue take it.")] = "",
    priority: Annotated[
        int | None,
        typer.Option("--priority", metavar="N", min=-100, max=100, help="A higher one goes first. Default: the queue's, or 0."),
    ] = None,
    not_before: Annotated[
        str | None, typer.Option("--not-before", metavar="TIME", help="It is not due before then; with a time zone.")
    ] = None,
    app: App = None,
    db: Db = None,
    as_json: Json = False,
    debug: Debug = False,
) -> None:
    """Store a run for whichever worker comes first. The same run id or key is enqueued once."""
    at = moment(not_before, "--not-before")

    def work(output: Output, common: Common) -> ExitCode:
        from recovery.cli.enqueueing import Order, enqueue

        order = Order(
            workflow=workflow, given=given, run_id=run_id, key=key, queue=queue, priority=priority, not_before=at
        )  # fmt: skip
        return enqueue(output, common.target(), order)

    carry_out(context, Common(db, app, as_json, debug), work)


@app.command(short_help="List queues: their limits, and what stands in them.")
def queues(context: typer.Context, app: App = None, db: Db = None, as_json: Json = False, debug: Debug = False) -> None:
    """List the queues in which runs stand that can go on, and those that the app names. Limits are the app's."""

    def work(output: Output, common: Common) -> ExitCode:
        from recovery.cli.standing import listed

        return listed(output, common.target())

    carry_out(context, Common(db, app, as_json, debug), work)
