"""The pytest plugin, in test runs of its own: what it collects, what it leaves alone, how a failure reads, and its fixtures."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from recovery.testing import replay_paths
from tests.architecture.test_imports import HEAVY

PASSING = """
scenario: P1
name: lost reply
story: A worker reserves two units and dies before it hears.
environment:
  stock: {FILTER-A: 10}
  effects: {reserve: {contract: keyed, window: 24h}}
workflow:
  - perform: reserve
    with: {sku: FILTER-A, qty: 2}
    key: reservation-1
timeline:
  - run: A
    kill: {at: environment.committed}
  - recover: B
    expect: {exit: settled}
expect: {stock: {FILTER-A: 8}}
"""

FOREIGN = {
    "molecule.yml": "scenario:\n  name: default\nplatforms: []\n",
    "load.yaml": "scenario: checkout\nname: peak hour\nusers: 500\n",
    "compose.yaml": "services: {db: {image: postgres}}\n",
    "torn.yaml": "scenario: [\n",
    "tagged.yaml": "!!python/object:os.system {}\n",
}


@pytest.fixture(autouse=True, scope="module")
def _loaded(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Import what the runs inside this process will: `pytester` forgets what is loaded meanwhile, and a module loaded twice is two."""
    path = tmp_path_factory.mktemp("warm") / "story.yaml"
    path.write_text(PASSING, encoding="utf-8")
    assert all(result.passed for result in replay_paths([path]))


def scenario_file(pytester: pytest.Pytester, text: str, name: str = "story.yaml", directory: str = "scenarios") -> None:
    path = pytester.path / directory / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")


def run(pytester: pytest.Pytester, *options: str) -> pytest.RunResult:
    """In this process. hypothesis's plugin would load all of itself anew for each run's header and summary."""
    return pytester.runpytest_inprocess("-p", "no:hypothesispytest", *options)


def test_a_scenario_is_a_test_in_each_colour(pytester: pytest.Pytester) -> None:
    scenario_file(pytester, PASSING)
    result = run(pytester, "-v")
    result.assert_outcomes(passed=2)
    result.stdout.fnmatch_lines(
        ["scenarios/story.yaml::lost reply[[]memory-sync[]] PASSED*", "scenarios/story.yaml::lost reply[[]memory-async[]] PASSED*"]
    )


def test_a_play_that_fails_reads_like_a_story(pytester: pytest.Pytester) -> None:
    scenario_file(pytester, PASSING.replace("FILTER-A: 8", "FILTER-A: 6"))
    result = run(pytester)
    result.assert_outcomes(failed=2)
    result.stdout.fnmatch_lines(
        [
            "the end: stock is {'FILTER-A': 8}, expected {'FILTER-A': 6}",
            "*environment  does reservation-1: R1; left {'FILTER-A': 8}",
            "*A            is killed at environment.committed",
        ]
    )
    assert ".py" not in result.stdout.str().partition("FAILURES")[2], "no internals' traceback"


def test_what_is_not_ours_is_left_alone(pytester: pytest.Pytester) -> None:
    for name, text in FOREIGN.items():
        scenario_file(pytester, text, name)
    scenario_file(pytester, PASSING, directory="fixtures")
    pytester.makepyfile("def test_own(): pass")
    run(pytester).assert_outcomes(passed=1)


def test_a_scenario_with_a_mistake_is_told_with_its_line(pytester: pytest.Pytester) -> None:
    scenario_file(pytester, PASSING.replace("timeline:", "timelime:"))
    result = run(pytester)
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(["*story.yaml:12: timelime: *"])


def test_other_directories_and_other_stores(pytester: pytest.Pytester) -> None:
    scenario_file(pytester, PASSING, directory="stories/of/crashes")
    pytester.makeini("[pytest]\nrecovery_scenarios = crashes/*.yaml\nrecovery_stores = memory sqlite\n")
    result = run(pytester, "-v")
    result.assert_outcomes(passed=4)
    result.stdout.fnmatch_lines(["*lost reply[[]sqlite-async[]] PASSED*"])


FIXTURES = """
from datetime import timedelta

import pytest
from recovery import Engine, Run, contracts, workflow
from recovery.testing import Knobs, connection, reserving

book = reserving("book", contracts.Keyed(window=timedelta(hours=24)))

@workflow
def order(run: Run) -> str:
    return run.perform(book(sku="A", qty=2), key="order-1")["receipt"]

@pytest.mark.simulated_environment(stock={"A": 5}, knobs=Knobs(window=timedelta(hours=24)))
def test_it(simulated_environment, manual_clock):
    simulated_environment.faults.drop_replies = 1
    with Engine("memory://", workflows=[order], clock=manual_clock) as engine:
        assert engine.run("run-1", order) == "R1"
    assert simulated_environment.stock == {"A": 3}
    assert simulated_environment.executions() == {"order-1": 1}
    assert manual_clock.boot_us() > 0, "it waited, and no time passed"

def test_no_other_test_reaches_it():
    with pytest.raises(LookupError):
        connection()
"""


def test_the_fixtures(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(FIXTURES)
    run(pytester, "--strict-markers").assert_outcomes(passed=2)


PROVEN = """
from dataclasses import dataclass
from datetime import timedelta

from recovery import Call, Run, contracts, effect, workflow
from recovery.testing import AS_IT_STANDS

@dataclass(frozen=True)
class Reservation:
    sku: str
    units: int

made: list[str] = []

@effect(contracts.Keyed(window=timedelta(hours=24)))
def reserve(call: Call, *, sku: str, units: int) -> Reservation:
    made.append(call.key)
    return Reservation(sku, call.attempt)

@workflow
def resolve(run: Run, part: str) -> str:
    return run.perform(reserve(sku=part, units=2), key="reservation-1").sku

def test_my_workflow_survives(crash_everywhere):
    explored = crash_everywhere(resolve, "oil filter", effects={reserve: lambda sku, units: Reservation(sku, units)})
    assert explored.complete and explored.histories > 50
    assert made == [], "the effect itself was never called"

def test_a_fake_that_keeps_no_keys(crash_everywhere):
    crash_everywhere(resolve, "oil filter", effects={reserve: AS_IT_STANDS})

def test_a_script_that_is_another_one_each_time(crash_everywhere):
    crash_everywhere(resolve, "oil filter", effects={reserve: lambda sku, units: Reservation(sku, made.append("") or len(made))})
"""


def test_a_workflow_is_proven_in_five_lines_and_a_failure_is_a_history(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(test_own=PROVEN)
    result = run(pytester)
    result.assert_outcomes(passed=1, failed=2)
    result.stdout.fnmatch_lines(
        [
            "I1 is broken: reservation-1 was carried out 2 times",
            "timeline:",
            "- run: A",
            "The same *, played again, led to another state*",
        ]
    )
    failure = result.stdout.str().partition("= FAILURES =")[2].partition("= short test summary")[0]
    assert ".py" not in failure, "no internals' traceback"


def test_a_run_without_scenarios_pays_nothing(pytester: pytest.Pytester) -> None:
    """Every pytest of an environment that has this package loads the plugin."""
    scenario_file(pytester, FOREIGN["load.yaml"])
    pytester.makepyfile("def test_own(): pass")

    def loaded(*options: str) -> set[str]:
        code = f"import sys, pytest; assert pytest.main({['-q', *options]!r}) == 0; print(*sys.modules)"
        alone = {**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
        done = subprocess.run(
            [sys.executable, "-c", code], cwd=pytester.path, env=alone, capture_output=True, text=True, check=True
        )
        return set(done.stdout.splitlines()[-1].split())

    more = loaded("-p", "recovery.pytest_plugin") - loaded()
    assert more.isdisjoint(HEAVY)
    assert {name for name in more if name.startswith("recovery")} == {"recovery", "recovery.pytest_plugin"}
