"""An exploration for people: a bar while it goes on, a table and the smallest history at its end. Owns their wording; runs nothing."""

from __future__ import annotations

from collections.abc import Sequence
from types import TracebackType
from typing import Protocol, Self

from rich.console import Group, RenderableType
from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.table import Table
from rich.text import Text

from recovery.console import words
from recovery.console.paper import Paper


class SoFar(Protocol):
    """How far a search has come. waiting: branches that are known and not gone on with yet."""

    @property
    def histories(self) -> int: ...
    @property
    def states(self) -> int: ...
    @property
    def waiting(self) -> int: ...
    @property
    def seconds(self) -> float: ...


class Broken(Protocol):
    """What was found."""

    @property
    def title(self) -> str: ...
    @property
    def problem(self) -> str: ...
    @property
    def scenario(self) -> str: ...
    @property
    def moves(self) -> int: ...


class Came(Protocol):
    """What an exploration came to."""

    @property
    def histories(self) -> int: ...
    @property
    def merged(self) -> int: ...
    @property
    def states(self) -> int: ...
    @property
    def end_states(self) -> int: ...
    @property
    def faults(self) -> int: ...
    @property
    def recoverers(self) -> int: ...
    @property
    def seconds(self) -> float: ...
    @property
    def complete(self) -> bool: ...
    @property
    def promises(self) -> tuple[str, ...]: ...
    @property
    def repeated(self) -> int: ...
    @property
    def stores(self) -> tuple[str, ...]: ...
    @property
    def colours(self) -> tuple[str, ...]: ...
    @property
    def violations(self) -> Sequence[Broken]: ...
    @property
    def unanswered(self) -> Sequence[str]: ...


class Watching:
    """A bar on a terminal; in a pipe nothing, until the table."""

    def __init__(self, paper: Paper) -> None:
        columns = (SpinnerColumn(), BarColumn(), TextColumn("{task.description}"), TimeElapsedColumn())
        self._bar = Progress(*columns, console=paper.console, transient=True, disable=not paper.terminal)
        self._task = self._bar.add_task("exploring", total=None)

    def told(self, so_far: SoFar) -> None:
        """Move the bar on: what is done, against what is known to be left."""
        rate = so_far.histories / so_far.seconds if so_far.seconds else 0.0
        said = f"{so_far.histories:,} histories, {so_far.states:,} states, {rate:,.0f}/s"
        self._bar.update(self._task, description=said, completed=so_far.histories, total=so_far.histories + so_far.waiting)

    def __enter__(self) -> Self:
        self._bar.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._bar.stop()


def report(paper: Paper, explored: Came) -> RenderableType:
    """The counts, then what is broken, with the scenario that shows it."""
    table = Table(box=None, show_header=False, pad_edge=False)
    cut = "" if explored.complete else ", not all of them"
    both = ", as def and as async def" if len(explored.colours) > 1 else ""
    stores = ", ".join(store.partition(":")[0] for store in explored.stores)
    for name, value in (
        ("within", f"{words.counted(explored.faults, 'fault')}, {words.counted(explored.recoverers, 'recoverer')}"),
        ("histories", f"{explored.histories:,}{cut}; {explored.merged:,} of them met a state that was seen before"),
        ("states", f"{explored.states:,}"),
        ("distinct ends", f"{explored.end_states:,}"),
        ("promises", ", ".join(explored.promises)),
        ("repeated", f"{explored.repeated:,} on {stores}{both}" if explored.repeated else "none"),
        ("time", f"{explored.seconds:.2f} s"),
    ):
        table.add_row(Text(name, style="dim"), Text(value))
    if explored.unanswered:
        awaited = ", ".join(words.bounded(one) for one in explored.unanswered)
        table.add_row(
            Text("not played", style="bold yellow"), Text(f"what follows on {awaited}: nobody says it. Say it with says=[...]")
        )
    if not explored.violations:
        return Group(table, Text("no promise is broken", style="bold green"))
    told = [_broken(paper, one) for one in explored.violations]
    return Group(table, *told)


def _broken(paper: Paper, one: Broken) -> RenderableType:
    problem = Text(words.safe(f"{one.title}: {one.problem}"), style="bold red")
    text = [Text(words.safe(line)) for line in one.scenario.splitlines()]
    return Group(problem, paper.panel(f"{words.counted(one.moves, 'move')}; recover replay FILE plays it", Group(*text), "red"))
