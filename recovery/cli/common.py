"""What every command has in common: the group that it belongs to, the options that it takes, and how it is carried out.

Owns --db, --app, --json and --debug, before a command's name or behind it. Knows no command. Invariant: what these options say is worked out when a
command is carried out, so that `--help` loads no app.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Annotated

import typer

from recovery.cli.ending import carried_out
from recovery.cli.output import Output
from recovery.cli.parsing import Commands
from recovery.core.errors import ExitCode, RunNotFound, StoreUrlError

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

    def by_default(self, url: str) -> bool:
        """Whether this database was meant only because neither one nor an app was named."""
        from recovery.cli.target import DATABASE_DEFAULT

        chosen = self.target()
        return url == DATABASE_DEFAULT and chosen.url is None and chosen.app is None

    def overruled(self) -> str:
        """The URL, for people, of the app's own database where RECOVERY_DB overrules it; "" where it does not."""
        if self.db or not os.environ.get("RECOVERY_DB"):
            return ""
        own = self.target().app
        return "" if own is None else own.journal.url


def carry_out(context: typer.Context, common: Common, work: Callable[[Output, Common], ExitCode]) -> None:
    chosen = common.over(context.obj)
    output = Output(as_json=chosen.as_json)
    output.debug = output.debug or chosen.debug
    raise typer.Exit(carried_out(lambda out: _naming_the_apps_own(out, chosen, work), output))


def _naming_the_apps_own(output: Output, common: Common, work: Callable[[Output, Common], ExitCode]) -> ExitCode:
    """A run that is not where RECOVERY_DB points may well be where the app's own engine keeps it; and where nobody has named a database, one is to be named."""
    try:
        return work(output, common)
    except StoreUrlError as error:
        if not common.by_default(error.url):
            raise
        advice = "It is looked for there where nobody says: name it with --db or RECOVERY_DB, or the app that uses it with --app."
        raise StoreUrlError(url=error.url, problem=error.problem, advice=advice) from error
    except RunNotFound as error:
        if not (own := common.overruled()) or own == error.database:
            raise
        told = f"{error.database}, which RECOVERY_DB names (the app's own is {own})"
        raise RunNotFound(run_id=error.run_id, database=told) from error
