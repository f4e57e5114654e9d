"""Shared by the tests of scenarios: finding one by name, and playing it on memory."""

from __future__ import annotations

from functools import cache

from recovery.ports import Journal
from recovery.storage import open_journal
from recovery.testing import Scenario, ScenarioResult, load, play
from recovery.testing.loading import parse
from tests.architecture.source import ROOT


@cache
def named(name: str) -> Scenario:
    """The scenario of the repository that has this name."""
    found = [scenario for path in sorted((ROOT / "scenarios").glob("*.yaml")) for scenario in load(path) if scenario.name == name]
    assert len(found) == 1, name
    return found[0]


def written(text: str) -> Scenario:
    """The one scenario of a text."""
    [scenario] = parse(text, "test.yaml")
    return scenario


def played(scenario: Scenario, colour: str = "sync", journal: Journal | None = None) -> ScenarioResult:
    return play(scenario, journal or open_journal("memory://"), colour, store="memory")
