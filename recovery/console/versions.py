"""The reports of `versions` and `change-version`. Owns their wording. Invariant: a step that is dropped is named."""

from __future__ import annotations

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from recovery.console import words
from recovery.console.paper import Paper
from recovery.operators.moving import Moved
from recovery.operators.versions import VersionInUse, Versions


def versions(found: Versions, *, has_app: bool) -> RenderableType:
    """One line for each version. has_app: an app was asked, so that it is known what is registered."""
    parts: list[RenderableType] = []
    if found.in_use:
        table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
        for column in ("workflow", "version", "open runs", "", "such as"):
            table.add_column(column, overflow="fold")
        for one in found.in_use:
            table.add_row(
                words.bounded(one.workflow),
                words.bounded(one.version),
                ", ".join(f"{count:,} {status.value}" for status, count in sorted(one.runs.items())) or "none",
                _standing(found, one) if has_app else Text(),
                words.bounded(one.example),
            )
        parts.append(table)
    else:
        parts.append(Text("no open runs"))
    if not has_app:
        parts.append(Text("Which versions are registered is known with --app only.", style="yellow"))
    parts += [
        Text(f"run {words.bounded(run_id)} cannot be read: {words.safe(why)}", style="bold red")
        for run_id, why in found.broken.items()
    ]
    return Group(*parts)


def _standing(found: Versions, one: VersionInUse) -> Text:
    if one.newest:
        return Text("new runs start with it")
    if found.removable(one):
        return Text("nobody needs it any more", style="green")
    if one.registered:
        return Text("its runs go on with it")
    if one.taken_over_by:
        told = f"not registered: its runs would go on with version {words.bounded(one.taken_over_by)}"
        return Text(told, style="bold yellow")
    return Text("not registered, and neither is another version", style="bold red")


def moved(paper: Paper, done: Moved, *, planned: bool) -> RenderableType:
    """What was made of each step."""
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
    for column in (f"version {words.bounded(done.before)}", f"version {words.bounded(done.after)}"):
        table.add_column(column, overflow="fold")
    for new, old in done.steps.items():
        table.add_row("not recorded" if old is None else words.bounded(old), words.bounded(new))
    for old in done.dropped:
        table.add_row(words.bounded(old), Text("dropped: what it did stays done", style="bold yellow"))
    parts: list[RenderableType] = [table]
    if done.then:
        parts.append(Text(words.safe(done.then)))
    what = "would be moved; nothing was written" if planned else "is moved; the next recovery goes on"
    return paper.panel(f"run {words.bounded(done.run_id)} {what}", Group(*parts), "yellow" if planned else "green")
