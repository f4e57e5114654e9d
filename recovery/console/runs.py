"""The list of runs. Owns its columns; takes what the engine tells about a run."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from recovery.console import words
from recovery.core.entries import Status
from recovery.definitions.recovered import RunInfo
from recovery.storage.listing import Damaged

STYLES: Final[dict[Status, str]] = {
    Status.QUEUED: "dim", Status.RUNNING: "cyan", Status.WAITING: "yellow", Status.IN_DOUBT: "bold red", Status.HELD: "bold red",
    Status.DIVERGED: "bold red", Status.COMPLETED: "green", Status.FAILED: "red", Status.CANCELLED: "dim",
}  # fmt: skip


def status(of: Status) -> Text:
    return Text(of.value, style=STYLES[of])


def runs(infos: Sequence[RunInfo], broken: Sequence[Damaged] = (), *, cut: bool = False) -> RenderableType:
    """One line each, then those whose own row cannot be read. `cut`: there are more than these."""
    if not infos:
        return damaged(broken) if broken else Text("no runs")
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
    for column in ("run", "workflow", "status", "epoch", "entries", "updated (UTC)", "worker"):
        table.add_column(column, justify="right" if column == "entries" else "left", overflow="fold")
    for info in infos:
        table.add_row(
            words.bounded(info.run_id),
            words.bounded(info.workflow),
            status(info.status) + (Text(f" ({words.bounded(info.reason)})", style="dim") if info.reason else Text()),
            info.epoch,
            f"{info.entries:,}",
            info.updated_at.strftime("%Y-%m-%d %H:%M:%S"),
            _worker(info),
        )
    if cut:
        table.add_row(Text("… and more; raise --limit", style="dim"))
    return Group(table, damaged(broken)) if broken else table


def damaged(broken: Sequence[Damaged]) -> RenderableType:
    """What of each run's own row cannot be read."""
    return Group(
        *(Text(f"run {words.bounded(one.run_id)} is damaged: {words.safe(one.problem)}", style="bold red") for one in broken)
    )


def _worker(info: RunInfo) -> Text:
    if info.status.settled:
        return Text()
    if info.owner is None:
        return Text("orphaned" if info.orphaned else "", style="bold yellow")
    dead = Text(", dead", style="bold yellow") if info.orphaned else Text()
    return Text(words.bounded(info.owner)) + dead
