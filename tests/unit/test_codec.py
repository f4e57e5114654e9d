"""The codec's promise: a value is stored if and only if its decoded copy is identical; everything else is refused with its path."""

from __future__ import annotations

import datetime as dt
import enum
import json
import math
import re
import uuid
from collections import OrderedDict, defaultdict, deque
from dataclasses import dataclass
from decimal import Decimal
from pathlib import PurePosixPath
from typing import Annotated, Any, Literal, NamedTuple, NotRequired, Optional, Union
from zoneinfo import ZoneInfo

import pydantic
import pytest
import rfc8785
from annotated_types import Gt
from freezegun import freeze_time
from hypothesis import example, given, settings
from hypothesis import strategies as st
from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    SecretBytes,
    SecretStr,
    StringConstraints,
    TypeAdapter,
    computed_field,
    model_validator,
)
from typing_extensions import TypedDict

from recovery import Redacted, Secret
from recovery.codec import INTEGER_MAX, SIZE_MAX, Codec, canonical, dumps, fingerprint, loads
from recovery.core.errors import DefinitionError, ValueNotStorable, ValueUnreadable
from recovery.core.ids import digest_bytes
from recovery.core.showing import revealed, shown
from recovery.identical import DEPTH_MAX, difference
from recovery.texts import loads_own


class Colour(enum.Enum):
    RED = "red"
    BLUE = "blue"


class Level(enum.IntEnum):
    LOW = 1


class Access(enum.Flag):
    READ = 1
    WRITE = 2


class Point(NamedTuple):
    x: int
    y: float


class Options(TypedDict):
    name: str
    size: NotRequired[int]


@dataclass(frozen=True)
class Item:
    sku: str
    units: int
    raw: bytes = b""
    tags: tuple[str, ...] = ()


@dataclass(frozen=True)
class Card:
    number: Secret[str]
    pin: Annotated[int, Redacted]
    holder: str


class Vault(BaseModel):
    model_config = ConfigDict(val_json_bytes="base64")
    token: SecretStr
    raw: SecretBytes
    born: pydantic.Secret[dt.date]
    many: list[SecretStr]
    by: dict[int, SecretStr]
    pair: tuple[SecretStr, int]
    card: Card
    deep: Secret[dict[str, list[int]]]
    none: SecretStr | None = None


class Order(BaseModel):
    id: uuid.UUID
    items: list[Item]
    total: Decimal
    placed: dt.datetime
    note: str | None = None


class Aliased(BaseModel):
    model_config = ConfigDict(extra="allow")
    id: int = Field(alias="ID")


class Base(BaseModel):
    a: int


class Derived(Base):
    b: int


class Text(str):
    pass


class Positive(BaseModel):
    n: int

    @model_validator(mode="after")
    def positive(self) -> Positive:
        if self.n < 0:
            raise ValueError(f"secret {self.n}")
        return self


class Doubled(BaseModel):
    model_config = ConfigDict(extra="forbid")
    n: int

    @computed_field  # type: ignore[prop-decorator]
    @property
    def twice(self) -> int:
        return 2 * self.n


UTC = dt.UTC
CET = dt.timezone(dt.timedelta(hours=1))
NOON = dt.datetime(2026, 3, 1, 12, 0, 0, 7, tzinfo=UTC)

STORED: list[tuple[Any, Any]] = [
    (None, None),
    (bool, True),
    (int, -1),
    (int, INTEGER_MAX),
    (int, INTEGER_MAX + 1),
    (int, -INTEGER_MAX - 1),
    (int, 10**100),
    (float, 0.1),
    (float, 1.0),
    (float, -0.0),
    (float, 5e-324),
    (float, 1e300),
    (str, "ä \U0001f600 \u2028 \x00"),
    (bytes, b"\xff\x00"),
    (Decimal, Decimal("1.00")),
    (Decimal, Decimal("-0")),
    (uuid.UUID, uuid.UUID(int=5)),
    (dt.datetime, NOON),
    (dt.datetime, NOON.astimezone(CET)),
    (dt.datetime, dt.datetime(2026, 1, 1)),  # noqa: DTZ001
    (dt.date, dt.date(2026, 1, 1)),
    (dt.time, dt.time(1, 2, 3, 4)),
    (dt.timedelta, dt.timedelta(days=-1, microseconds=3)),
    (PurePosixPath, PurePosixPath("a/b")),
    (Colour, Colour.BLUE),
    (Level, Level.LOW),
    (Access, Access.READ | Access.WRITE),
    (Literal["a", 1], 1),
    (list[int], [1, 2**60]),
    (tuple[int, ...], (1, 2)),
    (tuple[int, str], (1, "a")),
    (Point, Point(1, 2.0)),
    (deque[int], deque([1, 2])),
    (dict[str, int], {"b": 1, "a": 2}),
    (dict[int, str], {1: "a", -2: "b"}),
    (dict[Colour, int], {Colour.RED: 1}),
    (dict[str, Any], {"$int": "5"}),
    (dict[str, Any], {"$dict": {"$int": 2**60}}),
    (dict[str, Any], {"$": None}),
    (dict[str, Any], {"$int": 1, "b": 2}),
    (dict[str, int], {"$int": 2**60}),
    (dict[str, Any], {}),
    (Options, {"name": "a"}),
    (Options, {"name": "a", "size": 2**60}),
    (Item, Item("a", 1, b"\xff", ("x",))),
    (Order, Order(id=uuid.UUID(int=1), items=[Item("a", 1)], total=Decimal("9.90"), placed=NOON)),
    (Aliased, Aliased(ID=1, more="x")),  # type: ignore[call-arg]
    (int | str, "1"),
    (int | str, 1),
    (int | float, 1),
    (int | float, 1.0),
    (Union[Derived, Base], Base(a=1)),  # noqa: UP007
    (Optional[Item], None),  # noqa: UP045
    (Any, {"a": [1, 1.5, None, True, "x"]}),
    (Annotated[int, Gt(0)], 1),
]

REFUSED: list[tuple[Any, Any, str]] = [
    (int, True, "$"),
    (bool, 1, "$"),
    (float, 1, "$"),
    (int, 1.0, "$"),
    (str, Text("a"), "$"),
    (str, 1, "$"),
    (str, "\ud800", "$"),
    (Any, "\ud800", "$"),
    (float, math.nan, "$"),
    (float, math.inf, "$"),
    (float | None, math.nan, "$"),
    (Any, [1, {"a": -math.inf}], "$[1].a"),
    (Decimal, Decimal("NaN"), "$"),
    (Decimal, Decimal("Infinity"), "$"),
    (Decimal | None, Decimal("sNaN"), "$"),
    (Any, (1, 2), "$"),
    (Any, [1, (2,)], "$[1]"),
    (list[int], (1, 2), "$"),
    (tuple[int, ...], [1, 2], "$"),
    (list[int], [1, True], "$[1]"),
    (set[int], {1}, "$"),
    (frozenset[int], frozenset(), "$"),
    (list[set[int]], [{1}], "$[0]"),
    (Any, NOON, "$"),
    (Any, {1: "a"}, "$"),
    (dict[Any, Any], {True: 1}, "$"),
    (dict[int | str, int], {1: 1, "1": 2}, "$"),
    (dict[str, Any], {"a": {"b": b"x"}}, "$.a.b"),
    (dict[str, int], OrderedDict(a=1), "$"),
    (dict[str, int], defaultdict(int, a=1), "$"),
    (Any, Colour.RED, "$"),
    (int, Level.LOW, "$"),
    (dt.datetime, NOON.astimezone(ZoneInfo("Europe/Berlin")), "$"),
    (dt.datetime | str, "2026-01-01T00:00:00Z", None),
    (Order, Order(id=uuid.UUID(int=1), items=[Item("a", True)], total=Decimal(1), placed=NOON), "$.items[0].units"),
    (Base, Derived(a=1, b=2), "$"),
    (list[Base], [Derived(a=1, b=2)], "$[0]"),
    (Item, Item("a", 1, tags=["x"]), "$.tags"),  # type: ignore[arg-type]
    (Options, {"name": "a", "other": 1}, "$"),
    (Annotated[int, Gt(0)], 0, "$"),
    (Positive, Positive.model_construct(n=-7), "$"),
    (complex, complex(math.nan, 0), None),
    (Point, (1, 2.0), "$"),
    (type(None), 0, "$"),
]
REFUSED = [case for case in REFUSED if case[2] is not None]


def identical(value: Any, copy: Any) -> bool:
    """An oracle that shares no code with the codec: repr, and the types along it."""
    return type(value) is type(copy) and repr(value).replace("datetime.timezone.utc", "TzInfo(0)") == repr(copy).replace(
        "datetime.timezone.utc", "TzInfo(0)"
    ).replace("TzInfo(3600)", "datetime.timezone(datetime.timedelta(seconds=3600))")


@pytest.mark.parametrize(("type_", "value"), STORED, ids=repr)
def test_a_stored_value_comes_back_identical(type_: Any, value: Any) -> None:
    codec: Codec[Any] = Codec(type_)
    stored = codec.encode(value)
    assert loads(dumps(stored)) == stored
    copy = codec.decode(loads(dumps(stored)))
    assert identical(value, copy)
    assert codec.encode(copy) == stored
    canonical(stored)


@pytest.mark.parametrize(("type_", "value", "path"), REFUSED, ids=repr)
def test_a_value_that_would_change_is_refused_with_its_path(type_: Any, value: Any, path: str) -> None:
    with pytest.raises(ValueNotStorable) as caught:
        Codec[Any](type_).encode(value, where="here")
    assert caught.value.path == path
    assert str(caught.value).startswith(f"here: the value at {path} cannot be stored (")
    assert caught.value.advice.endswith(".")


def test_keys_are_compared_in_full_and_shown_in_part() -> None:
    codec: Codec[Any] = Codec(dict[Annotated[str, StringConstraints(strip_whitespace=True)], int])
    assert codec.encode({"k" * 200: 1}) == {"k" * 200: 1}
    with pytest.raises(ValueNotStorable, match=r"\$ cannot be stored"):
        codec.encode({"k" * 200 + " ": 1})
    with pytest.raises(ValueNotStorable) as caught:
        Codec(dict[str, int]).encode({"k" * 200: True})
    assert caught.value.path == "$." + "k" * 99


def test_what_no_type_could_store_is_named_before_what_pydantic_made_of_it() -> None:
    for type_, value, word in (
        (float | None, math.nan, "nan is not a finite number"),
        (Decimal | None, Decimal("NaN"), "finite"),
        (Any, {1}, "order"),
    ):
        with pytest.raises(ValueNotStorable, match=word):
            Codec[Any](type_).encode(value)


def test_models_are_stored_by_alias_and_without_what_is_computed() -> None:
    assert Codec(Aliased).encode(Aliased(ID=1, more="x")) == {"ID": 1, "more": "x"}  # type: ignore[call-arg]
    stored = Codec(Doubled).encode(Doubled(n=2))
    assert stored == {"n": 2}
    assert Codec(Doubled).decode(stored).twice == 4


def test_a_validators_words_are_not_repeated() -> None:
    with pytest.raises(ValueNotStorable) as caught:
        Codec(Positive).encode(Positive.model_construct(n=-7))
    assert "secret" not in str(caught.value)
    assert "-7" not in str(caught.value)


def test_a_value_that_contains_itself_is_refused() -> None:
    loop: list[Any] = []
    loop.append(loop)
    with pytest.raises(ValueNotStorable, match="contains itself"):
        Codec(Any).encode(loop)


def nested(depth: int) -> Any:
    value: Any = 1
    for _ in range(depth):
        value = [value]
    return value


def test_depth_is_bounded_on_both_sides_of_the_limit() -> None:
    codec: Codec[Any] = Codec(Any)
    assert codec.decode(codec.encode(nested(DEPTH_MAX))) == nested(DEPTH_MAX)
    for depth in (DEPTH_MAX + 1, 5000):
        with pytest.raises(ValueNotStorable, match="nested deeper"):
            codec.encode(nested(depth))
        with pytest.raises((ValueUnreadable, ValueNotStorable)):
            codec.copy(nested(depth))


def test_size_is_bounded_on_both_sides_of_the_limit() -> None:
    codec = Codec(str)
    codec.encode("x" * (SIZE_MAX - 2))  # with its two quotes
    with pytest.raises(ValueNotStorable, match="store its name and digest"):
        codec.encode("x" * (SIZE_MAX - 1))
    with pytest.raises(ValueNotStorable, match="limit"):
        codec.encode("ä" * (SIZE_MAX // 2))


def test_integers_beyond_2_53_are_tagged_and_look_alikes_escaped() -> None:
    codec: Codec[Any] = Codec(Any)
    assert codec.encode(INTEGER_MAX) == INTEGER_MAX
    assert codec.encode(INTEGER_MAX + 1) == {"$int": str(INTEGER_MAX + 1)}
    assert codec.encode({"$int": "1"}) == {"$dict": {"$int": "1"}}
    assert codec.encode({"$int": "1", "b": 1}) == {"$int": "1", "b": 1}
    assert codec.encode({"a": "$int"}) == {"a": "$int"}


@pytest.mark.parametrize("stored", [{"$int": "x"}, {"$int": 5}, {"$new": 1}, {"$dict": 1}, [{"$": 1}]])
def test_an_unknown_tag_is_unreadable(stored: Any) -> None:
    with pytest.raises(ValueUnreadable):
        Codec(Any).decode(stored)


def test_what_no_longer_fits_is_unreadable_with_its_path() -> None:
    with pytest.raises(ValueUnreadable, match=r"at \$\.units does not fit Item .*Nothing was sent") as caught:
        Codec(Item).decode({"sku": "a", "units": "many"})
    assert caught.value.exit_code == 5


def test_parsing_from_outside_is_lenient_and_says_what_does_not_fit() -> None:
    codec = Codec(Item)
    assert codec.parse({"sku": "a", "units": "2"}) == Item("a", 2)
    with pytest.raises(ValueNotStorable, match=r"\$\.units"):
        codec.parse({"sku": "a"})
    with pytest.raises(ValueNotStorable, match="not JSON"):
        codec.parse({"sku": math.nan})


def test_a_type_without_a_json_form_is_refused_at_definition() -> None:
    class Opaque:
        pass

    for type_ in (Opaque, list[Opaque], "NoSuchType"):
        with pytest.raises(DefinitionError, match="has no JSON form"):
            Codec(type_)


def test_the_copy_is_not_the_value() -> None:
    value = {"a": [1]}
    copy = Codec(dict[str, list[int]]).copy(value)
    copy["a"].append(2)
    assert value == {"a": [1]}


def test_a_codec_built_at_import_works_while_the_clock_is_frozen() -> None:
    codec = Codec(dt.datetime)
    with freeze_time("2026-01-01"):
        assert codec.decode(codec.encode(NOON)) == NOON


def test_what_a_frozen_clock_tells_can_be_stored() -> None:
    """A decision that reads the clock, in a test that has frozen it: the stored copy is a plain datetime, in the first run too."""
    codec = Codec(dt.datetime)
    with freeze_time("2026-01-01 12:00"):
        told = dt.datetime.now(UTC)
        copy = codec.decode(codec.encode(told))
    assert type(told) is not type(copy) is type(NOON)
    assert copy == told


def test_a_frozen_date_can_be_stored() -> None:
    codec = Codec(dt.date)
    with freeze_time("2026-01-01"):
        assert codec.decode(codec.encode(dt.date.today())) == dt.date(2026, 1, 1)  # noqa: DTZ011  # frozen, and no instant


@dataclass
class Appointment:
    at: dt.datetime


def test_a_dataclass_that_is_first_read_while_the_clock_stands_says_what_to_do() -> None:
    """Its annotations are text, and `dt.datetime` is freezegun's own while it is active."""
    with freeze_time("2026-01-01"), pytest.raises(DefinitionError, match="read it before the clock is frozen"):
        Codec(Appointment)


def test_another_subclass_of_a_datetime_is_still_refused() -> None:
    class Stamp(dt.datetime):
        pass

    with pytest.raises(ValueNotStorable, match="it is a Stamp, and comes back as a datetime"):
        Codec(dt.datetime).encode(Stamp(2026, 1, 1, tzinfo=UTC))


SCALARS = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.integers(min_value=2**53 - 2, max_value=2**53 + 2)
    | st.floats()
    | st.text()
    | st.sampled_from(["$int", "$dict", "$"])
)
KEYS = st.sampled_from(["$int", "$dict", "$x", "a"]) | st.text(max_size=3)
JSONISH = st.recursive(SCALARS, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(KEYS, inner, max_size=3), max_leaves=12)
ODD = st.recursive(
    SCALARS
    | st.binary(max_size=3)
    | st.decimals()
    | st.datetimes(timezones=st.none() | st.just(UTC))
    | st.sampled_from([Colour.RED, Level.LOW]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.tuples(inner, inner)
        | st.dictionaries(st.integers() | st.text(max_size=2) | st.booleans(), inner, max_size=3)
        | st.builds(Item, st.just("a"), inner)
    ),  # type: ignore[arg-type]
    max_leaves=6,
)
TYPES: list[Any] = [
    Any, int, float, bool, str, bytes, int | str, int | float | None, Decimal, Decimal | float | str, list[int], list[Any], tuple[Any, ...],
    tuple[Any, Any], dict[str, Any], dict[int, Any], dict[int | str, Any], dt.datetime, dt.datetime | str | None, Colour, Level, Level | int, Item,
    Item | dict[str, Any], list[Item | int | float | str | None],
]  # fmt: skip
CODECS = [Codec[Any](type_) for type_ in TYPES]


def finite(value: Any) -> bool:
    if isinstance(value, float):
        return math.isfinite(value)
    if isinstance(value, list):
        return all(map(finite, value))
    return all(map(finite, value.values())) if isinstance(value, dict) else True


@given(JSONISH)
@example({"$dict": {"$dict": {"$int": 2**70}}})
@example([-0.0, 0.0, 1, 1.0, True])
def test_every_finite_json_value_is_stored(value: Any) -> None:
    codec = CODECS[0]
    if not finite(value):
        with pytest.raises(ValueNotStorable, match="finite"):
            codec.encode(value)
        return
    stored = codec.encode(value)
    copy = codec.decode(loads(dumps(stored)))
    assert repr(copy) == repr(value)
    assert len(canonical(stored)) > 0


@given(st.sampled_from(CODECS), ODD)
def test_any_value_of_any_type_is_identical_or_refused(codec: Codec[Any], value: Any) -> None:
    before = repr(value)
    try:
        stored = codec.encode(value)
    except ValueNotStorable:
        assert repr(value) == before
        return
    copy = codec.decode(loads(dumps(stored)))
    assert identical(value, copy)


@given(ODD, ODD)
def test_difference_sees_what_repr_sees(one: Any, other: Any) -> None:
    if difference(one, other, "$") is None:
        assert identical(one, other)
    elif repr(one) == repr(other):
        assert "nan" in repr(one).lower() or "inf" in repr(one).lower()


def test_text_is_deterministic_and_compact() -> None:
    assert dumps({"b": [1, 1.0, "ä"], "a": None}) == '{"b":[1,1.0,"ä"],"a":null}'
    with pytest.raises(ValueError, match="JSON"):
        dumps(math.nan)


@pytest.mark.parametrize(
    "text",
    ['{"a":1,"a":2}', "NaN", "[Infinity]", "-Infinity", "1e999", "", "[1,]", "{} {}", "[" * 100_000],
    ids=lambda text: text[:12],
)
def test_loading_is_strict(text: str) -> None:
    with pytest.raises(ValueError):
        loads(text)


WELL_FORMED = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)


def test_canonical_is_rfc_8785() -> None:
    # RFC 8785 section 3.2.2, its own example
    given = '{"numbers":[333333333.33333329,1E30,4.50,2e-3,0.000000000000000000000000001],"string":"\\u20ac$\\u000F\\u000aA\'\\u0042\\u0022\\u005c\\\\\\"\\/","literals":[null,true,false]}'
    assert canonical(json.loads(given)).decode() == (
        '{"literals":[null,true,false],"numbers":[333333333.3333333,1e+30,4.5,0.002,1e-27],"string":"€$\\u000f\\nA\'B\\"\\\\\\\\\\"/"}'
    )


@given(
    st.recursive(
        st.none()
        | st.booleans()
        | st.integers(-INTEGER_MAX, INTEGER_MAX)
        | st.floats(allow_nan=False, allow_infinity=False)
        | WELL_FORMED,
        lambda inner: st.lists(inner, max_size=4) | st.dictionaries(WELL_FORMED, inner, max_size=4),
        max_leaves=12,
    )
)
@example({"\uffff": 1, "\U00010000": 2, "a": -0.0})  # in UTF-16, the second key is the smaller one
@example(['\x00\x1f\x7f"\\/\b\f\n\r\t\u2028', INTEGER_MAX, -INTEGER_MAX, True])
def test_the_short_way_to_canonical_bytes_is_no_other_way(stored: Any) -> None:
    assert canonical(stored) == rfc8785.dumps(stored)


@pytest.mark.parametrize("stored", [INTEGER_MAX + 1, [-INTEGER_MAX - 1], "\ud800", math.nan, {1: 2}, {"a": {2}}], ids=repr)
def test_what_has_no_canonical_form_is_refused_on_any_way(stored: Any) -> None:
    with pytest.raises(ValueError):
        canonical(stored)


def test_a_fingerprint_ignores_order_and_nothing_else() -> None:
    assert fingerprint({"a": 1, "b": 2}) == fingerprint({"b": 2, "a": 1})
    assert len({fingerprint(value) for value in ({"a": 1}, {"a": "1"}, {"a": [1]}, {"a": None}, {}, [], None, False, 0)}) == 9


MARKED_KEYS = st.sampled_from(["$secret", "$model", "$dict", "value", "a"])


@settings(deadline=None)  # a busy machine is no failure
@given(
    st.recursive(
        st.none() | st.integers(-INTEGER_MAX, INTEGER_MAX) | st.floats(allow_nan=False, allow_infinity=False) | WELL_FORMED,
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(MARKED_KEYS, inner, max_size=2),
        max_leaves=8,
    )
)
@example({"$secret": "a"})
@example([{"$model": {"name": "a", "version": 1, "value": {"$dict": {"$secret": 1e16}}}}])
def test_the_short_way_to_a_fingerprint_is_no_other_way(stored: Any) -> None:
    assert fingerprint(stored) == digest_bytes(b"recovery-fingerprint-1", rfc8785.dumps(revealed(stored)))


def test_numbers_are_canonical_on_both_sides_of_where_python_and_javascript_differ() -> None:
    for edge in (1e-4, 1e16, 1e21, 1e-6, 1e-7, 2.0**53, 1.0, 0.0):
        for at in (math.nextafter(edge, 0), edge, math.nextafter(edge, math.inf)):
            assert canonical([at, -at]) == rfc8785.dumps([at, -at]), at


def test_a_fingerprint_stays_what_it_was() -> None:
    """Journals hold them: a change here makes every open run diverge."""
    assert (
        fingerprint({"effect": "reserve", "arguments": {"units": 2, "sku": "FILTER-A"}})
        == "96a7bb80fda6ade50d272a523e3cda68b0205ca9cbda5e413446af76a503f14b"
    )


# -- secrets -------------------------------------------------------------------------------------------------------------

VAULT = Vault(
    token=SecretStr("4242-tok"),
    raw=SecretBytes(b"\xff\x00raw"),
    born=pydantic.Secret(dt.date(2026, 1, 2)),
    many=[SecretStr("a"), SecretStr("")],
    by={7: SecretStr("x")},
    pair=(SecretStr("y"), 1),
    card=Card("4242", 1234, "Ann"),
    deep={"a": [1, 2**60]},
)
SECRETS: list[tuple[Any, Any, Any]] = [
    (Secret[str], "x", {"$secret": "x"}),
    (Secret[str | None], None, {"$secret": None}),
    (Secret[int], 2**60, {"$secret": {"$int": str(2**60)}}),
    (Secret[dict[str, int]], {"$a": 1}, {"$secret": {"$dict": {"$a": 1}}}),
    (list[Secret[str]], ["a"], [{"$secret": "a"}]),
    (Secret[Card], Card("1", 2, "z"), {"$secret": {"number": {"$secret": "1"}, "pin": {"$secret": 2}, "holder": "z"}}),
    (SecretStr, SecretStr("y"), {"$secret": "y"}),
    (SecretBytes, SecretBytes(b"\xff"), {"$secret": "_w=="}),
    (Any, {"$secret": "mine"}, {"$dict": {"$secret": "mine"}}),
    (Any, {"$dict": {"$secret": 1}}, {"$dict": {"$dict": {"$dict": {"$secret": 1}}}}),
]


@pytest.mark.parametrize(("type_", "value", "stored"), SECRETS, ids=repr)
def test_a_secret_is_marked_where_it_is_stored_and_comes_back(type_: Any, value: Any, stored: Any) -> None:
    codec: Codec[Any] = Codec(type_)
    assert codec.encode(value) == stored
    assert codec.decode(loads(dumps(stored))) == value


def test_every_kind_of_secret_in_a_model_comes_back_and_none_is_shown() -> None:
    codec: Codec[Any] = Codec(Vault)
    stored = loads(dumps(codec.encode(VAULT)))
    assert codec.decode(stored) == VAULT
    assert codec.encode(codec.decode(stored)) == codec.encode(VAULT)
    hidden = {"$withheld": "secret"}
    assert shown(stored) == {
        "token": hidden, "raw": hidden, "born": hidden, "many": [hidden, hidden], "by": {"7": hidden}, "pair": [hidden, 1],
        "card": {"number": hidden, "pin": hidden, "holder": "Ann"}, "deep": hidden, "none": None,
    }  # fmt: skip
    assert repr(stored).count("<secret>") == 10
    assert not re.search("4242|1234|2026", repr(stored))


def test_a_mark_changes_no_fingerprint_and_an_imitation_does() -> None:
    plain = fingerprint({"a": "x", "b": [1]})
    assert fingerprint({"a": {"$secret": "x"}, "b": [{"$secret": 1}]}) == plain
    assert fingerprint({"a": Codec[Any](Any).encode({"$secret": "x"}), "b": [1]}) != plain


def test_a_users_own_dump_of_a_model_is_as_it_was() -> None:
    assert TypeAdapter(Card).dump_python(Card("1", 2, "z"), mode="json") == {"number": "1", "pin": 2, "holder": "z"}
    assert VAULT.model_dump(mode="json")["token"] == "**********"


def test_a_secret_type_has_a_name_for_people() -> None:
    assert Codec[Any](Secret[str]).title == "Secret[str]"
    assert Codec[Any](Annotated[int, Gt(0), Redacted]).title == "Secret[int]"


def _nested(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3)


@given(
    st.recursive(st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(), _nested)
)
@example({"$secret": 1})
@example([{"$dict": {"$secret": [1]}}, "$"])
@example({"a": '"$'})
def test_what_we_wrote_is_read_as_any_text_is(stored: Any) -> None:
    text = dumps(stored)
    read = loads_own(text)
    assert repr(read) == repr(loads(text))
    assert type(read) is type(loads(text))


@pytest.mark.parametrize("text", ["", "{", '{"a":1} x', '{"a":', "[" * 100_000])
def test_what_we_cannot_have_written_is_refused_as_any_text_is(text: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        loads_own(text)
