"""The commands of operators and their options, as typer knows them.

Owns names, help and the checking of arguments; what a command does is in `ordering`, imported when it is called. Invariant: an order names
who gives it; what needs a reason says so here already.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Annotated, Any

import typer

from recovery.cli.common import App, Common, Db, Debug, Json, app, carry_out
from recovery.cli.grounds import grounds
from recovery.cli.output import Output
from recovery.core.entries import OutcomeKind
from recovery.core.errors import ExitCode
from recovery.core.instants import duration_of

_LIMIT_MAX = 10**6

RunId = Annotated[str, typer.Argument(metavar="RUN", help="The run.")]
MaybeStep = Annotated[str | None, typer.Argument(metavar="STEP", help="The step, such as reserve#1. Default: the run as a whole.")]
RunIdOption = Annotated[str | None, typer.Option("--run-id", metavar="ID", help="The run, in place of RUN.")]
MaybeRun = Annotated[str | None, typer.Argument(metavar="RUN", help="The run.")]
Step = Annotated[str, typer.Argument(metavar="STEP", help="The step, such as reserve#1.")]
By = Annotated[str, typer.Option("--by", metavar="WHO", help="Who orders this.")]
MaybeBy = Annotated[str, typer.Option("--by", metavar="WHO", help="Who orders this. Default: the user of this process.")]
Why = Annotated[str, typer.Option("--reason", metavar="TEXT", help="Why.")]
MaybeWhy = Annotated[str, typer.Option("--reason", metavar="TEXT", help="Why; kept with the order.")]
ContractOption = Annotated[
    str | None, typer.Option("--contract", metavar="DIGEST-or-NAME", help="A contract instead of a run, by its digest or its name.")
]


@app.command(short_help="List what needs a person, oldest first.")
def doubt(
    context: typer.Context,
    limit: Annotated[int, typer.Option("--limit", metavar="N", min=1, max=_LIMIT_MAX, help="At most so many.")] = 100,
    older: Annotated[
        str, typer.Option("--older", metavar="DURATION", help="Only what has waited for so long: 30s, 20m, 25h, 7d or 1h30m.")
    ] = "0s",
    app: App = None,
    db: Db = None,
    as_json: Json = False,
    debug: Debug = False,
) -> None:
    """List what needs a person, oldest first: what is in doubt, held or diverged, and outcomes that something speaks against. Exit 0 where
    nothing does."""
    waited = _duration(older)

    def work(output: Output, common: Common) -> ExitCode:
        from recovery.cli import ordering

        return ordering.doubt(output, common.target(), limit=limit, older=waited)

    carry_out(context, Common(db, app, as_json, debug), work)


@app.command(short_help="Say why a run or a step stands where it stands.")
def explain(
    context: typer.Context,
    run: MaybeRun = None,
    step: MaybeStep = None,
    run_id: RunIdOption = None,
    app: App = None,
    db: Db = None,
    as_json: Json = False,
    debug: Debug = False,
) -> None:
    """Say why a step stands where it stands: row, evidence, assumptions, advice, and what would change it. Without STEP: why the run does, who acts
    next, and with which command; of a quarantined run how many workers ended with it."""
    named = run or run_id
    if named is None or (run is not None and run_id is not None):
        raise typer.BadParameter("say either RUN or --run-id.")

    def work(output: Output, common: Common) -> ExitCode:
        from recovery.cli import ordering

        if step is None:
            return ordering.explain_run(output, common.target(), named)
        return ordering.explain(output, common.target(), named, step)

    carry_out(context, Common(db, app, as_json, debug), work)


@app.command(short_help="Say what a reason for doubt means, and what to do.")
def parking(
    context: typer.Context,
    reason: Annotated[str | None, typer.Argument(metavar="REASON", help="A reason, such as opaque. Default: list them.")] = None,
    app: App = None,
    db: Db = None,
    as_json: Json = False,
    debug: Debug = False,
) -> None:
    """Say what a reason for doubt means: what to do, what is known, which orders are open, and how to have fewer of it. Needs no database."""

    def work(output: Output, common: Common) -> ExitCode:  # noqa: ARG001  # it needs neither database nor app
        from recovery.cli import ordering

        return ordering.parking(output, reason)

    carry_out(context, Common(db, app, as_json, debug), work)


@app.command(short_help="Ask the environment about one effect, read-only.")
def probe(
    context: typer.Context, run: RunId, step: Step, app: App = None, db: Db = None, as_json: Json = False, debug: Debug = False
) -> None:
    """Ask the environment about one effect, read-only, and keep its answer. Acts on nothing."""

    def work(output: Output, common: Common) -> ExitCode:
        from recovery.cli import ordering

        return ordering.probe(output, common.target(), run, step)

    carry_out(context, Common(db, app, as_json, debug), work)


@app.command(short_help="Allow one attempt more under the same key, and recover.")
def redrive(
    context: typer.Context,
    run: RunId,
    step: Step,
    by: MaybeBy = "",
    reason: MaybeWhy = "",
    app: App = None,
    db: Db = None,
    as_json: Json = False,
    debug: Debug = False,
) -> None:
    """Allow one attempt more than the budget does, under the same key, and recover. Refused wherever the verdict table would not send."""

    def work(output: Output, common: Common) -> ExitCode:
        from recovery.cli.recovering import Patience, Redrive, recover

        return recover(output, common.target(), run, Patience(), redrive=Redrive(step, by, reason))

    carry_out(context, Common(db, app, as_json, debug), work)


@app.command()
def resolve(
    context: typer.Context,
    run: RunId,
    step: Step,
    by: By,
    reason: Why,
    evidence: Annotated[
        str,
        typer.Option(
            "--evidence",
            metavar="FILE-or-TEXT",
            help="What it rests on: a file's content, or the text itself; text:WORDS where that looks like a file's name.",
        ),
    ],
    applied: Annotated[bool, typer.Option("--applied", help="It happened; its value is --value, if it returns one.")] = False,
    without_value: Annotated[
        bool,
        typer.Option(
            "--without-value",
            help="It happened, and nobody can tell its value: the workflow gets OutcomeUnavailable instead of one.",
        ),
    ] = False,
    rejected: Annotated[
        str | None,
        typer.Option("--rejected", metavar="NAME", help="It was refused with this declared error; its fields are --value."),
    ] = None,
    not_executed: Annotated[
        bool, typer.Option("--not-executed", help="It did not happen, and will not under this key: the workflow gets NotExecuted.")
    ] = False,
    mixed: Annotated[bool, typer.Option("--mixed", help="A batch: --value has every item.")] = False,
    value: Annotated[str | None, typer.Option("--value", metavar="JSON", help="The value, as the effect would return it.")] = None,
    app: App = None,
    db: Db = None,
    as_json: Json = False,
    debug: Debug = False,
) -> None:
    """Settle a step by your word: what happened, on what evidence. It is marked heuristic; what contradicts it later is recorded."""
    said = {
        OutcomeKind.APPLIED: applied,
        OutcomeKind.APPLIED_WITHOUT_VALUE: without_value,
        OutcomeKind.REJECTED: rejected is not None,
        OutcomeKind.NOT_EXECUTED: not_executed,
        OutcomeKind.MIXED: mixed,
    }
    outcome = _outcome([kind for kind, chosen in said.items() if chosen])
    parsed, rests_on = _parsed(value), grounds(evidence)

    def work(output: Output, common: Common) -> ExitCode:
        from recovery.cli import ordering

        word = ordering.Said(outcome, by, reason, rests_on, parsed, rejected or "")
        return ordering.resolve(output, common.target(), run, step, word)

    carry_out(context, Common(db, app, as_json, debug), work)


def _outcome(chosen: list[OutcomeKind]) -> OutcomeKind:
    if len(chosen) != 1:
        raise typer.BadParameter("say one of --applied, --without-value, --rejected NAME, --not-executed, --mixed.")
    return chosen[0]


def _duration(written: str) -> timedelta:
    """A duration as people write it."""
    try:
        return duration_of(written)
    except ValueError as error:
        raise typer.BadParameter(f"{error}.", param_hint="--older") from None


def _parsed(value: str | None) -> Any:
    from recovery import codec  # it imports pydantic, which takes longer than the help

    try:
        return None if value is None else codec.loads(value)
    except ValueError as error:
        raise typer.BadParameter(f"it is not JSON ({error}).", param_hint="--value") from error


@app.command(short_help="Close a step's key in the environment.")
def close(
    context: typer.Context,
    run: RunId,
    step: Step,
    by: MaybeBy = "",
    reason: MaybeWhy = "",
    app: App = None,
    db: Db = None,
    as_json: Json = False,
    debug: Debug = False,
) -> None:
    """Close a step's key: the environment tells its outcome, or refuses the key for ever."""

    def work(output: Output, common: Common) -> ExitCode:
        from recovery.cli import ordering

        return ordering.close(output, common.target(), run, step, by=by, reason=reason)

    carry_out(context, Common(db, app, as_json, debug), work)


@app.command()
def acknowledge(
    context: typer.Context,
    run: RunId,
    step: Step,
    by: By,
    reason: Why,
    app: App = None,
    db: Db = None,
    as_json: Json = False,
    debug: Debug = False,
) -> None:
    """Say that what speaks against a step's outcome was seen to. The outcome stands; what comes later needs a person again."""

    def work(output: Output, common: Common) -> ExitCode:
        from recovery.cli import ordering

        return ordering.acknowledge(output, common.target(), run, step, by=by, reason=reason)

    carry_out(context, Common(db, app, as_json, debug), work)


def _stop(
    context: typer.Context, common: Common, run: str | None, contract: str | None, *, held: bool, by: str, reason: str
) -> None:
    """Hold a run or a contract, or release it."""
    _one_of(run, contract)

    def work(output: Output, common: Common) -> ExitCode:
        from recovery.cli import ordering

        if contract is not None:
            return ordering.contract(output, common.target(), contract, held=held, by=by, reason=reason)
        return ordering.order(output, common.target(), "hold" if held else "release", str(run), by=by, reason=reason)

    carry_out(context, common, work)


@app.command(short_help="Hold a run or a contract: nothing more is sent.")
def hold(
    context: typer.Context,
    by: By,
    reason: Why,
    run: MaybeRun = None,
    contract: ContractOption = None,
    app: App = None,
    db: Db = None,
    as_json: Json = False,
    debug: Debug = False,
) -> None:
    """Hold a run, or a contract for the whole database: nothing is sent until it is released."""
    _stop(context, Common(db, app, as_json, debug), run, contract, held=True, by=by, reason=reason)


@app.command()
def release(
    context: typer.Context,
    by: By,
    reason: Why,
    run: MaybeRun = None,
    contract: ContractOption = None,
    app: App = None,
    db: Db = None,
    as_json: Json = False,
    debug: Debug = False,
) -> None:
    """Release a held run or contract. The next recovery goes on."""
    _stop(context, Common(db, app, as_json, debug), run, contract, held=False, by=by, reason=reason)


def _one_of(run: str | None, contract: str | None) -> None:
    if (run is None) is (contract is None):
        raise typer.BadParameter("say either a run or --contract.")


@app.command(short_help="Fence a run off from its last worker.")
def fence(
    context: typer.Context,
    run: RunId,
    by: MaybeBy = "",
    reason: MaybeWhy = "",
    app: App = None,
    db: Db = None,
    as_json: Json = False,
    debug: Debug = False,
) -> None:
    """Raise a run's epoch, so that its last worker can append nothing more. What that worker sent may still act; it says until when."""

    def work(output: Output, common: Common) -> ExitCode:
        from recovery.cli import ordering

        return ordering.order(output, common.target(), "fence", run, by=by, reason=reason)

    carry_out(context, Common(db, app, as_json, debug), work)


@app.command()
def forget(
    context: typer.Context,
    run: RunId,
    by: MaybeBy = "",
    reason: MaybeWhy = "",
    app: App = None,
    db: Db = None,
    as_json: Json = False,
    debug: Debug = False,
) -> None:
    """Remove a settled run's entries. Its id and keys stay taken; refused while one of its keys may still be asked for, or a contradiction is open."""

    def work(output: Output, common: Common) -> ExitCode:
        from recovery.cli import ordering

        return ordering.forget(output, common.target(), run, by=by, reason=reason)

    carry_out(context, Common(db, app, as_json, debug), work)
