"""Distances in units in the last place."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from recovery.checkpoint.ulp import Difference, distance, first_difference, identical

FLOATS = st.floats(allow_nan=False)


@given(FLOATS)
def test_a_neighbour_is_one_apart(value: float) -> None:
    above = np.array(math.nextafter(value, math.inf))
    assert int(distance(np.array(value), above)) == (0 if above == value else 1)


@given(FLOATS, FLOATS)
def test_a_distance_counts_in_exact_integers(one: float, other: float) -> None:
    def place(value: float) -> int:
        bits = int(np.array(value).view(np.int64))
        return bits if bits >= 0 else -(bits & (2**63 - 1))

    assert int(distance(np.array(one), np.array(other))) == abs(place(one) - place(other))


def test_the_longest_distance_does_not_wrap() -> None:
    most = np.array([-np.inf, np.inf])
    assert distance(most, most[::-1]).tolist() == [2 * 0x7FF0000000000000] * 2


@pytest.mark.parametrize("kind", [np.float16, np.float32, np.float64])
def test_every_width_has_its_own_units(kind: type[np.floating]) -> None:
    one = np.array([[1.0, 2.0], [3.0, 4.0]], dtype=kind)
    other = one.copy()
    other[1, 0] = np.nextafter(other[1, 0], kind(9))
    assert distance(one, other).tolist() == [[0, 0], [1, 0]]
    assert first_difference(one, other) == Difference((1, 0), "3.0", repr(other[1, 0].item()), 1, 1, 1)


def test_the_sign_of_zero_is_a_difference_of_no_distance() -> None:
    found = first_difference(np.array([1.0, 0.0]), np.array([1.0, -0.0]))
    assert found == Difference((1,), "0.0", "-0.0", 0, 1, 0)


def test_nan_equals_itself_and_has_no_distance() -> None:
    nan = np.array([np.nan, 1.0])
    assert first_difference(nan, nan.copy()) is None
    assert identical(nan, nan.copy())
    found = first_difference(np.array([np.nan, 1.0]), np.array([2.0, 3.0]))
    assert found == Difference((0,), "nan", "2.0", None, 2, int(distance(np.array(1.0), np.array(3.0))))


def test_the_first_difference_is_the_first_in_c_order_and_all_are_counted() -> None:
    one = np.arange(6.0).reshape(2, 3)
    other = one.copy()
    other[0, 2], other[1, 1] = 2.5, 40.0
    found = first_difference(one, other)
    assert found is not None
    assert (found.index, found.count) == ((0, 2), 2)
    assert found.ulps_max == int(distance(np.array(4.0), np.array(40.0)))


def test_integers_differ_without_a_distance() -> None:
    assert first_difference(np.array([1, 2]), np.array([1, 3])) == Difference((1,), "2", "3")
    assert first_difference(np.array(7), np.array(8)) == Difference((), "7", "8")


def test_other_types_and_shapes_differ_as_a_whole() -> None:
    one = np.zeros(2)
    assert first_difference(one, one.astype(np.float32)) == Difference((), "float64 [2]", "float32 [2]")
    assert first_difference(one, np.zeros((2, 1))) == Difference((), "float64 [2]", "float64 [2, 1]")
    with pytest.raises(ValueError, match="no ULP distance"):
        distance(one, np.zeros(3))


def test_what_is_shown_reads_back() -> None:
    one, other = np.array([0.1]), np.array([0.1 + 2**-56])
    found = first_difference(one, other)
    assert found is not None
    assert (float(found.expected), float(found.found)) == (one[0], other[0])
