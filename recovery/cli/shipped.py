"""Commands about what comes with the program: the demo, scenarios, and the catalogue of providers.

Owns their names, help and arguments. Invariant: none of them opens the journal that the other commands mean.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from recovery.cli.common import Common, Debug, Json, app, carry_out
from recovery.cli.output import Output
from recovery.core.errors import ExitCode


@app.command(short_help="Play scenarios on stores, and say which hold.")
def replay(
    context: typer.Context,
    paths: Annotated[list[Path], typer.Argument(metavar="PATH", exists=True, help="Scenario files, or directories of them.")],
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

    carry_out(context, Common(None, None, as_json, debug), work)


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

    carry_out(context, Common(None, None, as_json, debug), work)


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

    carry_out(context, Common(as_json=as_json, debug=debug), work)


@contracts.command("show", short_help="Show one provider, promise by promise.")
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

    carry_out(context, Common(as_json=as_json, debug=debug), work)
