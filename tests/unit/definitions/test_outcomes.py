"""What a contract promises about outcomes must fit the type that the effect returns."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

import pytest
from typing_extensions import TypedDict

from recovery import Answer, Batched, Call, Found, InFlight, Refused, Rejection, Unreachable, contracts, effect
from recovery.contracts import Batch, Lookup, Replay
from recovery.core.entries import Answered, AnswerKind
from recovery.errors import DefinitionError, ValueNotStorable, ValueUnreadable

DAY = timedelta(days=1)


@dataclass(frozen=True)
class Payment:
    id: str
    amount: int
    state: str = "new"


class Row(TypedDict):
    id: str


class OutOfStock(Rejection):
    sku: str


class Undeclared(Rejection):
    pass


def returning(returns: Any, contract: contracts.Contract) -> Any:
    def body(call: Call) -> Any: ...

    body.__annotations__["return"] = returns
    return effect(contract, rejects=(OutOfStock,), name="pay")(body)


def current(**given: Any) -> contracts.Contract:
    return contracts.Keyed(window=DAY, replay=Replay.CURRENT, **given)


def shown(**given: Any) -> contracts.Contract:
    return contracts.Probeable(lookup=Lookup(original=False), **given)


@pytest.mark.parametrize("contract", [current, shown])
@pytest.mark.parametrize(
    ("returns", "stable", "reason"),
    [
        (Payment, (), "no field of Payment is said never to change"),
        (Payment, ("id",), "without 'amount' no Payment can be read back"),
        (Payment, ("id", "amount", "name"), "has no field 'name'"),
        (Row, (), "no field of Row"),
    ],
)
def test_a_present_state_must_give_a_whole_outcome_back(contract: Any, returns: Any, stable: tuple[str, ...], reason: str) -> None:
    with pytest.raises(DefinitionError, match=f"stable_fields: .*{reason}"):
        returning(returns, contract(stable_fields=stable))


@pytest.mark.parametrize("contract", [current, shown])
@pytest.mark.parametrize(
    ("returns", "stable"), [(Payment, ("id", "amount")), (Row, ("id",)), (None, ()), (str, ()), (dict[str, Any], ()), (dict[str, Any], ("id",))]
)  # fmt: skip
def test_what_can_be_read_back_is_accepted(contract: Any, returns: Any, stable: tuple[str, ...]) -> None:
    made = returning(returns, contract(stable_fields=stable))
    if returns is Payment:
        assert made.decode_value({"id": "1", "amount": 2}) == Payment("1", 2)


def test_a_field_that_no_outcome_has_is_refused_even_where_replays_are_original() -> None:
    with pytest.raises(DefinitionError, match="has no field 'units'"):
        returning(Payment, contracts.Keyed(window=DAY, stable_fields=("units",)))


def test_what_is_shown_once_needs_no_stable_fields() -> None:
    assert returning(Payment, current(shown_once=True))


# -- swallow ---------------------------------------------------------------------------------------------------------------

QUEUE = contracts.Swallow(window=timedelta(minutes=5))


@pytest.mark.parametrize("returns", [str, Payment, int])
def test_a_queue_that_tells_nothing_returns_nothing(returns: Any) -> None:
    with pytest.raises(DefinitionError, match="tells nothing about what it accepted"):
        returning(returns, QUEUE)


@pytest.mark.parametrize("returns", [None, str | None])
def test_a_return_from_a_queue_is_an_acceptance(returns: Any) -> None:
    assert returning(returns, QUEUE).returned(None) == Answered(kind=AnswerKind.ACCEPTED)
    assert returning(returns, QUEUE).returned("message-1") == Answered(kind=AnswerKind.ACCEPTED)


# -- read ------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("role", ["probe", "close", "compensation"])
def test_a_read_has_no_companions(role: str) -> None:
    @effect(contracts.Read())
    def stock(call: Call, *, sku: str) -> int:
        return 1

    def companion(call: Call, *, sku: str) -> Answer[int]:
        return Found(1)

    with pytest.raises(DefinitionError, match=f"a read has no {role}|does not promise an atomic close"):
        stock.compensation(contracts.Opaque()) if role == "compensation" else getattr(stock, role)(companion)


# -- contracts that were built by hand -------------------------------------------------------------------------------------


def test_a_contract_that_cannot_be_true_is_refused_where_an_effect_is_defined() -> None:
    false = contracts.Contract(kind=contracts.Kind.KEYED, window_us=10**12, close=True, fail_open=True)
    with pytest.raises(DefinitionError, match="close: a refusal in a store that fails open"):
        returning(int, false)
    paid = returning(int, contracts.Keyed(window=DAY))
    with pytest.raises(DefinitionError, match="close: a refusal in a store that fails open"):
        paid.compensation(false)


# -- batches ---------------------------------------------------------------------------------------------------------------

PER_ITEM = contracts.Probeable(batch=Batch.PER_ITEM_RESULT)


@pytest.fixture(name="ship")
def _ship() -> Any:
    return returning(Batched[Payment], PER_ITEM)


def test_results_per_item_and_a_type_for_them_go_together() -> None:
    with pytest.raises(DefinitionError, match="batch: its contract has a result per item"):
        returning(Payment, PER_ITEM)
    with pytest.raises(DefinitionError, match="batch: its contract has no results per item"):
        returning(Batched[Payment], contracts.Probeable())
    assert returning(Payment, contracts.Keyed(window=DAY, batch=Batch.ATOMIC))
    assert returning(Payment, contracts.Keyed(window=DAY, batch=Batch.PER_ITEM_KEY))


def test_a_batch_is_stored_item_by_item(ship: Any) -> None:
    outcome = Batched([Found(Payment("1", 2)), Refused(OutOfStock(sku="A")), InFlight(), Unreachable()])
    answered = ship.returned(outcome)
    assert answered.kind is AnswerKind.ITEMS
    assert [item["kind"] for item in answered.value] == ["found", "refused", "in_flight", "unreachable"]
    again = ship.decode_value(answered.value)
    assert again == outcome
    assert again.applied == {0: Payment("1", 2)}
    assert again.rejected == {1: OutOfStock(sku="A")}


def test_a_probe_tells_items_too(ship: Any) -> None:
    answered = ship.probed(Found(Batched([Found(Payment("1", 2))]), fingerprint="f", receipt="r"))
    assert (answered.kind, answered.fingerprint, answered.receipt) == (AnswerKind.ITEMS, "f", "r")


def test_a_batch_of_nothing_happened_as_a_whole(ship: Any) -> None:
    assert ship.returned(Batched([])) == Answered(kind=AnswerKind.FOUND, value=[])
    assert ship.decode_value([]) == Batched([])


@pytest.mark.parametrize(
    ("value", "path"),
    [
        (Batched([Found(Payment("1", 2)), Found("text")]), "result[1]"),
        (Batched([Refused(Undeclared())]), "result[0]"),
        (Batched(["text"]), "result[0]"),  # type: ignore[list-item]
        ([Found(Payment("1", 2))], "result"),
    ],
)
def test_an_item_that_cannot_be_stored_happened_all_the_same(ship: Any, value: Any, path: str) -> None:
    answered = ship.returned(value)
    assert answered.kind is AnswerKind.UNSTORABLE
    assert answered.detail.endswith(f"at {path}")
    with pytest.raises(ValueNotStorable):
        ship.outcome.encode(value)


@pytest.mark.parametrize("stored", [{}, ["text"], [{"kind": "found", "value": 1}], [{"kind": "refused", "error": "Undeclared"}]])
def test_items_that_no_longer_fit_are_unreadable(ship: Any, stored: Any) -> None:
    with pytest.raises(ValueUnreadable):
        ship.decode_value(stored)


@dataclass(frozen=True)
class Aliased:
    """A type with a field that has a default factory."""

    id: str
    tags: list[str] = field(default_factory=list)


def test_a_field_with_a_default_may_be_unstable() -> None:
    assert returning(Aliased, current(stable_fields=("id",))).decode_value({"id": "1"}) == Aliased("1", [])


# -- undoing a batch -----------------------------------------------------------------------------------------------------------


@pytest.fixture(name="recall")
def _recall(ship: Any) -> Any:
    @ship.compensation(contracts.Keyed(window=DAY))
    def recall(call: Call, outcome: Batched[Payment]) -> None: ...

    return recall


MIXED = Batched([Refused(OutOfStock(sku="A")), Found(Payment("1", 2))])


def test_a_compensation_gets_the_whole_batch_with_its_positions(ship: Any, recall: Any) -> None:
    """What was refused stays in it, or nobody could tell which item of the request an applied one was."""
    bound = ship.compensate(ship(), MIXED)
    assert bound.effect is recall
    assert bound.arguments == {"outcome": MIXED}
    assert bound.arguments["outcome"].applied == {1: Payment("1", 2)}
    assert recall(outcome=MIXED).fingerprint == recall(MIXED).fingerprint == bound.fingerprint


def test_a_batch_as_an_argument_is_stored_as_the_outcome_is(ship: Any, recall: Any) -> None:
    stored = recall(MIXED).stored["outcome"]
    assert stored == ship.returned(MIXED).value
    assert recall.parse({"outcome": stored}).arguments == {"outcome": MIXED}
    assert recall.json_schema()["properties"]["outcome"]["type"] == "array"
    assert not recall.signature.parameters[
        "outcome"
    ].models.any  # asked where a call differs from its record, which may be of an older model


@pytest.mark.parametrize("given", ["text", [{"kind": "refused", "error": "Undeclared", "value": {}}], [{"kind": "absent"}]])
def test_what_is_no_batch_is_no_argument(recall: Any, given: Any) -> None:
    with pytest.raises(ValueNotStorable, match="Give Batched"):
        recall.parse({"outcome": given})
    with pytest.raises(ValueNotStorable):
        recall(Batched([Refused(Undeclared())]))
