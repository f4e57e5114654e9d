"""The report of one checkpoint: what it is and may be used for, where it stands, and its tensors.

Owns its wording and layout. Must not look at a disk. Invariant: what comes out of the state document says that its digest was checked.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import prod
from typing import Any, Final

from rich.console import Group, RenderableType
from rich.text import Text

from recovery.checkpoint.header import WIDTHS
from recovery.checkpoint.kinds import RULES
from recovery.checkpoint.manifest import Manifest, TensorEntry
from recovery.checkpoint.marks import Mark
from recovery.checkpoint.planning.units import shown_size
from recovery.checkpoint.scanning import Candidate, Rejected
from recovery.console import words
from recovery.console.checkpoint_store import MARKED, passed_over, plain_table
from recovery.console.paper import Paper, facts

TENSORS: Final = 40
"""Rows of the table; all of them are in the document."""


@dataclass(frozen=True, slots=True, kw_only=True)
class State:
    """The state document as far as it was read. unread: why it was not, or what is wrong with it."""

    size: int
    value: Any = None
    read: bool = False
    unread: str = ""
    damaged: bool = False

    @property
    def lifecycle(self) -> Any:
        """The lifecycle record as it is stored; None without one."""
        return self.value.get("lifecycle") if isinstance(self.value, Mapping) else None


@dataclass(frozen=True, slots=True)
class Inspected:
    """One checkpoint by its manifest. passed: newer ones that cannot be used."""

    candidate: Candidate
    marks: tuple[Mark, ...]
    state: State
    passed: tuple[Rejected, ...]


def inspected(paper: Paper, of: Inspected) -> RenderableType:
    manifest = of.candidate.manifest
    parts: list[RenderableType] = [paper.panel(f"checkpoint {words.bounded(of.candidate.name, 60)}", _facts(of))]
    if isinstance(of.state.lifecycle, Mapping):
        parts.append(paper.panel("lifecycle", _lifecycle(of.state.lifecycle)))
    if manifest.tensors:
        parts.append(paper.panel(words.counted(len(manifest.tensors), "tensor"), _tensors(manifest)))
    if of.passed:
        parts.append(paper.panel("newer, and passed over", passed_over(of.passed), "yellow"))
    return Group(*parts)


def bytes_of(tensor: TensorEntry) -> int:
    return prod(tensor.shape) * WIDTHS[tensor.dtype]


def _facts(of: Inspected) -> RenderableType:
    manifest, rule = of.candidate.manifest, RULES[of.candidate.kind]
    rows: list[tuple[str, RenderableType]] = [
        ("kind", Text.assemble((manifest.kind.value, "bold"), f": {rule.holds}")),
        ("may be used to", rule.use),
        ("is restored", rule.restore),
        ("sequence", f"{manifest.sequence:,}"),
        ("step", f"{manifest.step:,}"),
        ("id", manifest.id),
        ("parent", manifest.parent or "none: it is the first of its store"),
        ("journal", _journal(manifest)),
        ("runtime", manifest.fingerprint or "not stated"),
        ("size", _size(manifest)),
        ("marks", ", ".join(MARKED[mark] for mark in of.marks) or "none"),
        ("state", _state(of.state)),
    ]
    return facts(rows)


def _journal(manifest: Manifest) -> str:
    position = manifest.journal
    if position is None:
        return "none: it names no run"
    return (
        f"run {position.run_id}, after {words.counted(position.position, 'entry', 'entries')}, head {words.digest(position.digest)}"
    )


def _size(manifest: Manifest) -> str:
    shards = words.counted(len(manifest.shards()), "shard")
    return f"{shown_size(manifest.total_bytes)} in {shards} and a state document, by {words.counted(manifest.writers, 'writer')}"


def _state(of: State) -> RenderableType:
    size = shown_size(of.size)
    if of.damaged:
        return Text(f"{size}, damaged: {words.bounded(of.unread)}", style="bold red")
    if not of.read:
        return f"{size}, not read: {words.bounded(of.unread)}"
    if isinstance(of.value, Mapping) and of.value:
        return f"{size}, digest checked: {words.bounded(', '.join(map(str, of.value)))}"
    return f"{size}, digest checked"


def _lifecycle(of: Mapping[str, Any]) -> RenderableType:
    rows: list[tuple[str, RenderableType]] = []
    for name, value in of.items():
        if name == "exposure" and isinstance(value, Mapping):
            looks = [f"{words.bounded(test, 60)} seen {words.counted(len(keys), 'time')}" for test, keys in value.items()]
            rows.append(("exposure", ", ".join(looks) or "no final test set was looked at"))
        elif name == "stage" and isinstance(value, Mapping):
            rows.append(("stage", _stage(value)))
        elif name == "snapshots" and isinstance(value, Mapping):
            rows.append(
                (
                    "references",
                    ", ".join(f"{words.bounded(key, 60)} {words.digest(str(each))}" for key, each in value.items()) or "none",
                )
            )
        else:
            rows.append((words.bounded(str(name), 40), words.bounded(str(value)) or "none"))
    return facts(rows)


def _stage(of: Mapping[str, Any]) -> str:
    updates = of.get("updates")
    what = "updates everything" if updates is None else f"updates {', '.join(map(str, updates)) or 'nothing'}"
    reads = ", ".join(map(str, of.get("reads") or ())) or "no split by name"
    last = "open" if of.get("last_update") is None else f"until update {of['last_update']}"
    return words.bounded(f"{of.get('name')}: reads {reads}, {what}, {last}")


def _tensors(manifest: Manifest) -> RenderableType:
    table = plain_table(("name", "left"), ("dtype", "left"), ("shape", "left"), ("slices", "right"), ("size", "right"))
    table.columns[0].no_wrap = False
    for name, tensor in list(manifest.tensors.items())[:TENSORS]:
        table.add_row(
            words.bounded(name, 80), tensor.dtype, str(list(tensor.shape)), f"{len(tensor.slices):,}", shown_size(bytes_of(tensor))
        )
    if (more := len(manifest.tensors) - TENSORS) > 0:
        return Group(table, Text(f"and {more:,} more; all of them with --json", style="dim"))
    return table
