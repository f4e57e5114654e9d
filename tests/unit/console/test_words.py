"""Words: times, durations and values as a person reads them, whatever they hold."""

from __future__ import annotations

import json
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from recovery import contracts
from recovery.console import words
from recovery.console.operating import _from
from recovery.console.timeline import promise
from recovery.core.contracts import microseconds


@pytest.mark.parametrize(
    ("us", "shown"),
    [
        (0, "0 us"),
        (999, "999 us"),
        (1_000, "1 ms"),
        (1_234, "1.23 ms"),
        (999_999, "1000 ms"),
        (1_500_000, "1.5 s"),
        (60_000_000, "1 min"),
        (61_000_000, "1 min 1 s"),
        (1_200_000_000, "20 min"),
        (86_400_000_000, "24 h"),
        (172_800_000_000, "2 d"),
        (-1_500_000, "-1.5 s"),
    ],
)
def test_durations(us: int, shown: str) -> None:
    assert words.duration(us) == shown


def test_instants() -> None:
    us = 1_764_442_983_254_232
    assert words.instant(us) == "2025-11-29 19:03:03 UTC"
    assert words.exact(us) == "2025-11-29 19:03:03.254 UTC"
    assert (words.date(us), words.time(us)) == ("2025-11-29", "19:03:03.254232")


def test_distances() -> None:
    assert [words.since(None), words.since(0), words.since(1500), words.since(-1500)] == ["", "+0 us", "+1.5 ms", "-1.5 ms"]


def test_counts() -> None:
    assert [words.counted(1, "entry", "entries"), words.counted(2000, "entry", "entries"), words.counted(2, "default")] == [
        "1 entry",
        "2,000 entries",
        "2 defaults",
    ]


@given(st.text())
def test_nothing_unprintable_gets_through(text: str) -> None:
    shown = words.safe(text)
    assert shown.isprintable()
    assert words.safe(shown) == shown


@given(st.text(max_size=600))
def test_values_are_bounded(text: str) -> None:
    shown = words.value(text)
    assert shown.isprintable()
    assert len(shown) < 10 * words.VALUE_MAX + 100  # an escape has up to ten characters
    assert ("all of it with --json" in shown) is (len(json.dumps(text, ensure_ascii=False)) > words.VALUE_MAX)


def test_what_is_cut_off_is_counted() -> None:
    assert words.bounded("x" * 300, 3) == "xxx… (300 characters; all of it with --json)"


def test_a_reason_of_its_rows_name_is_not_said_twice() -> None:
    assert words.because("opaque", "opaque") == "row opaque"
    assert words.because("resend", "same-key-inside-window") == "same-key-inside-window, row resend"


@pytest.mark.parametrize(
    ("window", "told"),
    [(contracts.FOR_EVER, "for ever"), (contracts.FOR_EVER - timedelta(days=1), "36524 d"), (timedelta(hours=24), "24 h")],
)
def test_a_window_that_is_for_ever_is_called_so(window: timedelta, told: str) -> None:
    assert words.window(microseconds(window)) == told
    assert promise(contracts.Keyed(window=window)) == f"contract keyed, window {told}"


def test_the_last_moment_of_a_key_that_is_kept_for_ever_is_never() -> None:
    start = 1_800_000_000_000_000
    assert _from(start, start + microseconds(contracts.FOR_EVER - timedelta(hours=1))) == "which is never"
    assert _from(start, start + microseconds(timedelta(days=30))) == "in 30 d"
