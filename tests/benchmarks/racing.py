"""The engines side by side: recovery, the floor and the peers as contenders that play a turn in a process of their own.

Owns which programs there are and how much each of them is given: the slow ones less, since all figures are for one step. Must not know targets.
Invariant: a program that cannot be had, or that gives no answer, is missing with the reason, and the others go on.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rich.progress import Progress

from tests.benchmarks.environments import PEERS, NotInstalled, python_of
from tests.benchmarks.programs import NoAnswer, Program, playing
from tests.benchmarks.rounds import Contender, Series, Times, interleaved
from tests.postgres import PostgresServer

RAW, RIDING, STRICT = "two raw commits", "recovery, riding", "recovery, strict"
SCRIPTS = {
    "DBOS": "with_dbos.py",
    "LangGraph": "with_langgraph.py",
    "sakrit": "with_sakrit.py",
    "call4agents": "with_call4agents.py",
    "effect-ledger": "with_effect_ledger.py",
    "Temporal": "with_temporal.py",
    "Restate": "with_restate.py",
}
ON_SQLITE, ON_POSTGRESQL = tuple(SCRIPTS), ("DBOS", "LangGraph", "call4agents", "effect-ledger")
SLOW = {"Temporal": 10, "DBOS": 4, "effect-ledger": 4}
"""By how much less they are given, so that a round takes seconds."""
OPENING, WARM = (1, 1), (1, 3000)
"""Runs and steps before what is timed. Opening: the database is there and connected, as it is in a process that has just begun. Warm: the log of the
database has been filled and begun anew, and everything has been called often."""


@dataclass
class Field:
    """Who takes part. missing: by name, with the reason. told: by contender, what its turns said beside the times."""

    environments: Path
    peers: bool = True
    missing: dict[str, str] = field(default_factory=dict)
    told: dict[str, list[dict[str, Any]]] = field(default_factory=lambda: defaultdict(list))

    def ours(self) -> list[Program]:
        return [Program(RIDING, "with_recovery.py"), Program(STRICT, "with_recovery.py", environment=(("BENCH_STRICT", "1"),))]

    def floor(self) -> Program:
        return Program(RAW, "with_commits.py")

    def others(self, names: Sequence[str]) -> list[Program]:
        found = []
        for name in names if self.peers else ():
            if name in self.missing:
                continue
            try:
                python = python_of(name, self.environments)
            except NotInstalled as why:
                self.missing[name] = f"not installed here: {why}"
                continue
            place = (("VIRTUAL_ENV_OF_PEER", str(python.parent.parent)),)
            found.append(Program(name, SCRIPTS[name], python, place))
        return found

    def contender(
        self,
        program: Program,
        turn: str,
        given: tuple[int, int],
        *,
        named: str = "",
        before: tuple[int, int] = OPENING,
        among: int = 0,
        url: Callable[[], str] = str,
        every: int = 1,
    ) -> Contender:
        """Its times are for one step. before: what it is given in a turn of the same kind first; among: settled runs that are there before it."""
        name = named or program.name

        def ready(place: Path) -> Callable[[], Times | None]:
            stack = ExitStack()
            try:
                played = stack.enter_context(playing(program, place.resolve(), url()))
                if among:
                    played.turn("settled", among, 1)
                played.turn(turn, *before)
            except NoAnswer as why:
                stack.close()
                return self._absent(name, why)

            def run() -> Times | None:
                with stack:
                    try:
                        told = played.turn(turn, *given)
                    except NoAnswer as why:
                        return self._absent(name, why)()
                self.told[name].append(told)
                steps = given[0] * given[1]
                return told["seconds"] / steps, told["seconds"] / steps, told["processor"] / steps

            return run

        return Contender(name, ready, every)

    def _absent(self, name: str, why: NoAnswer) -> Callable[[], None]:
        self.missing[name] = str(why)
        return lambda: None

    def taken(self, contenders: Sequence[Contender], scratch: Path, rounds: int, seconds: float, says: str) -> dict[str, Series]:
        """By name; whoever gave no answer once is left out of all of it."""
        turns = len(contenders) * (rounds + 1)
        with Progress(transient=True) as bar:
            task = bar.add_task(says, total=turns)

            def shown(each: Contender) -> Contender:
                def ready(place: Path) -> Callable[[], Path | Times | None]:
                    bar.update(task, advance=1, description=f"{says}: {each.name}")
                    return each.ready(place) if each.name not in self.missing else lambda: None

                return Contender(each.name, ready, each.every)

            found = interleaved([shown(each) for each in contenders], scratch, rounds=rounds, seconds=seconds).repeated
        return {name: series for name, series in found.items() if name not in self.missing}

    def less(self, name: str, given: tuple[int, int]) -> tuple[int, int]:
        """What a slow program is given of it: fewer runs at once, or else fewer steps."""
        runs, steps = given
        by = SLOW.get(name, 1)
        return (max(1, runs // by), steps) if runs >= by else (runs, max(1, steps // by))


@contextmanager
def databases(directory: Path) -> Iterator[Callable[[], str]]:
    """A PostgreSQL server on the disk below, with its own defaults, and a fresh database for each call."""
    server = PostgresServer(directory)
    count = iter(range(1_000_000))
    try:
        yield lambda: server.url(server.take(f"bench {next(count)}", lambda _: None))
    finally:
        server.stop()


__all__ = ["ON_POSTGRESQL", "ON_SQLITE", "PEERS", "RAW", "RIDING", "STRICT", "WARM", "Field", "databases"]
