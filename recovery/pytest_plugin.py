"""The pytest plugin: scenario files are tests, and fixtures for tests of recoverable code.

Owns what pytest is told: which files are scenarios, how a play fails, the fixtures. What is played and explored is `recovery.testing`'s, and is
imported only when the first scenario or fixture is used: every pytest of an environment that has this package loads this module. Invariant:
a file that does not say that it is a scenario of ours is left alone, whatever is in it.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest

if TYPE_CHECKING:
    from recovery.definitions.effect import Effect
    from recovery.testing import Explored, ManualClock, Scenario, ScriptedEnvironment, SimulatedEnvironment
    from recovery.testing.moves import Send, Signal
    from recovery.testing.shelves import Shelf

FILES: Final = "recovery_scenarios"
STORES: Final = "recovery_stores"

_FIELDS: Final = frozenset({"name", "story", "environment", "workflow", "timeline", "expect", "variants"})
_FIELDS_MIN: Final = 3  # of them, beside `scenario`: one may be misspelled, and is then told
_TOP_LEVEL: Final = re.compile(rb"^([a-z_]+):", re.MULTILINE)
_READ_MAX: Final = 64 * 1024  # bytes; the fields of a scenario begin well before
_shelves: Final = pytest.StashKey[dict[str, "Shelf"]]()
_open: Final = pytest.StashKey[ExitStack]()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addini(
        FILES,
        "recovery: files that may hold scenarios, as patterns matched from the right",
        type="args",
        default=["scenarios/*.yaml", "scenarios/*.yml"],
    )
    parser.addini(STORES, "recovery: where scenarios are played: memory, sqlite, PostgreSQL URLs", type="args", default=["memory"])


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line(
        "markers", "simulated_environment(stock=None, knobs=None): what the fixture of that name has, and how it behaves"
    )
    config.stash[_shelves], config.stash[_open] = {}, ExitStack()


def pytest_unconfigure(config: pytest.Config) -> None:
    if _open in config.stash:  # absent where configuring had failed
        config.stash[_open].close()


def pytest_collect_file(file_path: Path, parent: pytest.Collector) -> pytest.Collector | None:
    patterns = parent.config.getini(FILES)
    if any(file_path.match(pattern) for pattern in patterns) and _is_ours(file_path):
        return ScenarioFile.from_parent(parent, path=file_path)
    return None


def _is_ours(path: Path) -> bool:
    """Whether the file says that it is a scenario: by the names of its fields alone, so that foreign YAML costs a glance."""
    try:
        with path.open("rb") as file:
            fields = {found.decode() for found in _TOP_LEVEL.findall(file.read(_READ_MAX))}
    except OSError:
        return False
    return "scenario" in fields and len(fields & _FIELDS) >= _FIELDS_MIN


class ScenarioFile(pytest.File):
    """A file of scenarios: one test for each variant, store and colour."""

    def collect(self) -> Iterator[pytest.Item]:
        from recovery.testing import ScenarioError, load
        from recovery.testing.replay import COLOURS, has_colour

        try:
            scenarios = load(self.path)
        except ScenarioError as error:
            raise self.CollectError(str(error)) from None
        for scenario in scenarios:
            for store in self.config.getini(STORES):
                for colour in COLOURS:
                    if has_colour(scenario, colour):
                        kind = "postgres" if store.startswith("postgres") else store  # a URL may hold a password
                        name = f"{scenario.name}[{kind}-{colour}]"
                        yield ScenarioItem.from_parent(self, name=name, scenario=scenario, store=store, colour=colour)


class Broken(Exception):
    """A play that did not come to what its scenario says: the sentences, then everything that happened."""


class ScenarioItem(pytest.Item):
    """One play."""

    def __init__(self, *, scenario: Scenario, store: str, colour: str, **given: Any) -> None:
        super().__init__(**given)
        self._scenario, self._place, self._colour = scenario, store, colour

    def runtest(self) -> None:
        from recovery.testing import play

        with _shelf(self.config, self._place)() as journal:
            result = play(self._scenario, journal, self._colour, path=self.path)
        if not result.passed:
            raise Broken("\n".join([*result.problems, "", result.transcript]))

    def repr_failure(self, excinfo: pytest.ExceptionInfo[BaseException], style: Any = None) -> Any:
        """What is in the engine's stack says nothing about a scenario."""
        if isinstance(excinfo.value, Broken):
            return str(excinfo.value)
        return super().repr_failure(excinfo, style)

    def reportinfo(self) -> tuple[Path, int, str]:
        return self.path, 0, f"scenario {self._scenario.scenario}: {self.name}"


def _shelf(config: pytest.Config, store: str) -> Shelf:
    """One place for the journals of a whole session."""
    from recovery.testing.shelves import shelf

    there = config.stash[_shelves]
    if store not in there:
        there[store] = config.stash[_open].enter_context(shelf(store))
    return there[store]


@pytest.fixture
def manual_clock() -> ManualClock:
    """A clock that moves only when it is told to, for `Engine(..., clock=manual_clock)`. It begins in 2026."""
    from recovery.testing import ManualClock

    return ManualClock()


@pytest.fixture
def simulated_environment(manual_clock: ManualClock, request: pytest.FixtureRequest) -> Iterator[SimulatedEnvironment]:
    """A simulated environment on `manual_clock`, which effects made by `recovery.testing.reserving` reach in this test.

    `@pytest.mark.simulated_environment(stock={"FILTER-A": 10}, knobs=Knobs(...))` says what it has and how it behaves.
    """
    from recovery.testing import SimulatedEnvironment, connecting

    marker = request.node.get_closest_marker("simulated_environment")
    environment = SimulatedEnvironment(manual_clock, **{"stock": {}, **(marker.kwargs if marker else {})})
    with connecting(environment.connect(request.node.name)):
        yield environment


class CrashEverywhere:
    """Plays a workflow with one thing going wrong, at every place and in every way, and recovers it each time."""

    def __call__(
        self,
        workflow: Any,
        /,
        *args: Any,
        effects: Mapping[Effect[..., Any], Callable[..., Any]] | ScriptedEnvironment | None = None,
        says: Sequence[Signal | Send] = (),
        faults: int = 1,
        recoverers: int = 1,
        **bounds: Any,
    ) -> Explored:
        """Fail the test with the smallest history that breaks a promise. The same arguments as `recovery.testing.explore`, whose default is
        two faults and two recoverers; one of each takes about a second."""
        __tracebackhide__ = True
        from recovery.testing import NotDeterministic, explore

        try:
            explored = explore(workflow, *args, effects=effects, says=says, faults=faults, recoverers=recoverers, **bounds)
        except NotDeterministic as error:
            pytest.fail(str(error), pytrace=False)
        if explored.violations:
            found = explored.violations[0]
            pytest.fail(f"{found.title}: {found.problem}\n\n{found.scenario}", pytrace=False)
        if explored.unanswered:
            awaited = ", ".join(explored.unanswered)
            warnings.warn(f"What follows on {awaited} was not played, since nobody says it: say it with says=[...].", stacklevel=2)
        return explored


@pytest.fixture
def crash_everywhere() -> CrashEverywhere:
    """Prove a workflow of yours: `crash_everywhere(workflow, input, effects={effect: what it comes to})`."""
    return CrashEverywhere()
