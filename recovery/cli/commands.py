"""The commands and their options, as typer knows them.

Owns names, help and the checking of arguments; what a command does is in the module of its name, imported when it is called, so that
`--help` stays cheap. Invariant: every command takes the same --db, --app and --json, before or after its name.
"""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Callable
from copy import copy
from dataclasses import dataclass, replace
from datetime import timedelta
from functools import cache
from io import TextIOWrapper
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from recovery import crashpoints as _crashpoints  # noqa: F401  # a wrong RECOVERY_CRASH_AT ends here, before any command
from recovery.cli.ending import carried_out
from recovery.cli.output import Output
from recovery.cli.parsing import Commands
from recovery.core.entries import Status
from recovery.core.errors import ExitCode, RunNotFound

if TYPE_CHECKING:
    from recovery.cli.target import Target

app = typer.Typer(
    name="recover",
    cls=Commands,
    help="After a crash, return the original outcome without repeating the effect, or say in doubt.\n\n"
    "Without a command it recovers the run --run-id. That is safe to repeat: a settled run prints its original outcome and nothing changes.",
    epilog="Exit codes: 0 settled, 1 settled with its own failure, 2 usage, 3 in doubt, 4 look again later, 5 diverged, 6 corrupt, "
    "7 owned by another worker, 8 waiting for a signal, 70 a bug.",
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)

_SECONDS_MAX = 10**9
_LIMIT_MAX = 10**6
_DIGEST_MIN = 8

Db = Annotated[
    str | None,
    typer.Option("--db", metavar="URL", help="The journal's database. Default: RECOVERY_DB, the app's, sqlite:///recovery.db."),
]
App = Annotated[
    str | None,
    typer.Option("--app", metavar="MODULE:ENGINE", help="The app. Default: RECOVERY_APP, [tool.recovery] in pyproject.toml."),
]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON document on stdout.")]
Debug = Annotated[bool, typer.Option("--debug", help="Print tracebacks of errors.")]


@dataclass(frozen=True, slots=True)
class Common:
    """What every command takes."""

    db: str | None = None
    app: str | None = None
    as_json: bool = False
    debug: bool = False

    def over(self, outer: object) -> Common:
        """These options where they were given, else those before the command's name."""
        if not isinstance(outer, Common):
            return self
        return replace(
            outer,
            db=self.db or outer.db,
            app=self.app or outer.app,
            as_json=self.as_json or outer.as_json,
            debug=self.debug or outer.debug,
        )

    def target(self) -> Target:
        from recovery.cli.target import target

        return target(db=self.db, app=self.app)

    def overruled(self) -> str:
        """The URL, for people, of the app's own database where RECOVERY_DB overrules it; "" where it does not."""
        if self.db or not os.environ.get("RECOVERY_DB"):
            return ""
        own = self.target().app
        return "" if own is None else own.journal.url


def _carry_out(context: typer.Context, common: Common, work: Callable[[Output, Common], ExitCode]) -> None:
    chosen = common.over(context.obj)
    output = Output(as_json=chosen.as_json)
    output.debug = output.debug or chosen.debug
    raise typer.Exit(carried_out(lambda out: _naming_the_apps_own(out, chosen, work), output))


def _naming_the_apps_own(output: Output, common: Common, work: Callable[[Output, Common], ExitCode]) -> ExitCode:
    """A run that is not where RECOVERY_DB points may well be where the app's own engine keeps it."""
    try:
        return work(output, common)
    except RunNotFound as error:
        if not (own := common.overruled()) or own == error.database:
            raise
        told = f"{error.database}, which RECOVERY_DB names (the app's own is {own})"
        raise RunNotFound(run_id=error.run_id, database=told) from error


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
    run_id: Annotated[str | None, typer.Option("--run-id", metavar="ID", help="The run to recover.")] = None,
    every: Annotated[bool, typer.Option("--all", help="Every open run that can go on by itself: queued, due or orphaned.")] = False,
    app: App = None,
    db: Db = None,
    plan: Annotated[
        bool,
        typer.Option(
            "--plan", help="Say what would be done; send and append nothing. Asks what changes nothing, where there is an app."
        ),
    ] = False,
    no_probe: Annotated[bool, typer.Option("--no-probe", help="With --plan: ask nothing either.")] = False,
    concurrency: Annotated[
        int | None, typer.Option("--concurrency", metavar="N", min=1, max=10_000, help="With --all: how many runs at a time; 16.")
    ] = None,
    if_head: Annotated[
        str | None,
        typer.Option(
            "--if-head", metavar="DIGEST", help="Go on only from this head, as --plan names it (8 characters or more); else exit 7."
        ),
    ] = None,
    no_wait: Annotated[
        bool, typer.Option("--no-wait", help="Do not wait for the run's owner (exit 7) or for a named time (exit 4).")
    ] = False,
    max_wait: Annotated[
        float | None,
        typer.Option(
            "--max-wait",
            metavar="SECONDS",
            min=0,
            max=_SECONDS_MAX,
            help="How long to wait for either, and for an answer that the run waits for. Default: as the app says, or 60, and for no answer. "
            "With --all: how long each run may wait for a named time; 0.",
        ),
    ] = None,
    as_json: Json = False,
    debug: Debug = False,
    version: Annotated[bool, typer.Option("--version", help="Print the version.")] = False,
) -> None:
    """Recover a run, or hand on to a command."""
    common = Common(db, app, as_json, debug)
    if version:
        import recovery

        typer.echo(f"recover {recovery.__version__}")
        raise typer.Exit(0)
    if context.invoked_subcommand is not None:
        if run_id is not None or every or plan or no_probe or no_wait or max_wait is not None or if_head is not None or concurrency:
            raise typer.BadParameter(
                "--run-id, --all, --plan, --no-probe, --concurrency, --if-head, --no-wait and --max-wait belong to `recover --run-id ID` without a command."
            )
        context.obj = common
        return
    if run_id is None and not every:
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

    _carry_out(context, common, work)


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

    _carry_out(context, Common(db, app, as_json, debug), work)


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

    _carry_out(context, Common(db, app, as_json, debug), work)


@app.command()
def migrate(context: typer.Context, app: App = None, db: Db = None, as_json: Json = False, debug: Debug = False) -> None:
    """Bring the database to the schema of this version."""

    def work(output: Output, common: Common) -> ExitCode:
        from recovery.cli.migrating import migrate

        return migrate(output, db=common.db, app=common.app)

    _carry_out(context, Common(db, app, as_json, debug), work)


@app.command(short_help="Play scenarios on stores, and say which hold.")
def replay(
    context: typer.Context,
    paths: Annotated[list[Path], typer.Argument(metavar="PATH...", exists=True, help="Scenario files, or directories of them.")],
    store: Annotated[
        list[str] | None,
        typer.Option(
            "--store",
            "--db",
            metavar="STORE",
            help="memory, sqlite or a PostgreSQL URL (a schema of its own, dropped again); may be repeated. Default: memory and sqlite.",
        ),
    ] = None,
    as_json: Json = False,
    debug: Debug = False,
) -> None:
    """Play scenarios on stores, in both colours, and say which of them hold."""
    for name in store or []:
        if name not in {"memory", "sqlite"} and not name.startswith("postgresql://"):
            raise typer.BadParameter(f"{name} is no store: say memory, sqlite or a postgresql:// URL.", param_hint="--store")

    def work(output: Output, common: Common) -> ExitCode:  # noqa: ARG001  # scenarios bring their own databases
        from recovery.cli.replaying import replay

        return replay(output, paths, stores=store or ["memory", "sqlite"])

    _carry_out(context, Common(None, None, as_json, debug), work)


@app.command(short_help="Crash a worker for real, then recover its run.")
def demo(
    context: typer.Context,
    keep: Annotated[Path | None, typer.Option("--keep", metavar="DIR", help="Keep the demo's databases there.")] = None,
    as_json: Json = False,
    debug: Debug = False,
) -> None:
    """Crash a worker for real between the effect and its answer, then recover its run."""
    if keep is not None and keep.exists() and (not keep.is_dir() or any(keep.iterdir())):
        raise typer.BadParameter(f"{keep} is not empty: the demo starts from nothing.", param_hint="--keep")
    if keep is not None:
        try:
            keep.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise typer.BadParameter(f"{keep} cannot be made: {error.strerror}. Name another one.", param_hint="--keep") from error

    def work(output: Output, common: Common) -> ExitCode:  # noqa: ARG001  # the demo brings its own database
        from recovery.cli.demonstrating import demo

        return demo(output, keep=keep)

    _carry_out(context, Common(None, None, as_json, debug), work)


contracts = typer.Typer(
    short_help="What known providers document about keys.",
    help="What known providers document about keys, windows and look-ups, and what follows from it after a crash.",
    no_args_is_help=True,
    rich_markup_mode=None,
)
app.add_typer(contracts, name="contracts")


@contracts.command("list")
def contracts_list(context: typer.Context, as_json: Json = False, debug: Debug = False) -> None:
    """List the providers of the catalogue."""

    def work(output: Output, common: Common) -> ExitCode:  # noqa: ARG001  # the catalogue is shipped with the program
        from recovery.cli.catalogue import listed

        return listed(output)

    _carry_out(context, Common(as_json=as_json, debug=debug), work)


@contracts.command("show")
def contracts_show(
    context: typer.Context,
    name: Annotated[str, typer.Argument(metavar="NAME", help="The provider, as `recover contracts list` names it.")],
    as_json: Json = False,
    debug: Debug = False,
) -> None:
    """Show one provider: each promise with its source, and what happens after a crash inside and outside its window."""

    def work(output: Output, common: Common) -> ExitCode:  # noqa: ARG001  # the catalogue is shipped with the program
        from recovery.cli.catalogue import shown

        return shown(output, name)

    _carry_out(context, Common(as_json=as_json, debug=debug), work)


GARBAGE: Final = 50_000
"""Objects that are made before Python searches for cyclic garbage among them; 700 by default. What a command imports is some tens of thousands, none of them garbage, and
searching through those took a seventh of its time."""


def main() -> None:
    """The console script."""
    gc.set_threshold(GARBAGE)
    _fill_streams()
    if isinstance(sys.stdout, TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")  # a terminal that cannot show a letter still shows the rest
    assembled(sys.argv[1] if len(sys.argv) > 1 else "")(prog_name="recover")


@cache
def assembled(asked: str = "") -> Any:
    """All commands, as one that can be called; of a command or group that is asked for by its name, that alone: assembling all of them takes longer than most
    of them do. `Any`: see Commands."""
    wanted = copy(app)
    commands = [each for each in app.registered_commands if each.callback is not None and asked == _name_of(each)]
    groups = [each for each in app.registered_groups if asked == each.name]
    if commands or groups:
        wanted.registered_commands, wanted.registered_groups = commands, groups
    elif asked:
        return assembled()
    return typer.main.get_command(wanted)


def _name_of(command: Any) -> str:
    return command.name or typer.main.get_command_name(command.callback.__name__)


def _fill_streams() -> None:
    """A process may be started without its standard streams. Their numbers must not go to a database file, nor what is said to nobody's
    `None`."""
    while (number := os.open(os.devnull, os.O_RDWR)) <= 2:
        os.set_inheritable(number, True)
    os.close(number)
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:
            setattr(sys, name, Path(os.devnull).open("w", encoding="utf-8"))  # noqa: SIM115  # for as long as the process lives
