"""The commands about checkpoints and their options, as typer knows them: `recover checkpoint ...`.

Owns names, help and the checking of arguments; what a command does is in a module of its own, imported when it is called, so that neither
`--help` nor any other command needs an extra. Invariant: none of these needs a database or an app.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from recovery.cli.common import Common, Debug, Json, app, carry_out
from recovery.cli.output import Output
from recovery.core.errors import ExitCode

checkpoint = typer.Typer(
    short_help="Checkpoints: plan, verify, look into, compare, keep.",
    help="Checkpoints of training and inference: what a store holds and whether it is whole, how two differ, how often to save, "
    "and whether a run that is resumed is the same run.",
    no_args_is_help=True,
    rich_markup_mode=None,
)
app.add_typer(checkpoint, name="checkpoint")

_SEED_MAX = 2**32 - 1


@checkpoint.command("plan", short_help="Plan how often to save.")
def plan(
    context: typer.Context,
    size: Annotated[str, typer.Option("--bytes", metavar="SIZE", help="How large a checkpoint is: 2TB, 512GiB.")],
    bandwidth: Annotated[
        str | None, typer.Option("--bandwidth", metavar="RATE", help="Sustained, durable, of the whole path: 20GB/s, 800MiB/s.")
    ] = None,
    measure: Annotated[
        Path | None, typer.Option("--measure", metavar="DIR", help="Measure the bandwidth there instead: write, sync, remove.")
    ] = None,
    streams: Annotated[int, typer.Option("--streams", metavar="N", min=1, help="With --measure: equal streams at once.")] = 1,
    measure_bytes: Annotated[
        str, typer.Option("--measure-bytes", metavar="SIZE", help="With --measure: write at most so much in all.")
    ] = "512MB",
    measure_time: Annotated[
        str, typer.Option("--measure-time", metavar="TIME", help="With --measure: take about so long at most.")
    ] = "20s",
    mtbf: Annotated[
        str | None,
        typer.Option("--mtbf", metavar="TIME", help="Mean time between failures of the whole job. Default: that of --failure-log."),
    ] = None,
    failure_log: Annotated[
        Path | None,
        typer.Option("--failure-log", metavar="FILE", help="Replay these failures: CSV or JSON lines with `at` or `at_s`."),
    ] = None,
    weibull: Annotated[
        float | None,
        typer.Option("--weibull", metavar="SHAPE", help="Draw failures from a Weibull distribution: below 1 they come in bursts."),
    ] = None,
    draws: Annotated[int, typer.Option("--draws", metavar="N", min=2, max=10**6, help="Draw so many failures.")] = 10_000,
    seed: Annotated[int, typer.Option("--seed", metavar="N", min=0, max=_SEED_MAX, help="The same seed, the same failures.")] = 0,
    stall: Annotated[
        str | None,
        typer.Option(
            "--stall", metavar="TIME", help="How long training stops for a save. Default: until it is durable (synchronous)."
        ),
    ] = None,
    save: Annotated[
        str | None,
        typer.Option("--save", metavar="TIME", help="How long until a save is durable. Default: the floor, bytes over bandwidth."),
    ] = None,
    detection: Annotated[str, typer.Option("--detection", metavar="TIME", help="From a failure until it is noticed.")] = "0s",
    restart: Annotated[
        str, typer.Option("--restart", metavar="TIME", help="From there until training goes on, loading included.")
    ] = "0s",
    interval: Annotated[
        list[str] | None, typer.Option("--interval", metavar="TIME", help="Judge this interval as well; may be repeated.")
    ] = None,
    work: Annotated[str, typer.Option("--work", metavar="TIME", help="Say how long so much training takes.")] = "30d",
    plot: Annotated[
        Path | None, typer.Option("--plot", metavar="FILE", help="Draw the comparison as .png or .svg. Needs the extra `plot`.")
    ] = None,
    as_json: Json = False,
    debug: Debug = False,
) -> None:
    """Plan how often to save: the floor, the best interval, what is lost, and a comparison over intervals."""
    if (bandwidth is None) == (measure is None):
        raise typer.BadParameter("say --bandwidth RATE or --measure DIR, one of them.", param_hint="--bandwidth, --measure")
    if mtbf is None and failure_log is None:
        raise typer.BadParameter("say how often it fails: --mtbf TIME, or --failure-log FILE.", param_hint="--mtbf")
    if failure_log is not None and weibull is not None:
        raise typer.BadParameter("failures are read or drawn, not both.", param_hint="--weibull, --failure-log")

    def planned(output: Output, common: Common) -> ExitCode:  # noqa: ARG001  # it needs no database
        from recovery.cli import checkpoint_plan as it

        measuring = None if measure is None else it.Measuring(measure, streams, measure_bytes, measure_time)
        asked = it.Asked(
            size=size,
            bandwidth=measuring if measuring is not None else bandwidth or "",
            failing=it.Failing(mtbf, failure_log, weibull, draws, seed),
            stall=stall,
            save=save,
            detection=detection,
            restart=restart,
            intervals=tuple(interval or ()),
            work=work,
            plot=plot,
        )
        return it.plan(output, asked)

    carry_out(context, Common(as_json=as_json, debug=debug), planned)


@checkpoint.command("verify-resume", short_help="Verify that a resumed run is the same run.")
def verify_resume(
    context: typer.Context,
    make: Annotated[
        str | None,
        typer.Option(
            "--make", metavar="MODULE:FUNCTION", help="Makes your trainer at its beginning. Default: the reference trainer."
        ),
    ] = None,
    step: Annotated[
        str | None, typer.Option("--step", metavar="MODULE:FUNCTION", help="Does one update of it. Belongs to --make.")
    ] = None,
    before: Annotated[int, typer.Option("--before", metavar="N", min=1, help="Updates before the save.")] = 17,
    after: Annotated[
        list[int] | None,
        typer.Option("--after", metavar="N", min=1, help="Updates after the restore; several are several resumes. Default: 23."),
    ] = None,
    contract: Annotated[
        str,
        typer.Option(
            "--contract",
            metavar="NAME",
            help="How equal: exact, torch-deterministic (also exact) or torch-reordered (bounds on floats).",
        ),
    ] = "exact",
    ablate: Annotated[
        bool, typer.Option("--ablate/--no-ablate", help="Drop each field in turn, and show what weights alone come to.")
    ] = True,
    plot: Annotated[
        Path | None, typer.Option("--plot", metavar="FILE", help="Draw the trajectories as .png or .svg. Needs the extra `plot`.")
    ] = None,
    keep: Annotated[
        Path | None, typer.Option("--keep", metavar="DIR", help="Keep the checkpoints in DIR/store; DIR is new or empty.")
    ] = None,
    as_json: Json = False,
    debug: Debug = False,
) -> None:
    """Verify that a resume is exact: 17 updates, a save, a fresh process and 23 more against 40 in one go, in every field after every update."""
    if (make is None) != (step is None):
        raise typer.BadParameter("give both, or neither for the reference trainer.", param_hint="--make, --step")

    def work(output: Output, common: Common) -> ExitCode:  # noqa: ARG001  # it needs no database
        from recovery.cli import checkpoint_resume as it

        return it.verify_resume(output, it.Asked(make, step, before, tuple(after or (23,)), contract, ablate, plot, keep))

    carry_out(context, Common(as_json=as_json, debug=debug), work)
