"""The commands that say what is to become of a run: cancel, pause, resume, fork, restart.

Owns their names, help and options; what a command does is in `steering`, imported when it is called. Invariant: each names who orders it and why.
"""

from __future__ import annotations

from typing import Annotated

import typer

from recovery.cli.common import App, Common, Db, Debug, Json, app, carry_out
from recovery.cli.operating import By, RunId, Step, Why
from recovery.cli.output import Output
from recovery.core.errors import ExitCode
from recovery.core.inheritance import Forbid, NewKey, Policy, Reuse

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

    carry_out(context, Common(db, app, as_json, debug), work)


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

    carry_out(context, Common(db, app, as_json, debug), work)


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

    carry_out(context, Common(db, app, as_json, debug), work)


Reused = Annotated[list[str] | None, typer.Option("--reuse", metavar="STEP", help="Take over this effect's outcome. Repeatable.")]
Renewed = Annotated[
    list[str] | None, typer.Option("--new-key", metavar="STEP=REASON", help="Do this effect anew, under a new key. Repeatable.")
]
Forbidden = Annotated[list[str] | None, typer.Option("--forbid", metavar="STEP", help="Never do this effect again. Repeatable.")]


@app.command(short_help="Make a new run from the first steps of another one.")
def fork(
    context: typer.Context,
    run: RunId,
    new_run: Annotated[str, typer.Argument(metavar="NEW-RUN", help="The id of the new run.")],
    by: By,
    reason: Why,
    at: Annotated[
        str, typer.Option("--at", metavar="STEP", help="The first step that is not taken over. Default: take over all.")
    ] = "",
    reuse: Reused = None,
    new_key: Renewed = None,
    forbid: Forbidden = None,
    version: Annotated[str, typer.Option("--version", metavar="VERSION", help="Of the workflow. Default: the old run's.")] = "",
    plan: PlanOnly = False,
    app: App = None,
    db: Db = None,
    as_json: Json = False,
    debug: Debug = False,
) -> None:
    """Make a new run from what another one did before a step. Effects before it are reused, later ones that may have happened are forbidden, unless you
    say otherwise for one. Nothing is sent by this; a worker starts the new run, or a recovery of it."""
    policies = _policies(reuse, new_key, forbid)

    def work(output: Output, common: Common) -> ExitCode:
        from recovery.cli import steering

        said = steering.Order(by, reason, policies, plan=plan)
        return steering.fork(output, common.target(), run, new_run, said, at=at, version=version)

    carry_out(context, Common(db, app, as_json, debug), work)


@app.command(short_help="Begin a new generation of a run at one of its steps.")
def restart(
    context: typer.Context,
    run: RunId,
    step: Step,
    by: By,
    reason: Why,
    reuse: Reused = None,
    new_key: Renewed = None,
    forbid: Forbidden = None,
    plan: PlanOnly = False,
    app: App = None,
    db: Db = None,
    as_json: Json = False,
    debug: Debug = False,
) -> None:
    """Begin a new generation of an unsettled run at one of its steps: from there on its steps have new identities, and new keys. Each effect from
    there on that may have happened needs --reuse, --new-key or --forbid."""
    policies = _policies(reuse, new_key, forbid)

    def work(output: Output, common: Common) -> ExitCode:
        from recovery.cli import steering

        return steering.restart(output, common.target(), run, step, steering.Order(by, reason, policies, plan=plan))

    carry_out(context, Common(db, app, as_json, debug), work)


def _policies(reuse: list[str] | None, new_key: list[str] | None, forbid: list[str] | None) -> dict[str, Policy]:
    """What was said about each step. Raises BadParameter where one is said twice, or a new key has no reason."""
    said: list[tuple[str, Policy]] = [(step, Reuse()) for step in reuse or []]
    said += [(step, Forbid()) for step in forbid or []]
    for option in new_key or []:
        step, equals, why = option.partition("=")
        if not equals or not why.strip():
            raise typer.BadParameter(f"{option!r} gives no reason.", param_hint="--new-key")
        said.append((step, NewKey(why)))
    policies = dict(said)
    if len(policies) < len(said):
        raise typer.BadParameter("say one of --reuse, --new-key and --forbid for a step.")
    return policies
