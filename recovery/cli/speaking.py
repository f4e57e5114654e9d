"""The commands for what is said to runs, and what they tell, as typer knows them.

Owns names, help and the checking of arguments; what a command does is in `talking`, imported when it is called. Invariant: whoever answers is named.
"""

from __future__ import annotations

import json
from datetime import datetime, timedelta
from typing import Annotated, Any

import typer

from recovery.cli.common import App, Common, Db, Debug, Json, app, carry_out
from recovery.cli.operating import MaybeRun, RunId
from recovery.cli.output import Output
from recovery.core.errors import ExitCode

Value = Annotated[str, typer.Option("--value", metavar="JSON", help="What is said, as JSON.")]
Speaker = Annotated[str, typer.Option("--by", metavar="WHO", help="Who says it.")]
Token = Annotated[
    str | None, typer.Option("--token", metavar="TEXT", help="A name for these words: said again, they are said once.")
]


def _json(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError as error:
        raise typer.BadParameter(
            f"it is not JSON ({error}). A text needs its quotes: --value '\"yes\"'.", param_hint="--value"
        ) from error


def moment(text: str | None, option: str) -> datetime | None:
    """The time that an option says. Raises BadParameter."""
    if text is None:
        return None
    try:
        at = datetime.fromisoformat(text)
    except ValueError:
        at = None
    if at is None or at.utcoffset() is None:
        raise typer.BadParameter("it is no time with a time zone, such as 2030-01-31T12:00:00Z.", param_hint=option)
    return at


@app.command(short_help="Answer what a run waits for.")
def signal(
    context: typer.Context,
    run: RunId,
    name: Annotated[str, typer.Argument(metavar="NAME", help="What is answered, or its step, such as approval#1.")],
    value: Value,
    by: Speaker,
    about: Annotated[
        str, typer.Option("--about", metavar="FINGERPRINT", help="The call that it approves (8 characters or more).")
    ] = "",
    valid_until: Annotated[str | None, typer.Option("--valid-until", metavar="TIME", help="Until when an approval stands.")] = None,
    token: Token = None,
    app: App = None,
    db: Db = None,
    as_json: Json = False,
    debug: Debug = False,
) -> None:
    """Answer what a run waits for. The first answer counts; a late or second one is refused (exit 2). The next recovery of the run goes on."""
    said, until = _json(value), moment(valid_until, "--valid-until")

    def work(output: Output, common: Common) -> ExitCode:
        from recovery.cli import talking

        return talking.signal(output, common.target(), run, name, said, by=by, about=about, valid_until=until, token=token)

    carry_out(context, Common(db, app, as_json, debug), work)


@app.command(short_help="Send a run one more message of a topic.")
def send(
    context: typer.Context,
    run: RunId,
    topic: Annotated[str, typer.Argument(metavar="TOPIC", help="The topic.")],
    value: Value,
    by: Speaker,
    token: Token = None,
    app: App = None,
    db: Db = None,
    as_json: Json = False,
    debug: Debug = False,
) -> None:
    """Send a run one more message of a topic, behind all earlier ones. Each is received once."""
    said = _json(value)

    def work(output: Output, common: Common) -> ExitCode:
        from recovery.cli import talking

        return talking.send(output, common.target(), run, topic, said, by=by, token=token)

    carry_out(context, Common(db, app, as_json, debug), work)


@app.command(short_help="List what open runs wait for from outside.")
def waits(
    context: typer.Context, run: MaybeRun = None, app: App = None, db: Db = None, as_json: Json = False, debug: Debug = False
) -> None:
    """List what a run waits for from outside, or what all open runs do: who may answer, until when, and which call is to be approved."""

    def work(output: Output, common: Common) -> ExitCode:
        from recovery.cli import talking

        return talking.waits(output, common.target(), run)

    carry_out(context, Common(db, app, as_json, debug), work)


@app.command(short_help="Show what a run has published.")
def query(
    context: typer.Context,
    run: RunId,
    name: Annotated[str | None, typer.Argument(metavar="NAME", help="Under which name. Default: all.")] = None,
    app: App = None,
    db: Db = None,
    as_json: Json = False,
    debug: Debug = False,
) -> None:
    """Show what a run has published last under a name, or under each. Only what is durable."""

    def work(output: Output, common: Common) -> ExitCode:
        from recovery.cli import talking

        return talking.query(output, common.target(), run, name)

    carry_out(context, Common(db, app, as_json, debug), work)


@app.command(short_help="Tell what happens in a run, as it happens.")
def listen(
    context: typer.Context,
    run: RunId,
    after: Annotated[int, typer.Option("--after", metavar="N", min=0, help="Only what comes behind entry N.")] = 0,
    wait: Annotated[
        float | None,
        typer.Option("--wait", metavar="SECONDS", min=0, max=10**9, help="End where nothing comes for so long; 0: at once."),
    ] = None,
    app: App = None,
    db: Db = None,
    as_json: Json = False,
    debug: Debug = False,
) -> None:
    """Tell what happens in a run, as it becomes durable, until the run ends. With --json one document, at the end; its `position` goes into the
    next --after."""

    def work(output: Output, common: Common) -> ExitCode:
        from recovery.cli import talking

        return talking.listen(output, common.target(), run, after=after, wait=None if wait is None else timedelta(seconds=wait))

    carry_out(context, Common(db, app, as_json, debug), work)
