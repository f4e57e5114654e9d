"""Values that equal each other in Python and are not the same value."""

from __future__ import annotations

import datetime as dt
import enum
from collections import OrderedDict, defaultdict, deque
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from functools import cached_property
from typing import Any, NamedTuple
from zoneinfo import ZoneInfo

import pytest
from pydantic import BaseModel, ConfigDict, PrivateAttr

from recovery.identical import DEPTH_MAX, difference, unfit


class Point(NamedTuple):
    x: Any
    y: Any


@dataclass
class Box:
    it: Any

    @cached_property
    def size(self) -> int:
        return 1


class Model(BaseModel):
    model_config = ConfigDict(extra="allow")
    it: Any = None
    _seen: int = PrivateAttr(default=0)


class Access(enum.Flag):
    READ = 1
    WRITE = 2


def marked(seen: int) -> Model:
    model = Model()
    model._seen = seen
    return model


NOON = dt.datetime(2026, 10, 25, 2, 30)  # noqa: DTZ001
UTC_NOON = NOON.replace(tzinfo=dt.UTC)

DIFFERENT: list[tuple[Any, Any, str]] = [
    (0.0, -0.0, "$"),
    (1, 1.0, "$"),
    (1, True, "$"),
    ("a", b"a", "$"),
    (Decimal("1.0"), Decimal("1.00"), "$"),
    (complex(0.0, -0.0), complex(0.0, 0.0), "$"),
    ([1], (1,), "$"),
    ([1], [1, 2], "$"),
    ([1, [2, 3.0]], [1, [2, 3]], "$[1][1]"),
    ((1, 2), Point(1, 2), "$"),
    (Point(1, True), Point(1, 1), "$[1]"),
    ({"a": 1, "b": 2}, {"b": 2, "a": 1}, "$"),
    ({"a": 1}, OrderedDict(a=1), "$"),
    ({"a": 1}, {"a": True}, "$.a"),
    ({"a": 1}, {"a": 1, "b": 2}, "$"),
    ({1: "a"}, {True: "a"}, "$(key 0)"),
    ({1: "a"}, {1: b"a"}, "$(item 0)"),
    ({1: "a", "b": 1}, {1: "a", "b": True}, "$(item 1)"),
    (defaultdict(int, a=1), defaultdict(float, a=1), "$"),
    (deque([1], maxlen=2), deque([1]), "$"),
    (deque([1]), deque([1.0]), "$[0]"),
    (Box(1), Box(True), "$.it"),
    (Box(Box([0.0])), Box(Box([-0.0])), "$.it.it[0]"),
    (Model(it=1), Model(it=1.0), "$.it"),
    (Model(it=1, more=1), Model(it=1, more=True), "$.more"),
    (Model(it=1, more=1), Model(it=1), "$"),
    (marked(1), marked(2), "$._seen"),
    (NOON, UTC_NOON, "$"),
    (NOON, NOON.replace(fold=1), "$"),
    (UTC_NOON, UTC_NOON.astimezone(dt.timezone(dt.timedelta(hours=1))), "$"),
    (NOON.replace(tzinfo=ZoneInfo("Europe/Berlin")), NOON.replace(tzinfo=ZoneInfo("Europe/Berlin")), "$"),
    (dt.time(1, tzinfo=dt.UTC), dt.time(1), "$"),
    (Access.READ | Access.WRITE, Access.READ, "$"),
    (object(), object(), "$"),
]


@pytest.mark.parametrize(("value", "copy", "path"), DIFFERENT, ids=[str(number) for number in range(len(DIFFERENT))])
def test_a_difference_is_seen_from_both_sides(value: Any, copy: Any, path: str) -> None:
    for one, other in ((value, copy), (copy, value)):
        found = difference(one, other, "$")
        assert found is not None
        assert found.path == path
        assert found.problem
        assert found.advice.endswith(".")


@pytest.mark.parametrize(("value", "copy", "path"), DIFFERENT, ids=[str(number) for number in range(len(DIFFERENT))])
def test_a_difference_is_seen_behind_parts_that_are_alike(value: Any, copy: Any, path: str) -> None:
    holders: list[tuple[Callable[[Any], Any], str]] = [
        (lambda it: [0, "a", it], "[2]"),
        (lambda it: {"z": None, "a": it}, ".a"),
        (lambda it: Box([it]), ".it[0]"),
        (lambda it: Model(it={"a": it}), ".it.a"),
        (lambda it: (1, it), "[1]"),
    ]
    for holder, at in holders:
        for one, other in ((value, copy), (copy, value)):
            found = difference(holder(one), holder(other), "$")
            assert found is not None
            assert found.path == f"${at}{path[1:]}"


SAME: list[Callable[[], Any]] = [
    lambda: None,
    lambda: [1, 1.5, -0.0, "a", b"a", True, Decimal("1.00"), complex(1, 2)],
    lambda: {"a": {1: (2, Point(1, 2))}, 2: deque([1], maxlen=3)},
    lambda: defaultdict(int, a=1),
    lambda: Box(Model(it=Box(1), more=2)),
    lambda: marked(3),
    lambda: UTC_NOON,
    lambda: NOON.replace(tzinfo=ZoneInfo("UTC")),
    lambda: Access.READ | Access.WRITE,
]


@pytest.mark.parametrize("make", SAME, ids=[str(number) for number in range(len(SAME))])
def test_equal_values_of_one_making_are_identical(make: Callable[[], Any]) -> None:
    assert difference(make(), make(), "$") is None
    assert unfit(make(), "$") is None


def test_what_is_not_part_of_the_value_does_not_count() -> None:
    used = Box(1)
    assert used.size == 1
    assert difference(used, Box(1), "$") is None
    assert difference(Model(it=None), Model(), "$") is None  # which fields were set


def nested(depth: int) -> Any:
    value: Any = 1
    for _ in range(depth):
        value = [value]
    return value


def test_depth_is_bounded_on_both_sides_of_the_limit() -> None:
    assert unfit(nested(DEPTH_MAX), "$") is None
    assert difference(nested(DEPTH_MAX), nested(DEPTH_MAX), "$") is None
    too_deep = [[nested(DEPTH_MAX)]]
    for found in (unfit(too_deep, "$"), difference(too_deep, too_deep, "$")):
        assert found is not None
        assert "nested deeper" in found.problem


@pytest.mark.parametrize("value", [float("nan"), float("inf"), Decimal("nan"), Decimal("-inf"), {1}, frozenset()], ids=repr)
def test_what_no_type_could_store_is_found_wherever_it_is(value: Any) -> None:
    for holder, path in (([value], "$[0]"), ({"a": (1, value)}, "$.a[1]"), (Box(value), "$.it"), (Model(more=value), "$.more")):
        found = unfit(holder, "$")
        assert found is not None
        assert found.path == path
        assert difference(holder, holder, "$") == found
