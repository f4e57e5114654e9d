"""Figures: what is written to `build/bench/*.json`, put on a page and shown on a terminal.

Invariant: every figure has the same fields; one without a target says null and not false.
"""

from __future__ import annotations

import json
import os
import re
import statistics
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from rich.console import Console
from rich.table import Table


@dataclass(frozen=True)
class Figure:
    """`ratio` is compared with `target` where there is one, and `value` otherwise. `processor`: time of processors, in the unit of the value, or in milliseconds. `note`: to what the ratio is, or why there is no value."""

    name: str
    value: float | None
    unit: str
    ratio: float | None = None
    target: str | None = None
    met: bool | None = None
    low: float | None = None
    high: float | None = None
    rounds: int | None = None
    processor: float | None = None
    note: str = ""


IN_A_SECOND = {"ms": 1e3, "us": 1e6}


def measured(name: str, seconds: Iterable[float], processor: Iterable[float], unit: str = "ms") -> Figure:
    """A time, as the median of its rounds."""
    each = [IN_A_SECOND[unit] * one for one in seconds]
    spent = round(statistics.median(processor) * IN_A_SECOND[unit], 2)
    middle, low, high = (round(of(each), 3) for of in (statistics.median, min, max))
    return Figure(name, middle, unit, low=low, high=high, rounds=len(each), processor=spent)


def compared(name: str, figure: Figure, ratio: float, most: float, to: str) -> Figure:
    """The value of `figure`, judged by its ratio."""
    return Figure(
        name, figure.value, figure.unit, round(ratio, 3), f"<= {most} x", ratio <= most, rounds=figure.rounds, note=f"to {to}"
    )


def bounded(name: str, value: float, unit: str, most: float, *, note: str = "") -> Figure:
    """A value, judged by itself."""
    return Figure(name, value, unit, None, f"<= {most} {unit}", value <= most, note=note)


def load_average(name: str) -> Figure:
    return Figure(name, round(os.getloadavg()[0], 2), "", note=f"of one minute, on {os.cpu_count()} processors")


def write(path: Path, figures: Sequence[Figure]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps([asdict(each) for each in figures], indent=1) + "\n")


def read(path: Path) -> list[Figure]:
    """What `write` wrote."""
    return [Figure(**each) for each in json.loads(path.read_text())]


END = "<!-- end of the figures -->"


def put_on_page(page: Path, target: str, words: str) -> None:
    """Replace what stands between the two marks of a page. target: of make. Raises ValueError if the page has no such place."""
    begin = f"<!-- figures of make {target} -->"
    put = f"{begin}\n{words}{END}"
    found, count = re.subn(f"{re.escape(begin)}.*?{re.escape(END)}", lambda _: put, page.read_text(), flags=re.DOTALL)
    if count != 1:
        raise ValueError(f"{page} has no place for the figures: {begin} ... {END}")
    page.write_text(found)


def in_words(figures: Sequence[Figure]) -> str:
    """The figures with a target as a table, and the circumstances as a sentence, in Markdown."""
    by_name = {each.name: each for each in figures}
    loads = [each for each in figures if each.name.startswith("load average")]
    load = " and ".join(f"{each.value:.1f} {each.name.removeprefix('load average ')}" for each in loads)
    said = f"The last run: load average {load}, {loads[0].note if loads else ''}. Medians, with the least and the most; processor: time of processors in all threads."
    lines = [
        said,
        "",
        "| measured | here | processor | beside it | | ratio | wanted | |",
        "| --- | --- | --- | --- | --- | --- | --- | --- |",
    ]
    for each in figures:
        if each.target is not None or each.note.startswith("to "):
            what = each.name.partition(" over ")[0].partition(", verified")[0]
            here = by_name.get(f"{what}: recovery") or by_name.get(what, each)
            other = each.note.removeprefix("to ") if each.note.startswith("to ") else ""
            beside = by_name.get(f"{what}: {other}") or by_name.get(f"{what.partition(': ')[0]}: {other}")
            ratio = "" if each.ratio is None else f"{each.ratio:.2f}"
            met = {None: "", True: "met", False: "missed"}[each.met]
            columns = [
                each.name,
                _told(here),
                _spent(here),
                other,
                _told(beside),
                ratio,
                (each.target or "").replace("<=", "at most").replace(">=", "at least"),
                met,
            ]
            lines.append(f"| {' | '.join(columns)} |")
    return "\n".join(lines) + "\n"


def in_full(figures: Sequence[Figure]) -> str:
    """Those without a target, each with its own line, in Markdown: what was measured, and what is missing."""
    lines = ["| measured | here | processor | |", "| --- | --- | --- | --- |"]
    lines += [
        f"| {each.name} | {_told(each) or 'missing'} | {_spent(each)} | {each.note} |"
        for each in figures
        if each.target is None and not each.name.startswith("load average")
    ]
    return "\n".join(lines) + "\n"


def _told(figure: Figure | None) -> str:
    if figure is None or figure.value is None:
        return ""
    spread = "" if figure.low is None or figure.high is None else f" ({_rounded(figure.low)} to {_rounded(figure.high)})"
    return f"{_rounded(figure.value)} {figure.unit}{spread}"


def _spent(figure: Figure) -> str:
    unit = figure.unit if figure.unit in IN_A_SECOND else "ms"
    return "" if figure.processor is None else f"{_rounded(figure.processor)} {unit}"


def _rounded(value: float) -> str:
    """Four figures, and thousands whole."""
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:,.4g}"


def show(figures: Sequence[Figure], title: str) -> None:
    table = Table(title=title)
    for name, justify in {
        "figure": "left",
        "value": "right",
        "min-max": "right",
        "processor": "right",
        "ratio": "right",
        "target": "left",
    }.items():
        table.add_column(
            name, justify="right" if justify == "right" else "left", no_wrap=name != "figure", min_width=28 * (name == "figure")
        )
    table.add_column("")
    for each in figures:
        value = "absent" if each.value is None else f"{_rounded(each.value)} {each.unit}"
        spread = "" if each.low is None or each.high is None else f"{_rounded(each.low)}-{_rounded(each.high)}"
        processor = _spent(each)
        ratio = "" if each.ratio is None else f"{each.ratio:.2f}"
        met = {None: "", True: "[green]met[/]", False: "[red]missed[/]"}[each.met]
        note = f"\n[dim]{each.note}[/]" if each.note else ""
        table.add_row(each.name + note, value, spread, processor, ratio, each.target or "", met)
    Console().print(table)
