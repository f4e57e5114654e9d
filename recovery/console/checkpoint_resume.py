"""The report of a verified resume: what was compared, the first divergence, what each field is needed for, and the trajectories.

Owns its wording and layout. Compares nothing. Invariant: a verdict is told with what it rests on, and a divergence with field, update, index,
both values and their distance.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from recovery.checkpoint.resume.ablation import Dropped, Point, Trajectory
from recovery.checkpoint.resume.comparing import Divergence
from recovery.checkpoint.resume.verifying import UNINTERRUPTED, Finding, ResumeReport
from recovery.console import words
from recovery.console.paper import Paper, facts

_DROPPED: Final = (
    "Import: of a checkpoint without it. Restored anyway: past every check, with what a new run has; none where that is the same."
)

ROWS: Final = 9
"""Updates that the table of trajectories shows; all of them are in the document."""

_SAID: Final[dict[Finding, str]] = {
    Finding.EXACT: "exact: the resumed run is the uninterrupted one",
    Finding.NOT_REPEATABLE: "no verdict: two runs from the beginning differ before anything was saved",
    Finding.NOT_RESTORED: "diverged: the state is another one right after the restore",
    Finding.HIDDEN_STATE: "diverged: restored whole, and an update takes something from outside the state",
    Finding.NOT_IDEMPOTENT: "diverged: restoring a second time changes the state",
    Finding.UNNOTICED: "exact, but a field can be lost without notice",
}


@dataclass(frozen=True, slots=True)
class Told:
    """Everything that the command found out."""

    make: str
    step: str
    report: ResumeReport
    plot: Path | None
    keep: Path | None


def verified(paper: Paper, told: Told) -> RenderableType:
    of = told.report
    parts: list[RenderableType] = [paper.panel("verified", _compared(told), "green" if of.ok else "red")]
    if of.divergence is not None:
        parts.append(paper.panel("first divergence", _divergence(of.divergence), "red"))
    if of.dropped:
        parts.append(paper.panel("without one field", _ablation(of.dropped)))
    lines = _others(of.trajectories)
    if len(lines) > 1 or (lines and of.divergence is not None):  # a resumed run that is exact has nothing to show on its own
        parts.append(paper.panel("beside the uninterrupted run", _trajectories(of.trajectories[0], lines)))
    if not of.ok:
        parts.append(Text(of.advice, style="bold"))
    if told.plot is not None:
        parts.append(Text(f"The plot is in {words.bounded(str(told.plot))}."))
    if told.keep is not None:
        parts.append(Text(f"The checkpoints are in {words.bounded(str(told.keep / 'store'))}."))
    return Group(*parts)


def _compared(told: Told) -> RenderableType:
    of = told.report
    total = of.before + sum(of.after)
    where = "a fresh process each" if of.fresh_process else "this process"
    rows: list[tuple[str, RenderableType]] = [
        ("trainer", words.bounded(f"{told.make}, {told.step}")),
        ("runs", f"{total} updates in one go; {of.before}, saved, and {_resumes(of.after)}; {where}"),
        ("compared", f"{of.fields} fields after each update, {of.compared:,} comparisons, {of.draws} draws"),
        ("contract", f"{of.contract.name}: {of.contract.holds}"),
        ("verdict", Text(_SAID[of.finding], style="bold green" if of.ok else "bold red")),
    ]
    if of.unregistered:
        names = words.bounded(", ".join(of.unregistered))
        drawn = f"updates draw from {names}, which is not in the state"
        rows.append(("unregistered", Text(drawn, style="yellow")))
    return facts(rows)


def _resumes(after: Sequence[int]) -> str:
    return " and ".join(f"{updates} resumed" for updates in after)


def _divergence(of: Divergence) -> RenderableType:
    rows: list[tuple[str, RenderableType]] = [
        ("field", Text(words.bounded(of.field), style="bold")),
        ("after update", str(of.step)),
    ]
    if of.index:
        which = "the only element that differs" if of.count == 1 else f"the first of {of.count:,} elements that differ"
        rows.append(("index", f"{list(of.index)}, {which}"))
    rows += [("uninterrupted", words.bounded(of.expected)), ("resumed", words.bounded(of.found))]
    if of.ulps is not None:
        most = "" if of.ulps_max is None or of.count == 1 else f"; up to {_count(of.ulps_max)} in the array"
        rows.append(("distance", f"{_count(of.ulps)} ULP{most}"))
    if of.also:
        rows.append(("also", words.bounded(", ".join(of.also))))
    return facts(rows)


def _ablation(dropped: Sequence[Dropped]) -> RenderableType:
    table = _table("dropped", "import", "restored anyway, first divergence", "ULP", "weights differ")
    for each in dropped:
        table.add_row(
            words.bounded(each.field),
            Text("refused", style="green") if each.refused else Text("taken", style="red"),
            _first(each.diverged),
            _ulps(each.diverged),
            "no" if each.weights is None else f"after {each.weights.step}, {_ulps(each.weights)} ULP",
        )
    return Group(table, Text(_DROPPED, style="dim"))


def _first(of: Divergence | None) -> RenderableType:
    if of is None:
        return Text("none", style="dim")
    index = str(list(of.index)) if of.index else ""
    return Text(f"{words.bounded(of.field, 60)}{index} after {of.step}")


def _ulps(of: Divergence | None) -> str:
    return "-" if of is None or of.ulps is None else _count(of.ulps)


def _trajectories(whole: Trajectory, lines: Sequence[Trajectory]) -> RenderableType:
    table = _table("after", "uninterrupted", *(line.name for line in lines))
    losses = {each.step: each.loss for each in whole.points}
    points = {line.name: {each.step: each for each in line.points} for line in lines}
    for step in _some(sorted({step for line in points.values() for step in line})):
        table.add_row(str(step), _loss(losses.get(step)), *(_cell(points[line.name].get(step)) for line in lines))
    told = "Loss; the largest difference of a weight from the uninterrupted run; the distance of that weight in ULP."
    return Group(table, Text(told, style="dim"))


def _others(lines: Sequence[Trajectory]) -> list[Trajectory]:
    return [line for line in lines if line.name != UNINTERRUPTED and line.points]


def _some(steps: Sequence[int]) -> list[int]:
    """The first three, the last, and some between them."""
    if len(steps) <= ROWS:
        return list(steps)
    rest = ROWS - 3
    spread = [steps[2 + round((len(steps) - 3) * number / rest)] for number in range(1, rest + 1)]
    return [*steps[:3], *spread]


def _cell(of: Point | None) -> RenderableType:
    if of is None:
        return Text("-", style="dim")
    return Text(f"{_loss(of.loss)}  {of.apart:<7.2g}  {_count(of.ulps)}", style="red" if of.apart else "green")


def _loss(loss: float | None) -> str:
    return "-" if loss is None else f"{loss:.6f}"


def _count(ulps: int) -> str:
    """All digits while they can be read at a glance."""
    return f"{ulps:,}" if ulps < 10**6 else f"{float(ulps):.1e}"


def _table(first: str, *others: str) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
    table.add_column(first, no_wrap=True)
    for name in others:
        table.add_column(name)
    return table
