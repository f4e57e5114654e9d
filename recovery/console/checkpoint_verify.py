"""The report of a verification: which checkpoints are whole, which are damaged and where.

Owns its wording and layout. Must not look at a disk. Invariant: what was not read is never called whole.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from rich.console import Group, RenderableType
from rich.text import Text

from recovery.checkpoint.examining import Damage
from recovery.checkpoint.layout import sequence_of
from recovery.checkpoint.planning.units import shown_size
from recovery.checkpoint.scanning import Candidate
from recovery.console import words
from recovery.console.checkpoint_store import plain_table
from recovery.console.paper import Paper


class Verdict(StrEnum):
    """What became of one directory."""

    WHOLE = "whole"  # every byte was read, and every check passed
    DAMAGED = "damaged"  # it was a checkpoint, and its bytes were changed
    UNREAD = "unread"  # it could not be judged: the disk did not answer, a limit, a newer format
    UNFINISHED = "unfinished"  # a save that was not committed
    FOREIGN = "foreign"  # no checkpoint by its name
    GONE = "gone"  # retention took it away meanwhile


_STYLES: Final = {Verdict.WHOLE: "bold green", Verdict.DAMAGED: "bold red", Verdict.UNREAD: "yellow"}


@dataclass(frozen=True, slots=True)
class Judged:
    """One directory and its verdict. problem: why it could not be read, or is none."""

    name: str
    verdict: Verdict
    candidate: Candidate | None
    damage: tuple[Damage, ...]
    problem: str

    @property
    def order(self) -> tuple[int, str]:
        """Newest first."""
        return -sequence_of(self.name), self.name


@dataclass(frozen=True, slots=True)
class Verified:
    """Everything that the command found out. bytes: that were to be read."""

    path: str
    judged: tuple[Judged, ...]
    bytes: int
    seconds: float
    marked: bool

    def of(self, verdict: Verdict) -> tuple[Judged, ...]:
        return tuple(each for each in self.judged if each.verdict is verdict)


def verified(paper: Paper, of: Verified) -> RenderableType:
    table = plain_table(("name", "left"), ("kind", "left"), ("size", "right"), ("verdict", "left"))
    for each in of.judged:
        kind, size = (
            ("", "") if each.candidate is None else (each.candidate.kind.value, shown_size(each.candidate.manifest.total_bytes))
        )
        table.add_row(words.bounded(each.name, 60), kind, size, _verdict(each))
    damaged = of.of(Verdict.DAMAGED)
    parts: list[RenderableType] = [paper.panel("verified", table, "red" if damaged else "green")]
    if damaged:
        places = plain_table(("where", "left"), ("why", "left"), ("what", "left"))
        places.columns[0].no_wrap = False
        for each in damaged:
            for one in each.damage:
                places.add_row(words.bounded(one.where), Text(one.reason, style="red"), words.bounded(one.problem))
        parts.append(paper.panel("damage", places, "red"))
    parts.append(Text(_summary(of)))
    if damaged:
        parts.append(
            Text(
                "A restore passes over what is damaged. `recover checkpoint gc` puts into quarantine what its manifest or sizes give away.",
                style="bold",
            )
        )
    return Group(*parts)


def _verdict(of: Judged) -> RenderableType:
    text = Text(of.verdict.value, style=_STYLES.get(of.verdict, "dim"))
    return text + Text(f": {words.bounded(of.problem)}") if of.problem else text


def _summary(of: Verified) -> str:
    whole, damaged = len(of.of(Verdict.WHOLE)), len(of.of(Verdict.DAMAGED))
    unread = f", {len(of.of(Verdict.UNREAD))} could not be read" if of.of(Verdict.UNREAD) else ""
    marked = " What is whole is marked as verified, and nothing else that was read." if of.marked else ""
    return f"{whole:,} whole, {damaged:,} damaged{unread}.{marked} Read {shown_size(of.bytes)} in {of.seconds:.2f} s"
