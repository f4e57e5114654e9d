"""The story of a demonstration: scenes with claims that were checked.

Owns how a scene is told. Invariant: a claim shows what was found, so that a failed one can be understood from the page alone.
"""

from __future__ import annotations

from dataclasses import dataclass

from rich.console import Group, RenderableType
from rich.text import Text

from recovery.console.paper import Paper


@dataclass(frozen=True, slots=True)
class Claim:
    """Something that must be so, and what was found."""

    text: str
    expected: object
    found: object

    @property
    def holds(self) -> bool:
        return bool(self.expected == self.found)


@dataclass(frozen=True, slots=True)
class Scene:
    """One step of the story. `command` and `transcript`: what was typed, and what it printed (with its colours)."""

    title: str
    lines: tuple[str, ...] = ()
    claims: tuple[Claim, ...] = ()
    command: str = ""
    transcript: str = ""
    aside: str = ""

    @property
    def holds(self) -> bool:
        return all(claim.holds for claim in self.claims)


def scene(paper: Paper, number: int, told: Scene) -> RenderableType:
    parts: list[RenderableType] = [Text(line) for line in told.lines]
    if told.command:
        parts.append(Text(f"$ {told.command}", style="bold"))
    if told.transcript:
        parts.append(Text.from_ansi(told.transcript.rstrip("\n")))
    parts += [_claim(claim) for claim in told.claims]
    if told.aside:
        parts.append(Text(told.aside, style="italic yellow"))
    return paper.panel(f"{number}. {told.title}", Group(*parts), "cyan" if told.holds else "red")


def ending(told: list[Scene], sentence: str) -> RenderableType:
    """The last line: the sentence if every claim holds, else how many do not."""
    broken = [claim for scene in told for claim in scene.claims if not claim.holds]
    if not broken:
        return Text(sentence, style="bold green")
    return Text(f"{len(broken)} of the claims above do not hold. That is a bug: please report it with this page.", style="bold red")


def _claim(claim: Claim) -> Text:
    if claim.holds:
        return Text("✓ ", style="bold green") + Text(claim.text)
    return Text("✗ ", style="bold red") + Text(f"{claim.text}: expected {claim.expected!r}, found {claim.found!r}")
