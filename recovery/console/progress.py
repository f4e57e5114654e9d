"""Progress: bytes and their rate, updates or runs, while something long goes on.

Owns the bar. Invariant: it goes to stderr, and only to a terminal; a pipe hears nothing, and the answer is never mixed with it.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import Self

from rich.console import Console
from rich.progress import (
    BarColumn,
    DownloadColumn,
    MofNCompleteColumn,
    Progress,
    SpinnerColumn,
    TaskID,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
    TransferSpeedColumn,
)

from recovery.console import words


@contextmanager
def written(what: str) -> Iterator[Callable[[int, int], None]]:
    """Gives a function to tell (bytes so far, bytes in all)."""
    console = Console(file=sys.stderr)
    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TransferSpeedColumn())
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as progress:
        task = progress.add_task(words.bounded(what), total=None)
        yield lambda done, total: progress.update(task, completed=done, total=total)


@contextmanager
def read(what: str, total: int) -> Iterator[Callable[[int], None]]:
    """Gives a function to tell, from any thread, how many bytes were read since it was last told. total: of all that will be read."""
    console = Console(file=sys.stderr)
    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TransferSpeedColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as progress:
        task = progress.add_task(words.bounded(what, 40), total=total)
        yield lambda count: progress.advance(task, count)


@contextmanager
def counted(what: str) -> Iterator[Callable[[], None]]:
    """Gives a function to tell that one more run was dealt with. Nobody knows how many there will be: each may make others due."""
    console = Console(file=sys.stderr)
    columns = (SpinnerColumn(), TextColumn("{task.description}: {task.completed:,.0f}", markup=False), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as progress:
        task = progress.add_task(what, total=None)
        yield lambda: progress.advance(task)


class Updates:
    """A bar for each part of a verification, filled by its updates."""

    def __init__(self) -> None:
        console = Console(file=sys.stderr)
        columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TextColumn("updates"), TimeElapsedColumn())
        self._bar = Progress(*columns, console=console, transient=True, disable=not console.is_terminal)
        self._task: TaskID | None = None

    def part(self, doing: str, updates: int) -> None:
        """A part begins; the one before it is done."""
        self._task = self._bar.add_task(words.bounded(doing), total=updates)

    def beat(self) -> None:
        """One update is done."""
        if self._task is not None:
            self._bar.advance(self._task)

    def __enter__(self) -> Self:
        self._bar.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._bar.stop()
