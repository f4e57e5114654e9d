"""The report of a checkpoint plan: the floor, the best interval, what it costs, and a table over intervals.

Owns its wording and layout. Computes nothing. Invariant: a number is shown with its unit and with what it is a share of.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from recovery.checkpoint.failures import Failures
from recovery.checkpoint.measuring import Measurement
from recovery.checkpoint.planning import Plan, Shares
from recovery.checkpoint.simulation import Compared
from recovery.checkpoint.units import shown_rate, shown_share, shown_size, shown_span
from recovery.console import words
from recovery.console.paper import Paper, facts

RETAINED, STALLED, LOST, DOWN = "green", "yellow", "red", "blue"


@dataclass(frozen=True, slots=True, kw_only=True)
class Told:
    """Everything that the command found out."""

    plan: Plan
    measured: Measurement | None
    failures: Failures
    rows: Sequence[Compared]
    work_s: float
    plot: Path | None


def planned(paper: Paper, told: Told) -> RenderableType:
    parts: list[RenderableType] = []
    if told.measured is not None:
        parts.append(paper.panel("measured", _measured(told.measured)))
    parts.append(paper.panel("given", _given(told)))
    parts.append(paper.panel("plan", _plan(told.plan), "green"))
    parts.append(paper.panel("over intervals", Group(_table(told), Text(_read(told), style="dim"))))
    if told.plot is not None:
        parts.append(Text(f"The plot is in {words.bounded(str(told.plot))}."))
    return Group(*parts)


def _measured(of: Measurement) -> RenderableType:
    return facts(
        [
            ("directory", words.bounded(of.directory)),
            (
                "durable",
                Text(f"{shown_rate(of.bandwidth)} (median; {shown_rate(min(of.rates))} to {shown_rate(max(of.rates))})", "bold"),
            ),
            ("policy", of.policy),
            (
                "caution",
                f"a round is {shown_share(of.of_memory)} of this machine's memory: what is below it, a cache on the way may have taken",
            ),
        ]
    )


def _given(told: Told) -> RenderableType:
    of = told.plan.situation
    how = (
        "synchronous: training stops"
        if of.synchronous
        else f"asynchronous: training stops for {shown_span(of.stall_s)}, the save goes on"
    )
    return facts(
        [
            ("state", f"{shown_size(of.size)} over a path of {shown_rate(of.bandwidth)}"),
            ("floor", f"{shown_span(of.floor_s)}: no save is faster, before metadata, contention and consistency work"),
            ("saves", f"{how} until it is durable, after {shown_span(of.save_s)}"),
            (
                "failures",
                f"every {shown_span(of.mtbf_s)} on average; noticed after {shown_span(of.detection_s)}, restarted in {shown_span(of.restart_s)}",
            ),
        ]
    )


def _plan(of: Plan) -> RenderableType:
    best, first = of.outlook, of.first_order
    bound = " (the floor: more often needs a faster path or a smaller state)" if of.at_floor else ""
    formula = "τ/2" if of.situation.synchronous else "τ/2 + S/B"
    return facts(
        [
            ("save every", Text(f"{shown_span(of.interval_s)}{bound}", style="bold green")),
            ("estimates", f"Young {shown_span(of.young_s)}, Daly {shown_span(of.daly_s)}; the closed form was used"),
            ("retained", _split(best.shares)),
            (
                "lost work",
                f"{shown_span(best.lost_per_failure_s)} per failure on average (first order, {formula}: {shown_span(first.lost_per_failure_s)})",
            ),
            ("waste", f"{shown_share(best.shares.waste)} (first order: {shown_share(first.waste)})"),
            ("path", f"carries a save {shown_share(best.busy)} of the time"),
        ]
    )


def _split(of: Shares) -> Text:
    text = Text.assemble(
        (f"{shown_share(of.retained)} of wall time", f"bold {RETAINED}"),
        "; ",
        (f"{shown_share(of.stalled)} stalled for saves", STALLED),
        ", ",
        (f"{shown_share(of.lost)} lost work", LOST),
    )
    return text + Text.assemble(", ", (f"{shown_share(of.down)} down", DOWN)) if of.down else text


def _table(told: Told) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
    table.add_column("")
    for name in (
        "save every",
        "saves/day",
        "stalled",
        "lost",
        "down",
        "retained",
        "simulated",
        "lost/failure",
        f"{shown_span(told.work_s)} take",
        "failures",
    ):
        table.add_column(name, justify="right", no_wrap=True)
    for row in told.rows:
        table.add_row(*_cells(told, row), style="bold" if row.best else "")
    return table


def _cells(told: Told, row: Compared) -> list[RenderableType]:
    of, shares = row.outlook, row.outlook.shares
    wall_s = of.wall_s(told.work_s)
    return [
        Text("best" if row.best else "asked" if row.asked else "", style=RETAINED if row.best else "cyan"),
        shown_span(row.interval_s),
        f"{of.saves_per_day:,.0f}",
        Text(shown_share(shares.stalled), style=STALLED),
        Text(shown_share(shares.lost), style=LOST),
        Text(shown_share(shares.down), style=DOWN),
        Text(shown_share(shares.retained), style=RETAINED),
        _simulated(row),
        shown_span(of.lost_per_failure_s),
        shown_span(wall_s) if wall_s < 10**9 else "for ever",
        f"{wall_s / told.plan.situation.cycle_s:,.0f}" if wall_s < 10**9 else "-",
    ]


def _simulated(row: Compared) -> str:
    of = row.simulated
    if of.low is None or of.high is None:
        return shown_share(of.shares.retained)
    return f"{shown_share(of.shares.retained)} ± {100 * (of.high - of.low) / 2:.1f}"


def _read(told: Told) -> str:
    seed = "" if told.failures.seed is None else f", seed {told.failures.seed}"
    counted = words.counted(len(told.failures.at_s), "failure")
    return (
        f"Shares of wall time, by the closed form; simulated: retained, with {counted} ({words.bounded(told.failures.source)}{seed}), "
        "95 % confidence."
    )
