"""Histories: whole recoveries as text, a story, its moves, and what the ledger of the stage tells of each.

Owns the format of the files beside it, and their writing. Knows nothing of pytest. Invariant: what stands in a file below its `----` is
exactly what a play on memory tells; moves are the input, and every other line there is output.

    name: what happens, in one line          a scenario's own fields: story, environment, workflow, lease, budget, same_boot, exempt
    story: >
      Why it matters.
    ----
    > run: A, kill: {at: environment.committed}      a move, as in a scenario's timeline, in one line
          +0:00:00  A            opens run-1 ...     what came of it
    > end                                            how the world stands then

A file that has `of: s01-lost-reply.yaml` and `variant: NAME` in place of those fields tells a variant of `scenarios/`: its story and its moves
are written in from there.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from recovery.core.entries import Settled
from recovery.storage import open_journal
from recovery.testing import Scenario, load
from recovery.testing.loading import parse
from recovery.testing.moves import Expect
from recovery.testing.stage import Failed, Stage

DIRECTORY = Path(__file__).parent
SCENARIOS = DIRECTORY.parents[1] / "scenarios"
LINE = "----"
END = "> end"
WIDTH = 120

_DERIVED = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")  # keys that the random namespace of a database derives


@dataclass(frozen=True, slots=True)
class History:
    """One file: its head as it is to stand there, the scenario that it plays, and how each of its moves is shown."""

    head: str
    scenario: Scenario
    shown: tuple[str, ...]

    def told(self, colour: str = "sync") -> str:
        """The whole file, as a play in this colour writes it."""
        return "\n".join([self.head, LINE, *_played(self.scenario, self.shown, colour), ""])


def files() -> list[Path]:
    return sorted(DIRECTORY.glob("*.txt"))


def read(text: str) -> History:
    """A file, without regard to the output in it. Raises ValueError, ScenarioError."""
    head, found, body = text.partition(f"\n{LINE}\n")
    fields = yaml.safe_load(head)
    if "of" in fields:
        return _of_a_scenario(fields)
    if not found:
        raise ValueError(f"a history has a line {LINE} between its head and its moves")
    shown = tuple(line[2:] for line in body.splitlines() if line.startswith("> ") and line != END)
    timeline = [yaml.safe_load(f"{{{move}}}") for move in shown]
    whole = {"scenario": "history", **fields, "timeline": timeline, "expect": {}}
    [scenario] = parse(yaml.safe_dump(whole), "history")
    return History(head, scenario, shown)


def _of_a_scenario(fields: dict[str, str]) -> History:
    path = SCENARIOS / fields["of"]
    [scenario] = [one for one in load(path) if one.name == fields["variant"]]
    raw = yaml.safe_load(path.read_text(encoding="utf-8"))
    [variant] = [one for one in raw.get("variants", [raw]) if one["name"] == scenario.name]
    timeline = variant.get("timeline", raw["timeline"])
    shown = tuple(_in_one_line({name: value for name, value in move.items() if name != "expect"}) for move in timeline)
    story = textwrap.fill(" ".join(scenario.story.split()), WIDTH, initial_indent="# ", subsequent_indent="# ")
    return History(f"{story}\nof: {fields['of']}\nvariant: {fields['variant']}", scenario, shown)


def _in_one_line(move: dict[str, Any]) -> str:
    return yaml.safe_dump(move, default_flow_style=True, width=10_000, sort_keys=False).strip().removeprefix("{").removesuffix("}")


def _played(scenario: Scenario, shown: tuple[str, ...], colour: str) -> Iterator[str]:
    """Each move with what it came to, then how the world stands. A broken promise is part of the history, and its end."""
    stage = Stage(scenario, open_journal("memory://"), is_async=colour == "async")
    lines = stage.ledger.lines
    try:
        for move, text in zip(scenario.timeline, shown, strict=True):
            if isinstance(move, Expect):
                continue
            before = len(lines)
            problems = _problems(stage, lambda move=move: stage.make(move))
            yield f"> {text}"
            yield from (_DERIVED.sub("KEY", line) for line in lines[before:])
            yield from problems
            if problems:
                return
        yield END
        yield from _standing(stage)
        yield from _problems(stage, stage.recover_again)
    finally:
        stage.end()


def _problems(stage: Stage, act: Callable[[], None]) -> list[str]:
    try:
        stage._judged("broken", act)
    except Failed as failed:
        return failed.problems
    return []


def _standing(stage: Stage) -> Iterator[str]:
    world = stage.world()
    for run_id, loaded in world.runs.items():
        ended = loaded.history.ended
        came = "" if ended is None else f" with {ended.value!r}"
        late = f", {len(loaded.late)} late evidence" if loaded.late else ""
        yield f"{run_id}: {loaded.run.status.value}{came}, epoch {loaded.run.epoch}, {len(loaded.entries)} entries{late}"
        for effect in loaded.history.effects:
            yield f"  {effect.step}: {_outcome(effect.settled)}; {len(effect.attempts)} attempts, {effect.probes} questions"
    yield from (f"{run_id}: unreadable" for run_id in sorted(world.unreadable))
    done = ", ".join(f"{_DERIVED.sub('KEY', key)} x {times}" for key, times in world.executions().items())
    yield f"environment: stock {world.stock}, done: {done or 'nothing'}"


def _outcome(settled: Settled | None) -> str:
    if settled is None:
        return "not settled"
    return f"{settled.outcome.value}{' (heuristic)' if settled.heuristic else ''}, {settled.row}"
