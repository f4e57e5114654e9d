"""The gate of a gather: recorded steps return in the order in which they were completed, and nothing waits for ever."""

from __future__ import annotations

from dataclasses import dataclass, field
from random import Random

from hypothesis import given
from hypothesis import strategies as st

from recovery.core.gathering import Gate, Gathering, Waiting


@dataclass
class World:
    """Branches that take their steps in an order that a seed decides; a step returns when its gate lets it."""

    branches: list[list[str]]
    gate: Gate
    returned: list[str] = field(default_factory=list)
    positions: list[int] = field(default_factory=list)
    asleep: dict[int, Waiting] = field(default_factory=dict)

    def play(self, seed: int) -> None:
        random, gathering = Random(seed), Gathering("gather#1", len(self.branches), self.gate, nested=False)
        self.positions = [0] * len(self.branches)
        alive = []
        while (number := gathering.take()) is not None:
            alive.append(number)
        while alive:
            able = [number for number in alive if number not in self.asleep or self.asleep[number].released]
            assert able, f"every branch waits, after {self.returned}"
            number = random.choice(able)
            if self.positions[number] == len(self.branches[number]):
                alive.remove(number)
                gathering.ended()
                continue
            step = self.branches[number][self.positions[number]]
            if number not in self.asleep and (waiting := self.gate.arrive(step)) is not None:
                self.asleep[number] = waiting
                continue
            self.asleep.pop(number, None)
            self.returned.append(step)
            self.positions[number] += 1
            self.gate.leave(step)


@st.composite
def recorded(draw: st.DrawFn) -> tuple[list[list[str]], list[str]]:
    """Branches with their steps, and a legal order of completion of the first few of each."""
    sizes = draw(st.lists(st.integers(0, 4), min_size=1, max_size=5))
    branches = [[f"gather#1/{number}/s#{step + 1}" for step in range(size)] for number, size in enumerate(sizes)]
    done = [draw(st.integers(0, size)) for size in sizes]
    left = [number for number, count in enumerate(done) for _ in range(count)]
    positions, order = [0] * len(sizes), []
    for number in draw(st.permutations(left)):
        order.append(branches[number][positions[number]])
        positions[number] += 1
    return branches, order


@given(recorded(), st.integers(0, 1000))
def test_recorded_steps_return_in_their_order_and_new_ones_behind_them(case: tuple[list[list[str]], list[str]], seed: int) -> None:
    branches, order = case
    world = World(branches, Gate(order))
    world.play(seed)
    assert world.returned[: len(order)] == order
    assert sorted(world.returned) == sorted(step for branch in branches for step in branch)


@given(recorded(), st.integers(0, 1000), st.data())
def test_nothing_waits_for_ever_when_the_code_no_longer_takes_a_recorded_step(
    case: tuple[list[list[str]], list[str]], seed: int, data: st.DataObject
) -> None:
    branches, order = case
    gone = data.draw(st.integers(0, len(branches) - 1))
    world = World([[] if number == gone else steps for number, steps in enumerate(branches)], Gate(order))
    world.play(seed)
    kept = [step for step in order if not step.startswith(f"gather#1/{gone}/")]
    assert sorted(world.returned[: len(kept)]) == sorted(kept) or set(kept) <= set(world.returned)


def test_a_branch_that_gathers_itself_waits_for_its_own_branches_and_counts_as_none() -> None:
    gate = Gate(["gather#1/0/gather#1/0/a#1", "gather#1/1/b#1"])
    outer = Gathering("gather#1", 2, gate, nested=False)
    assert (outer.take(), outer.take()) == (0, 1)
    inner = Gathering("gather#1/0/gather#1", 1, gate, nested=True)
    inner.open()
    assert inner.take() == 0
    assert gate.running == 2  # the inner branch, and the outer one beside it
    waiting = gate.arrive("gather#1/1/b#1")
    assert waiting is not None
    assert not waiting.released
    assert gate.arrive("gather#1/0/gather#1/0/a#1") is None
    gate.leave("gather#1/0/gather#1/0/a#1")
    assert waiting.released
    inner.ended()
    inner.close()
    assert gate.running == 2


def test_a_step_that_is_given_up_before_its_turn_keeps_nobody_waiting() -> None:
    gate = Gate(["x/0/a#1", "x/1/b#1"])
    gate.resume(2)
    waiting = gate.arrive("x/1/b#1")
    assert waiting is not None
    gate.leave("x/1/b#1")  # cancelled while it waited
    assert gate.running == 2
    assert gate.arrive("x/0/a#1") is None
