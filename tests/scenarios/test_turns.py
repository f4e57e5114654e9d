"""Turns: the branches of one process go on one at a time, in an order that can be chosen and chosen again."""

from __future__ import annotations

import threading
from collections.abc import Callable

import pytest

from recovery.storage import open_journal
from recovery.testing import play
from recovery.testing.turns import Stuck, Turns
from tests.scenarios.playing import played, written

TWO = """\
scenario: TURNS
name: two branches take turns
story: Each of two branches reserves twice; which of them goes on is said by the timeline.
environment:
  stock: {A: 100}
  effects: {reserve: {contract: keyed, window: 24h}}
workflow:
  - gather:
      - - {perform: reserve, with: {sku: A, qty: 1}, key: a1}
        - {perform: reserve, with: {sku: A, qty: 1}, key: a2}
      - - {perform: reserve, with: {sku: A, qty: 1}, key: b1}
        - {perform: reserve, with: {sku: A, qty: 1}, key: b2}
  - return: done
timeline:
  - run: A
    pause: {at: environment.committed}
  - resume: A
    branch: 2
    pause: {at: environment.committed, occurrence: 2}
  - expect: {executions: {a1: 1, b1: 1, b2: 1}}
  - resume: A
    branch: 1
expect: {status: completed, executions: {a1: 1, a2: 1, b1: 1, b2: 1}}
"""


def in_turns(*works: Callable[[Turns, list[str]], None]) -> list[str]:
    """What branches say that begin in this order, until all have ended."""
    turns, said = Turns(lambda: None, lambda _: None), list[str]()
    strands = [turns.strand(work, turns, said) for work in works]
    for strand in strands:
        strand.start()
    for strand in strands:
        strand.join()
    return said


def test_a_branch_goes_on_until_it_ends_and_then_the_next_one() -> None:
    assert in_turns(lambda _, said: said.append("first"), lambda _, said: said.append("second")) == ["first", "second"]


def test_a_branch_that_waits_lets_the_others_go_on() -> None:
    come: list[object] = []

    def waits(turns: Turns, said: list[str]) -> None:
        come.append(signal := turns.signal())
        signal.wait()
        said.append("it came")

    def gives(turns: Turns, said: list[str]) -> None:
        said.append("given")
        come[0].set()  # type: ignore[attr-defined]
        said.append("and gone on")

    assert in_turns(waits, gives) == ["given", "and gone on", "it came"]


def test_another_branch_is_handed_the_turn_by_its_number() -> None:
    def hands(turns: Turns, said: list[str]) -> None:
        said.append(f"{turns.ready}")
        turns.hand_to(3)
        said.append("back")
        with pytest.raises(ValueError, match="branch 3 cannot go on; those that can: 2"):
            turns.hand_to(3)

    assert in_turns(hands, lambda _, said: said.append("two"), lambda _, said: said.append("three")) == [
        "(2, 3)",
        "three",
        "back",
        "two",
    ]


def test_a_lock_has_one_holder_whoever_goes_on() -> None:
    locks: list[object] = []

    def holds(turns: Turns, said: list[str]) -> None:
        locks.append(lock := turns.lock())
        lock.acquire()
        turns.hand_to(2)
        said.append("it lets go")
        lock.release()

    def wants(turns: Turns, said: list[str]) -> None:
        said.append("it wants")
        locks[0].acquire()  # type: ignore[attr-defined]
        said.append("it has it")

    assert in_turns(holds, wants) == ["it wants", "it lets go", "it has it"]


def test_branches_that_all_wait_are_a_bug_and_no_hanging_test() -> None:
    def waits(turns: Turns, said: list[str]) -> None:
        with pytest.raises(Stuck):
            turns.signal().wait()
        said.append("stuck")

    assert in_turns(waits) == ["stuck"]


def test_a_dead_process_ends_in_each_of_its_branches() -> None:
    class Dead(BaseException):
        pass

    dead: list[bool] = []

    def check() -> None:
        if dead:
            raise Dead

    ended: list[str] = []

    def waits(turns: Turns) -> None:
        try:
            turns.signal().wait()
        except Dead:
            ended.append("the one that waited")

    def dies(turns: Turns) -> None:
        dead.append(True)
        ended.append("the one that died")

    turns = Turns(check, lambda _: None)
    strands = [turns.strand(waits, turns), turns.strand(dies, turns)]
    before = threading.active_count()
    for strand in strands:
        strand.start()
    for strand in strands:
        strand.join()
    assert ended == ["the one that died", "the one that waited"]
    assert threading.active_count() - before <= 1  # the last to hand over may still be on its way out


def test_a_scenario_says_which_branch_goes_on() -> None:
    result = played(written(TWO))
    assert result.passed, result.problems


def test_a_branch_that_cannot_go_on_is_said_so() -> None:
    result = played(written(TWO.replace("branch: 2", "branch: 7")))
    assert any("branch 7 of A cannot go on" in problem for problem in result.problems)


def test_a_branch_dies_with_its_process_wherever_the_others_stand() -> None:
    """One has been carried out and not heard, the other stands in the midst of its second request."""
    killed = TWO.replace(
        "  - resume: A\n    branch: 1\n", "  - kill: A\n  - recover: B\n    expect: {exit: settled, outcome: done}\n"
    )
    result = play(written(killed), open_journal("memory://"), "sync")
    assert result.passed, result.problems
