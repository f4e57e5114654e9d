"""The reports about a store: what it holds, what retention would do, and a pin.

Owns their wording and layout. Must not look at a disk. Invariant: what is no checkpoint is told with its reason.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from recovery.checkpoint import marks
from recovery.checkpoint.marks import Mark, Marks
from recovery.checkpoint.planning.units import shown_size
from recovery.checkpoint.retention import Keep, Plan
from recovery.checkpoint.scanning import Candidate, Rejected
from recovery.console import words
from recovery.console.paper import Paper

MARKED: Final = {Mark.PINNED: "pinned", Mark.RESTORED: "restored from", Mark.VERIFIED: "verified"}

_DONE: Final = {"keep": "kept", "retire": "retired", "quarantine": "quarantined", "remove": "removed"}

_UNDER_WAY: Final = "A save is under way; what it has not committed is no checkpoint yet."


@dataclass(frozen=True, slots=True, kw_only=True)
class Listed:
    """What a store holds. writing: whether somebody saves at this moment; None where it cannot be told."""

    store: str
    candidates: tuple[Candidate, ...]
    rejected: tuple[Rejected, ...]
    marks: Marks
    writing: bool | None
    quarantine: tuple[str, ...]

    @property
    def newest(self) -> frozenset[str]:
        """The newest of each kind: what a restore takes."""
        return frozenset({each.kind: each.name for each in reversed(self.candidates)}.values())


@dataclass(frozen=True, slots=True, kw_only=True)
class Collected:
    """What retention did, or would do."""

    store: str
    keep: Keep
    plan: Plan
    dry_run: bool
    writing: bool | None
    sizes: dict[str, int]
    """Bytes of each candidate."""

    @property
    def freed(self) -> int:
        """Bytes of what is retired."""
        return sum(self.sizes.get(name, 0) for name in self.plan.retired)


def listed(paper: Paper, of: Listed) -> RenderableType:
    parts: list[RenderableType] = []
    title = f"checkpoints in {words.bounded(of.store, 60)}"
    if of.candidates:
        table = plain_table(("name", "left"), ("kind", "left"), ("step", "right"), ("size", "right"), ("", "left"))
        for each in of.candidates:
            manifest = each.manifest
            notes = _notes(each.name in of.newest, marks.borne(of.marks, each.name))
            table.add_row(each.name, each.kind.value, f"{manifest.step:,}", shown_size(manifest.total_bytes), notes)
        parts.append(paper.panel(title, table))
    else:
        parts.append(Text(f"{words.bounded(of.store)} holds no checkpoint."))
    if of.rejected:
        parts.append(paper.panel("passed over", passed_over(of.rejected), "yellow"))
    if of.writing:
        parts.append(Text(_UNDER_WAY, style="cyan"))
    if of.quarantine:
        names = ", ".join(words.bounded(name, 60) for name in of.quarantine[:5])
        more = f" and {len(of.quarantine) - 5} more" if len(of.quarantine) > 5 else ""
        parts.append(Text(f"In quarantine, damaged: {names}{more}.", style="yellow"))
    return Group(*parts)


def passed_over(rejected: Sequence[Rejected]) -> Table:
    table = plain_table(("name", "left"), ("why", "left"), ("what", "left"))
    for each in rejected:
        style = "red" if each.damaged else "yellow"
        problem = words.bounded(each.problem.removeprefix(each.name).removeprefix(", ").removeprefix(": "))
        table.add_row(words.bounded(each.name, 60), Text(each.reason, style=style), problem)
    return table


def collected(paper: Paper, of: Collected) -> RenderableType:
    table = plain_table(("name", "left"), ("size", "right"), ("", "left"), ("why", "left"))
    sized = [(name, "keep", "green", why) for name, why in of.plan.kept.items()]
    sized += [(name, "retire", "yellow", "nothing says that it must stay") for name in of.plan.retired]
    for name, what, style, why in sorted(sized, reverse=True):
        table.add_row(name, shown_size(of.sizes.get(name, 0)), Text(_verb(of, what), style=style), why)
    for each in of.plan.damaged:
        table.add_row(words.bounded(each.name, 60), "", Text(_verb(of, "quarantine"), style="red"), f"damaged: {each.reason}")
    for name in of.plan.unfinished:
        if of.dry_run and of.writing:
            table.add_row(name, "", Text("left alone", style="cyan"), "a save is under way")
        else:
            table.add_row(name, "", Text(_verb(of, "remove"), style="yellow"), "its save was not committed")
    parts: list[RenderableType] = []
    if table.row_count:
        parts.append(paper.panel("retention plan" if of.dry_run else "retention", table, "yellow" if of.dry_run else "green"))
    parts.append(Text(_summary(of)))
    return Group(*parts)


def _verb(of: Collected, what: str) -> str:
    """What will be done, or was."""
    return what if of.dry_run else _DONE[what]


def pinned(name: str, *, pinned: bool, changed: bool) -> RenderableType:
    if pinned:
        return Text(f"{name} is pinned{'' if changed else ' already'}: retention leaves it until it is unpinned.")
    return Text(f"{name} {'is no longer' if changed else 'was not'} pinned: whether it stays is up to retention.")


def plain_table(*columns: tuple[str, str]) -> Table:
    """Heads and how their cells are set, `left` or `right`. The last column folds, the others do not."""
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
    for index, (head, justify) in enumerate(columns):
        last = index == len(columns) - 1
        table.add_column(head, justify="right" if justify == "right" else "left", no_wrap=not last, overflow="fold")
    return table


def _notes(newest: bool, borne: Sequence[Mark]) -> Text:
    parts = [("newest", "bold green")] if newest else []
    parts += [(MARKED[mark], "cyan") for mark in borne]
    return Text(", ").join([Text(what, style=style) for what, style in parts])


def _summary(of: Collected) -> str:
    would = "would be " if of.dry_run else ""
    kept = f"{words.counted(len(of.plan.kept), 'checkpoint')} {'would stay' if of.dry_run else 'stay'}"
    retired = f"{len(of.plan.retired):,} {would}retired ({shown_size(of.freed)})"
    others = []
    if of.plan.damaged:
        others.append(f"{len(of.plan.damaged):,} {would}put into quarantine")
    if of.plan.unfinished and not (of.dry_run and of.writing):
        others.append(f"{words.counted(len(of.plan.unfinished), 'unfinished save')} {would}removed")
    rule = f"Kept are the last {of.keep.last} of each kind, the last verified, what is pinned, and what was restored from."
    return f"{', '.join([kept, retired, *others])}. {rule}"
