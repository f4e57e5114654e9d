"""Effects: bound before performed, refused where they cannot be true, rebuilt from name and stored arguments alone."""

from __future__ import annotations

import inspect
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

import pytest

from recovery import Absent, Answer, Bound, Call, Environment, Found, Rejection, contracts, effect
from recovery.codec import fingerprint
from recovery.definitions.effect import TIMEOUT_DEFAULT, Effect
from recovery.definitions.registry import check_complete
from recovery.errors import DefinitionError, ValueNotStorable, ValueUnreadable

KEYED = contracts.Keyed(window=timedelta(hours=24))
CLOSABLE = contracts.Keyed(window=timedelta(hours=24), close=True)
CANCELLABLE = contracts.Keyed(window=timedelta(hours=24), cancel_by_key=True)


class OutOfStock(Rejection):
    sku: str


class Limits(NamedTuple):
    low: int
    high: int


@dataclass
class Reservation:
    id: str
    notes: list[str] = field(default_factory=list)


warehouse = Environment("inventory", scope="warehouse-1")


@effect(KEYED, environment=warehouse, rejects=(OutOfStock,), timeout=timedelta(seconds=5))
def reserve(call: Call, sku: str, *, units: int = 1, notes: list[str] | None = None) -> Reservation:
    """Reserve units.

    They stay reserved.
    """
    if notes is not None:
        notes.append(f"{sku}*{units}")
    return Reservation(call.key, notes or [])


@reserve.probe
def find(call: Call, sku: str, *, units: int = 1, notes: list[str] | None = None) -> Answer[Reservation]:
    return Found(Reservation(f"{sku}{units}")) if sku == "FILTER-A" else Absent()


@reserve.compensation(contracts.Opaque(), name="release-units")
def release(call: Call, outcome: Reservation, sku: str, *, units: int, notes: list[str] | None) -> str:
    return f"{outcome.id} {sku} {units}"


@effect(CLOSABLE)
async def ship(call: Call, parcel: str) -> None:
    return None


@ship.close
async def bar(call: Call, parcel: str) -> Answer[None]:
    return Absent(detail=parcel)


def call(**changes: Any) -> Call:
    values: dict[str, Any] = {
        "run_id": "r", "step": "reserve#1", "key": "k", "fingerprint": "f", "epoch": "1.1", "attempt": 1, "scope": "warehouse-1",
        "send_until": datetime(2026, 1, 1, tzinfo=UTC), "remaining": lambda: 5.0,
    }  # fmt: skip
    return Call(**values | changes)


# -- binding -----------------------------------------------------------------------------------------------------------


def test_arguments_are_stored_by_name_with_defaults_written_out() -> None:
    bound = reserve("FILTER-A", units=2)
    assert isinstance(bound, Bound)
    assert bound.stored == {"sku": "FILTER-A", "units": 2, "notes": None}
    assert reserve(sku="FILTER-A", units=2) == bound
    assert reserve("FILTER-A").stored["units"] == 1


def test_the_fingerprint_is_of_effect_and_arguments() -> None:
    bound = reserve("FILTER-A", units=2)
    assert bound.fingerprint == fingerprint({"effect": "reserve", "arguments": {"units": 2, "notes": None, "sku": "FILTER-A"}})
    assert reserve("FILTER-A", units=3).fingerprint != bound.fingerprint
    assert ship("FILTER-A").fingerprint != effect(KEYED, name="other")(ship.fn)("FILTER-A").fingerprint


def test_the_body_sees_decoded_copies_on_every_attempt() -> None:
    notes = ["first"]
    bound = reserve("FILTER-A", notes=notes)
    notes.append("changed after binding")
    assert bound.invoke(call()) == Reservation("k", ["first", "FILTER-A*1"])
    assert bound.invoke(call()) == Reservation("k", ["first", "FILTER-A*1"])
    assert bound.arguments == {"sku": "FILTER-A", "units": 1, "notes": ["first"]}


def test_a_bound_effect_is_rebuilt_from_the_journal() -> None:
    bound = reserve("FILTER-A", units=2)
    assert reserve.bind(bound.stored) == bound


def test_an_intent_from_before_a_new_parameter_is_still_readable() -> None:
    assert reserve.bind({"sku": "FILTER-A"}).arguments == {"sku": "FILTER-A", "units": 1, "notes": None}


@pytest.mark.parametrize(
    ("stored", "path"), [({}, "sku"), ({"sku": "a", "old": 1}, "old"), ({"sku": 1}, "sku"), ({"sku": "a", "units": "x"}, "units")]
)
def test_an_intent_that_no_longer_fits_is_unreadable(stored: dict[str, Any], path: str) -> None:
    with pytest.raises(ValueUnreadable, match=rf"effect reserve: the stored value at {path} .*Nothing was sent"):
        _ = reserve.bind(stored).arguments


def test_what_cannot_be_stored_is_refused_before_anything_happened() -> None:
    with pytest.raises(ValueNotStorable, match=r"effect reserve: the value at units .*Nothing happened"):
        reserve("FILTER-A", units=True)
    with pytest.raises(ValueNotStorable, match=r"the value at notes\[1\]"):
        reserve("FILTER-A", notes=["a", 1])  # type: ignore[list-item]
    with pytest.raises(TypeError, match="effect reserve: missing a required argument: 'sku'"):
        reserve()  # type: ignore[call-arg]


def test_a_tools_call_stays_on_the_typed_path() -> None:
    schema = reserve.json_schema()
    assert schema["title"] == "reserve"
    assert schema["description"] == "Reserve units.\n\nThey stay reserved."
    assert schema["required"] == ["sku"]
    assert schema["additionalProperties"] is False
    assert schema["properties"]["units"] == {"type": "integer", "default": 1}
    assert reserve.parse({"sku": "FILTER-A", "units": 2}) == reserve("FILTER-A", units=2)
    for wrong, path in (({"sku": "a", "unit": 2}, "unit"), ({}, "sku"), ({"sku": "a", "units": "two"}, "units")):
        with pytest.raises(ValueNotStorable, match=f"the value at {path} "):
            reserve.parse(wrong)


def test_a_schema_shares_the_definitions_of_models() -> None:
    @effect(contracts.Opaque())
    def keep(call: Call, one: Reservation, more: list[Reservation]) -> None: ...

    schema = keep.json_schema()
    assert list(schema["$defs"]) == ["Reservation"]
    assert schema["properties"]["one"] == {"$ref": "#/$defs/Reservation"}
    bound = keep.parse({"one": {"id": "1"}, "more": [{"id": "2", "notes": ["x"]}]})
    assert bound.arguments == {"one": Reservation("1"), "more": [Reservation("2", ["x"])]}


def test_an_effect_is_named_and_placed() -> None:
    assert (reserve.name, reserve.timeout, reserve.environment.current_scope()) == ("reserve", timedelta(seconds=5), "warehouse-1")
    assert (ship.environment, ship.timeout) == (Environment("ship"), TIMEOUT_DEFAULT)
    assert (reserve.is_async, ship.is_async) == (False, True)
    assert Environment("x", scope=lambda: "now").current_scope() == "now"
    assert (reserve.accepts_none, ship.accepts_none) == (False, True)


# -- companions --------------------------------------------------------------------------------------------------------


def test_a_probe_is_asked_with_the_calls_arguments() -> None:
    assert reserve("FILTER-A", units=2).ask(call()) == Found(Reservation("FILTER-A2"))
    assert reserve("other").ask(call()) == Absent()
    assert find(call(), "other") == Absent()


def test_a_close_may_be_async_like_its_effect() -> None:
    pending = ship("p").close(call())
    assert inspect.iscoroutine(pending)
    with pytest.raises(StopIteration) as ended:
        pending.send(None)
    assert ended.value.value == Absent(detail="p")


def test_what_is_not_defined_cannot_be_asked() -> None:
    with pytest.raises(DefinitionError, match=r"'reserve': it has no close"):
        reserve("a").close(call())
    with pytest.raises(DefinitionError, match=r"'ship': it has no probe"):
        ship("a").ask(call())
    with pytest.raises(DefinitionError, match=r"'ship': it has no compensation"):
        ship.compensate(ship("a"), None)


def test_a_compensation_is_an_effect_over_the_outcome() -> None:
    assert isinstance(release, Effect)
    assert reserve.compensated_by is release
    assert (release.name, release.environment) == ("release-units", warehouse)
    undo = reserve.compensate(reserve("FILTER-A", units=2), Reservation("7"))
    assert undo == release(Reservation("7"), "FILTER-A", units=2, notes=None)
    assert undo.invoke(call()) == "7 FILTER-A 2"


def fresh(contract: contracts.Contract = CLOSABLE) -> Effect[[str], int]:
    @effect(contract)
    def act(call: Call, sku: str) -> int:
        return 1

    return act


def right(call: Call, sku: str) -> Answer[int]:
    return Absent()


async def in_another_colour(call: Call, sku: str) -> Answer[int]:
    return Absent()


def with_another_name(call: Call, stock: str) -> Answer[int]:
    return Absent()


def with_another_type(call: Call, sku: int) -> Answer[int]:
    return Absent()


def with_one_more(call: Call, sku: str, more: int) -> Answer[int]:
    return Absent()


def without_call(sku: str) -> Answer[int]:
    return Absent()


@pytest.mark.parametrize("role", ["probe", "close", "cancel"])
@pytest.mark.parametrize(
    ("body", "sentence"),
    [
        (in_another_colour, "is `async def` and its body is `def`"),
        (with_another_name, "and its body differ in the parameter 'sku'"),
        (with_another_type, "and its body differ in the parameter 'sku'"),
        (with_one_more, "and its body differ in the parameter 'more'"),
        (without_call, "the first parameter of its .* is not a Call"),
    ],
)
def test_a_companion_that_does_not_fit_is_refused(role: str, body: Callable[..., Any], sentence: str) -> None:
    act = fresh(CANCELLABLE) if role == "cancel" else fresh()
    with pytest.raises(DefinitionError, match=f"^{role} 'act': .*{sentence}.* Nothing happened"):
        getattr(act, role)(body)
    getattr(act, role)(right)
    with pytest.raises(DefinitionError, match=f"it has a {role} already"):
        getattr(act, role)(right)


def test_a_close_needs_a_contract_that_promises_it() -> None:
    with pytest.raises(DefinitionError, match="does not promise an atomic close"):
        fresh(KEYED).close(right)


def test_a_cancel_needs_a_contract_that_promises_it() -> None:
    with pytest.raises(DefinitionError, match="promises no cancel by key"):
        fresh(CLOSABLE).cancel(right)
    act = fresh(CANCELLABLE)
    with pytest.raises(DefinitionError, match=r"its contract promises a cancel by key, and it has none\. .*`@act\.cancel`"):
        check_complete(act)
    act.cancel(right)
    check_complete(act)


def test_a_compensation_that_does_not_fit_is_refused() -> None:
    def without_outcome(call: Call, sku: str) -> None: ...
    def without_parameters(call: Call) -> None: ...
    def with_less(call: Call, outcome: int) -> None: ...
    async def coloured(call: Call, outcome: int, sku: str) -> None: ...
    def right(call: Call, outcome: int, sku: str) -> None: ...

    act = fresh()
    undo: Any = act.compensation(contracts.Opaque())
    for body, sentence in (
        (without_outcome, "second parameter is not the outcome of 'act', int"),
        (without_parameters, "second parameter is not the outcome"),
        (with_less, "differ in the parameter 'sku'"),
        (coloured, "its compensation is `async def`"),
    ):
        with pytest.raises(DefinitionError, match=sentence):
            undo(body)
    undo(right)
    with pytest.raises(DefinitionError, match="has a compensation already"):
        undo(right)
    with pytest.raises(DefinitionError, match="it has no contract"):
        act.compensation(right)  # type: ignore[arg-type]


# -- definitions that cannot be true -----------------------------------------------------------------------------------


def variadic(call: Call, *skus: str) -> None: ...
def keywords(call: Call, **skus: str) -> None: ...
def positional_only(call: Call, sku: str, /) -> None: ...
def untyped(call: Call, sku) -> None: ...  # type: ignore[no-untyped-def]
def unreturned(call: Call): ...  # type: ignore[no-untyped-def]
def no_parameters() -> None: ...
def no_call(sku: str) -> None: ...
def untyped_call(call) -> None: ...  # type: ignore[no-untyped-def]
def only_keywords(*, call: Call) -> None: ...
def generator(call: Call) -> Any:
    yield 1


async def async_generator(call: Call) -> Any:
    yield 1


def unresolved(call: Call, sku: NoSuchType) -> None: ...  # type: ignore[name-defined]  # noqa: F821


class Socket: ...


def unstorable(call: Call, sku: Socket) -> None: ...
def unstorable_result(call: Call) -> Socket: ...  # type: ignore[empty-body]
def unstorable_default(call: Call, sku: float = 1) -> None: ...


@pytest.mark.parametrize(
    ("body", "sentence"),
    [
        (variadic, r"takes \*skus"),
        (keywords, r"takes \*\*skus"),
        (positional_only, "'sku' is positional-only"),
        (untyped, "'sku' has no type"),
        (unreturned, "its result has no type.*`-> None`"),
        (no_parameters, "no positional first parameter for the Call"),
        (only_keywords, "no positional first parameter for the Call"),
        (no_call, "first parameter is not a Call"),
        (untyped_call, "first parameter is not a Call"),
        (generator, "it is a generator"),
        (async_generator, "it is a generator"),
        (unresolved, "cannot be resolved.*TYPE_CHECKING"),
        (unstorable, "has no JSON form"),
        (unstorable_result, "has no JSON form"),
        (unstorable_default, "the default of 'sku' cannot be stored"),
        (print, "builtin_function_or_method is not a function"),
        (staticmethod(no_call), "staticmethod is not a function"),
        (lambda call: None, "its name cannot name a step"),
    ],
)
def test_an_effect_that_cannot_be_true_is_refused_where_it_is_defined(body: Any, sentence: str) -> None:
    with pytest.raises(DefinitionError, match=f"effect .*{sentence}"):
        effect(contracts.Opaque())(body)


def test_an_effect_without_a_contract_is_refused_and_opaque_suggested() -> None:
    define: Any = effect
    for wrong in (lambda: define(no_call), lambda: define(), lambda: define(None), lambda: define(timeout=timedelta(1))):
        with pytest.raises(DefinitionError, match=r"it has no contract.*contracts\.Opaque\(\)"):
            wrong()


def test_the_rest_of_a_definition_is_checked_too() -> None:
    class Twin(Rejection):
        name = "OutOfStock"

    for changes, sentence in (
        ({"timeout": timedelta(0)}, "timeout is not longer than zero"),
        ({"name": "two words"}, "its name cannot name a step"),
        ({"rejects": (ValueError,)}, "not a subclass of Rejection"),
        ({"rejects": (Rejection,)}, "not a subclass of Rejection"),
        ({"rejects": (OutOfStock, Twin)}, "two rejections are named 'OutOfStock'"),
    ):
        options: dict[str, Any] = changes
        with pytest.raises(DefinitionError, match=sentence):
            effect(KEYED, **options)(ship.fn)
    with pytest.raises(DefinitionError, match="environment 'a b'"):
        Environment("a b")


def test_types_local_to_a_function_resolve() -> None:
    @dataclass
    class Local:
        n: int

    @effect(contracts.Opaque())
    def act(call: Call, it: Local) -> Local:
        return it

    assert act(Local(1)).invoke(call()) == Local(1)


def test_types_of_another_module_are_its_own() -> None:
    """A function defined elsewhere keeps meaning what its own module means, whatever the name means here."""
    elsewhere: dict[str, Any] = {"Call": Call, "Reservation": int}
    exec("from __future__ import annotations\ndef act(call: Call, it: Reservation) -> Reservation: return it", elsewhere)
    assert effect(contracts.Opaque())(elsewhere["act"])(5).arguments == {"it": 5}


def test_definitions_and_bound_calls_read_well() -> None:
    assert repr(reserve) == "<effect reserve>"
    assert reserve.__doc__ is not None


# -- calls -------------------------------------------------------------------------------------------------------------


def test_a_call_knows_the_time_left_and_never_less_than_none() -> None:
    assert call().remaining_seconds() == 5.0
    assert call(remaining=lambda: -1.0).remaining_seconds() == 0.0
    assert call() == call(remaining=lambda: 3.0)


def test_importing_definitions_loads_no_database_and_no_command_line() -> None:
    code = "import sys; from recovery import effect, workflow; print(sorted({'sqlalchemy','alembic','typer','rich','psycopg'} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=240)
    assert done.stdout.strip() == "[]"
