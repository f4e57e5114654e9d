"""`python -m tests.benchmarks.engine`: what a step, a replay and a command cost, beside bare commits and the peers; written to build/bench/engine.json.

Owns which figures there are and their targets. Everything is a ratio within one run whose contenders take turns, in an order drawn for each round; each turn is a
process of its own, on files of its own. Two regimes: *fresh*, the database was opened and one step taken; *steady*, three thousand steps were taken before,
so that the database's log goes round. A step does nothing but return its number. Times are for one step. All keep what they promise through a loss of power, as
far as their documentation says; where a peer's default does not, its line says so.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from tests.benchmarks import growth, racing
from tests.benchmarks.charts import drawn, grown
from tests.benchmarks.programs import playing
from tests.benchmarks.racing import ON_POSTGRESQL, ON_SQLITE, RAW, RIDING, STRICT, WARM, Field
from tests.benchmarks.reporting import (
    Figure,
    bounded,
    compared,
    in_full,
    in_words,
    load_average,
    measured,
    put_on_page,
    read,
    show,
    write,
)
from tests.benchmarks.rounds import Contender, Series, interleaved, ratio

SEQUENTIAL, CONCURRENT = (1, 400), (200, 10)
"""Runs and steps of a turn."""
FRESH, STEADY = "fresh", "steady"


@dataclass(frozen=True)
class Bench:
    field: Field
    scratch: Path
    rounds: int
    seconds: float
    """About how long one part may take."""


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.engine", description=__doc__.splitlines()[0])
    parser.add_argument("--to", type=Path, default=Path("build/bench/engine.json"))
    parser.add_argument("--place", type=Path, default=None, help="a directory on the disk to measure; default: build/bench")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--seconds", type=float, default=240, help="about how long one part may take")
    parser.add_argument("--only", default="", help=f"of: {', '.join(PARTS)}")
    parser.add_argument("--alone", action="store_true", help="without the peers")
    parser.add_argument("--page", type=Path, default=None, help="a page whose table and chart are rewritten")
    parser.add_argument("--figures", type=Path, default=None, help="measure nothing: take an earlier run's, for --page")
    given = parser.parse_args()
    figures = read(given.figures) if given.figures is not None else _measured(given)
    if given.page is not None:
        put_on_page(given.page, "bench", f"{in_words(figures)}\n{in_full(figures)}")
        drawn(figures, given.page.with_name("performance.png"))
        if curves := growth.curves(figures):
            grown(curves, given.page.with_name("growth.png"))
        print(f"The table and the charts on {given.page} are those of this run.")


def _measured(given: argparse.Namespace) -> list[Figure]:
    place = given.place or given.to.parent
    place.mkdir(parents=True, exist_ok=True)
    field = Field(Path("build/bench/peers").resolve(), peers=not given.alone)
    figures = [load_average("load average at the beginning")]
    with tempfile.TemporaryDirectory(prefix="engine-", dir=place) as scratch:
        for name, part in PARTS.items():
            if given.only in {"", name}:
                figures += part(Bench(field, Path(scratch), given.rounds, given.seconds))
    figures += [Figure(f"missing: {name}", None, "", note=why) for name, why in field.missing.items()]
    figures.append(load_average("load average at the end"))
    write(given.to, figures)
    show(figures, "The engine: medians of interleaved rounds, for one step")
    print(f"Written to {given.to}.")
    return figures


def of_one_run(bench: Bench) -> list[Figure]:
    """One effect after the other, on SQLite."""
    field = bench.field
    ours = [field.floor(), *field.ours()]
    contenders = [field.contender(one, "sequential", SEQUENTIAL, named=f"{one.name}, {FRESH}") for one in ours]
    contenders += [field.contender(one, "sequential", SEQUENTIAL, named=f"{one.name}, {STEADY}", before=WARM) for one in ours]
    contenders += [
        field.contender(one, "sequential", field.less(one.name, SEQUENTIAL), named=f"{one.name}, {FRESH}", every=2)
        for one in field.others(ON_SQLITE)
    ]
    taken = field.taken(contenders, bench.scratch, bench.rounds, bench.seconds, "one run, SQLite")
    figures = _figures("sequential", taken)
    judged = Judged("sequential", taken, figures)
    floor, fresh = f"{RAW}, {STEADY}", f"{RIDING}, {FRESH}"
    return [
        *figures.values(),
        *judged.at_most(f"{RIDING}, {STEADY}", floor, 0.80),
        *judged.at_most(f"{STRICT}, {STEADY}", floor, 1.4),
        *(each for name, times in FASTER.items() for each in judged.faster(fresh, f"{name}, {FRESH}", times)),
    ]


FASTER = {"DBOS": 5, "LangGraph": 2.5, "sakrit": 2}


def of_one_run_on_postgresql(bench: Bench) -> list[Figure]:
    """One effect after the other."""
    field = bench.field
    with _databases(bench) as fresh:
        contenders = [
            field.contender(one, "sequential", SEQUENTIAL, named=f"{one.name}, PostgreSQL", before=(1, 300), url=fresh)
            for one in (field.floor(), *field.ours())
        ]
        contenders += [
            field.contender(
                one, "sequential", field.less(one.name, SEQUENTIAL), named=f"{one.name}, PostgreSQL", url=fresh, every=2
            )
            for one in field.others(ON_POSTGRESQL)
        ]
        taken = field.taken(contenders, bench.scratch, bench.rounds, bench.seconds, "one run, PostgreSQL")
    figures = _figures("sequential", taken)
    judged = Judged("sequential", taken, figures)
    floor = f"{RAW}, PostgreSQL"
    return [
        *figures.values(),
        *judged.at_most(f"{RIDING}, PostgreSQL", floor, 0.80),
        *judged.at_most(f"{STRICT}, PostgreSQL", floor, 1.4),
    ]


def of_many_runs(bench: Bench) -> list[Figure]:
    """Two hundred runs at once, on one event loop where there is one."""
    field = bench.field
    contenders = [field.contender(field.ours()[0], "concurrent", CONCURRENT, before=CONCURRENT)]
    contenders.append(field.contender(field.ours()[0], "idle_loop", (1, 1), named=IDLE))
    contenders += _crowds(field, ON_SQLITE, str, "")
    taken = field.taken(contenders, bench.scratch, bench.rounds, bench.seconds, "many runs, SQLite")
    taken.pop(IDLE, None)
    return [*_rates("", taken, 20_000, {"DBOS": 60, "LangGraph": 25, "sakrit": 11}), *_stalls(field)]


def of_many_runs_on_postgresql(bench: Bench) -> list[Figure]:
    """Two hundred runs at once."""
    field = bench.field
    with _databases(bench) as fresh:
        contenders = [
            field.contender(field.ours()[0], "concurrent", CONCURRENT, named=f"{RIDING}, PostgreSQL", before=CONCURRENT, url=fresh),
            *_crowds(field, ON_POSTGRESQL, fresh, ", PostgreSQL"),
        ]
        taken = field.taken(contenders, bench.scratch, bench.rounds, bench.seconds, "many runs, PostgreSQL")
    return _rates(", PostgreSQL", taken, 12_000, {"DBOS": 40})


IDLE = "an idle loop beside a busy thread"


def _crowds(field: Field, names: tuple[str, ...], url: Callable[[], str], suffix: str) -> list[Contender]:
    return [
        field.contender(
            one,
            "concurrent",
            field.less(one.name, CONCURRENT),
            named=f"{one.name}{suffix}",
            before=field.less(one.name, (20, 10)),
            url=url,
            every=2,
        )
        for one in field.others(names)
    ]


def of_growth(bench: Bench) -> list[Figure]:
    """What a step costs in longer runs, beside more runs, with larger outcomes, and with more processes, and how evenly these share a database."""
    rounds = max(3, bench.rounds // 2)
    with _databases(bench) as fresh:
        taken = bench.field.taken(growth.contenders(bench.field, fresh), bench.scratch, rounds, bench.seconds, "growth")
    return growth.figures(bench.field, taken)


def of_replay(bench: Bench) -> list[Figure]:
    """A run of ten thousand steps, and one of a hundred thousand, whose worker is gone: read, verified and replayed to its end."""
    program = bench.field.ours()[0]
    wall: dict[int, float] = {}
    spent: dict[int, float] = {}
    for steps in (10_000, 100_000):
        with tempfile.TemporaryDirectory(dir=bench.scratch) as place, playing(program, Path(place).resolve()) as played:
            played.turn("built", 3, steps)
            told = [played.turn("replayed", 1, steps) for _ in range(3)]
        wall[steps] = 1000 * statistics.median(one["seconds"] for one in told)
        spent[steps] = round(1000 * statistics.median(one["processor"] for one in told), 1)
    (few, many), growth = wall.values(), spent[100_000] / spent[10_000] / 10
    return [
        replace(bounded("replay of 10,000 steps", round(few, 1), "ms", 200), processor=spent[10_000]),
        Figure(
            "replay of 100,000 steps",
            round(many, 1),
            "ms",
            round(growth, 2),
            "<= 1.2 x",
            growth <= 1.2,
            processor=spent[100_000],
            note="of ten times the other, in processor time",
        ),
    ]


def of_memory(bench: Bench) -> list[Figure]:
    """Two hundred runs of a thousand steps each, in one process."""
    with (
        tempfile.TemporaryDirectory(dir=bench.scratch) as place,
        playing(bench.field.ours()[0], Path(place).resolve()) as played,
    ):
        told = played.turn("concurrent", 200, 1000)
    return [bounded("memory of 200 runs x 1,000 steps", round(told["peak"], 1), "MB", 150, note="the most that the process had")]


def of_open_runs(bench: Bench) -> list[Figure]:
    """Where nearly everything is settled: what is brought on in a second, with its effects performed in the same process, and what a worker's memory grows by."""
    del bench  # it makes a directory of its own
    command = [sys.executable, "-m", "tests.benchmarks.open_runs", "--idle", "1"]
    told = json.loads(subprocess.run(command, stdout=subprocess.PIPE, check=True).stdout)
    among = f"{told['settled']:,} settled and {told['open']:,} open runs"

    def rate(name: str, part: str, least: int | None) -> Figure:
        each = told[part]
        spent = round(1000 * each["processor_seconds"] / each["runs"], 2)
        note = f"{spent} ms of processors for one; {among}"
        target, met = (None, None) if least is None else (f">= {least:,} runs/s", each["runs_per_second"] >= least)
        return Figure(name, each["runs_per_second"], "runs/s", None, target, met, note=note)

    return [
        rate("open: recover --all --plan", "plan_all", None),
        rate("open: recover --all", "recover_all", 1000),
        rate("open: a worker", "worker_again", None),
        bounded(f"open: a worker's memory over {told['open']:,} runs more", told["worker_again"]["grew_kb"], "kB", 1000),
    ]


def of_commands(bench: Bench) -> list[Figure]:
    """What a person waits for, beyond an interpreter that does nothing."""
    with tempfile.TemporaryDirectory(dir=bench.scratch) as place:
        with playing(bench.field.ours()[0], Path(place).resolve()) as played:
            played.turn("sequential", 1, 3)
        recover = str(Path(sys.executable).with_name("recover"))
        database = f"sqlite:///{Path(place).resolve()}/journal.db"
        commands = {
            "python -c pass": [sys.executable, "-c", "pass"],
            "recover --help": [recover, "--help"],
            "recover show": [recover, "show", "run-1", "--db", database],
        }
        contenders = [Contender(name, _command(command)) for name, command in commands.items()]
        taken = interleaved(contenders, bench.scratch, rounds=bench.rounds * 2, seconds=bench.seconds).repeated
    return [
        bounded(
            f"{name}, beyond python -c pass",
            round(1000 * statistics.median(series.returned[at] - bare for at, bare in taken["python -c pass"].returned.items()), 1),
            "ms",
            most,
        )
        for name, most in (("recover --help", 200), ("recover show", 450))
        for series in (taken[name],)
    ]


def _command(command: list[str]) -> Callable[[Path], Callable[[], None]]:
    def ready(_: Path) -> Callable[[], None]:
        def run() -> None:
            subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, check=True)

        return run

    return ready


@dataclass(frozen=True)
class Judged:
    """Ratios of a part. Where one of the two is missing there is no figure: that it is missing is told beside it."""

    what: str
    taken: Mapping[str, Series]
    figures: Mapping[str, Figure]

    def at_most(self, name: str, to: str, most: float) -> list[Figure]:
        if name not in self.taken or to not in self.taken:
            return []
        found = ratio(self.taken[name].returned, self.taken[to].returned)
        return [compared(f"{self.what}: {name} over {to}", self.figures[name], found, most, to)]

    def faster(self, name: str, than: str, times: float) -> list[Figure]:
        if name not in self.taken or than not in self.taken:
            return []
        found = ratio(self.taken[than].returned, self.taken[name].returned)
        value = self.figures[name].value
        return [
            Figure(
                f"{self.what}: {name} over {than}",
                value,
                "us",
                round(found, 2),
                f">= {times:g} x",
                found >= times,
                note=f"to {than}",
            )
        ]


def _figures(what: str, taken: Mapping[str, Series]) -> dict[str, Figure]:
    return {
        name: measured(f"{what}: {name}", series.returned.values(), series.processor.values(), "us")
        for name, series in taken.items()
    }


def _rates(suffix: str, taken: Mapping[str, Series], least: int, times: Mapping[str, float]) -> list[Figure]:
    found = []
    for name, series in taken.items():
        each = sorted(1 / one for one in series.returned.values())
        value, low, high = (round(of(each)) for of in (statistics.median, min, max))
        spent = round(1e6 * statistics.median(series.processor.values()), 1)
        mine = name == f"{RIDING}{suffix}"
        found.append(
            Figure(
                f"200 runs at once: {name}",
                value,
                "effects/s",
                None,
                f">= {least:,} effects/s" if mine else None,
                value >= least if mine else None,
                low,
                high,
                len(each),
                note=f"{spent:,} us of processors for one",
            )
        )
    judged = Judged("200 runs at once", taken, _figures("", taken))
    return found + [each for name, most in times.items() for each in judged.faster(f"{RIDING}{suffix}", f"{name}{suffix}", most)]


def _stalls(field: Field) -> list[Figure]:
    mine, idle = field.told[RIDING], field.told[IDLE]
    late = statistics.median(told["stall_999"] for told in mine)
    most = statistics.median(told["stall_most"] for told in mine)
    beside = statistics.median(told["stall_most"] for told in idle)
    return [
        bounded("event loop stall, 99.9th percentile", round(late, 2), "ms", 10),
        Figure(
            "event loop stall, the longest",
            round(most, 2),
            "ms",
            round(most / beside, 2),
            "<= 1.5 x",
            most / beside <= 1.5,
            note=f"to {IDLE} ({beside:.2f} ms)",
        ),
    ]


def _databases(bench: Bench):
    return racing.databases(Path(tempfile.mkdtemp(prefix="recovery-bench-")))


PARTS = {
    "one": of_one_run,
    "one-postgresql": of_one_run_on_postgresql,
    "many": of_many_runs,
    "many-postgresql": of_many_runs_on_postgresql,
    "growth": of_growth,
    "replay": of_replay,
    "memory": of_memory,
    "open": of_open_runs,
    "commands": of_commands,
}

if __name__ == "__main__":
    main()
