"""Scenario results: one line each, a count, and the transcript of what fails. Owns their wording; runs nothing."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Protocol, Self

from rich.console import Group, RenderableType
from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.text import Text

from recovery.console import words
from recovery.console.paper import Paper


class Result(Protocol):
    """What is told about one play: a scenario on one store in one colour."""

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
    """Prints each result when it is there; on a terminal above a bar. `files`: how many are played, once for each store."""

    def __init__(self, paper: Paper, files: int) -> None:
        self._paper = paper
        self._last: Result | None = None
        columns = (SpinnerColumn(), BarColumn(), MofNCompleteColumn(), TextColumn("files"), TimeElapsedColumn())
        self._bar = Progress(*columns, console=paper.console, transient=True, disable=not paper.terminal)
        self._task = self._bar.add_task("scenarios", total=files)

    def one(self, result: Result) -> None:
        if not self._paper.terminal:
            self._paper.print(line(result))
            return
        self._bar.print(line(result))
        if self._last is not None and (self._last.path, self._last.store) != (result.path, result.store):
            self._bar.advance(self._task)  # the file before it is done
        self._last = result

    def __enter__(self) -> Self:
        self._bar.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._bar.stop()


def line(result: Result) -> RenderableType:
    mark = Text("✓ ", style="bold green") if result.passed else Text("✗ ", style="bold red")
    played = ", ".join(word for word in (result.store, result.colour, f"{result.seconds:.2f} s") if word)
    where = Text(f"  {played}", style="dim")
    return mark + Text(words.bounded(result.name)) + where


def summary(paper: Paper, results: Sequence[Result]) -> RenderableType:
    """The failures with their transcripts, then the count."""
    failed = [result for result in results if not result.passed]
    parts: list[RenderableType] = [_failure(paper, result) for result in failed]
    held = f"{len(results) - len(failed):,} of {words.counted(len(results), 'play')} hold{_where(results)}"
    parts.append(Text(held if results else "no scenarios were found", style="bold green" if results and not failed else "bold red"))
    return Group(*parts)


def _where(results: Sequence[Result]) -> str:
    """How many hold on each store in each colour, if there is more than one: a store that was forgotten is seen to be missing."""
    played: dict[tuple[str, str], list[bool]] = {}
    for result in results:
        if result.colour:
            played.setdefault((result.store, result.colour), []).append(result.passed)
    counts = [f"{store} {colour} {sum(held):,} of {len(held):,}" for (store, colour), held in played.items()]
    return f": {', '.join(counts)}" if len(counts) > 1 else ""


def _failure(paper: Paper, result: Result) -> RenderableType:
    problems = [Text(words.safe(told), style="bold red") for problem in result.problems for told in problem.splitlines()]
    transcript = [Text(words.safe(told)) for told in result.transcript.splitlines()]
    return paper.panel(f"{result.path}, {result.store}, {result.colour}", Group(*problems, *transcript), "red")
