"""Replay: scenario files on every store and in both colours, with one result each.

Owns the order of plays and what is said of each. Must not know what a scenario means. Invariant: every play has an empty journal, and whatever
goes wrong in one is its result and does not keep the others from being played.
"""

from __future__ import annotations

import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from recovery.ports import Journal
from recovery.testing.loading import ScenarioError, load
from recovery.testing.scenario import Scenario
from recovery.testing.shelves import Shelf, shelf
from recovery.testing.stage import Stage
from recovery.testing.steps import Module

COLOURS = ("sync", "async")


@dataclass(frozen=True, slots=True)
class ScenarioResult:
    """What one play came to. `problems`: sentences, empty if it passed; a file that is no scenario has them with file and line."""

    path: Path
    name: str
    store: str
    colour: str
    passed: bool
    problems: tuple[str, ...]
    transcript: str
    seconds: float


def replay_paths(
    paths: Sequence[Path],
    *,
    stores: Sequence[str] = ("memory", "sqlite"),
    colours: Sequence[str] = COLOURS,
    on_result: Callable[[ScenarioResult], None] | None = None,
) -> list[ScenarioResult]:
    """Play scenario files, and the files `*.yaml` under directories, on each store in each colour.

    stores: "memory", "sqlite" (a temporary file per play), or a PostgreSQL URL: plays use a schema of their own there, which is made at
    the beginning and dropped at the end. on_result: told of each result at once. Raises what the store raises if it cannot be used;
    everything about a scenario is in its result.
    """
    results: list[ScenarioResult] = []

    def keep(result: ScenarioResult) -> None:
        results.append(result)
        if on_result is not None:
            on_result(result)

    loaded = [_loaded(path, stores[0] if stores else "") for path in files(paths)]
    for refused in loaded:
        if isinstance(refused, ScenarioResult):
            keep(refused)
    for store in stores:
        with shelf(store) as journals:
            for item in loaded:
                for result in () if isinstance(item, ScenarioResult) else _plays(item, _kind(store), journals, colours):
                    keep(result)
    return results


def files(paths: Sequence[Path]) -> list[Path]:
    """The scenario files that `paths` name, directories searched. A path without any is kept, so that it is reported."""
    found: list[Path] = []
    for path in paths:
        found += sorted([*path.rglob("*.yaml"), *path.rglob("*.yml")]) or [path]
    return found


def play(scenario: Scenario, journal: Journal, colour: str, *, path: Path = Path(), store: str = "") -> ScenarioResult:
    """One play on a journal that holds no runs."""
    began = time.monotonic()
    stage = Stage(scenario, journal, is_async=colour == "async")
    try:
        problems = stage.play()
    except Exception:  # noqa: BLE001  # the result says so; the next scenario is played all the same
        problems = [traceback.format_exc()]
    name = f"{scenario.scenario} {scenario.name}"
    seconds = time.monotonic() - began
    return ScenarioResult(path, name, store, colour, not problems, tuple(problems), stage.ledger.transcript(), seconds)


def has_colour(scenario: Scenario, colour: str) -> bool:
    """Whether the scenario's workflow has this form."""
    if not isinstance(scenario.workflow, Module):
        return True
    return (scenario.workflow.async_ if colour == "async" else scenario.workflow.sync) is not None


def _loaded(path: Path, store: str) -> tuple[Path, list[Scenario]] | ScenarioResult:
    """The scenarios of a file, or the result that says what is wrong with it: told once, whatever the stores."""
    try:
        return path, load(path)
    except ScenarioError as error:
        problems = error.problems
    except IsADirectoryError:
        problems = (f"{path}: it holds no scenario files",)
    except OSError as error:
        problems = (f"{path}: {error.strerror or error}",)
    return ScenarioResult(path, path.name, _kind(store), "", False, problems, "", 0.0)


def _kind(store: str) -> str:
    """The store's name for people: a URL may hold a password."""
    return "postgres" if store.startswith("postgres") else store


def _plays(item: tuple[Path, list[Scenario]], store: str, journals: Shelf, colours: Sequence[str]) -> Iterator[ScenarioResult]:
    path, scenarios = item
    for scenario in scenarios:
        for colour in colours:
            if has_colour(scenario, colour):
                with journals() as journal:
                    yield play(scenario, journal, colour, path=path, store=store)
