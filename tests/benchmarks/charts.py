"""Charts of the figures for the page: effects in a second, on a logarithmic axis, one bar for each program; and how the cost of a step grows.

Knows figures by their names alone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from tests.benchmarks.reporting import Figure

PANELS = {"sequential: ": "one run, one effect after the other", "200 runs at once: ": "200 runs at once"}
BESIDE = {"processes on PostgreSQL": ("processes on one file", "PostgreSQL")}
"""Curves that are drawn beside another one, and as what."""
OURS, FLOOR, OTHERS = "#0b6e4f", "#9aa5b1", "#3d5a80"


def drawn(figures: Sequence[Figure], to: Path) -> None:
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot as plt

    panels = {title: _bars(figures, prefix) for prefix, title in PANELS.items()}
    heights = [max(1, len(bars)) for bars in panels.values()]
    figure, axes = plt.subplots(len(panels), 1, figsize=(9, 1.6 + 0.32 * sum(heights)), height_ratios=heights, layout="constrained")
    for axis, (title, bars) in zip(axes, panels.items(), strict=True):
        names, rates = [name for name, _ in bars], [rate for _, rate in bars]
        colours = [OURS if name.startswith("recovery") else FLOOR if "raw" in name else OTHERS for name in names]
        axis.barh(names, rates, color=colours)
        axis.bar_label(axis.containers[0], labels=[f" {rate:,.0f}" for rate in rates], fontsize=8)
        axis.set_xscale("log")
        axis.set_xlim(right=max(rates, default=1) * 3)
        axis.set_title(title, loc="left", fontsize=10)
        axis.set_xlabel("effects in a second (logarithmic)", fontsize=8)
        axis.tick_params(labelsize=8)
        axis.spines[["top", "right"]].set_visible(False)
    figure.savefig(to, dpi=130, metadata={"Software": ""})
    plt.close(figure)


def grown(curves: Mapping[str, Sequence[tuple[int, float, float]]], to: Path) -> None:
    """Microseconds for a step, and of processors, over what grows."""
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot as plt
    from matplotlib.ticker import NullLocator

    figure, axes = plt.subplots(2, 2, figsize=(9, 6), layout="constrained")
    panels = {what: points for what, points in curves.items() if what not in BESIDE}
    for axis, (what, points) in zip(axes.flat, panels.items(), strict=False):
        along = [point[0] for point in points]
        axis.plot(along, [point[1] for point in points], "o-", color=OURS, label="until it returned")
        axis.plot(along, [point[2] for point in points], "s--", color=OTHERS, label="of processors")
        for other, (panel, label) in BESIDE.items():
            if panel == what and other in curves:
                beside = curves[other]
                axis.plot([point[0] for point in beside], [point[1] for point in beside], "^-", color=FLOOR, label=label)
                axis.legend(fontsize=8, frameon=False)
        axis.set_xscale("log")
        axis.set_xticks(along, [f"{each:,}" for each in along])
        axis.xaxis.set_minor_locator(NullLocator())
        axis.set_ylim(bottom=0)
        axis.set_title(what, loc="left", fontsize=10)
        axis.set_ylabel("us for a step", fontsize=8)
        axis.tick_params(labelsize=8)
        axis.spines[["top", "right"]].set_visible(False)
    axes.flat[0].legend(fontsize=8, frameon=False)
    figure.savefig(to, dpi=130, metadata={"Software": ""})
    plt.close(figure)


def _bars(figures: Sequence[Figure], prefix: str) -> list[tuple[str, float]]:
    """From the slowest to the fastest."""
    found = [
        (each.name.removeprefix(prefix), 1e6 / each.value if each.unit == "us" else each.value)
        for each in figures
        if each.name.startswith(prefix) and each.value and " over " not in each.name
    ]
    return sorted(found, key=lambda bar: bar[1])
