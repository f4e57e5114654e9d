"""Counting: what was done in a soak and what came of it, as a table and as one JSON object.

Owns the words of both. Knows no process.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from rich.console import Console
from rich.table import Table

from tests.soak.playing import IN_DOUBT, Played
from tests.soak.plays import Play


@dataclass(frozen=True)
class Judged:
    """One play that was played. wrong: what did not hold; options: those it takes, beside its seed, to make it again."""

    play: Play
    played: Played | None
    wrong: tuple[str, ...]
    options: str = ""

    def __str__(self) -> str:
        ends = self.played.calm[-1].returncode if self.played and self.played.calm else "broken off"
        found = "".join(f"\n  VIOLATION {sentence}" for sentence in self.wrong)
        return f"{self.play}: {ends}{found}" + (
            f"\n  again: python -m tests.soak --seed {self.play.seed}{self.options}" if found else ""
        )


@dataclass
class Soaked:
    """All of them."""

    plays: Counter[str] = field(default_factory=Counter)
    counts: Counter[str] = field(default_factory=Counter)
    ends: Counter[str] = field(default_factory=Counter)
    wrong: list[Judged] = field(default_factory=list)
    interrupted: bool = False

    def add(self, one: Judged) -> None:
        self.plays[f"{one.play.database}, {one.play.colour}"] += 1
        if one.wrong:
            self.wrong.append(one)
        if one.played is None or not one.played.calm:
            return
        self.counts += one.played.counts
        self.counts["processes"] += len(one.played.ended)
        self.ends["in doubt" if one.played.calm[-1].returncode == IN_DOUBT else "settled"] += 1

    def total(self, prefix: str) -> int:
        return sum(times for name, times in self.counts.items() if name.startswith(prefix))

    def lines(self) -> list[tuple[str, str]]:
        """(what, how many), the totals of each kind before its places."""
        return [
            ("plays", f"{self.plays.total():,}"),
            *((f"  {name}", f"{times:,}") for name, times in sorted(self.plays.items())),
            ("worker processes", f"{self.counts['processes']:,}"),
            ("killed by SIGKILL", f"{self.total('killed by'):,}"),
            *self._places("killed by "),
            ("stopped by SIGSTOP", f"{self.total('stopped at'):,}"),
            ("  at any instruction", f"{self.counts['stopped at any instruction']:,}"),
            *self._places("woken and "),
            ("services killed", f"{self.total('killed service'):,}"),
            *self._places("killed service "),
            ("servers killed", f"{self.total('killed server'):,}"),
            *(("crowds of " + name.removeprefix("crowd "), f"{self.counts[name]:,}") for name in ("crowd 2", "crowd 8")),
            ("settled", f"{self.ends['settled']:,}"),
            ("in doubt", f"{self.ends['in doubt']:,}"),
            ("violations", f"{len(self.wrong):,}"),
        ]

    def _places(self, prefix: str) -> list[tuple[str, str]]:
        return [
            (f"  {name.removeprefix(prefix)}", f"{times:,}")
            for name, times in sorted(self.counts.items())
            if name.startswith(prefix)
        ]

    def show(self, seconds: float, processor: float) -> None:
        table = Table(box=None, show_header=False)
        table.add_column()
        table.add_column(justify="right")
        for what, times in self.lines():
            table.add_row(what, times)
        Console(highlight=False).print(table)
        each = processor / max(1, self.plays.total())
        print(
            f"{seconds:.0f} s; {processor:.0f} s of processor time, {each:.2f} s for a play, beside that of PostgreSQL's processes"
        )

    def document(self, seconds: float, processor: float) -> dict[str, Any]:
        return {
            "plays": self.plays.total(),
            "by_database": dict(sorted(self.plays.items())),
            "counts": dict(sorted(self.counts.items())),
            "settled": self.ends["settled"],
            "in_doubt": self.ends["in doubt"],
            "seconds": round(seconds, 1),
            "processor_seconds": round(processor, 1),
            "violations": [{"seed": one.play.seed, "play": str(one.play), "wrong": list(one.wrong)} for one in self.wrong],
        }
