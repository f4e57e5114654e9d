"""A user's own workflows, explored with scripts and fakes in the place of services."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from recovery import Call, Run, contracts, effect, workflow
from recovery.testing import AS_IT_STANDS, Exploration, NotDeterministic, ScriptedEnvironment, explore
from tests.explorer import flows
from tests.scenarios.playing import played, written


@pytest.mark.parametrize("what", [flows.exploration, flows.async_exploration, flows.honest], ids=["scripts", "async", "a fake"])
def test_the_promises_hold_for_a_workflow_that_was_not_edited(what: Exploration[..., object]) -> None:
    explored = explore(what, faults=1, recoverers=1)
    assert [found.problem for found in explored.violations] == []
    assert explored.complete
    assert explored.histories > 50


def test_a_workflow_with_its_arguments_is_explored_like_its_exploration() -> None:
    effects = {flows.reserve: flows.booked, flows.tell: lambda text: None}
    one = explore(flows.repair, "A", effects=effects, histories_max=20)
    two = explore(flows.exploration, histories_max=20)
    assert (one.histories, one.states, one.end_states) == (two.histories, two.states, two.end_states)


def test_a_script_that_declines_declines_in_every_history() -> None:
    explored = explore(flows.repair, "gone", effects={flows.reserve: flows.booked, flows.tell: lambda text: None}, faults=1)
    assert explored
    assert explored.complete


def test_a_fake_that_forgets_its_keys_is_found_and_replays_as_failing() -> None:
    [found] = explore(flows.lying, faults=1, recoverers=1).violations
    assert found.promise == "I1"
    assert found.moves <= 3
    assert "tests.explorer.flows:lying" in found.scenario
    assert any("I1: " in problem for problem in played(written(found.scenario)).problems)


def test_a_workflow_that_catches_its_own_death_reaches_nothing() -> None:
    flows.tried.clear()
    explored = explore(flows.clutched, faults=1, recoverers=1)
    assert explored, explored.violations
    assert {said.partition(":")[0] for said in flows.tried} == {"perform", "decide", "attempt", "ask"}
    assert {said.partition(": ")[2] for said in flows.tried} <= {
        "Unwind",
        "Killed",
    }  # the run's own calls end before they reach a port
    assert "ask: Killed" in flows.tried


def test_what_is_not_deterministic_is_refused() -> None:
    with pytest.raises(NotDeterministic, match="reads no clock"):
        explore(flows.moodiness)


def test_an_effect_without_a_script_reaches_no_service() -> None:
    [found] = explore(flows.repair, "A", effects={flows.reserve: flows.booked}).violations
    assert found.promise == "bug"
    assert "effect tell has no script" in found.problem.partition("\n")[0]


@pytest.mark.parametrize(
    ("script", "problem"),
    [
        (lambda: 3, "unexpected keyword argument 'sku'"),
        (lambda sku: f"three {sku}", "Input should be a valid integer"),
    ],
    ids=["other-parameters", "another-type"],
)
def test_a_read_whose_script_is_wrong_is_its_authors_mistake_and_no_silence(script: Callable[..., object], problem: str) -> None:
    explored = explore(flows.count, "A", effects={flows.stock: script}, faults=0, recoverers=1)
    [found] = explored.violations
    assert found.promise == "bug"
    first = found.problem.partition("\n")[0]
    assert "the script of stock does not do as its effect says" in first
    assert problem in first


def test_a_read_whose_script_declines_is_heard_by_the_workflow() -> None:
    def gone(sku: str) -> int:
        raise flows.SoldOut(sku=sku)

    assert explore(flows.count, "A", effects={flows.stock: gone}, faults=1, recoverers=1)


def test_what_cannot_be_explored_is_refused_before_it_is_played() -> None:
    with pytest.raises(ValueError, match="zero or more"):
        explore(flows.exploration, faults=-1)

    @effect(contracts.Opaque(), name="tell")
    def tell(call: Call, *, text: str) -> None: ...

    with pytest.raises(ValueError, match="two effects are named tell"):
        ScriptedEnvironment({tell: AS_IT_STANDS, flows.tell: AS_IT_STANDS})


def test_a_workflow_that_cannot_run_undisturbed_is_not_explored() -> None:
    @workflow
    def misnamed(run: Run) -> int:
        return run.decide("a name with blanks", lambda: 1)

    with pytest.raises(ValueError, match="Undisturbed, the run ends: step name"):
        explore(misnamed, effects={flows.reserve: flows.booked})


def test_a_history_of_a_workflow_without_a_name_says_so() -> None:
    @workflow
    def grabbing(run: Run) -> str:
        return run.perform(flows.grab(units=1)).id

    [found] = explore(grabbing, effects=ScriptedEnvironment({flows.grab: AS_IT_STANDS}, fresh=flows.reopened)).violations
    assert "not_at_module_level" in found.scenario
