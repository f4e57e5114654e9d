"""Binding: plain arguments go a short way, and come to the same stored form, fingerprint, values and errors as on the long one."""

from __future__ import annotations

from datetime import timedelta
from types import NoneType
from typing import Annotated, Any

import pytest
import rfc8785
from hypothesis import example, given, settings
from hypothesis import strategies as st

from recovery import Call, contracts, effect
from recovery.codec import INTEGER_MAX, Codec, fingerprint
from recovery.core.errors import ValueNotStorable
from recovery.core.ids import digest_bytes

KEYED = contracts.Keyed(window=timedelta(hours=24))
PLAIN = (str, int, bool, float, NoneType)
SHORT = {kind: Codec[Any](kind) for kind in PLAIN}
LONG = {
    kind: Codec[Any](Annotated[kind, "an annotation, which says nothing, and keeps a codec from the short way"]) for kind in PLAIN
}
TEXTS = st.text(st.characters(exclude_categories=()), max_size=5)


class Text(str):
    """A text of another type."""

    __slots__ = ()


VALUES = (
    TEXTS | TEXTS.map(Text) | st.integers() | st.integers(INTEGER_MAX - 1, INTEGER_MAX + 1) | st.floats() | st.booleans() | st.none()
    | st.sampled_from(["$int", "$dict", "a" * 100_001, "é" * 30_000])
)  # fmt: skip


def stored_or_refused(codec: Codec[Any], value: Any) -> tuple[Any, ...]:
    try:
        stored = codec.encode(value, where="here", root="v")
    except ValueNotStorable as error:
        return "refused", error.where, error.path, error.problem.removesuffix(f" as {codec.title}")
    return type(stored), repr(stored), repr(codec.decode(stored))


@settings(deadline=None)  # a busy machine is no failure
@given(st.sampled_from(PLAIN), VALUES)
@example(int, INTEGER_MAX)
@example(int, -INTEGER_MAX - 1)
@example(float, -0.0)
@example(str, "\ud800")
def test_a_plain_value_is_stored_or_refused_as_on_the_long_way(kind: Any, value: Any) -> None:
    assert stored_or_refused(SHORT[kind], value) == stored_or_refused(LONG[kind], value)


@effect(KEYED)
def order(call: Call, *, part: str, units: int, urgent: bool, note: None = None) -> dict[str, Any]:
    return {"part": part, "units": units, "urgent": urgent, "note": note}


@effect(KEYED)
def measure(call: Call, *, at: float) -> float:
    return at


@settings(deadline=None)  # a busy machine is no failure
@given(
    TEXTS,
    st.integers() | st.integers(INTEGER_MAX - 1, INTEGER_MAX + 1),
    st.booleans(),
    st.permutations(["part", "units", "urgent", "note"]),
)
def test_a_call_binds_to_what_its_stored_arguments_bind_to(part: str, units: int, urgent: bool, names: list[str]) -> None:
    """In whatever order they are given, and with the default said or not: one stored form, in the order of the parameters, and one fingerprint."""
    given_: dict[str, Any] = {"part": part, "units": units, "urgent": urgent, "note": None}
    try:
        stored = {
            name: LONG[kind].encode(given_[name], where="effect order", root=name)
            for name, kind in zip(given_, PLAIN[:3], strict=False)
        }
    except ValueNotStorable as refused:
        with pytest.raises(ValueNotStorable, match=refused.path):
            order(**given_)
        return
    stored["note"] = None
    calls = [order(**given_), order(**{name: given_[name] for name in names}), order(part=part, units=units, urgent=urgent)]  # type: ignore[call-arg]  # by name
    for bound in calls:
        assert list(bound.stored.items()) == list(stored.items())
        assert [type(item) for item in bound.stored.values()] == [type(item) for item in stored.values()]
        assert bound.fingerprint == fingerprint({"effect": "order", "arguments": stored})
        assert bound.arguments == given_
        assert bound == order.bind(stored)


@settings(deadline=None)  # a busy machine is no failure
@given(st.floats(allow_nan=False, allow_infinity=False))
def test_numbers_that_javascript_writes_otherwise_have_the_fingerprint_that_they_had(at: float) -> None:
    assert measure(at=at).fingerprint == fingerprint({"effect": "measure", "arguments": {"at": at}})


def test_what_a_body_does_to_its_arguments_changes_nothing_that_is_bound() -> None:
    bound = order(part="filter", units=2, urgent=False, note=None)
    arguments = bound.arguments
    arguments["units"] = 3
    assert bound.arguments == {"part": "filter", "units": 2, "urgent": False, "note": None} == bound.stored


def test_names_beyond_ascii_are_sorted_as_a_canonical_form_sorts_them() -> None:
    """By UTF-16, where the second one comes first."""
    names = ("a\ufe20", "a\U00010a01")

    def sort(call: Call, *, one: int, two: int) -> int:
        return one - two

    sort.__code__ = sort.__code__.replace(co_varnames=("call", *names))  # in a source file, nobody could read them
    sort.__annotations__ = {"call": Call, **dict.fromkeys(names, int), "return": int}
    bound = effect(KEYED)(sort)(**{names[0]: 1, names[1]: 2})  # type: ignore[call-arg]  # by these names
    stored = {"effect": "sort", "arguments": {names[0]: 1, names[1]: 2}}
    assert bound.fingerprint == fingerprint(stored) == digest_bytes(b"recovery-fingerprint-1", rfc8785.dumps(stored))
