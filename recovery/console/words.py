"""Words: times, durations, JSON values and texts as a person reads them.

Owns bounds and escapes. Invariant: nothing that comes out of here holds a control character or is longer than its limit.
"""

from __future__ import annotations

import json
from typing import Final

from recovery.core.contracts import FOR_EVER, microseconds
from recovery.core.entries import JSON
from recovery.core.instants import moment
from recovery.core.showing import shown

VALUE_MAX: Final = 200  # characters of one value in a report
DIGEST_SHOWN: Final = 12

_FOR_EVER_US: Final = microseconds(FOR_EVER)
AGE_US: Final = _FOR_EVER_US * 9 // 10
"""What lies further ahead than this follows from a window that is for ever."""

_UNITS: Final = (("d", 86_400_000_000), ("h", 3_600_000_000), ("min", 60_000_000), ("s", 1_000_000), ("ms", 1_000))


def safe(text: str) -> str:
    """`text` on one line, with everything that is not printable escaped: a journal must not be able to move a cursor."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape", "surrogatepass").decode() for c in text)


def bounded(text: str, limit: int = VALUE_MAX) -> str:
    """`text`, safe; what is cut off is counted."""
    if len(text) <= limit:
        return safe(text)
    return f"{safe(text[:limit])}… ({len(text):,} characters; all of it with --json)"


def value(stored: JSON, limit: int = VALUE_MAX) -> str:
    """A stored value as JSON on one line."""
    return bounded(json.dumps(shown(stored), ensure_ascii=False), limit)


def because(row: str, reason: str) -> str:
    """A row with its reason, which several rows may share; a reason of the row's own name is not said twice."""
    return f"row {row}" if row == reason else f"{reason}, row {row}"


def digest(text: str) -> str:
    return text[:DIGEST_SHOWN]


def date(us: int) -> str:
    return moment(us).strftime("%Y-%m-%d")


def time(us: int) -> str:
    """12:00:00.123456, in UTC."""
    return moment(us).strftime("%H:%M:%S.%f")


def instant(us: int) -> str:
    """2026-01-31 12:00:00 UTC."""
    return f"{date(us)} {moment(us).strftime('%H:%M:%S')} UTC"


def exact(us: int) -> str:
    """2026-01-31 12:00:00.123 UTC: where the order within a second matters."""
    return f"{date(us)} {time(us)[:-3]} UTC"


def duration(us: int) -> str:
    """About three places: 250 us, 1.2 ms, 3.4 s, 20 min, 24 h."""
    if us < 0:
        return f"-{duration(-us)}"
    for index, (unit, size) in enumerate(_UNITS):
        if us >= (2 * size if unit == "d" else size):  # a window of 24 h is known by that name
            if unit in {"d", "h", "min"}:
                return _two(us, _UNITS[index : index + 2])
            number = us / size
            return f"{number:.3g} {unit}" if number < 999.5 else f"{round(number)} {unit}"
    return f"{us} us"


def window(us: int) -> str:
    """How long a key is kept."""
    return "for ever" if us >= _FOR_EVER_US else duration(us)


def _two(us: int, units: tuple[tuple[str, int], ...]) -> str:
    (unit, size), (smaller, part) = units
    rest = us % size // part
    return f"{us // size} {unit}" + (f" {rest} {smaller}" if rest else "")


def since(us: int | None) -> str:
    """The distance to the previous line: '' for the first one."""
    return "" if us is None else f"{'+' if us >= 0 else ''}{duration(us)}"


def counted(number: int, noun: str, plural: str = "") -> str:
    """1 entry, 2 entries."""
    return f"{number:,} {noun if number == 1 else plural or f'{noun}s'}"
