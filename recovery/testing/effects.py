"""Effects over the simulated environment, for every class of contract and in both colours, from one definition.

Owns what a body, a probe and a close are. Knows no engine. Invariant: the `async def` form does what the `def` form does.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from functools import wraps
from typing import Any, Final

from recovery.core.contracts import Contract, Kind
from recovery.definitions.answer import Answer
from recovery.definitions.call import Call
from recovery.definitions.effect import Effect, Environment, effect
from recovery.testing.environment import connection
from recovery.testing.warehouse import Marking, OutOfStock

_MARKINGS: Final = {Kind.KEYED: Marking.KEY, Kind.PROBEABLE: Marking.MARKER}


def reserving(
    name: str,
    contract: Contract,
    *,
    is_async: bool = False,
    environment: Environment | None = None,
    timeout: timedelta = timedelta(seconds=30),
) -> Effect[..., dict[str, Any]]:
    """An effect that takes `qty` of `sku` out of the simulated stock, under `contract`.

    It has a probe where the contract promises a look-up, and a close where it promises one. The value is
    `{"receipt": ..., "sku": ..., "qty": ...}`; too little stock is the rejection `OutOfStock`.
    """
    marking = _MARKINGS.get(contract.kind, Marking.NONE)

    def reserve(call: Call, *, sku: str, qty: int) -> dict[str, Any]:
        return connection().reserve(call, {"sku": sku, "qty": qty}, marking)

    def look_up(call: Call, *, sku: str, qty: int) -> Answer[dict[str, Any]]:  # noqa: ARG001  # a probe has its effect's parameters
        return connection().look_up(call)

    def close(call: Call, *, sku: str, qty: int) -> Answer[dict[str, Any]]:  # noqa: ARG001
        return connection().close(call)

    define = effect(contract, environment=environment, rejects=(OutOfStock,), timeout=timeout, name=name)
    made: Effect[..., dict[str, Any]] = define(_coloured(reserve, is_async))
    if contract.lookup is not None:
        made.probe(_coloured(look_up, is_async))
    if contract.close:
        made.close(_coloured(close, is_async))
    return made


def _coloured(fn: Callable[..., Any], is_async: bool) -> Callable[..., Any]:
    """`fn`, or its `async def` form. Its signature and annotations stay what they are."""
    if not is_async:
        return fn

    @wraps(fn)
    async def awaited(call: Call, **arguments: Any) -> Any:
        return fn(call, **arguments)

    return awaited
