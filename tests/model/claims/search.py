"""Search: every state of a setting of the claim protocol, breadth first.

Owns the frontier, the counts and the story of a violation. Invariant: the first violation has a shortest story, and a search that was
cut short says so.
"""

from __future__ import annotations

from collections import Counter, deque
from dataclasses import dataclass, field
from typing import Final

from recovery.core.errors import RecoveryError
from tests.model.claims.moves import Left, Protocol, Setting, State
from tests.model.claims.promises import check_calm, check_move
from tests.model.workers import Violated

SETTINGS: Final = (
    Setting("two workers, everything once", 2, Left(lost=1, failed=1, strays=1, pauses=1, deaths=1), ticks=2),
    Setting("two workers, everything once, the run ends", 2, Left(lost=1, failed=1, strays=1, pauses=1, deaths=1), 2, ends=True),
    Setting("two workers, for longer", 2, Left(lost=1, pauses=1), ticks=4),
    Setting("two workers, two answers lost", 2, Left(lost=2), ticks=3),
    Setting("two workers and a paused one", 3, Left(pauses=1), ticks=2, pausing=1),
    Setting("two workers and a dead one, the run ends", 3, Left(deaths=1), ticks=2, ends=True),
    Setting("three workers, an answer lost", 3, Left(lost=1), ticks=2),
    Setting("a worker, an operator with a fence, each misfortune once", 2, Left(1, 1, 1, 1, 1), 1, operator="B"),
    Setting("two workers and an operator with a fence, an answer lost", 3, Left(lost=1), ticks=1, operator="C"),
    Setting("two workers that open the run, each misfortune once", 2, Left(1, 1, 1, 1, 1), ticks=1, opening=True),
    Setting("two workers that open the run, for longer", 2, Left(lost=1, pauses=1), ticks=2, opening=True),
    Setting("two workers, declared restored", 2, Left(lost=1, pauses=1, restored=1), ticks=2),
)
"""The bound: workers, how often each misfortune may happen, and how long. A lease lasts two ticks."""


@dataclass(slots=True)
class Found:
    """What a search saw. violation: "" for none. whole: nothing was left out."""

    setting: str
    states: int = 0
    transitions: int = 0
    calms: int = 0
    places: int = 0
    whole: bool = True
    outcomes: Counter[str] = field(default_factory=Counter)
    violation: str = ""


def search(setting: Setting, states_max: int = 10_000_000) -> Found:
    """All states of the setting, or the first `states_max`. Stops at the first violation."""
    protocol = Protocol(setting)
    found = Found(setting.name)
    start = protocol.start()
    parents: dict[State, tuple[State, str] | None] = {start: None}
    frontier: deque[State] = deque([start])
    calm: set[tuple[object, ...]] = set()
    while frontier:
        state = frontier.popleft()
        label = "D comes"
        try:
            key = (state.stored, tuple(standing.condition == "dead" for standing in state.workers), state.owner)
            if key not in calm and state.stored.run is not None:
                calm.add(key)
                check_calm(protocol, state)
            for label, after, done in protocol.moves(state):
                found.transitions += 1
                check_move(protocol, state, after, done)
                if after in parents:
                    continue
                if len(parents) >= states_max:
                    found.whole = False
                    continue
                parents[after] = (state, label)
                frontier.append(after)
        except (Violated, RecoveryError, AssertionError) as problem:
            found.violation = _story(setting, parents, state, label, problem)
            break
        found.outcomes.update(point.outcome for point in map(protocol.workers.points.__getitem__, _places(state)) if point.outcome)
    found.states, found.calms, found.places = len(parents), len(calm), len(protocol.workers.points)
    return found


def _places(state: State) -> list[int]:
    return [standing.place for standing in state.workers]


def _story(
    setting: Setting, parents: dict[State, tuple[State, str] | None], state: State, label: str, problem: BaseException
) -> str:
    lines = [label]
    at = state
    while (back := parents[at]) is not None:
        at, line = back
        lines.append(line)
    story = "\n".join(f"  {number:2}. {line}" for number, line in enumerate(reversed(lines), start=1))
    return f"{setting.name}: {problem}\n{story}"
