"""What a resume comes to, as a plot: losses over updates, and how far the weights are from those of the uninterrupted run.

Owns that drawing. Computes nothing. Invariant: a line that is exactly zero is drawn as zero and said to be, not left out: a logarithmic axis
would lose the one result that matters.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final

from recovery.checkpoint.drawing import FAINT, INK, LOST, RETAINED, SHADE, STALLED, drawing, ready, write
from recovery.checkpoint.resume.ablation import FRESH_MOMENTS, WEIGHTS_ONLY, Trajectory
from recovery.checkpoint.resume.verifying import RESUMED, UNINTERRUPTED, ResumeReport

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_COLORS: Final[Mapping[str, str]] = {UNINTERRUPTED: INK, RESUMED: RETAINED, WEIGHTS_ONLY: LOST, FRESH_MOMENTS: STALLED}
_NAMES: Final[Mapping[str, str]] = {
    UNINTERRUPTED: "uninterrupted",
    RESUMED: "resumed from the complete state",
    WEIGHTS_ONLY: "from the weights only",
    FRESH_MOMENTS: "from everything but the moments",
}


def trajectories(path: Path, of: ResumeReport) -> None:
    """Draw a report's trajectories. Raises ExtraMissing without matplotlib, and PlotRefused where it cannot be written."""
    ready(path)
    lines = [line for line in of.trajectories if line.points]
    with drawing() as figure:
        figure.set_size_inches(8.2, 7.0)
        losses, apart = figure.subplots(2, 1, sharex=True, height_ratios=(3, 2))
        for line in lines:
            _loss(losses, line)
        _distances(apart, [line for line in lines if line.name != UNINTERRUPTED], exact=of.divergence is None)
        losses.axvline(of.before, color=FAINT, lw=1.2)
        _saved(apart, of.before)
        losses.set_ylabel("loss of the update\n(logarithmic)")
        figure.legend(loc="outside lower center", ncols=2, framealpha=1, edgecolor=SHADE)
        total = of.before + sum(of.after)
        apart.set_xlim(0, total + 1)
        apart.set_xlabel("completed updates")
        parts = " + ".join(str(updates) for updates in (of.before, *of.after))
        figure.suptitle(f"{parts} updates beside {total} in one go: {_verdict(of)}", weight="bold", size=13)
        write(figure, path)


def _verdict(of: ResumeReport) -> str:
    if of.divergence is None:
        return "equal in every bit" if not of.contract.tolerances else f"equal under the contract {of.contract.name}"
    return f"diverged after update {of.divergence.step} in {of.divergence.field}"


def _loss(axes: Axes, line: Trajectory) -> None:
    known = [(each.step, each.loss) for each in line.points if each.loss is not None and each.loss > 0]
    steps, losses = [step for step, _ in known], [loss for _, loss in known]
    color, name = _COLORS[line.name], _NAMES[line.name]
    if line.name == RESUMED:  # dots, so that the line beneath them is seen
        axes.plot(steps, losses, "o", ms=5.5, color=color, label=name, zorder=3)
    elif line.name == UNINTERRUPTED:
        axes.plot(steps, losses, color=color, lw=2.4, label=name)
    else:
        axes.plot(steps, losses, color=color, lw=1.6, label=name, ls=(0, (4, 2)))
    axes.set_yscale("log")


def _distances(axes: Axes, lines: list[Trajectory], *, exact: bool) -> None:
    """Linear below the smallest distance, so that zero has a place."""
    least = min((each.apart for line in lines for each in line.points if each.apart > 0), default=1.0)
    axes.set_yscale("symlog", linthresh=least / 2, linscale=0.4)
    for line in lines:
        steps, apart = [each.step for each in line.points], [each.apart for each in line.points]
        color = _COLORS[line.name]
        if line.name == RESUMED:
            axes.plot(steps, apart, "o-", ms=4, color=color, lw=2.0)
        else:
            axes.plot(steps, apart, color=color, lw=2.0, ls=(0, (4, 2)))
        if exact and not any(apart):
            axes.annotate("0: no bit differs", (steps[0], 0), xytext=(0, 7), textcoords="offset points", color=color, weight="bold")
    axes.set_ylim(bottom=-least / 4)
    axes.set_ylabel("largest difference\nof a weight")


def _saved(axes: Axes, before: int) -> None:
    axes.axvline(before, color=FAINT, lw=1.2)
    near = before < 8
    axes.annotate(
        f"saved after {before}",
        (before, 0.5),
        xycoords=axes.get_xaxis_transform(),
        xytext=(5 if near else -5, 0),
        textcoords="offset points",
        ha="left" if near else "right",
        color=FAINT,
    )
