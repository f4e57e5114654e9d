"""Rejections: typed fields, a stable name, equal to their decoded copy."""

from __future__ import annotations

import copy
import json
import pickle
import traceback
from dataclasses import field
from decimal import Decimal
from typing import Any, ClassVar

import pytest

from recovery import Rejection
from recovery.definitions.rejection import decode_rejection, encode_rejection
from recovery.errors import DefinitionError, ValueNotStorable, ValueUnreadable


class OutOfStock(Rejection):
    sku: str
    available: int = 0


class Declined(Rejection):
    name = "card-declined"
    LIMIT: ClassVar[int] = 5
    amount: Decimal
    reasons: list[str] = field(default_factory=list)


class Worse(OutOfStock):
    why: str = "?"


class Plain(Rejection):
    pass


ALL: list[Rejection] = [
    OutOfStock(sku="a"),
    OutOfStock(sku="a", available=2**60),
    Declined(amount=Decimal("1.00"), reasons=["x"]),
    Worse(sku="a", why="b"),
    Plain(),
]


@pytest.mark.parametrize("error", ALL, ids=repr)
def test_a_rejection_survives_storing_pickling_and_copying(error: Rejection) -> None:
    stored = json.loads(json.dumps(encode_rejection(error)))
    copies = [decode_rejection(type(error), stored), pickle.loads(pickle.dumps(error)), copy.copy(error), copy.deepcopy(error)]
    for other in copies:
        assert other == error
        assert repr(other) == repr(error)
        assert hash(other) == hash(error)
        assert other is not error


def test_names_are_stable_and_default_to_the_class() -> None:
    assert [type(error).name for error in ALL] == ["OutOfStock", "OutOfStock", "card-declined", "Worse", "Plain"]


def test_the_constructor_takes_fields_by_keyword_only() -> None:
    build: Any = OutOfStock
    for wrong in (lambda: build("a"), lambda: build(), lambda: build(sku="a", other=1)):
        with pytest.raises(TypeError):
            wrong()
    assert Declined(amount=Decimal(1)).reasons == []
    assert Declined(amount=Decimal(1)).reasons is not Declined(amount=Decimal(1)).reasons


def test_equality_is_by_type_and_fields() -> None:
    assert OutOfStock(sku="a") == OutOfStock(sku="a", available=0)
    assert OutOfStock(sku="a") != OutOfStock(sku="b")
    assert OutOfStock(sku="a") != Worse(sku="a")
    assert OutOfStock(sku="a") != "a"
    assert len({OutOfStock(sku="a"), OutOfStock(sku="a"), Declined(amount=Decimal(1))}) == 2


def test_it_reads_well_and_can_be_raised() -> None:
    error = OutOfStock(sku="a", available=1)
    assert repr(error) == "OutOfStock(sku='a', available=1)"
    assert str(error) == "OutOfStock: sku='a', available=1"
    assert str(Plain()) == "Plain"
    with pytest.raises(OutOfStock) as caught:
        raise error
    caught.value.add_note("seen")
    assert "OutOfStock: sku='a', available=1\nseen" in "".join(traceback.format_exception(caught.value))


def test_fields_that_cannot_be_stored_are_refused_with_their_path() -> None:
    wrong: Any = ["x", 1]
    with pytest.raises(ValueNotStorable, match=r"rejection Declined: the value at reasons\[1\]"):
        encode_rejection(Declined(amount=Decimal(1), reasons=wrong))


@pytest.mark.parametrize("stored", [None, [], {"sku": "a", "old": 1}, {}, {"sku": 5}])
def test_stored_fields_that_no_longer_fit_are_unreadable(stored: Any) -> None:
    with pytest.raises(ValueUnreadable, match="rejection OutOfStock"):
        decode_rejection(OutOfStock, stored)


def test_a_new_field_with_a_default_reads_old_journals() -> None:
    assert decode_rejection(OutOfStock, {"sku": "a"}) == OutOfStock(sku="a")


def test_definitions_that_could_not_be_read_back_are_refused() -> None:
    with pytest.raises(DefinitionError, match="defines __init__"):

        class Own(Rejection):
            def __init__(self) -> None: ...

    for taken in ("args", "name", "codecs", "add_note"):
        with pytest.raises(DefinitionError, match=f"field '{taken}' has a name that rejections use"):
            type("Taken", (Rejection,), {"__annotations__": {taken: str}})
    with pytest.raises(DefinitionError, match="its name cannot name a step"):
        type("Spaced", (Rejection,), {"name": "two words"})
    with pytest.raises(DefinitionError, match="is not a string"):
        type("Number", (Rejection,), {"name": 5})
    with pytest.raises(DefinitionError, match="has no JSON form"):
        type("Opaque", (Rejection,), {"__annotations__": {"it": object().__class__.__subclasses__}})
    with pytest.raises(DefinitionError, match="cannot be resolved"):
        type("Unknown", (Rejection,), {"__annotations__": {"it": "NoSuchType"}})
