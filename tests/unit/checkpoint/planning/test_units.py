"""Sizes, rates and durations: GB is not GiB, Gb is not GB, and nothing is guessed."""

from __future__ import annotations

import math
from contextlib import suppress
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from recovery.checkpoint.planning import units
from recovery.checkpoint.refusals import QuantityRefused


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("2TB", 2 * 10**12),
        ("2 TB", 2 * 10**12),
        ("1GB", 10**9),
        ("1GiB", 2**30),
        ("0.5KiB", 512),
        ("1.5kB", 1500),
        ("1B", 1),
        ("1000EB", 10**21),
        (7, 7),
    ],
)
def test_a_size_is_whole_bytes(text: str | int, count: int) -> None:
    assert units.size(text) == count


@pytest.mark.parametrize(("text", "per_second"), [("20GB/s", 20e9), ("1 GiB/s", 2.0**30), ("0.5B/s", 0.5), (3.5, 3.5)])
def test_a_rate_is_bytes_per_second(text: str | float, per_second: float) -> None:
    assert units.rate(text) == per_second


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("6.3s", 6.3),
        ("3h", 10800),
        ("20m", 1200),
        ("20min", 1200),
        ("1h30m", 5400),
        ("1d 12h", 129600),
        ("500ms", 0.5),
        ("2us", 2e-6),
        (timedelta(minutes=1), 60),
    ],
)
def test_a_duration_is_seconds(text: str | timedelta, seconds: float) -> None:
    assert units.span(text) == seconds


@pytest.mark.parametrize(
    ("read", "text", "says", "advice"),
    [
        (units.size, "2", "it has no unit", "2TB or 512GiB"),
        (units.rate, "20", "it has no unit", "20GB/s"),
        (units.span, "11135", "it has no unit", "6.3s"),
        (units.size, "20GB/s", "it is a rate, and a size is wanted", "Leave out the /s"),
        (units.rate, "20GB", "it is a size, and a rate is wanted", "20GB/s"),
        (units.rate, "20Gb/s", "in bits", "Divide by 8 and say GB/s."),
        (units.rate, "20Gbps", "in bits", "Divide by 8 and say GB/s."),
        (units.rate, "20Gbit/s", "in bits", "Divide by 8 and say GB/s."),
        (units.rate, "20Gib/s", "in bits", "Divide by 8 and say GiB/s."),
        (units.size, "20Gb", "in bits", "Divide by 8 and say GB."),
        (units.size, "3b", "in bits", "Divide by 8 and say B."),
        (units.size, "3KB", "may be 1000 or 1024", "Say kB for 1000, or KiB for 1024."),
        (units.rate, "3KB/s", "may be 1000 or 1024", "Say kB/s for 1000, or KiB/s for 1024."),
        (units.size, "3gb", "letters are read as they stand", "Say GB."),
        (units.size, "3GIB", "letters are read as they stand", "Say GiB."),
        (units.size, "3h", "it is a duration, and a size is wanted", "2TB"),
        (units.span, "3GB", "it counts bytes, and a duration is wanted", "6.3s"),
        (units.span, "3GB/s", "it counts bytes, and a duration is wanted", "6.3s"),
        (units.span, "3M", "no unit of a duration", "us, ms, s, m, min, h, d"),
        (units.span, "3Min", "no unit of a duration", "min"),
        (units.size, "3XB", "no unit of a size", "GiB"),
        (units.span, "30m1h", "do not go from long to short", "1h30m"),
        (units.span, "1h1h", "do not go from long to short", "1h30m"),
        (units.size, "1,500MB", "it is no size", "A comma is not read"),
        (units.size, "-1GB", "it is no size", "2TB"),
        (units.size, "1e3GB", "it is no size", "2TB"),
        (units.size, "\u0663GB", "it is no size", "2TB"),
        (units.size, "", "it is no size", "2TB"),
        (units.size, "0GB", "out of range", "more than 0"),
        (units.size, "1001EB", "out of range", "1000EB"),
        (units.size, "0.3B", "not a whole number of bytes", "whole"),
        (units.rate, "0GB/s", "out of range", "more than 0"),
        (units.span, "0s", "out of range", "more than 0s"),
        (units.span, "1000000001s", "out of range", "1000000000 s"),
        (units.size, "1" * 100 + "GB", "it is no size", "2TB"),
    ],
)
def test_what_could_mean_two_things_is_refused_with_what_means_one(read: object, text: str, says: str, advice: str) -> None:
    assert callable(read)
    with pytest.raises(QuantityRefused) as caught:
        read(text, "--x")
    assert caught.value.what == "--x"
    assert says in caught.value.problem
    assert advice in caught.value.advice
    assert str(caught.value).startswith("--x '")
    assert "Nothing was computed" in str(caught.value)


@pytest.mark.parametrize("number", [math.nan, math.inf, 0, -1])
def test_a_number_that_is_none_is_no_rate(number: float) -> None:
    with pytest.raises(QuantityRefused):
        units.rate(number)


def test_nothing_at_all_may_be_a_duration_where_it_is_one() -> None:
    assert units.span("0s", zero=True) == 0
    assert units.span(timedelta(0), zero=True) == 0


@given(st.integers(1, 10**15), st.sampled_from(list(units.BYTES)))
def test_a_size_is_its_number_times_its_unit(number: int, unit: str) -> None:
    count = number * units.BYTES[unit]
    if count <= units.SIZE_MAX:
        assert units.size(f"{number}{unit}") == count
        assert units.rate(f"{number} {unit}/s") == float(count)


@given(st.text(max_size=20))
def test_any_text_is_read_or_refused(text: str) -> None:
    for read in (units.size, units.rate, units.span):
        with suppress(QuantityRefused):
            assert read(text) > 0


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [
        (0, "0 s"),
        (5e-5, "50 us"),
        (0.0063, "6.3 ms"),
        (6.3, "6.3 s"),
        (374.57, "375 s"),
        (600, "10 min"),
        (1492.3, "24 min 52 s"),
        (11135, "3 h 6 min"),
        (86400, "24 h"),
        (30 * 86400, "30 d"),
        (31.3 * 86400, "31 d 7 h"),
    ],
)
def test_a_duration_is_shown_with_about_three_places(seconds: float, shown: str) -> None:
    assert units.shown_span(seconds) == shown


@given(st.floats(1e-7, 1e9))
def test_what_is_shown_is_within_two_percent(seconds: float) -> None:
    total = 0.0
    parts = units.shown_span(seconds).replace(",", "").split()
    for number, unit in zip(parts[::2], parts[1::2], strict=True):
        total += float(number) * float(units.SECONDS[unit])
    assert total == pytest.approx(seconds, rel=0.02)


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [(375, "375 s"), (599.6, "600 s"), (1492, "24.9 min"), (11135, "3.09 h"), (30 * 86400, "30 d"), (1e8, "1,157 d")],
)
def test_a_duration_has_one_unit_in_columns(seconds: float, shown: str) -> None:
    assert units.short_span(seconds) == shown


def test_sizes_and_shares_are_shown() -> None:
    assert [units.shown_size(count) for count in (1, 999, 1000, 268435456, 2 * 10**12)] == [
        "1 B",
        "999 B",
        "1 kB",
        "268.4 MB",
        "2 TB",
    ]
    assert units.shown_rate(20e9) == "20 GB/s"
    assert [units.shown_share(s) for s in (0, 0.0434, 0.9586, 0.9999938, 1)] == [
        "0.0 %",
        "4.3 %",
        "95.9 %",
        "99.99938 %",
        "100.0 %",
    ]
