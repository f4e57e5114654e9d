"""Figures: what is written to `build/bench/checkpoint.json` and shown on a terminal.

Invariant: every figure has the same fields; one without a target says null and not false.
"""

from __future__ import annotations

import json
import re
import statistics
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from rich.console import Console
from rich.table import Table


@dataclass(frozen=True)
class Figure:
    """`ratio` is compared with `target` where there is one, and `value` otherwise. `processor`: milliseconds of processors. `note`: to what the ratio is, or why there is no value."""

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


def measured(name: str, seconds: Iterable[float], processor: Iterable[float]) -> Figure:
    """A time, as the median of its rounds."""
    each = [1000 * one for one in seconds]
    spent = round(statistics.median(processor) * 1000, 2)
    middle, low, high = (round(of(each), 3) for of in (statistics.median, min, max))
    return Figure(name, middle, "ms", low=low, high=high, rounds=len(each), processor=spent)


def compared(name: str, figure: Figure, ratio: float, most: float, to: str) -> Figure:
    """The value of `figure`, judged by its ratio."""
    return Figure(
        name, figure.value, figure.unit, round(ratio, 3), f"<= {most} x", ratio <= most, rounds=figure.rounds, note=f"to {to}"
    )


def bounded(name: str, value: float, unit: str, most: float, *, note: str = "") -> Figure:
    """A value, judged by itself."""
    return Figure(name, value, unit, None, f"<= {most} {unit}", value <= most, note=note)


def write(path: Path, figures: Sequence[Figure]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps([asdict(each) for each in figures], indent=1) + "\n")


def read(path: Path) -> list[Figure]:
    """What `write` wrote."""
    return [Figure(**each) for each in json.loads(path.read_text())]


BEGIN, END = "<!-- figures of make bench-checkpoint -->", "<!-- end of the figures -->"


def put_on_page(page: Path, figures: Sequence[Figure]) -> None:
    """Replace what stands between the two marks of a page. Raises ValueError if it has no such place."""
    text = page.read_text()
    put = f"{BEGIN}\n{in_words(figures)}{END}"
    found, count = re.subn(f"{re.escape(BEGIN)}.*?{re.escape(END)}", lambda _: put, text, flags=re.DOTALL)
    if count != 1:
        raise ValueError(f"{page} has no place for the figures: {BEGIN} ... {END}")
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
            here = by_name.get(f"{what}: recovery", each)
            other = each.note.removeprefix("to ") if each.note.startswith("to ") else ""
            beside = by_name.get(f"{what}: {other}")
            ratio = "" if each.ratio is None else f"{each.ratio:.2f}"
            met = {None: "", True: "met", False: "missed"}[each.met]
            columns = [
                each.name,
                _told(here),
                _spent(here),
                other,
                _told(beside),
                ratio,
                (each.target or "").replace("<=", "at most"),
                met,
            ]
            lines.append(f"| {' | '.join(columns)} |")
    return "\n".join(lines) + "\n"


def _told(figure: Figure | None) -> str:
    if figure is None or figure.value is None:
        return ""
    spread = "" if figure.low is None or figure.high is None else f" ({figure.low:,.3g} to {figure.high:,.3g})"
    return f"{figure.value:,.3g} {figure.unit}{spread}"


def _spent(figure: Figure) -> str:
    return "" if figure.processor is None else f"{figure.processor:,.3g} ms"


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
        table.add_column(name, justify="right" if justify == "right" else "left", no_wrap=name != "figure")
    table.add_column("")
    for each in figures:
        value = "absent" if each.value is None else f"{each.value:,.4g} {each.unit}"
        spread = "" if each.low is None else f"{each.low:,.4g}-{each.high:,.4g}"
        processor = "" if each.processor is None else f"{each.processor:,.4g} ms"
        ratio = "" if each.ratio is None else f"{each.ratio:.2f}"
        met = {None: "", True: "[green]met[/]", False: "[red]missed[/]"}[each.met]
        note = f"\n[dim]{each.note}[/]" if each.note else ""
        table.add_row(each.name + note, value, spread, processor, ratio, each.target or "", met)
    Console().print(table)
