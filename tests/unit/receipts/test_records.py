"""What can be kept in a receipt, and how requests are told apart."""

from __future__ import annotations

import pickle
from datetime import timedelta
from typing import Any

import pytest
import sqlalchemy as sa
from hypothesis import given
from hypothesis import strategies as st

from recovery import receipts
from recovery.core.errors import RecoveryError, ValueNotStorable
from recovery.core.ids import Epoch
from recovery.receipts.records import VALUE_BYTES_MAX, decode, encode, parse_epoch, rejection_fields, rejection_name

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=20,
)


@given(JSON)
def test_what_encode_accepts_comes_back_equal_in_type_and_value(value: object) -> None:
    assert repr(decode(encode(value, where="test"))) == repr(value)


@pytest.mark.parametrize("value", [float("inf"), (1,), {1: 2}, {"a": {None: 1}}, [(1,)], {1, 2}, b"bytes", object], ids=repr)
def test_what_would_come_back_as_something_else_is_refused(value: object) -> None:
    with pytest.raises(ValueNotStorable):
        encode(value, where="test")


def test_a_value_that_contains_itself_is_refused() -> None:
    loop: list[object] = []
    loop.append(loop)
    with pytest.raises(ValueNotStorable):
        encode(loop, where="test")


def test_the_bound_is_exact() -> None:
    assert len(encode("x" * (VALUE_BYTES_MAX - 2), where="test")) == VALUE_BYTES_MAX
    with pytest.raises(ValueNotStorable, match="65537 bytes"):
        encode("x" * (VALUE_BYTES_MAX - 1), where="test")


def test_a_fingerprint_ignores_the_order_of_fields_and_nothing_else() -> None:
    base = receipts.fingerprint({"sku": "FILTER-A", "units": 2})
    assert receipts.fingerprint({"units": 2, "sku": "FILTER-A"}) == base
    others = [{"sku": "FILTER-A", "units": 3}, {"sku": "FILTER-A", "units": "2"}, {"sku": "FILTER-A"}, [], None]
    assert base not in {receipts.fingerprint(other) for other in others}
    with pytest.raises(ValueNotStorable):
        receipts.fingerprint({"units": float("nan")})
    with pytest.raises(ValueNotStorable):
        receipts.fingerprint(2**53 + 1)


def test_the_fields_of_a_rejection_are_its_public_attributes() -> None:
    class OutOfStock(Exception):
        def __init__(self) -> None:
            self.sku, self.left, self._cursor = "FILTER-A", 1, object()

    class Structured(RecoveryError):
        template = "{sku} is out of stock."

    assert rejection_fields(OutOfStock()) == {"sku": "FILTER-A", "left": 1}
    assert rejection_fields(Structured(sku="FILTER-A")) == {"sku": "FILTER-A"}


def test_a_rejection_is_named_by_its_class_or_by_the_name_that_outlives_it() -> None:
    class Renamed(Exception):
        name = "out-of-stock"

    assert [rejection_name(declared) for declared in (Renamed, ValueError, NameError)] == [
        "out-of-stock",
        "ValueError",
        "NameError",
    ]


@given(st.integers(0, 10**9), st.integers(0, 10**9))
def test_an_epoch_is_read_back_as_it_was_written(incarnation: int, n: int) -> None:
    assert parse_epoch(str(Epoch(incarnation, n))) == Epoch(incarnation, n)
    assert parse_epoch("") is None


REFUSALS = [
    receipts.KeyUnfit(key=None, problem="the request has no key"),
    receipts.KeyMismatch(scope="", key="k", recorded="a" * 64, given="b" * 64),
    receipts.InFlight(scope="", key="k", problem="another transaction holds it", retry_after=timedelta(seconds=1)),
    receipts.Closed(scope="", key="k", at_us=1, who="operator"),
    receipts.Expired(scope="", key="k", kind="applied", at_us=1),
    receipts.TooLate(scope="", key="k", not_after_us=1, as_of_us=2),
    receipts.Superseded(scope="", key="k", seen="0.2", given="0.1"),
    receipts.Unfinished(scope="", key="k"),
    receipts.TransactionUnfit(key="k", problem="the connection commits every statement", advice="Use a transaction of yours."),
    receipts.RetentionTooShort(window=timedelta(days=1), older_than=timedelta(0)),
]


@pytest.mark.parametrize("refusal", REFUSALS, ids=lambda refusal: type(refusal).__name__)
def test_a_refusal_says_what_happened_and_survives_a_process_boundary(refusal: RecoveryError) -> None:
    copy = pickle.loads(pickle.dumps(refusal))
    assert (type(copy), copy.fields, str(copy)) == (type(refusal), refusal.fields, str(refusal))
    assert any(
        phrase in str(refusal) for phrase in ("othing happened", "did nothing", "othing was", "is unknown", "before anything")
    )


def test_every_refusal_has_its_own_example_here() -> None:
    exported = {
        name for name in receipts.__all__ if isinstance(kind := getattr(receipts, name), type) and issubclass(kind, RecoveryError)
    }
    assert exported - {"ReceiptRefusal"} == {type(refusal).__name__ for refusal in REFUSALS}


@pytest.mark.parametrize("key", [None, 17, "", "x" * 256, "käse", "line\nbreak", "nul\0"])
def test_a_key_that_is_none_is_refused_with_400(key: Any) -> None:
    """A header that is missing comes as None. It is the caller's mistake, and no bug of the service."""
    register, ran = receipts.Receipts(receipts.table(sa.MetaData())), []
    with sa.create_engine("sqlite://").begin() as connection:
        for call in (
            lambda: register.once(connection, key=key, fingerprint="f", work=lambda: ran.append(1)),
            lambda: register.look_up(connection, key=key),
            lambda: register.close(connection, key=key),
        ):
            with pytest.raises(receipts.KeyUnfit, match="Nothing happened") as refused:
                call()
            assert refused.value.http_status == 400
            assert refused.value.key == key
    assert ran == []
