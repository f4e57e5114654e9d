"""Every scenario of the repository on one of the databases in one colour, alternating from variant to variant.

A sample, for the sake of time: `make replay`, which CI runs, takes each on each store in both colours. On memory they are tests themselves, in
both colours: `recovery.pytest_plugin` collects them.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from recovery.pytest_plugin import ScenarioFile
from recovery.testing import Scenario, load, play
from recovery.testing.replay import COLOURS
from recovery.testing.shelves import Shelf, shelf
from tests.architecture.source import ROOT
from tests.postgres import PostgresServer

FILES = sorted((ROOT / "scenarios").glob("*.yaml"))
SCENARIOS = [pytest.param(scenario, id=f"{path.stem}/{scenario.name}") for path in FILES for scenario in load(path)]
NUMBERED = [pytest.param(number, *one.values, id=one.id) for number, one in enumerate(SCENARIOS)]


@pytest.fixture(scope="session")
def sqlite_shelf() -> Iterator[Shelf]:
    with shelf("sqlite") as journals:
        yield journals


@pytest.fixture(scope="session")
def postgres_shelf(postgres_server: PostgresServer) -> Iterator[Shelf]:
    with shelf(postgres_server.url("postgres")) as journals:
        yield journals


@pytest.mark.parametrize(("number", "scenario"), NUMBERED[::2])
def test_on_sqlite(sqlite_shelf: Shelf, number: int, scenario: Scenario) -> None:
    holds(scenario, sqlite_shelf, COLOURS[number // 2 % 2], "sqlite")


@pytest.mark.parametrize(("number", "scenario"), NUMBERED[1::2])
def test_on_postgres(postgres_shelf: Shelf, number: int, scenario: Scenario) -> None:
    holds(scenario, postgres_shelf, COLOURS[number // 2 % 2], "postgres")


def holds(scenario: Scenario, shelf: Shelf, colour: str, store: str) -> None:
    with shelf() as journal:
        result = play(scenario, journal, colour, store=store)
    assert result.passed, "\n".join([*result.problems, result.transcript])


def test_each_is_a_test_of_its_own(request: pytest.FixtureRequest) -> None:
    """On memory, once in each colour, wherever pytest is told to look."""
    assert "scenarios" in request.config.getini("testpaths")
    collected = [item.name for path in FILES for item in ScenarioFile.from_parent(request.session, path=path).collect()]
    assert collected == [f"{scenario.values[0].name}[memory-{colour}]" for scenario in SCENARIOS for colour in COLOURS]


def test_none_is_lost() -> None:
    """A file that is lost is not missed by a glob."""
    wanted = {
        f"S{number:02}"
        for number in (1, 2, 3, 4, 5, 7, 8, 9, 11, 12, 13, 15, 16, 17, 19, 20, 21, 22, 23, 25, 26, 28, 30, 32, 34, 37, 38)
    }
    wanted |= (
        {f"C{number:02}" for number in (2, 3, 5, 6, 7, 8, 9, 11, 12, 13, 21, 22, 24)}
        | {f"W{number}" for number in (1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 15, 18)}
        | {"CANON", "CANCEL", "RIDES"}
    )
    assert wanted == {scenario.values[0].scenario for scenario in SCENARIOS}


def test_names_are_unique() -> None:
    names = [scenario.values[0].name for scenario in SCENARIOS]
    assert sorted(set(names)) == sorted(names)


@pytest.mark.parametrize("contract", ["keyed", "probeable", "opaque"])
@pytest.mark.parametrize("identity", ["S01", "S02", "S03", "S04", "S05", "S07", "S12", "S16", "S17"])
def test_each_scenario_covers_every_contract(identity: str, contract: str) -> None:
    found = [parameter.values[0] for parameter in SCENARIOS if parameter.values[0].scenario == identity]
    assert any(effect.contract == contract for scenario in found for effect in scenario.environment.effects.values())
