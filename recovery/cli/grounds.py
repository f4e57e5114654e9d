"""Grounds: what a resolution rests on, as it was typed: the content of a file, or a text.

Owns which of the two is meant. Knows no run. Invariant: the mistyped name of a file is never taken for the evidence itself.
"""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import Final

import typer

BYTES_MAX: Final = 1_000_000
TEXT: Final = "text:"
"""In front of a text that looks like the name of a file."""

_LIKE_A_NAME: Final = re.compile(r"[~.].*|.*/.*|[^@]*\.[a-z][a-z0-9]{0,4}", re.IGNORECASE)
"""Of one word: a path, a hidden file, or one with an ending. No address of a page, and none of a person."""


def grounds(said: str) -> str:
    """The evidence itself: of a file its name and content. Raises BadParameter where a file is meant that cannot be read, or is too large."""
    if said.startswith(TEXT):
        return said.removeprefix(TEXT)
    if not said.strip():  # told by whoever gives the order
        return said
    path = Path(said)
    try:
        with path.open("rb") as file:  # a pipe of the shell, too
            content = file.read(BYTES_MAX + 1)
    except (FileNotFoundError, NotADirectoryError):
        if _is_like_a_name(said):
            raise _refused(said, "there is no such file") from None
        return said
    except (OSError, ValueError) as error:  # a text need not be a possible path
        if _is_like_a_name(said) or _is_there(path):
            raise _refused(said, getattr(error, "strerror", "") or "no file can have that name") from error
        return said
    if len(content) > BYTES_MAX:  # a part of it would stand in the journal as if it were the whole
        raise typer.BadParameter(
            f"{said!r} has more than {BYTES_MAX:,} bytes. Nothing was settled. Give the part that decides it, or say where the whole is kept: --evidence 'text:...'.",
            param_hint="--evidence",
        )
    return f"file {path.name}: {content.decode(errors='replace')}"


def _is_there(path: Path) -> bool:
    try:
        return path.exists()
    except (OSError, ValueError):
        return False


def _is_like_a_name(said: str) -> bool:
    return len(said.split()) == 1 and "://" not in said and _LIKE_A_NAME.fullmatch(said) is not None


def _refused(said: str, problem: str) -> typer.BadParameter:
    return typer.BadParameter(
        f"{said!r} cannot be read ({problem}). Nothing was settled. Name a file that is here; if it is meant as a text, say --evidence {shlex.quote(TEXT + said)}.",
        param_hint="--evidence",
    )
