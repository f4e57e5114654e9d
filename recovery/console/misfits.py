"""A misfit for people: what is recorded in one place and what the code asks for there, side by side.

Owns its layout. Invariant: every field that either side has is shown, and those that differ are marked in a pipe as well as in colour.
"""

from __future__ import annotations

from typing import Final

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from recovery.console import words
from recovery.core.entries import JSON
from recovery.core.errors import Diverged
from recovery.core.misfits import Side

_FIRST: Final[tuple[str, ...]] = ("step", "kind", "is", "effect", "environment", "scope", "key")
_DIFFERS: Final = "≠"


def beside(error: Diverged) -> RenderableType:
    """The two sides of a divergence, argument by argument."""
    recorded, attempted = flat(error.sides["recorded"]), flat(error.sides["attempted"])
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
    for column in ("", "", f"recorded (entry {error.seq})", "attempted"):
        table.add_column(column, overflow="fold")
    names = [name for name in _FIRST if name in recorded or name in attempted]
    names += [name for name in (*recorded, *attempted) if name not in _FIRST]
    for name in dict.fromkeys(names):
        if not (recorded.get(name) or attempted.get(name)):
            continue  # empty on both sides
        marked = recorded.get(name) != attempted.get(name)
        table.add_row(
            Text(_DIFFERS if marked else "", style="bold red"),
            name,
            Text(recorded.get(name, "-"), style="green" if marked else "dim"),
            Text(attempted.get(name, "-"), style="bold red" if marked else "dim"),
        )
    return Group(table)


def flat(side: Side) -> dict[str, str]:
    """Its fields as text, each argument a field of its own."""
    told: dict[str, str] = {}
    for name, stored in side.items():
        if name == "arguments" and isinstance(stored, dict):
            told |= {f"argument {argument}": words.value(given) for argument, given in stored.items()}
        else:
            told[name] = _said(stored)
    return told


def _said(stored: JSON) -> str:
    return words.bounded(stored) if isinstance(stored, str) else words.value(stored)
