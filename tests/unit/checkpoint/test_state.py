"""The state document loses nothing: what is read is what was written, in type and value."""

from __future__ import annotations

import contextlib
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
        | st.dictionaries(st.sampled_from(["$int", "$float", "$dict", "$x"]) | st.text(max_size=4), inner, max_size=3)
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
