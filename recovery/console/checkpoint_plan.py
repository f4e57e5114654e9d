"""The report of a checkpoint plan: the floor, the best interval, what it costs, and a table over intervals.

Owns its wording and layout. Computes nothing. Invariant: a number is shown with its unit and with what it is a share of.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from recovery.checkpoint.planning import interval as planning
from recovery.checkpoint.planning import units
from recovery.checkpoint.planning.failures import Failures
from recovery.checkpoint.planning.interval import Plan, Shares, Situation
from recovery.checkpoint.planning.measuring import Measurement
from recovery.checkpoint.planning.simulation import Compared, Found
from recovery.checkpoint.planning.units import short_span, shown_rate, shown_share, shown_size, shown_span
from recovery.console import words
from recovery.console.paper import Paper, facts

RETAINED, STALLED, LOST, DOWN = "green", "yellow", "red", "blue"
SHARES: Final = 7
"""The first columns: shares of wall time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Told:
    """Everything that the command found out."""

    plan: Plan
    measured: Measurement | None
    failures: Failures
    rows: Sequence[Compared]
    found: Found
    work_s: float
    plot: Path | None


def planned(paper: Paper, told: Told) -> RenderableType:
    parts: list[RenderableType] = []
    if told.measured is not None:
        parts.append(paper.panel("measured", _measured(told.measured)))
    parts.append(paper.panel("given", _given(told.plan.situation)))
    parts.append(paper.panel("plan", _plan(told), "green"))
    columns = _columns(told)
    halves = [_table(told, columns[:SHARES]), Text(), _table(told, [*columns[:2], *columns[SHARES:]])]
    tables = halves if paper.terminal else [_table(told, columns)]
    parts.append(paper.panel("over intervals", Group(*tables, Text(), _read(told))))
    if told.plot is not None:
        parts.append(Text(f"The plot is in {words.bounded(str(told.plot))}."))
    return Group(*parts)


def _measured(of: Measurement) -> RenderableType:
    rates = f"{shown_rate(of.bandwidth)} (median; {shown_rate(min(of.rates))} to {shown_rate(max(of.rates))})"
    rows: list[tuple[str, RenderableType]] = [
        ("directory", words.bounded(of.directory)),
        ("durable", Text(rates, style="bold")),
        ("policy", of.policy),
    ]
    if of.of_memory < 1:
        share = f"a round is {shown_share(of.of_memory)} of this machine's memory"
        rows.append(("caution", f"{share}; a cache on the way may have taken it. Measure more than memory for what lasts"))
    return facts(rows)


def _given(of: Situation) -> RenderableType:
    if of.synchronous:
        how = f"synchronous: training stops until a save is durable, {shown_span(of.save_s)}"
    else:
        how = f"asynchronous: training stops for {shown_span(of.stall_s)}; a save is durable after {shown_span(of.save_s)}"
    repair = "noticing and restarting were not given and count as nothing"
    if of.detection_s or of.restart_s:
        repair = f"noticed after {shown_span(of.detection_s)}, restarted in {shown_span(of.restart_s)}"
    return facts(
        [
            ("state", f"{shown_size(of.size)} over a path of {shown_rate(of.bandwidth)}"),
            ("floor", f"{shown_span(of.floor_s)}: no save is faster, before metadata, contention and consistency work"),
            ("saves", how),
            ("failures", f"every {shown_span(of.mtbf_s)} on average; {repair}"),
        ]
    )


def _plan(told: Told) -> RenderableType:
    of = told.plan
    best, first = of.outlook, of.first_order
    bound = " (the floor: more often needs a faster path or a smaller state)" if of.at_floor else ""
    formula = "τ/2" if of.situation.synchronous else "τ/2 + S/B"
    repair = ", without repairs" if best.shares.down else ""
    lost, estimate = shown_span(best.lost_per_failure_s), shown_span(first.lost_per_failure_s)
    rows: list[tuple[str, RenderableType]] = [
        ("save every", Text(f"{shown_span(of.interval_s)}{bound}", style=f"bold {RETAINED}")),
        ("estimates", f"Young {shown_span(of.young_s)}, Daly {shown_span(of.daly_s)}; {_simulated_best(told.found)}"),
        ("retained", _split(best.shares)),
        ("waste", f"{shown_share(best.shares.waste)} (first order{repair}: {shown_share(first.waste)})"),
        ("lost work", f"{lost} per failure on average (first order, {formula}: {estimate})"),
        ("path", f"carries a save {shown_share(best.busy)} of the time"),
    ]
    if not of.situation.synchronous:
        stopped = planning.plan(planning.synchronous(of.situation))
        rows.append(
            (
                "instead",
                f"synchronous saves: every {shown_span(stopped.interval_s)}, {shown_share(stopped.outlook.shares.retained)} retained",
            )
        )
    return facts(rows)


def _simulated_best(of: Found) -> str:
    if of.from_s is None or of.to_s is None:
        return f"simulated {shown_span(of.interval_s)}"
    if of.from_s == of.to_s:
        return f"simulated {shown_span(of.interval_s)}"
    return f"simulated {shown_span(of.interval_s)} ({shown_span(of.from_s)} to {shown_span(of.to_s)} are as good)"


def _split(of: Shares) -> Text:
    text = Text.assemble(
        (f"{shown_share(of.retained)} of wall time", f"bold {RETAINED}"),
        "; ",
        (f"{shown_share(of.stalled)} stalled for saves", STALLED),
        ", ",
        (f"{shown_share(of.lost)} lost work", LOST),
    )
    return text + Text.assemble(", ", (f"{shown_share(of.down)} down", DOWN)) if of.down else text


@dataclass(frozen=True, slots=True)
class _Column:
    head: str
    cell: Callable[[Compared], str]
    style: str = ""


def _columns(told: Told) -> list[_Column]:
    """The first ones are shares. A terminal gets two tables, both with the first two columns: one would be wider than it is."""
    cycle_s = told.plan.situation.cycle_s

    def per_work(row: Compared, then: Callable[[float], str]) -> str:
        wall_s = row.outlook.wall_s(told.work_s)
        return then(wall_s) if wall_s < units.SPAN_MAX else "never"

    return [
        _Column("", lambda row: "best" if row.best else "asked" if row.asked else "", "cyan"),
        _Column("save every", lambda row: short_span(row.interval_s)),
        _Column("retained", lambda row: shown_share(row.outlook.shares.retained), RETAINED),
        _Column("simulated", _simulated),
        _Column("stalled", lambda row: shown_share(row.outlook.shares.stalled), STALLED),
        _Column("lost", lambda row: shown_share(row.outlook.shares.lost), LOST),
        _Column("down", lambda row: shown_share(row.outlook.shares.down), DOWN),
        _Column("lost a failure", lambda row: short_span(row.outlook.lost_per_failure_s), LOST),
        _Column("saves a day", lambda row: f"{row.outlook.saves_per_day:,.4g}", STALLED),
        _Column(f"{short_span(told.work_s)} take", lambda row: per_work(row, short_span)),
        _Column("failures", lambda row: per_work(row, lambda wall_s: f"{wall_s / cycle_s:,.0f}")),
    ]


def _table(told: Told, columns: Sequence[_Column]) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
    for column in columns:
        table.add_column(column.head, justify="right" if column.head else "left", no_wrap=True, style=column.style)
    for row in told.rows:
        table.add_row(*(column.cell(row) for column in columns), style="bold" if row.best else "")
    return table


def _simulated(row: Compared) -> str:
    of = row.simulated
    if of.low is None:
        return shown_share(of.shares.retained)
    return f"{shown_share(of.shares.retained)} ± {100 * (of.shares.retained - of.low):.2f}"


def _read(told: Told) -> RenderableType:
    seed = "" if told.failures.seed is None else f", seed {told.failures.seed}"
    failures = f"{words.counted(told.rows[0].simulated.failures, 'failure')} ({words.bounded(told.failures.source)}{seed})"
    sure = "" if told.rows[0].simulated.low is None else ", ± of 95 % confidence"
    lines = (
        "Shares are of wall time. All but simulated is the closed form, for failures without memory.",
        f"Simulated: what was retained with {failures}{sure}.",
        f"Last two: {shown_span(told.work_s)} of training take so long, and meet so many failures.",
    )
    return Text("\n".join(lines), style="dim")
