"""Versioned models: what is stored says its version, and is read by that and by no guess."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import pytest
from pydantic import BaseModel, ConfigDict, Field

from recovery import codec, errors, upcaster, versioned
from recovery.codec import Codec
from recovery.redaction import Secret
from recovery.upcasting import versions_in


class Line1(BaseModel):
    sku: str
    qty: int


@versioned(1, name="line")
class Dated1(BaseModel):
    sku: str
    qty: int


@versioned(3, name="line")
class Line(BaseModel):
    sku: str
    units: int
    note: str


@upcaster(Line, from_version=0)
def line_0(old: dict[str, Any]) -> dict[str, Any]:
    return old


@upcaster(Line, from_version=1)
def line_1(old: dict[str, Any]) -> dict[str, Any]:
    return {"sku": old["sku"], "units": old.pop("qty")}


@upcaster(Line, from_version=2)
def line_2(old: dict[str, Any]) -> dict[str, Any]:
    return old | {"note": "added"}


@versioned(2)
@dataclass
class Order:
    lines: list[Line]
    at: datetime | None = None
    child: Order | None = None


class Outer(BaseModel):
    model_config = ConfigDict(populate_by_name=True)
    order: Order = Field(alias="theOrder")
    by_name: dict[str, Line]
    pair: tuple[Line, int]


NEW = Line(sku="a", units=2, note="added")


def old(version: int, **value: Any) -> Any:
    return {"$model": {"name": "line", "version": version, "value": value}}


def test_a_value_is_stored_with_the_version_of_its_model_wherever_it_is() -> None:
    line = Line(sku="a", units=2, note="n")
    outer = Outer(theOrder=Order([line], child=Order([])), by_name={"x": line}, pair=(line, 1))
    stored = Codec(Outer).encode(outer)
    tag = {"$model": {"name": "line", "version": 3, "value": {"sku": "a", "units": 2, "note": "n"}}}
    assert stored == {
        "theOrder": {
            "$model": {
                "name": "Order",
                "version": 2,
                "value": {
                    "lines": [tag],
                    "at": None,
                    "child": {"$model": {"name": "Order", "version": 2, "value": {"lines": [], "at": None, "child": None}}},
                },
            }
        },
        "by_name": {"x": tag},
        "pair": [tag, 1],
    }
    assert Codec(Outer).decode(stored) == outer
    assert codec.fingerprint(stored) == codec.fingerprint(outer.model_dump(mode="json", by_alias=True))
    assert json.loads(line.model_dump_json()) == {"sku": "a", "units": 2, "note": "n"}


def test_a_model_that_says_no_version_is_stored_as_before() -> None:
    assert Codec(Line1).encode(Line1(sku="a", qty=1)) == {"sku": "a", "qty": 1}


@pytest.mark.parametrize(
    ("type_", "stored", "value"),
    [
        (Line, old(1, sku="a", qty=2), NEW),
        (Line, old(2, sku="a", units=2), NEW),
        (Line, old(3, sku="a", units=2, note="added"), NEW),
        (list[Line], [old(1, sku="a", qty=2), old(2, sku="a", units=2)], [NEW, NEW]),
        (dict[str, Line | int], {"x": old(1, sku="a", qty=2), "y": 1}, {"x": NEW, "y": 1}),
        (Line1 | Line, old(1, sku="a", qty=2), NEW),
        (Order, {"lines": [old(1, sku="a", qty=2)]}, Order([NEW])),
        # without a version: as it stands where that fits, else from the time before versions
        (Line, {"sku": "a", "units": 2, "note": "added"}, NEW),
        (Line, {"sku": "a", "qty": 2}, NEW),
        (list[Line], [{"sku": "a", "qty": 2}], [NEW]),
        (Line | None, {"sku": "a", "qty": 2}, NEW),
        (dict[str, Line | int], {"x": {"sku": "a", "qty": 2}, "y": 1}, {"x": NEW, "y": 1}),
        (tuple[Line, ...], [{"sku": "a", "qty": 2}], (NEW,)),
        (tuple[int, Line], [1, {"sku": "a", "qty": 2}], (1, NEW)),
        (Order, {"lines": [], "child": {"lines": [{"sku": "a", "qty": 2}]}}, Order([], child=Order([NEW]))),
    ],
)
def test_older_values_are_brought_up_to_date_step_by_step(type_: Any, stored: Any, value: Any) -> None:
    before = json.dumps(stored)
    assert Codec(type_).decode(stored) == value
    assert json.dumps(stored) == before


@pytest.mark.parametrize(
    ("type_", "stored", "says"),
    [
        (Line, old(4, sku="a"), "it is version 4 of model 'line', and this code has version 3"),
        (Order, {"$model": {"name": "Order", "version": 1, "value": {}}}, "nothing brings version 1 up to 2"),
        (
            Line,
            {"$model": {"name": "other", "version": 1, "value": {}}},
            r"which is not in the type \(versioned models there: line\)",
        ),
        (int, old(1, sku="a", qty=2), r"which is not in the type \(versioned models there: none\)"),
        (Line, {"$model": 3}, "what says its version there is no versioned value"),
        (Line, old(1, sku="secret-sku"), "the upcaster of model 'line' from version 1 raises KeyError"),
        (Line, old(3, sku="a"), "Field required"),
        (Line, {"sku": "a"}, "the upcaster of model 'line' from version 1 raises KeyError"),
    ],
)
def test_what_cannot_be_brought_up_to_date_says_why_and_quotes_nothing(type_: Any, stored: Any, says: str) -> None:
    with pytest.raises(errors.ValueUnreadable, match=says) as refused:
        Codec(type_).decode(stored)
    assert "secret-sku" not in str(refused.value)


def test_an_upcaster_gives_an_object() -> None:
    @versioned(2, name="odd")
    class Odd(BaseModel):
        x: int

    upcaster(Odd, from_version=1)(lambda _old: [1])
    with pytest.raises(errors.ValueUnreadable, match="gives a list, not an object"):
        Codec(Odd).decode({"$model": {"name": "odd", "version": 1, "value": {"x": 1}}})


def test_where_a_value_could_be_one_of_two_objects_nothing_is_guessed() -> None:
    class Other(BaseModel):
        other: int

    with pytest.raises(errors.ValueUnreadable):
        Codec(Line | Other).decode({"sku": "a", "qty": 2})
    assert Codec(Line | Other).decode(old(1, sku="a", qty=2)) == NEW


def test_a_secret_in_a_versioned_model_stays_one() -> None:
    @versioned(2, name="card")
    class Card(BaseModel):
        number: Secret[str]

    @upcaster(Card, from_version=1)
    def card(old: dict[str, Any]) -> dict[str, Any]:
        return {"number": old["no"]}

    stored = Codec(Card).encode(Card(number="4711-0815"))
    assert stored["$model"]["value"] == {"number": {"$secret": "4711-0815"}}
    assert "4711-0815" not in repr(stored)
    earlier = {"$model": {"name": "card", "version": 1, "value": {"no": {"$secret": "4711"}}}}
    assert Codec(Card).decode(earlier).number == "4711"
    secret = Codec(Secret[Card])
    assert secret.decode(secret.encode(Card(number="1"))) == Card(number="1")


def test_what_only_looks_like_a_version_is_a_users_own() -> None:
    mine = {"$model": {"name": "line", "version": 1, "value": {}}}
    assert Codec(dict[str, Any]).decode(Codec(dict[str, Any]).encode(mine)) == mine


def test_a_subclass_is_a_model_of_its_own() -> None:
    class More(Line):
        more: int = 1

    assert Codec(More).encode(More(sku="a", units=1, note="")) == {"sku": "a", "units": 1, "note": "", "more": 1}


def test_versions_are_found_among_arguments() -> None:
    assert versions_in([{"a": (Order([NEW]), 1)}, object()]) == {"Order": 2, "line": 3}
    assert versions_in([1, "a", None]) == {}


WRONG: dict[str, Callable[[], Any]] = {
    "no class that can have one": lambda: versioned(1)(int),
    "no version": lambda: versioned(0)(Line1),
    "a truth": lambda: versioned(True)(Line1),
    "of no declared class": lambda: upcaster(Line1, from_version=1)(line_0),
    "from its own version": lambda: upcaster(Line, from_version=3)(line_0),
    "twice": lambda: upcaster(Line, from_version=1)(line_0),
    "two of one name": lambda: Codec(tuple[Line, Dated1]),
}


@pytest.mark.parametrize("name", WRONG)
def test_declarations_that_cannot_be_true_are_refused(name: str) -> None:
    with pytest.raises(errors.DefinitionError):
        WRONG[name]()
