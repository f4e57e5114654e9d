"""The list of runs. Owns its columns; takes what the engine tells about a run."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
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


def runs(
    infos: Sequence[RunInfo], broken: Sequence[Damaged] = (), parents: Mapping[str, str] | None = None, *, cut: bool = False
) -> RenderableType:
    """One line each, a child below its parent where both are here; then those whose own row cannot be read. Queues are a column where one has a name, workers where one has a run: a line is to fit into 80 characters. `cut`: there are more than these."""
    if not infos:
        return damaged(broken) if broken else Text("no runs")
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
    queued = any(info.queue for info in infos)
    workers = {info.run_id: told for info in infos if (told := _worker(info))}
    behind = ["worker"] if workers else []
    for column in ("run", "workflow", "status", *(["queue"] if queued else []), "epoch", "entries", "updated (UTC)", *behind):
        table.add_column(column, justify="right" if column == "entries" else "left", overflow="fold")
    for depth, info in _families(infos, parents or {}):
        table.add_row(
            f"{'  ' * (depth - 1)}└ {words.bounded(info.run_id)}" if depth else words.bounded(info.run_id),
            words.bounded(info.workflow),
            status(info.status) + (Text(f" ({words.bounded(info.reason)})", style="dim") if info.reason else Text()),
            *([words.bounded(info.queue)] if queued else []),
            info.epoch,
            f"{info.entries:,}",
            info.updated_at.strftime("%Y-%m-%d %H:%M:%S"),
            *([workers.get(info.run_id, Text())] if workers else []),
        )
    more = [Text("… and more; raise --limit", style="dim")] if cut else []
    return Group(table, *more, *([damaged(broken)] if broken else []))


def _families(infos: Sequence[RunInfo], parents: Mapping[str, str]) -> Iterator[tuple[int, RunInfo]]:
    """Each run and how many of its ancestors stand above it, in the order of ids within each family."""
    here = {info.run_id for info in infos}
    below: dict[str, list[RunInfo]] = {}
    for info in infos:
        parent = parents.get(info.run_id, "")
        below.setdefault(parent if parent in here else "", []).append(info)
    waiting = [(0, info) for info in reversed(below.get("", []))]
    while waiting:
        depth, info = waiting.pop()
        yield depth, info
        waiting += [(depth + 1, child) for child in reversed(below.get(info.run_id, []))]


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
