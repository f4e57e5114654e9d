"""Orders between any two steps: a worker plays the run while a person restarts, forks, pauses or cancels it, place by place, with every policy.

What may happen is counted from the journals: of each logical effect one, and one more for each order that names a new key for it (I1).
"""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from recovery import Call, Run, contracts, effect, workflow
from recovery.core import inheriting
from recovery.operators.claiming import Claimed
from recovery.testing import Exploration, explore, forks, orders, restarts
from recovery.testing.moves import Word
from tests.model.planted import Change, planted

KEYED = contracts.Keyed(window=timedelta(hours=24))


@effect(KEYED)
def take(call: Call, *, part: str) -> str:
    raise AssertionError("a real service must not be reached")


@take.compensation(KEYED)
def give(call: Call, outcome: str, *, part: str) -> None:
    raise AssertionError("a real service must not be reached")


@workflow
def sequence(run: Run) -> str:
    return run.perform(take(part="a")) + run.perform(take(part="b"))


@workflow
def gathering(run: Run) -> list[str]:
    return list(run.gather(lambda left: left.perform(take(part="a")), lambda right: right.perform(take(part="b"))))


@workflow
def picking(run: Run) -> str:
    return run.perform(take(part="a"))


@workflow
def family(run: Run) -> str:
    return run.call_child(picking()) + run.perform(take(part="b"))


@workflow
def saga(run: Run) -> None:
    run.perform(take(part="a"))
    run.perform(take(part="b"))
    run.compensate()


WORKFLOWS: dict[str, Any] = {"sequence": sequence, "gather": gathering, "child": family, "saga": saga}
FIRST = {"sequence": "take#1", "gather": "gather#1/0/take#1", "child": "picking#1", "saga": "take#1"}


def word(verb: str, policy: str, step: str) -> Word:
    if verb in {"pause", "cancel"}:
        return orders(verb, by="ann")
    said: dict[str, Any] = {"new_key": {step: "once more"}} if policy == "new_key" else {policy: [step]}
    return restarts(step, **said) if verb == "restart" else forks("run-2", at=step, **said)


def exploring(name: str, *words: Word) -> Exploration[..., Any]:
    return Exploration(WORKFLOWS[name], effects={take: lambda part: part, give: lambda outcome, part: None}, says=words)


def broken(name: str, *words: Word, histories: int, faults: int = 1) -> list[str]:
    explored = explore(exploring(name, *words), faults=faults, recoverers=2, histories_max=histories)
    return [f"{found.promise}: {found.problem}" for found in explored.violations]


@pytest.mark.parametrize("name", ["sequence", "saga"])
def test_every_interleaving_of_a_worker_and_a_restart(name: str) -> None:
    """Either goes on at any place of the other; without faults that is all there is."""
    explored = explore(exploring(name, word("restart", "new_key", "take#1")), faults=0, recoverers=2)
    assert explored.complete
    assert not explored.violations
    assert explored.end_states > 10


CASES = [("gather", "restart", "new_key"), ("child", "fork", "new_key"), ("saga", "fork", "reuse"), ("sequence", "cancel", "")]


@pytest.mark.parametrize(("name", "verb", "policy"), CASES)
def test_no_order_doubles_what_it_does_not_name(name: str, verb: str, policy: str) -> None:
    assert broken(name, word(verb, policy, FIRST[name]), histories=30) == []


@pytest.mark.explore
@pytest.mark.parametrize("name", WORKFLOWS)
@pytest.mark.parametrize("verb", ["restart", "fork"])
@pytest.mark.parametrize("policy", ["forbid", "reuse", "new_key"])
def test_no_order_with_a_fault_doubles_what_it_does_not_name(name: str, verb: str, policy: str) -> None:
    assert broken(name, word(verb, policy, FIRST[name]), histories=60) == []


@pytest.mark.explore
@pytest.mark.parametrize("name", WORKFLOWS)
def test_every_interleaving_of_a_worker_and_a_fork(name: str) -> None:
    assert broken(name, word("fork", "new_key", FIRST[name]), histories=150, faults=0) == []


@pytest.mark.explore
@pytest.mark.parametrize("name", WORKFLOWS)
@pytest.mark.parametrize("verb", ["pause", "cancel"])
def test_a_run_that_is_stopped_restarted_and_resumed_doubles_nothing(name: str, verb: str) -> None:
    step = FIRST[name]
    assert broken(name, orders(verb), restarts(step, forbid=[step]), orders("resume"), histories=60) == []


@pytest.mark.explore
def test_a_worker_that_stands_still_while_its_run_is_restarted_doubles_nothing() -> None:
    """The order waits for its lease; then it goes on, and finds itself fenced."""
    waits = restarts("take#1", reuse=["take#1"], wait=timedelta(minutes=1))
    assert broken("sequence", waits, histories=150) == []


FORGOTTEN = (inheriting, "_ordered", lambda *_asked: None)
OVERLOOKED = (Claimed, "check_head", lambda _claimed, _seen: None)
BUGS = {
    "what was ordered is forgotten": ("restart", "forbid", FORGOTTEN),
    "what the run did since it was looked at is overlooked": ("restart", "reuse", OVERLOOKED),
    "a fork inherits nothing": ("fork", "forbid", FORGOTTEN),
}


@pytest.mark.parametrize("bug", BUGS)
def test_a_planted_bug_is_found(bug: str) -> None:
    """A second effect under another key, which no order names."""
    verb, policy, patch = BUGS[bug]
    with planted(Change(name=bug, patches=(patch,))):
        [found] = broken("sequence", word(verb, policy, "take#1"), histories=400)
    assert found.startswith("I1: run-1: take#"), found
    assert "no order allows it" in found
