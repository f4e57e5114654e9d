"""Units: sizes, rates and durations, read strictly and written back.

Owns what "2TB", "20GB/s" and "1h30m" mean. GB is 10^9 bytes and GiB is 2^30 (IEC 80000-13); a small b is bits. Knows nothing of what the
quantities are for. Invariant: whatever could mean two things is refused with the spelling that means one, never guessed.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from datetime import timedelta
from decimal import Decimal
from typing import Final, TypeVar

from recovery.checkpoint.refusals import QuantityRefused

DECIMAL: Final = {"B": 1, "kB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12, "PB": 10**15, "EB": 10**18}
BINARY: Final = {"KiB": 2**10, "MiB": 2**20, "GiB": 2**30, "TiB": 2**40, "PiB": 2**50, "EiB": 2**60}
BYTES: Final = DECIMAL | BINARY
SECONDS: Final = {
    "us": Decimal("0.000001"),
    "ms": Decimal("0.001"),
    "s": Decimal(1),
    "m": Decimal(60),
    "min": Decimal(60),
    "h": Decimal(3600),
    "d": Decimal(86400),
}
SIZE_MAX: Final = 10**21
SPAN_MAX: Final = 10**9
"""Seconds: some thirty years."""

_WRITTEN: Final = re.compile(r"\s*([0-9]+(?:\.[0-9]+)?)\s*([A-Za-z]*(?:/[A-Za-z]+)?)\s*", re.ASCII)
_SPAN: Final = re.compile(r"([0-9]+(?:\.[0-9]+)?)\s*([A-Za-z]+)\s*", re.ASCII)
_BITS: Final = re.compile(r"([kKMGTPE]i?)?(?:b|bit|bits)(?:/s|ps)?", re.ASCII)
_LENGTH_MAX: Final = 40

N = TypeVar("N", int, float, Decimal)


@dataclass(frozen=True, slots=True)
class _Kind:
    """What is wanted, for the sentences."""

    noun: str
    example: str


_SIZE: Final = _Kind("size", "2TB or 512GiB")
_RATE: Final = _Kind("rate", "20GB/s or 800MiB/s")
_TIME: Final = _Kind("duration", "6.3s, 20m, 3h or 1h30m")


def size(given: str | int, what: str = "size") -> int:
    """Whole bytes. A plain `int` is bytes; a text needs its unit. Raises QuantityRefused."""
    if not isinstance(given, str):
        return _within(given, given, what, _SIZE)
    number, unit = _split(given, what, _SIZE)
    if unit.removesuffix("/s") in BYTES and unit.endswith("/s"):
        raise _refused(what, given, "it is a rate, and a size is wanted", f"Leave out the /s, as in {_SIZE.example}.")
    amount = number * _factor(unit, given, what, _SIZE)
    if amount != int(amount):
        raise _refused(what, given, "it is not a whole number of bytes", "Give a whole number of bytes.")
    return _within(int(amount), given, what, _SIZE)


def rate(given: str | float, what: str = "rate") -> float:
    """Bytes per second. A plain number is bytes per second; a text needs its unit. Raises QuantityRefused."""
    if not isinstance(given, str):
        return float(_within(given, given, what, _RATE))
    number, unit = _split(given, what, _RATE)
    if unit in BYTES:
        raise _refused(what, given, "it is a size, and a rate is wanted", f"Say per second, as in {given.strip()}/s.")
    if not unit.endswith("/s"):
        _factor(unit, given, what, _RATE)
    return float(_within(number * _factor(unit.removesuffix("/s"), given, what, _RATE), given, what, _RATE))


def span(given: str | timedelta, what: str = "duration", *, zero: bool = False) -> float:
    """Seconds, out of "6.3s", "20m" (or "20min"), "3h", "7d" or a sum such as "1h30m". `zero`: nothing at all is allowed too.

    Raises QuantityRefused. A bare number is refused whatever its type: it has no unit.
    """
    if isinstance(given, timedelta):
        return _lasting(Decimal(given // timedelta(microseconds=1)) / 10**6, given, what, zero=zero)
    text = _text(given, what, _TIME).strip()
    parts = _SPAN.findall(text)
    if not parts or _SPAN.sub("", text):
        raise _unknown(_split(given, what, _TIME)[1], given, what, _TIME)
    total, smallest = Decimal(0), Decimal(10**9)
    for number, unit in parts:
        if unit not in SECONDS:
            raise _unknown(unit, given, what, _TIME)
        if SECONDS[unit] >= smallest:
            raise _refused(what, given, "its parts do not go from long to short", f"Write it like {_TIME.example}.")
        smallest = SECONDS[unit]
        total += Decimal(number) * smallest
    return _lasting(total, given, what, zero=zero)


def _lasting(seconds: Decimal, given: object, what: str, *, zero: bool) -> float:
    if not (seconds >= 0 if zero else seconds > 0) or seconds > SPAN_MAX:
        least = "0s" if zero else "more than 0s"
        raise _refused(what, given, "it is out of range", f"Give {least} and at most {SPAN_MAX} s.")
    return float(seconds)


def _text(given: object, what: str, kind: _Kind) -> str:
    if not isinstance(given, str):
        raise _refused(what, given, "it has no unit", f"A {kind.noun} is written like {kind.example}.")
    if len(given) > _LENGTH_MAX:
        raise _refused(what, f"{given[:_LENGTH_MAX]}...", f"it is no {kind.noun}", f"A {kind.noun} is written like {kind.example}.")
    return given


def _split(given: object, what: str, kind: _Kind) -> tuple[Decimal, str]:
    """Number and unit of a text that has both."""
    match = _WRITTEN.fullmatch(text := _text(given, what, kind))
    if match is None:
        comma = " A comma is not read: write 1500MB or 1.5GB." if "," in text else ""
        raise _refused(what, given, f"it is no {kind.noun}", f"A {kind.noun} is written like {kind.example}.{comma}")
    if not match[2]:
        raise _refused(what, given, "it has no unit", f"A {kind.noun} is written like {kind.example}.")
    return Decimal(match[1]), match[2]


def _factor(unit: str, given: str, what: str, kind: _Kind) -> int:
    if unit in BYTES:
        return BYTES[unit]
    raise _unknown(unit, given, what, kind)


def _unknown(unit: str, given: object, what: str, kind: _Kind) -> QuantityRefused:
    """Why a unit is not understood. Mistakes that differ by a factor get their own sentence."""
    if kind is not _TIME and (bits := _BITS.fullmatch(unit)):
        prefix = bits[1] or ""
        return _refused(
            what, given, f"{unit} is in bits (a small b), and bytes are wanted", f"Divide by 8 and say {prefix}B{_per(kind)}."
        )
    if kind is not _TIME and unit.removesuffix("/s") in {"KB", "K", "kb", "k"}:
        return _refused(
            what, given, f"{unit} may be 1000 or 1024 bytes", f"Say kB{_per(kind)} for 1000, or KiB{_per(kind)} for 1024."
        )
    if kind is not _TIME and (like := [known for known in BYTES if known.lower() == unit.removesuffix("/s").lower()]):
        return _refused(what, given, f"{unit} is no unit: letters are read as they stand", f"Say {like[0]}{_per(kind)}.")
    if kind is _TIME and (unit in BYTES or unit.removesuffix("/s") in BYTES):
        return _refused(what, given, "it counts bytes, and a duration is wanted", f"Write it like {kind.example}.")
    if kind is not _TIME and unit in SECONDS:
        return _refused(what, given, f"it is a duration, and a {kind.noun} is wanted", f"Write it like {kind.example}.")
    known = ", ".join(SECONDS if kind is _TIME else BYTES)
    return _refused(what, given, f"{unit!r} is no unit of a {kind.noun}", f"Known are {known}{', each with /s' * (kind is _RATE)}.")


def _per(kind: _Kind) -> str:
    return "/s" if kind is _RATE else ""


def _within(amount: N, given: object, what: str, kind: _Kind) -> N:
    if not 0 < amount <= SIZE_MAX:
        raise _refused(what, given, "it is out of range", f"Give more than 0 and at most 1000EB{_per(kind)}.")
    return amount


def _refused(what: str, given: object, problem: str, advice: str) -> QuantityRefused:
    return QuantityRefused(what=what, given=str(given), problem=problem, advice=advice)


def shown_size(count: float) -> str:
    """Three or four places in decimal units: "2 TB", "268.4 MB"."""
    if count < 1000:
        return f"{count:.4g} B"
    unit, factor = next((unit, factor) for unit, factor in reversed(DECIMAL.items()) if count >= factor or unit == "B")
    return f"{count / factor:.4g} {unit}"


def shown_rate(per_second: float) -> str:
    return f"{shown_size(per_second)}/s"


def shown_span(seconds: float) -> str:
    """About three places: "6.3 s", "375 s", "24 min 52 s", "3 h 5 min", "30 d"."""
    if seconds == 0:
        return "0 s"
    if seconds < 0.001:
        return f"{seconds * 1e6:.3g} us"
    if seconds < 1:
        return f"{seconds * 1000:.3g} ms"
    if seconds < 600:
        return f"{seconds:.3g} s"
    for (unit, long), (smaller, short) in ((("d", 86400), ("h", 3600)), (("h", 3600), ("min", 60)), (("min", 60), ("s", 1))):
        whole, rest = divmod(round(seconds / short) * short, long)
        if seconds >= (2 * long if unit == "d" else long):
            return f"{whole:,} {unit}" + (f" {rest // short} {smaller}" if rest else "")
    raise AssertionError(seconds)


def short_span(seconds: float) -> str:
    """Three places in one unit, for columns: "375 s", "24.9 min", "3.09 h", "31.3 d"."""
    for unit, length in (("d", 86400), ("h", 3600), ("min", 60)):
        if seconds >= (2 * length if unit == "d" else 10 * length if unit == "min" else length):
            return f"{seconds / length:.3g} {unit}" if seconds < 1000 * length else f"{seconds / length:,.0f} {unit}"
    return shown_span(seconds)


def shown_share(share: float) -> str:
    """A share as per cent: one place, and near nothing or everything as many as tell it from that: "95.9 %", "99.99938 %"."""
    rest = 100 * min(abs(share), abs(1 - share))
    places = 1 if rest >= 0.05 or rest < 1e-9 else 1 - math.floor(math.log10(rest))
    return f"{100 * share:.{places}f} %"
