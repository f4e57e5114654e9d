"""Failures: when a job fails, read from a log or drawn from a distribution.

Owns the forms of a failure log and the two distributions. Knows nothing of saves. Invariant: the same log, or the same seed, gives the same
failures on every machine; a log that could mean two things is refused with its line.
"""

from __future__ import annotations

import csv
import json
import math
import random
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final, NoReturn

from recovery.checkpoint.refusals import FailureLogRefused

BYTES_MAX: Final = 64 * 2**20
LINE_MAX: Final = 64 * 2**10
COUNT_MAX: Final = 10**6
DRAWN: Final = 10_000
"""Failures that are drawn unless told otherwise: the retained share then comes with about three places."""

_FORM: Final = "Write a CSV file with a header, or a .jsonl file with an object a line; `at` is an ISO 8601 time, or `at_s` seconds from the beginning."


@dataclass(frozen=True, slots=True)
class Failures:
    """Failure times in seconds from the beginning of the watch, ascending. `source`: in a few words, for reports."""

    source: str
    at_s: tuple[float, ...]
    seed: int | None = None

    @property
    def mtbf_s(self) -> float:
        """Mean time between failures, as observed."""
        return self.at_s[-1] / len(self.at_s)


def exponential(mtbf_s: float, *, count: int = DRAWN, seed: int = 0) -> Failures:
    """Failures without memory: a Poisson process."""
    return weibull(mtbf_s, 1.0, count=count, seed=seed)


def weibull(mtbf_s: float, shape: float, *, count: int = DRAWN, seed: int = 0) -> Failures:
    """Times between failures of the Weibull distribution with mean `mtbf_s`; `shape` below 1: a failure makes the next one likelier.

    Schroeder and Gibson ("A large-scale study of failures in high-performance computing systems", DSN 2006) fit 0.7 to 0.8.
    """
    if not 0.2 <= shape <= 10:
        raise FailureLogRefused(
            where=f"shape {shape}", problem="it is out of range", advice="Use a Weibull shape from 0.2 to 10; 1 is exponential."
        )
    if not 2 <= count <= COUNT_MAX:
        raise FailureLogRefused(where=f"{count} failures", problem="it is out of range", advice=f"Draw 2 to {COUNT_MAX} failures.")
    source = random.Random(seed)  # noqa: S311  # a simulation, repeatable by its seed
    scale, at, times = mtbf_s / math.gamma(1 + 1 / shape), 0.0, []
    for _ in range(count):
        at += scale * (-math.log1p(-source.random())) ** (1 / shape)
        times.append(at)
    return Failures("exponential" if shape == 1 else f"Weibull, shape {shape:g}", tuple(times), seed)


def read(path: Path) -> Failures:
    """A failure log. With `at`, the watch begins at the first failure, since nothing says how long it went well before.

    Order does not matter, and what is in other columns does not either. Bounded: 64 MiB, a million failures. Raises FailureLogRefused.
    """
    try:
        if not path.is_file():
            _refuse(str(path), "there is no such file", "Name a failure log.")
        if path.stat().st_size > BYTES_MAX:
            _refuse(str(path), f"it is larger than {BYTES_MAX} bytes", "Leave out what is old.")
        with path.open(encoding="utf-8-sig", newline="") as file:
            rows = _json_lines(path, file) if path.suffix in {".jsonl", ".ndjson"} else _csv_lines(path, file)
            times, absolute = _times(path, rows)
    except UnicodeDecodeError as error:
        raise FailureLogRefused(where=str(path), problem="it is not UTF-8", advice=_FORM) from error
    except OSError as error:
        raise FailureLogRefused(
            where=str(path), problem=error.strerror or str(error), advice="Name a log that can be read."
        ) from error
    times.sort()
    if absolute and times:
        times = [at - times[0] for at in times[1:]]
    if not times or times[-1] <= 0:
        _refuse(str(path), "it holds too few failures to tell the time between them", "Give a longer log, or --mtbf without one.")
    return Failures(path.name, tuple(times))


def _times(path: Path, rows: Iterator[tuple[int, dict[str, Any]]]) -> tuple[list[float], bool]:
    """All times, and whether they are absolute. One log has one form."""
    times: list[float] = []
    form = ""
    for line, row in rows:
        where = f"{path}:{line}"
        given = [name for name in ("at", "at_s") if row.get(name) not in (None, "")]
        if len(given) != 1:
            _refuse(where, "it has no failure time" if not given else "it has both `at` and `at_s`", _FORM)
        if form not in ("", given[0]):
            _refuse(where, f"it has `{given[0]}`, and lines above have `{form}`", "Use one of them in the whole log.")
        form = given[0]
        times.append(_moment(where, row[form]) if form == "at" else _seconds(where, row[form]))
        if len(times) > COUNT_MAX:
            _refuse(where, f"it is past {COUNT_MAX} failures", "Leave out what is old.")
    return times, form == "at"


def _moment(where: str, given: Any) -> float:
    try:
        at = datetime.fromisoformat(given)
    except (TypeError, ValueError):
        _refuse(where, f"{str(given)[:40]!r} is not a time", "Write it like 2026-01-31T12:00:00Z.")
    return (at if at.utcoffset() is not None else at.replace(tzinfo=UTC)).timestamp()


def _seconds(where: str, given: Any) -> float:
    try:
        at = float(given) if isinstance(given, str | int | float) and not isinstance(given, bool) else math.nan
    except (ValueError, OverflowError):
        at = math.nan
    if not 0 <= at < math.inf:
        _refuse(where, f"{str(given)[:40]!r} is not a number of seconds", "Write seconds from the beginning, like 11135.5.")
    return at


def _csv_lines(path: Path, file: Any) -> Iterator[tuple[int, dict[str, Any]]]:
    reader = csv.DictReader(file, strict=True)
    try:
        if not {"at", "at_s"} & set(reader.fieldnames or ()):
            _refuse(f"{path}:1", "its header has neither `at` nor `at_s`", _FORM)
        for row in reader:
            yield reader.line_num, row
    except csv.Error as error:
        raise FailureLogRefused(where=f"{path}:{reader.line_num + 1}", problem=f"it is not CSV ({error})", advice=_FORM) from error


def _json_lines(path: Path, file: Any) -> Iterator[tuple[int, dict[str, Any]]]:
    line = 0
    while text := file.readline(LINE_MAX):
        line += 1
        if not text.strip():
            continue
        try:
            row = json.loads(text)
        except (ValueError, RecursionError):
            row = None
        if not isinstance(row, dict):
            _refuse(f"{path}:{line}", f"it is not a JSON object of less than {LINE_MAX} bytes", _FORM)
        yield line, row


def _refuse(where: str, problem: str, advice: str) -> NoReturn:
    raise FailureLogRefused(where=where, problem=problem, advice=advice)
