"""Workflows: colours agree with their run, input, result and failure in stored form; the registry; the public names."""

from __future__ import annotations

import copy
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import pytest

import recovery
import recovery.contracts
import recovery.core.child_errors
import recovery.core.effect_errors
import recovery.core.errors
import recovery.core.host_errors
import recovery.core.key_errors
import recovery.core.looking_errors
import recovery.core.order_errors
import recovery.errors
from recovery import AsyncRun, Call, Rejection, Run, Workflow, contracts, effect, workflow
from recovery.definitions.registry import Registry
from recovery.definitions.workflow import MESSAGE_MAX
from recovery.errors import DefinitionError, ValueNotStorable, ValueUnreadable


@dataclass(frozen=True)
class Incident:
    id: str
    severity: int = 1


class OutOfStock(Rejection):
    sku: str


@workflow
def resolve(run: Run, incident: Incident, *, limit: int = 2) -> Incident | None:
    """Resolve it."""
    return incident


@workflow(name="resolve-async", version="7")
async def aresolve(run: AsyncRun, incident: Incident) -> None:
    return None


def test_a_workflow_knows_name_version_and_colour() -> None:
    assert (resolve.name, resolve.version, resolve.is_async, repr(resolve)) == (
        "resolve",
        "1",
        False,
        "<workflow resolve version 1>",
    )
    assert (aresolve.name, aresolve.version, aresolve.is_async) == ("resolve-async", "7", True)
    assert resolve.__doc__ == "Resolve it."


def test_input_is_stored_by_name_with_defaults() -> None:
    stored = resolve.bind(Incident("7"))
    assert stored == {"incident": {"id": "7", "severity": 1}, "limit": 2}
    assert resolve.arguments(stored) == {"incident": Incident("7"), "limit": 2}
    with pytest.raises(ValueNotStorable, match=r"workflow resolve: the value at incident\.severity"):
        resolve.bind(Incident("7", True))
    with pytest.raises(ValueUnreadable, match="Nothing was sent"):
        resolve.arguments({"incident": {}, "limit": 2})


def test_the_digest_tells_inputs_and_workflows_apart() -> None:
    first = resolve.digest(resolve.bind(Incident("7")))
    assert first == resolve.digest(resolve.bind(incident=Incident("7"), limit=2))
    assert first != resolve.digest(resolve.bind(Incident("7"), limit=3))
    assert aresolve.digest({}) != resolve.digest({})


def test_results_survive() -> None:
    assert resolve.decode_result(resolve.encode_result(Incident("7"))) == Incident("7")
    assert resolve.decode_result(resolve.encode_result(None)) is None
    wrong: Any = (1,)
    with pytest.raises(ValueNotStorable, match="workflow resolve: the value at result"):
        resolve.encode_result(wrong)


def test_a_failure_keeps_its_type_a_bounded_message_and_a_rejections_fields() -> None:
    failure = resolve.encode_failure(ValueError("x" * 10_000))
    assert failure.error == "ValueError"
    assert len(failure.message) == MESSAGE_MAX
    assert failure.to_json() == {"message": failure.message}
    refused = resolve.encode_failure(OutOfStock(sku="a"))
    assert (refused.error, refused.to_json()) == ("OutOfStock", {"message": "OutOfStock: sku='a'", "fields": {"sku": "a"}})
    wrong: Any = 5
    assert resolve.encode_failure(OutOfStock(sku=wrong)).fields is None


def test_an_error_that_cannot_say_what_it_is_still_fails_the_run() -> None:
    class Broken(Exception):
        def __str__(self) -> str:
            raise RuntimeError

    assert resolve.encode_failure(Broken()).message == ""


async def takes_run(run: Run) -> None: ...
def takes_async_run(run: AsyncRun) -> None: ...
def takes_neither(incident: Incident) -> None: ...
def takes_nothing() -> None: ...
def untyped(run: Run, incident) -> None: ...  # type: ignore[no-untyped-def]
def variadic(run: Run, *incidents: str) -> None: ...
def unreturned(run: Run): ...  # type: ignore[no-untyped-def]


@pytest.mark.parametrize(
    ("body", "sentence"),
    [
        (takes_run, "it is `async def` and takes a Run.*write `run: AsyncRun`, or make it `def`"),
        (takes_async_run, "it is `def` and takes a AsyncRun.*write `run: Run`, or make it `async def`"),
        (takes_neither, "first parameter is not a Run"),
        (takes_nothing, "no positional first parameter for the Run"),
        (untyped, "'incident' has no type"),
        (variadic, r"takes \*incidents"),
        (unreturned, "its result has no type"),
        (5, "int is not a function"),
    ],
)
def test_a_workflow_that_cannot_run_is_refused_where_it_is_defined(body: Any, sentence: str) -> None:
    for define in (workflow, workflow(version="2")):
        with pytest.raises(DefinitionError, match=f"(?s)workflow .*{sentence}"):
            define(body)


class Sync:
    """A session that tells what it was asked."""

    run_id = "r"

    def decide(self, name: str, fn: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        return ("decide", name, fn(*args, **kwargs))

    def perform(self, bound: Any, key: str | None, name: str | None, retry: Any) -> Any:
        assert retry is None
        return ("perform", bound.stored, key, name)

    def attempt(self, bound: Any, key: str | None, name: str | None, retry: Any) -> Any:
        assert retry is None
        return ("attempt", bound.stored, key, name)


class Async(Sync):
    """Notes the call at once and answers later."""

    def __init__(self) -> None:
        self.asked: list[Any] = []

    async def _later(self, value: Any) -> Any:
        return value

    def decide(self, *args: Any) -> Any:
        self.asked.append("decide")
        return self._later(super().decide(*args))

    def perform(self, *args: Any) -> Any:
        self.asked.append("perform")
        return self._later(super().perform(*args))

    def attempt(self, *args: Any) -> Any:
        self.asked.append("attempt")
        return self._later(super().attempt(*args))


@effect(contracts.Opaque())
def act(call: Call, n: int) -> int:
    return n


def test_a_run_asks_its_session() -> None:
    run = Run(Sync())
    said: list[Any] = [run.run_id, run.decide("d", divmod, 7, 2), run.perform(act(1), key="k"), run.attempt(act(2), name="n")]
    assert said == ["r", ("decide", "d", (3, 1)), ("perform", {"n": 1}, "k", None), ("attempt", {"n": 2}, None, "n")]


def test_an_async_run_asks_at_the_call_and_not_at_the_await() -> None:
    session = Async()
    run = AsyncRun(session)
    pending = [run.attempt(act(2)), run.perform(act(1)), run.decide("d", divmod, 7, 2)]
    assert session.asked == ["attempt", "perform", "decide"]
    said: list[Any] = []
    for coroutine in pending:
        with pytest.raises(StopIteration) as ended:
            coroutine.send(None)
        said.append(ended.value.value[0])
    assert said == session.asked
    assert run.run_id == "r"


def test_a_decisions_arguments_may_be_called_name_and_fn() -> None:
    def choose(name: str, fn: int) -> str:
        return f"{name}{fn}"

    chosen: Any = Run(Sync()).decide("d", choose, name="a", fn=1)
    assert chosen == ("decide", "d", "a1")


# -- registry ----------------------------------------------------------------------------------------------------------


def test_a_registry_finds_definitions_by_name() -> None:
    registry = Registry(workflows=[resolve, aresolve, resolve], effects=[act, act])
    assert registry.workflows == {"resolve": resolve, "resolve-async": aresolve}
    assert registry.effects == {"act": act}


def test_a_name_stands_for_the_last_version_and_a_run_goes_on_with_its_own() -> None:
    second: Any = workflow(name="resolve", version="2")(resolve.fn)
    workflows = Registry(workflows=[resolve, second, aresolve]).workflows
    assert workflows["resolve"] is second
    assert [workflows.of("resolve", version) for version in "123"] == [resolve, second, second]
    assert workflows.of("nothing", "1") is None
    assert workflows.every() == [resolve, second, aresolve]


def test_two_definitions_of_one_name_are_refused() -> None:
    other: Any = workflow(name="resolve")(aresolve.fn)
    with pytest.raises(DefinitionError, match="'resolve': two workflows have this name and version '1'"):
        Registry(workflows=[resolve, other])
    with pytest.raises(DefinitionError, match="'act': two effects have this name"):
        Registry(effects=[act, effect(contracts.Opaque())(act.fn)])
    undecorated: Any = act.fn
    with pytest.raises(DefinitionError, match="'act': it is not a workflow"):
        Registry(workflows=[undecorated])
    with pytest.raises(DefinitionError, match="'act': it is not an effect"):
        Registry(effects=[undecorated])
    called: Any = resolve(Incident("press-4"))
    with pytest.raises(DefinitionError, match="'resolve': it was called where it is to be given"):
        Registry(workflows=[called])


def test_a_contract_that_promises_more_than_the_effect_has_is_refused() -> None:
    day = timedelta(hours=24)
    for contract, missing in (
        (contracts.Probeable(), "probe"),
        (contracts.Keyed(window=day, lookup=contracts.Lookup()), "probe"),
        (contracts.Keyed(window=day, close=True), "close"),
    ):
        incomplete = effect(contract)(act.fn)
        with pytest.raises(DefinitionError, match=f"Define one with `@act.{missing}`"):
            Registry(effects=[incomplete])


def test_compensations_come_with_their_effects() -> None:
    @effect(contracts.Opaque())
    def charge(call: Call, n: int) -> int:
        return n

    @charge.compensation(contracts.Opaque())
    def refund(call: Call, outcome: int, n: int) -> None: ...

    assert Registry(effects=[charge]).effects == {"charge": charge, "refund": refund}


# -- public names ------------------------------------------------------------------------------------------------------


def test_public_names_are_sorted_and_all_there() -> None:
    for module in (recovery, recovery.contracts, recovery.errors):
        assert module.__all__ == sorted(module.__all__)
        for name in module.__all__:
            assert getattr(module, name) is not None
    assert set(recovery.__all__) <= set(dir(recovery))
    assert isinstance(resolve, Workflow)
    with pytest.raises(AttributeError, match="no attribute 'reserve'"):
        _ = recovery.reserve


def test_every_error_is_public() -> None:
    defined = {
        name
        for module in (
            recovery.core.errors,
            recovery.core.effect_errors,
            recovery.core.looking_errors,
            recovery.core.order_errors,
            recovery.core.child_errors,
            recovery.core.host_errors,
            recovery.core.key_errors,
        )
        for name, value in vars(module).items()
        if isinstance(value, type) and value.__module__ in {"recovery.errors", "recovery.core.errors", "recovery.core.exitcodes"}
    }
    assert set(recovery.errors.__all__) == defined


def test_an_error_is_named_where_it_is_imported_from() -> None:
    """Tracebacks show the name, and journals keep it: moving the class within the core must change neither."""
    assert recovery.errors.EffectInDoubt.__module__ == recovery.errors.RunNotFound.__module__ == "recovery.errors"
    error = recovery.errors.RunNotFound(run_id="r", database="d")
    assert str(copy.copy(error)) == str(error)


def test_importing_the_package_imports_nothing_else() -> None:
    code = "import sys; before = set(sys.modules); import recovery; print(sorted(m.split('.')[0] for m in set(sys.modules) - before if m != 'typing'))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=240)
    assert not any(f"'{name}'" in done.stdout for name in ("pydantic", "sqlalchemy", "rfc8785", "structlog"))
