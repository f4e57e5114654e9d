"""The command `explore`, as typer knows it.

Owns its name, help and the checking of its arguments; what it does is in `searching`, imported when it is called. Invariant: what cannot be
explored is refused before anything is played.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from recovery.cli.common import Common, Debug, Json, app, carry_out
from recovery.cli.output import Output
from recovery.core.errors import ExitCode

_FAULTS_MAX = 8  # each one more multiplies the histories by a hundred
_RECOVERERS_MAX = 8
_MANY = 10**9


@app.command(short_help="Explore a workflow: every crash, every interleaving, within bounds.")
def explore(
    context: typer.Context,
    what: Annotated[
        str,
        typer.Argument(
            metavar="PATH|MODULE:NAME",
            help="A scenario file; an Exploration of your own by its name, or by that of its workflow; or a workflow that has none, whose effects are then acted by their contracts.",
        ),
    ],
    given: Annotated[
        str | None,
        typer.Option(
            "--input",
            metavar="JSON",
            help="The input of a workflow: an object of its arguments by name, or the value where it takes one. Default: none.",
        ),
    ] = None,
    bound: Annotated[
        int, typer.Option("--bound", min=0, max=_FAULTS_MAX, help="How many faults one history may have: a kill is one.")
    ] = 2,
    recoverers: Annotated[
        int,
        typer.Option("--recoverers", min=0, max=_RECOVERERS_MAX, help="How many processes may take the run up after the first."),
    ] = 2,
    seed: Annotated[int, typer.Option("--seed", help="Picks the order, and the sample where the search is cut short.")] = 0,
    histories_max: Annotated[
        int | None,
        typer.Option("--histories-max", min=1, max=_MANY, help="Stop after so many histories. Default: when all were seen."),
    ] = None,
    jobs: Annotated[
        int | None,
        typer.Option("--jobs", min=1, max=64, help="How many processes search. Default: as many as there are processors."),
    ] = None,
    store: Annotated[
        list[str] | None,
        typer.Option(
            "--store",
            metavar="STORE",
            help="Where a sample of the histories is repeated: sqlite, or a PostgreSQL URL (a schema of its own, dropped again); may be repeated. Default: sqlite.",
        ),
    ] = None,
    cancel: Annotated[
        bool, typer.Option("--cancel", help="Somebody may also cancel the run, at every moment; that counts as a fault.")
    ] = False,
    colour: Annotated[
        str, typer.Option("--colour", help="sync or async: the form of a scenario's workflow that is explored.")
    ] = "sync",
    out: Annotated[
        Path | None,
        typer.Option("--out", metavar="FILE", help="Where the smallest history that breaks a promise is written, as a scenario."),
    ] = None,
    as_json: Json = False,
    debug: Debug = False,
) -> None:
    """Play every history of a workflow within bounds, on a virtual clock, and look in every state whether the promises I1 to I10 hold.

    Exit 0 if nothing is violated; 1 if something is, with the smallest history that shows it, which `recover replay` plays.
    """
    for name in store or []:
        if name != "sqlite" and not name.startswith("postgresql://"):
            raise typer.BadParameter(f"{name} is no store for this: say sqlite or a postgresql:// URL.", param_hint="--store")
    if colour not in {"sync", "async"}:
        raise typer.BadParameter(f"{colour} is no colour: say sync or async.", param_hint="--colour")

    def work(output: Output, common: Common) -> ExitCode:  # noqa: ARG001  # what is explored brings its own database
        from recovery.cli import searching

        wanted = searching.Wanted(
            what,
            bound,
            recoverers,
            seed,
            histories_max,
            jobs,
            tuple(store or ["sqlite"]),
            is_async=colour == "async",
            out=out,
            given=given,
            cancels=cancel,
        )
        return searching.explore(output, wanted)

    carry_out(context, Common(None, None, as_json, debug), work)
