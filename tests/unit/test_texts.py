"""Texts: what the encoder that is made once writes, and refuses, is what the standard library's writes and refuses."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from recovery.core.entries import JSON
from recovery.core.showing import MARKED, Veiled
from recovery.texts import dumps, written_by

TEXTS = st.text(st.characters(exclude_categories=()), max_size=6)
JSONS = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | TEXTS,
    lambda inner: st.lists(inner, max_size=4) | st.lists(inner, max_size=2).map(tuple) | st.dictionaries(TEXTS, inner, max_size=4),
    max_leaves=8,
)
SORTED = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), allow_nan=False, sort_keys=True)
BY_SORTED = written_by(SORTED)


@settings(deadline=None)  # a busy machine is no failure
@given(JSONS)
def test_texts_are_those_of_the_standard_library(stored: JSON) -> None:
    assert dumps(stored) == json.dumps(stored, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    assert BY_SORTED(stored) == SORTED.encode(stored)


def test_a_secret_is_written_as_it_is() -> None:
    assert dumps([Veiled({MARKED: "a"})]) == '[{"$secret":"a"}]'


def circle() -> list[Any]:
    held: list[Any] = []
    held.append(held)
    return held


def deep() -> list[Any]:
    held: list[Any] = []
    for _ in range(100_000):
        held = [held]
    return held


@pytest.mark.parametrize(
    "made", [lambda: math.nan, lambda: {"a": [-math.inf]}, lambda: [object()], circle, deep, lambda: {(1,): 2}]
)
def test_what_is_refused_is_refused_alike_and_leaves_nothing_behind(made: Callable[[], Any]) -> None:
    given_ = made()
    with pytest.raises((ValueError, TypeError, RecursionError)) as theirs:
        json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode(given_)
    with pytest.raises(theirs.type) as ours:
        dumps(given_)
    assert type(ours.value) is theirs.type
    assert dumps({"a": [1]}) == '{"a":[1]}'
