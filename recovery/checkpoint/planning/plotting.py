"""Plotting: what a comparison looks like, as PNG or SVG.

Owns the drawing of plots and the check for matplotlib (extra `plot`). Computes nothing that it draws except curves of the closed form.
Invariant: axes say their units, what cannot be done is shaded and named, and a file appears whole or not at all.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal

from recovery.checkpoint.drawing import DOWN, FAINT, INK, LOST, RETAINED, SHADE, STALLED, drawing, ready, write
from recovery.checkpoint.planning import interval as planning
from recovery.checkpoint.planning import units
from recovery.checkpoint.planning.interval import Outlook, Plan
from recovery.checkpoint.planning.simulation import Compared, Simulated

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

POINTS: Final = 240
WIDE: Final = 32
"""What is shorter than the best interval by more than this is not drawn."""

_BACKED: Final = {"facecolor": "white", "edgecolor": "none", "pad": 1.5}
ROUND_SPANS: Final = (
    *(n * 10.0**power for power in range(-6, 1) for n in (1, 2, 5)),
    10.0, 20.0, 50.0, 100.0, 200.0, 300.0, 600.0, 1200.0, 1800.0,
    *(3600.0 * n for n in (1, 2, 4, 8, 12)),
    *(86400.0 * n for n in (1, 2, 4, 7, 14, 30, 60, 120, 365, 730, 3650)),
)  # fmt: skip
"""Seconds at which an axis may have a tick."""


def intervals(path: Path, plan: Plan, rows: Sequence[Compared]) -> None:
    """Overhead, interruptions and retained progress over intervals. Raises as `ready` does, and PlotRefused where it cannot be written."""
    ready(path)
    with drawing() as figure:
        figure.set_size_inches(8.2, 8.6)
        kept, cost, often = figure.subplots(3, 1, sharex=True, height_ratios=(3, 3, 2))
        grid = _grid(plan, rows)
        curve = [planning.outlook(plan.situation, each) for each in grid]
        _retained(kept, plan, curve, rows)
        _costs(cost, plan, curve)
        _interruptions(often, plan, curve)
        for axes in (kept, cost, often):
            _landmarks(axes, plan, grid)
        _infeasible(kept, plan, grid)
        _scale(often, grid)
        _titled(figure, plan)
        write(figure, path)


def _grid(plan: Plan, rows: Sequence[Compared]) -> list[float]:
    situation = plan.situation
    low = max(situation.save_s * (1.02 if situation.synchronous else 1.0), plan.optimum_s / WIDE)
    longest = max(plan.optimum_s * max(planning.STEPS), 2 * situation.mtbf_s)  # beyond, hardly anything is retained
    high = max(min(rows[-1].interval_s, longest), low * 4) * 1.15
    return [low * (high / low) ** (step / (POINTS - 1)) for step in range(POINTS)]


def _percent(values: Sequence[float]) -> list[float]:
    return [100 * value for value in values]


def _retained(axes: Axes, plan: Plan, curve: Sequence[Outlook], rows: Sequence[Compared]) -> None:
    from matplotlib.ticker import FuncFormatter

    shares = _percent([o.shares.retained for o in curve])
    axes.plot([o.interval_s for o in curve], shares, color=RETAINED, lw=2.4, label="closed form")
    shown = [row.simulated for row in rows if curve[0].interval_s <= row.interval_s <= curve[-1].interval_s]
    middle = _percent([s.shares.retained for s in shown])
    below = [m - 100 * (s.shares.retained if s.low is None else s.low) for m, s in zip(middle, shown, strict=True)]
    above = [100 * (s.shares.retained if s.high is None else s.high) - m for m, s in zip(middle, shown, strict=True)]
    axes.errorbar(
        [s.interval_s for s in shown],
        middle,
        yerr=[below, above],
        fmt="o",
        ms=4.5,
        color=INK,
        capsize=3,
        lw=1.2,
        label=_simulated(shown),
    )
    if asked := [s for row in rows if row.asked and (s := row.simulated) in shown]:
        places = [s.interval_s for s in asked], _percent([s.shares.retained for s in asked])
        axes.plot(*places, "o", ms=9, mfc="none", mec=STALLED, mew=2, label="asked for")
    top = 100 * planning.outlook(plan.situation, plan.optimum_s).shares.retained
    least, most = min([*middle, shares[-1]]), max([*middle, top])
    room = most - least
    least, most = min(m - b for m, b in zip(middle, below, strict=True)), max(m + a for m, a in zip(middle, above, strict=True))
    axes.set_ylim(max(0.0, min(shares[-1], least) - 0.45 * room), max(top, most) + 0.3 * room)
    _best(axes, plan, curve)
    axes.yaxis.set_major_formatter(FuncFormatter(lambda percent, _: f"{percent:.12g}" if percent <= 100 else ""))
    axes.set_ylabel("retained progress\n(% of wall time)")
    _legend(axes, plan, "lower", 0.03, left=_left(plan, curve))


def _best(axes: Axes, plan: Plan, curve: Sequence[Outlook]) -> None:
    left = _left(plan, curve)
    retained = planning.outlook(plan.situation, plan.optimum_s).shares.retained
    axes.annotate(
        f"best: every {units.shown_span(plan.optimum_s)}, {units.shown_share(retained)} retained",
        (plan.optimum_s, 0.93),
        xycoords=axes.get_xaxis_transform(),
        xytext=(6 if left else 0, 0),
        textcoords="offset points",
        va="center",
        ha="left" if left else "center",
        color=RETAINED,
        weight="bold",
        bbox=_BACKED,
    )


def _left(plan: Plan, curve: Sequence[Outlook]) -> bool:
    """Whether the best interval is so near to the left that what is said of it must begin there."""
    low, high = curve[0].interval_s, curve[-1].interval_s
    return math.log(plan.optimum_s / low) < 0.3 * math.log(high / low)


def _simulated(shown: Sequence[Simulated]) -> str:
    certain = ", 95 % confidence" if shown[0].low is not None else " (too few for a confidence interval)"
    return f"simulated, {shown[0].failures:,} failures{certain}"


def _costs(axes: Axes, plan: Plan, curve: Sequence[Outlook]) -> None:
    parts: list[tuple[str, str, Callable[[Outlook], float]]] = [
        ("down: noticing and restarting", DOWN, lambda o: o.shares.down),
        ("lost work, done again", LOST, lambda o: o.shares.lost),
        ("stalled for saves", STALLED, lambda o: o.shares.stalled),
    ]
    parts = [part for part in parts if part[2](curve[-1]) > 0]
    heights = [_percent([of(o) for o in curve]) for _, _, of in parts]
    for (name, color, _), areas in zip(parts, axes.stackplot([o.interval_s for o in curve], *heights), strict=True):
        areas.set(color=color, alpha=0.9, linewidth=0, label=name)
    least = planning.outlook(plan.situation, plan.optimum_s).shares.waste
    most = max(curve[-1].shares.waste, min(curve[0].shares.waste, 4 * least))
    axes.set_ylim(0, min(100.0, 100 * (most + 0.25 * least)))
    axes.set_ylabel("overhead\n(% of wall time)")
    _legend(axes, plan, "upper", 0.97, left=_left(plan, curve), reverse=True)


def _interruptions(axes: Axes, plan: Plan, curve: Sequence[Outlook]) -> None:
    from matplotlib.ticker import FuncFormatter, NullLocator

    saves = [o.saves_per_day for o in curve]
    daily = 86400 / plan.situation.cycle_s
    axes.plot([o.interval_s for o in curve], saves, color=STALLED, lw=2.4)
    axes.axhline(daily, color=LOST, lw=2.4)
    axes.set_yscale("log")
    axes.set_ylim(min(daily, saves[-1]) / 2.5, saves[0] * 2)
    axes.yaxis.set_major_formatter(FuncFormatter(lambda count, _: f"{count:,.12g}"))
    axes.yaxis.set_minor_locator(NullLocator())
    here, there = len(curve) // 6, len(curve) * 5 // 9
    stall = "nothing" if plan.situation.stall_s == 0 else units.shown_span(plan.situation.stall_s)
    _named(axes, f"saves, each stalls {stall}", curve[here].interval_s, saves[here], STALLED, above=True)
    _named(
        axes,
        f"failures, {daily:.3g} a day",
        curve[there].interval_s,
        daily,
        LOST,
        above=saves[there] < daily or saves[-1] > 2 * daily,
    )
    axes.set_ylabel("interruptions\n(per day)")


def _named(axes: Axes, text: str, x: float, y: float, color: str, *, above: bool) -> None:
    """A line's name beside it, in its colour."""
    offset, side = ((6, 5), "bottom") if above else ((6, -5), "top")
    axes.annotate(text, (x, y), xytext=offset, textcoords="offset points", va=side, color=color, weight="bold", bbox=_BACKED)


def _legend(axes: Axes, plan: Plan, side: Literal["lower", "upper"], height: float, *, left: bool, reverse: bool = False) -> None:
    """At the best interval, where a curve is far from it: retained progress is highest there, and overhead lowest."""
    places: dict[tuple[str, bool], Literal["lower center", "lower left", "upper center", "upper left"]] = {
        ("lower", False): "lower center",
        ("lower", True): "lower left",
        ("upper", False): "upper center",
        ("upper", True): "upper left",
    }
    axes.legend(
        loc=places[side, left],
        bbox_to_anchor=(plan.optimum_s, height),
        bbox_transform=axes.get_xaxis_transform(),
        reverse=reverse,
        framealpha=1,
        edgecolor=SHADE,
        borderaxespad=0.4,
    )


def _landmarks(axes: Axes, plan: Plan, grid: Sequence[float]) -> None:
    """The shortest interval that can be kept, and the best one."""
    shortest = plan.situation.save_s
    if shortest < grid[0] / 1.1:
        axes.set_xlim(grid[0], grid[-1])
        axes.axvline(plan.optimum_s, color=RETAINED, lw=1.2, ls=(0, (4, 3)), zorder=1.9)
        return
    left = shortest * (shortest / grid[-1]) ** 0.16  # so that the shade is wide enough for its name
    axes.axvspan(left, shortest, color=SHADE, lw=0, zorder=0)
    axes.axvline(shortest, color=FAINT, lw=1.2, zorder=1.1)
    axes.axvline(plan.optimum_s, color=RETAINED, lw=1.2, ls=(0, (4, 3)), zorder=1.9)
    axes.set_xlim(left, grid[-1])


def _infeasible(axes: Axes, plan: Plan, grid: Sequence[float]) -> None:
    of = plan.situation
    what = f"below the floor of {units.shown_span(of.floor_s)}" if of.save_s <= of.floor_s * (1 + 1e-9) else "shorter than a save"
    place, turned = ((0.065, 0.5), 90) if of.save_s >= grid[0] / 1.1 else ((0.14, 0.94), 0)
    axes.text(
        *place, f"infeasible:\n{what}", transform=axes.transAxes, rotation=turned, ha="center", va="center", color=FAINT, size=9
    )


def _scale(axes: Axes, grid: Sequence[float]) -> None:
    """A logarithmic axis with round durations as ticks, as many as there is room for."""
    from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator

    inside: list[float] = []
    room = math.log(grid[-1] / grid[0]) / 7
    for span in ROUND_SPANS:
        if grid[0] * 0.999 <= span <= grid[-1] and (not inside or math.log(span / inside[-1]) >= room):
            inside.append(span)
    axes.set_xscale("log")
    axes.xaxis.set_major_locator(FixedLocator(inside))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_major_formatter(FuncFormatter(lambda span, _: units.shown_span(span)))
    axes.set_xlabel("interval: from the start of one save to the start of the next (time, logarithmic)")


def _titled(figure: Figure, plan: Plan) -> None:
    s = plan.situation
    kind = "synchronous" if s.synchronous else f"asynchronous, stall {units.shown_span(s.stall_s)}"
    repair = f", repaired in {units.shown_span(s.detection_s + s.restart_s)}" if s.detection_s + s.restart_s else ""
    figure.suptitle(f"How often to save {units.shown_size(s.size)} at {units.shown_rate(s.bandwidth)}", weight="bold", size=13)
    figure.axes[0].set_title(
        f"{kind}; durable after {units.shown_span(s.save_s)}; a failure every {units.shown_span(s.mtbf_s)}{repair}",
        color=FAINT,
        size=10,
    )
