"""Search: every state of a setting that can be reached, breadth first.

Owns the frontier, the paths and the counts. Knows nothing of contracts. Invariant: the first violation found has a shortest history, and
a search that was cut short says so.
"""

from __future__ import annotations

from collections import Counter, deque
from dataclasses import dataclass, field

from recovery.core.errors import IllegalHistory, InvariantViolated
from tests.model.promises import check_calm, check_state, check_stretch
from tests.model.states import Setting, Stage, State
from tests.model.workers import Violated

STATES_MAX = 2_000_000


@dataclass(slots=True)
class Found:
    """What a search saw. violation: the promise and its history, one line for each move; "" for none. whole: nothing was left out."""

    setting: str
    states: int = 0
    transitions: int = 0
    judgements: int = 0
    calms: int = 0
    whole: bool = True
    rows: Counter[str] = field(default_factory=Counter)
    ends: Counter[str] = field(default_factory=Counter)
    violation: str = ""


def search(setting: Setting, states_max: int = STATES_MAX) -> Found:
    """All states of the setting, or the first `states_max`. Stops at the first violation."""
    stage = Stage(setting)
    start = stage.start()
    found = Found(setting.name, states=1)
    parents: dict[State, tuple[State, str] | None] = {start: None}
    frontier: deque[State] = deque([start])
    calm: set[tuple[object, ...]] = set()
    while frontier:
        state = frontier.popleft()
        label = ""
        try:
            _rest(stage, state, calm, found)
            for label, after, stretch in stage.moves(state):
                found.transitions += 1
                if stretch is not None:
                    found.rows.update(stretch.rows)
                    found.ends[stretch.ends] += 1
                    check_stretch(stage, state, after, stretch)
                if after in parents:
                    continue
                check_state(stage, after)
                if len(parents) >= states_max:
                    found.whole = False
                    continue
                parents[after] = (state, label)
                frontier.append(after)
            label = ""
        except (Violated, IllegalHistory, InvariantViolated, AssertionError) as problem:
            found.violation = _history(setting, parents, state, label, problem)
            break
    found.states = len(parents)
    found.judgements = len(stage.workers._stretches)
    return found


def _rest(stage: Stage, state: State, calm: set[tuple[object, ...]], found: Found) -> None:
    """In a state that nobody works on, a calm recovery must end."""
    if state.owner is not None or stage._finished(state) or not state.journal:
        return
    key = (state.journal, state.now, state.flags, state.world._replace(copies=()))
    if key not in calm:
        calm.add(key)
        found.calms += 1
        check_calm(stage, state)


def _history(
    setting: Setting, parents: dict[State, tuple[State, str] | None], state: State, label: str, problem: BaseException
) -> str:
    lines = [label] if label else []
    at: State = state
    while (back := parents[at]) is not None:
        at, line = back
        lines.append(line)
    story = "\n".join(f"  {number:2}. {line}" for number, line in enumerate(reversed(lines), start=1))
    return f"{setting.name}: {str(problem) or type(problem).__name__}\n{story}"
