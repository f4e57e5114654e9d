"""Paper: what a report is printed on, a terminal or a pipe.

Owns the difference between the two: colour, boxes and wrapping on a terminal; plain lines without trailing blanks, never wrapped, in a
pipe. Invariant: the same words reach both.
"""

from __future__ import annotations

from collections.abc import Iterable
from io import StringIO
from typing import Final, TextIO

from rich.box import ROUNDED
from rich.console import Console, Group, RenderableType
from rich.padding import Padding
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

PIPE_WIDTH: Final = 2000  # wide enough for every bounded line; nothing is padded to it
WIDTH_MIN: Final = 20  # a terminal that says less (COLUMNS=0) still gets to read something
PANEL_WIDTH_MAX: Final = 108


class Paper:
    """Prints renderables on one stream."""

    def __init__(self, stream: TextIO, *, terminal: bool | None = None, width: int | None = None) -> None:
        self._stream = stream
        self.console = Console(file=stream, highlight=False, soft_wrap=False, force_terminal=terminal, width=width)
        self.console.width = max(self.console.width, WIDTH_MIN)
        self.terminal = self.console.is_terminal

    @property
    def inner_width(self) -> int:
        """Columns inside a panel."""
        return min(self.console.width, PANEL_WIDTH_MAX) - 4

    def print(self, *parts: RenderableType) -> None:
        for part in parts:
            if self.terminal:
                self.console.print(part)
            else:
                self._stream.write(plain(part))
        self._stream.flush()

    def panel(self, title: str, body: RenderableType, style: str = "cyan") -> RenderableType:
        """A titled box; in a pipe the title and an indented body."""
        if not self.terminal:
            return Group(Text(f"{title}:"), Padding(body, (0, 0, 0, 2), expand=False))
        width = self.inner_width + 4
        return Panel(
            body, title=Text(f" {title} ", style=f"bold {style}"), title_align="left", border_style=style, box=ROUNDED, width=width
        )


def plain(part: RenderableType) -> str:
    """The text of a renderable, line by line, without styles and without trailing blanks."""
    buffer = StringIO()
    Console(file=buffer, width=PIPE_WIDTH, color_system=None, force_terminal=False, highlight=False, _environ={}).print(part)
    return "".join(f"{line.rstrip()}\n" for line in buffer.getvalue().splitlines())


def facts(rows: Iterable[tuple[str, RenderableType]]) -> Table:
    """Names and what they are, in two columns."""
    table = Table(box=None, show_header=False, padding=(0, 2, 0, 0), pad_edge=False)
    table.add_column(style="dim", no_wrap=True)
    table.add_column(overflow="fold")
    for name, what in rows:
        table.add_row(name, Text(what) if isinstance(what, str) else what)
    return table
