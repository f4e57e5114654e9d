"""The state document loses nothing: what is read is what was written, in type and value."""

from __future__ import annotations

import contextlib
from collections import UserDict
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from recovery.checkpoint import state
from recovery.checkpoint.errors import CheckpointError, CheckpointInvalid, LimitExceeded
from recovery.checkpoint.limits import Limits
from recovery.identical import difference

LIMITS = Limits()

values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.integers(-(2**130), 2**130)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=6),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(st.sampled_from(["$int", "$float", "$dict", "$secret", "$x"]) | st.text(max_size=4), inner, max_size=3)
    ),
    max_leaves=12,
)


@given(values)
def test_what_is_read_is_what_was_written(value: Any) -> None:
    assert difference(in_order(value), state.from_bytes(state.to_bytes(value, LIMITS), LIMITS), "$") is None


def in_order(value: Any) -> Any:
    """The order of keys is no content: equal mappings are written as equal bytes."""
    if isinstance(value, dict):
        return {key: in_order(value[key]) for key in sorted(value)}
    return [in_order(item) for item in value] if isinstance(value, list) else value


@given(values)
def test_no_number_with_a_point_is_written_as_one(value: Any) -> None:
    """Or another program would round it."""

    def floats(document: Any) -> bool:
        inner = document.values() if isinstance(document, dict) else document if isinstance(document, list) else ()
        return isinstance(document, float) or any(map(floats, inner))

    assert not floats(state.seal(value))


@pytest.mark.parametrize("number", [0.1, -0.0, 5e-324, 1.7976931348623157e308, 1 / 3])
def test_floats_come_back_bit_for_bit(number: float) -> None:
    back = state.from_bytes(state.to_bytes([number], LIMITS), LIMITS)[0]
    assert np.float64(back).tobytes() == np.float64(number).tobytes()


def test_a_generators_state_comes_back() -> None:
    generator = np.random.default_rng(7).bit_generator
    saved = dict(generator.state)
    assert state.from_bytes(state.to_bytes(saved, LIMITS), LIMITS) == saved


@pytest.mark.parametrize(
    "value",
    [
        float("nan"),
        float("inf"),
        b"x",
        {1: 2},
        {("a",): 1},
        object(),
        np.float64(1.0),
        "\ud800",
        {"\ud800": 1},
        {1, 2},
        10**400,
        pytest.param(-(10**5000), id="huge"),
    ],
)
def test_what_would_lose_something_is_refused(value: Any) -> None:
    with pytest.raises(CheckpointInvalid, match=r"state\.json"):
        state.to_bytes({"a": [value]}, LIMITS)


@pytest.mark.parametrize(
    "text",
    [
        b'{"$int":"12"}',
        b'{"$int":"0099999999999999999999"}',
        b'{"$int":12345678901234567890}',
        b'{"$int":"-"}',
        b'{"$float":"nan"}',
        b'{"$float":"inf"}',
        b'{"$float":"0x1p999999"}',
        b'{"$float":"1.5"}',
        b'{"$float":1}',
        b'{"$other":1}',
        b'{"$dict":1}',
        b"1.5",
    ],
)
def test_a_tag_that_says_nothing_is_refused(text: bytes) -> None:
    with pytest.raises(CheckpointInvalid):
        state.from_bytes(text, LIMITS)


@given(st.binary(max_size=60))
def test_any_bytes_are_read_or_refused(data: bytes) -> None:
    with contextlib.suppress(CheckpointError):
        state.from_bytes(data, LIMITS)


def test_depth_and_size_are_bounded() -> None:
    nested: list[Any] = []
    for _ in range(5000):
        nested = [nested]
    with pytest.raises(CheckpointError):
        state.to_bytes(nested, LIMITS)
    with pytest.raises(LimitExceeded):
        state.to_bytes("x" * 100, Limits(state_bytes=50))


BOUNDS = [2**53 - 1, 1 - 2**53, 2**53, -(2**53), 0]

numbers = st.lists(st.floats(allow_nan=False, allow_infinity=False), min_size=1, max_size=8) | st.lists(
    st.sampled_from(BOUNDS) | st.integers(), min_size=1, max_size=8
)


@given(numbers, st.none() | st.booleans() | st.just(1.5) | st.just(3), st.integers(0, 8))
def test_many_numbers_are_written_as_one_by_one_whatever_is_among_them(many: list[Any], odd: Any, at: int) -> None:
    for mixed in (many, [*many[:at], odd, *many[at:]]):
        assert state.seal(mixed) == [state.seal(each) for each in mixed]
        assert difference(mixed, state.unseal(state.seal(mixed)), "$") is None
    assert state.seal(tuple(many)) == state.seal(many)


@pytest.mark.parametrize("bad", [float("inf"), float("nan"), 1 << 2000, {1}])
def test_of_many_numbers_the_one_that_is_refused_is_named(bad: Any) -> None:
    with pytest.raises(CheckpointInvalid, match=r"\$\.loss\[2\]"):
        state.seal({"loss": [1.0, 2.0, bad] if type(bad) is float else [1, 2, bad]})


@pytest.mark.parametrize("bad", ["0x1.8p1", "3.0", "inf", "nan", "0x1.0p+99999", "0x" + "0" * 50, "", 3, None, ["0x0.0p+0"]])
def test_of_many_numbers_the_one_that_is_not_as_it_would_be_written_is_named(bad: Any) -> None:
    whole = state.seal([1.5, 2.5, 3.5])
    assert isinstance(whole, list)
    with pytest.raises(CheckpointInvalid, match=r"\[1\]"):
        state.unseal([whole[0], {"$float": bad}, whole[2]])


@given(values | numbers)
def test_who_wrote_a_state_knows_what_its_reader_gets(value: Any) -> None:
    """A save is judged by that value and reads its own bytes no second time."""
    made = state.sealed(value, LIMITS)
    assert difference(in_order(made.value), state.from_bytes(made.data, LIMITS), "$") is None


class Fickle(Mapping[str, Any]):
    """Says something else each time it is asked."""

    def __init__(self) -> None:
        self.asked = 0

    def __getitem__(self, key: str) -> Any:
        self.asked += 1
        return {"n": self.asked, "t": (self.asked, 1.5), "inner": Other(a=[self.asked])}[key]

    def __iter__(self) -> Iterator[str]:
        return iter(("n", "t", "inner"))

    def __len__(self) -> int:
        return 3


class Other(UserDict[str, Any]):
    """A mapping that is no dict."""


def test_a_value_that_changes_between_two_looks_is_what_was_written() -> None:
    made = state.sealed({"fickle": Fickle(), "pairs": ((1, 2), (0.5,), ())}, LIMITS)
    read = state.from_bytes(made.data, LIMITS)
    assert difference(in_order(made.value), read, "$") is None
    assert read["fickle"]["t"] == [2, 1.5]


def test_what_was_sealed_is_nobody_elses() -> None:
    value = {"loss": [0.5, 1.5], "key": [1, 2], "mixed": [1, "a"], "inner": {"a": [1]}}
    made = state.sealed(value, LIMITS)
    value["loss"].append(2.5)  # type: ignore[attr-defined]
    value["key"].clear()  # type: ignore[attr-defined]
    value["mixed"].clear()  # type: ignore[attr-defined]
    value["inner"]["a"] = []  # type: ignore[call-overload]
    assert made.value == {"loss": [0.5, 1.5], "key": [1, 2], "mixed": [1, "a"], "inner": {"a": [1]}}
