"""Progress: bytes and their rate while something long goes on.

Owns the bar. Invariant: it goes to stderr, and only to a terminal; a pipe hears nothing, and the answer is never mixed with it.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TransferSpeedColumn

from recovery.console import words


@contextmanager
def written(what: str) -> Iterator[Callable[[int, int], None]]:
    """Gives a function to tell (bytes so far, bytes in all)."""
    console = Console(file=sys.stderr)
    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TransferSpeedColumn())
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as progress:
        task = progress.add_task(words.bounded(what), total=None)
        yield lambda done, total: progress.update(task, completed=done, total=total)
