"""Scenario results: one line each, a count, and the transcript of what fails. Owns their wording; runs nothing."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Protocol, Self, TextIO

from rich.console import Console, Group, RenderableType
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.text import Text

from recovery.console import words
from recovery.console.paper import Paper


class Result(Protocol):
    """What is told about one scenario on one store in one colour."""

    @property
    def path(self) -> Path: ...
    @property
    def name(self) -> str: ...
    @property
    def store(self) -> str: ...
    @property
    def colour(self) -> str: ...
    @property
    def passed(self) -> bool: ...
    @property
    def problems(self) -> tuple[str, ...]: ...
    @property
    def transcript(self) -> str: ...
    @property
    def seconds(self) -> float: ...


class Counting:
    """A moving line that says how many are done, on a terminal; nothing elsewhere."""

    def __init__(self, stream: TextIO | None) -> None:
        columns = (
            SpinnerColumn(),
            TextColumn("{task.completed:.0f} done, last {task.description}", markup=False),
            TimeElapsedColumn(),
        )
        console = Console(file=stream) if stream is not None else None
        self._progress = Progress(*columns, console=console, transient=True) if console is not None else None
        self._task = self._progress.add_task("none", total=None) if self._progress is not None else None

    def one(self, name: str) -> None:
        if self._progress is not None and self._task is not None:
            self._progress.update(self._task, advance=1, description=words.bounded(name))

    def __enter__(self) -> Self:
        if self._progress is not None:
            self._progress.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if self._progress is not None:
            self._progress.stop()


def line(result: Result) -> RenderableType:
    mark = Text("✓ ", style="bold green") if result.passed else Text("✗ ", style="bold red")
    where = Text(f"  {result.store}, {result.colour}, {result.seconds:.2f} s", style="dim")
    return mark + Text(words.bounded(result.name)) + where


def summary(paper: Paper, results: Sequence[Result]) -> RenderableType:
    """The failures with their transcripts, then the count."""
    failed = [result for result in results if not result.passed]
    parts: list[RenderableType] = [_failure(paper, result) for result in failed]
    held = f"{len(results) - len(failed)} of {words.counted(len(results), 'scenario run')} hold"
    parts.append(Text(held if results else "no scenarios were found", style="bold green" if results and not failed else "bold red"))
    return Group(*parts)


def _failure(paper: Paper, result: Result) -> RenderableType:
    problems = [Text(words.safe(told), style="bold red") for problem in result.problems for told in problem.splitlines()]
    transcript = [Text(words.safe(told)) for told in result.transcript.splitlines()]
    return paper.panel(f"{result.path}, {result.store}, {result.colour}", Group(*problems, *transcript), "red")
