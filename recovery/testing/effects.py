"""Effects over the simulated environment, for every class of contract and in both colours, from one definition.

Owns what a body, a probe, a close and a cancel are. Knows no engine. Invariant: the `async def` form does what the `def` form does.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from functools import wraps
from typing import Any, Final

from recovery.core.contracts import Batch, Contract, Kind
from recovery.definitions.answer import Absent, Answer, Gone
from recovery.definitions.batched import Batched
from recovery.definitions.call import Call
from recovery.definitions.effect import Effect, effect
from recovery.definitions.environment import Environment
from recovery.testing.environment import connection
from recovery.testing.knobs import Marking, OutOfStock
from recovery.testing.odd import Odd, odd

MARKINGS: Final = {
    Kind.KEYED: Marking.KEY,
    Kind.COTRANSACTIONAL: Marking.KEY,
    Kind.SWALLOW: Marking.SWALLOW,
    Kind.FIRST_SENT: Marking.FIRST_SENT,
    Kind.NAMED: Marking.NAME,
    Kind.PREPARED: Marking.HOLD,
    Kind.PROBEABLE: Marking.MARKER,
    Kind.OPAQUE: Marking.NONE,
}


def reserving(
    name: str,
    contract: Contract,
    *,
    is_async: bool = False,
    environment: Environment | None = None,
    timeout: timedelta = timedelta(seconds=30),
    undone_under: Contract | None = None,
    replies: Odd | None = None,
) -> Effect[..., Any]:
    """An effect that takes `qty` of `sku` out of the simulated stock, under `contract`; a batch takes `items`, each with those two.

    It has a probe where the contract promises a look-up, and a close or a cancel where it promises one. The value is
    `{"receipt": ..., "sku": ..., "qty": ...}`; of an atomic batch `{"receipt": ..., "items": ...}`, of one whose items have results of their own `Batched`; a
    store that swallows duplicates gives none; a pure read gives `{"sku": ..., "available": ...}`. Too little stock is the rejection
    `OutOfStock`. undone_under: the contract of its compensation `undo-NAME`, which puts `qty` of `sku` back; None: it has none.
    replies: what its value has in it, beside the others, that no journal can store.
    """
    marking = MARKINGS.get(contract.kind, Marking.NONE)
    body, items = _body(contract, marking)
    if replies is not None:
        body = _spoilt(body, replies)

    def look_up(call: Call, **arguments: Any) -> Answer[Any]:
        return connection().look_up(call, len(arguments["items"]) if items else 0, marking)

    def close(call: Call, **arguments: Any) -> Answer[Any]:  # noqa: ARG001  # a close has its effect's parameters
        return connection().close(call)

    def cancel(call: Call, **arguments: Any) -> Answer[Any]:
        if connection().cancel(call):
            return Gone()
        return look_up(call, **arguments) if contract.lookup is not None else Absent()

    define = effect(contract, environment=environment, rejects=(OutOfStock,), timeout=timeout, name=name)
    made: Effect[..., Any] = define(_coloured(body, is_async))
    if contract.lookup is not None:
        made.probe(_coloured(_as(body, look_up), is_async))
    if contract.close:
        made.close(_coloured(_as(body, close), is_async))
    if contract.cancel_by_key:
        made.cancel(_coloured(_as(body, cancel), is_async))
    if undone_under is not None:
        _undoing(made, undone_under, timeout)
    return made


def _undoing(made: Effect[..., Any], contract: Contract, timeout: timedelta) -> None:
    """The compensation, complete with what its contract promises. What it is sent names what it undoes: a stockroom tells by that."""
    marking = MARKINGS.get(contract.kind, Marking.NONE)

    def give_back(call: Call, outcome: Any, *, sku: str, qty: int) -> dict[str, Any]:
        return connection().reserve(call, {"outcome": outcome, "sku": sku, "qty": qty}, marking)

    def give_back_unheard(call: Call, outcome: Any, *, sku: str, qty: int) -> None:
        give_back(call, outcome, sku=sku, qty=qty)

    def look_up(call: Call, **arguments: Any) -> Answer[Any]:  # noqa: ARG001  # a probe has its effect's parameters
        return connection().look_up(call, 0, marking)

    def close(call: Call, **arguments: Any) -> Answer[Any]:  # noqa: ARG001
        return connection().close(call)

    body = give_back_unheard if contract.kind is Kind.SWALLOW else give_back
    body.__annotations__["outcome"] = made.signature.returns
    undo: Effect[..., Any] = made.compensation(contract, timeout=timeout, name=f"undo-{made.name}")(_coloured(body, made.is_async))
    if contract.lookup is not None:
        undo.probe(_coloured(_as(body, look_up), made.is_async))
    if contract.close:
        undo.close(_coloured(_as(body, close), made.is_async))


def _body(contract: Contract, marking: Marking) -> tuple[Callable[..., Any], bool]:
    """What the effect does, and whether a look-up of it is item by item."""

    def read(call: Call, *, sku: str, qty: int) -> dict[str, Any]:  # noqa: ARG001  # a read takes what its siblings take
        return {"sku": sku, "available": connection().available(sku)}

    def submit(call: Call, *, sku: str, qty: int) -> None:
        connection().reserve(call, {"sku": sku, "qty": qty}, marking)

    def reserve(call: Call, *, sku: str, qty: int) -> dict[str, Any]:
        return connection().reserve(call, {"sku": sku, "qty": qty}, marking)

    def reserve_all(call: Call, *, items: list[dict[str, Any]]) -> dict[str, Any]:
        return connection().reserve(call, {"items": items}, marking)

    def reserve_each(call: Call, *, items: list[dict[str, Any]]) -> Batched[dict[str, Any]]:
        return connection().reserve_each(call, items, marking)

    if contract.batch is Batch.PER_ITEM_RESULT:
        return reserve_each, True
    if contract.batch is Batch.ATOMIC:
        return reserve_all, False
    return {Kind.READ: read, Kind.SWALLOW: submit}.get(contract.kind, reserve), False


def _spoilt(body: Callable[..., Any], replies: Odd) -> Callable[..., Any]:
    """The body, whose sender adds to the reply what cannot be stored."""

    @wraps(body)
    def spoilt(call: Call, **arguments: Any) -> Any:
        return body(call, **arguments) | {"odd": odd(replies)}

    return spoilt


def _as(body: Callable[..., Any], fn: Callable[..., Any]) -> Callable[..., Any]:
    """`fn` with the parameters of `body`."""
    answering = wraps(body)(fn)
    answering.__annotations__ = {**body.__annotations__, "return": "Answer[Any]"}
    return answering


def _coloured(fn: Callable[..., Any], is_async: bool) -> Callable[..., Any]:
    """`fn`, or its `async def` form. Its signature and annotations stay what they are."""
    if not is_async:
        return fn

    @wraps(fn)
    async def awaited(call: Call, **arguments: Any) -> Any:
        return fn(call, **arguments)

    return awaited
