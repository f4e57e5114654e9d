"""Batched: the outcome of one request that did several things, item by item.

Owns what a batch's outcome is and how it is stored. Knows no contract and no verdict. Invariant: the order of the items is that of the
request, each item is applied, rejected or open, and an outcome that was settled has no open one.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final, Generic, TypeAlias, TypeVar, get_args, get_origin

from pydantic import TypeAdapter

from recovery.codec import Codec, check_size, dumps
from recovery.core.entries import JSON, AnswerKind
from recovery.core.errors import ValueNotStorable, ValueUnreadable
from recovery.core.wording import of_type
from recovery.definitions.answer import Found, InFlight, Refused, Unreachable
from recovery.definitions.rejection import Rejection, decode_rejection, encode_rejection

T = TypeVar("T")

Item: TypeAlias = Found[T] | Refused | InFlight | Unreachable
"""One item's answer; the last two leave it open."""

_OPEN: Final[dict[str, type[InFlight | Unreachable]]] = {
    AnswerKind.IN_FLIGHT.value: InFlight,
    AnswerKind.UNREACHABLE.value: Unreachable,
}


@dataclass(frozen=True, slots=True)
class Batched(Generic[T]):
    """What came of each item: what an effect with `batch=Batch.PER_ITEM_RESULT` returns, and what `perform` gives back."""

    items: tuple[Item[T], ...]

    def __init__(self, items: Iterable[Item[T]]) -> None:
        object.__setattr__(self, "items", tuple(items))

    @property
    def applied(self) -> dict[int, T]:
        """The values of the items that happened, by their positions."""
        return {at: item.outcome for at, item in enumerate(self.items) if isinstance(item, Found)}

    @property
    def rejected(self) -> dict[int, Rejection]:
        """The errors of the items that were refused, by their positions."""
        return {at: item.error for at, item in enumerate(self.items) if isinstance(item, Refused)}


def item_type(type_: Any) -> Any:
    """T of `Batched[T]`; None for any other type."""
    return get_args(type_)[0] if get_origin(type_) is Batched else None


_STORED: Final[TypeAdapter[Any]] = TypeAdapter(tuple[list[dict[str, Any]]])


class BatchCodec(Codec[Batched[Any]]):
    """Encodes `Batched[T]` as a list of items, each with its kind. Raises ValueNotStorable and ValueUnreadable with the item's position."""

    def __init__(self, type_: Any, rejects: Mapping[str, type[Rejection]], *, what: str, name: str) -> None:
        self.type = type_
        self.item: Codec[Any] = Codec(item_type(type_), what=what, name=name)
        self.title = f"Batched[{self.item.title}]"
        self.rejects = rejects
        self.plain = None
        self.veils = self.item.veils
        self.models = self.item.models
        self.adapter = _STORED  # a schema of the stored form: what an item holds depends on its kind

    def encode(self, value: Batched[Any], *, where: str = "codec", root: str = "$") -> JSON:
        if not isinstance(value, Batched):
            raise self._unfit(where, root, f"it is {of_type(value)}")
        stored = [self._encode(item, where, f"{root}[{at}]") for at, item in enumerate(value.items)]
        check_size(dumps(stored), where=where, root=root)  # each item fits; the batch is one value, too
        return stored

    def decode(self, stored: JSON, *, where: str = "codec", root: str = "$") -> Batched[Any]:
        if not isinstance(stored, list):
            raise ValueUnreadable(where=where, path=root, type=self.title, problem="it is not a list of items")
        return Batched(self._decode(item, where, f"{root}[{at}]") for at, item in enumerate(stored))

    def parse(self, given: Any, *, where: str = "codec", root: str = "$") -> Batched[Any]:
        """A batch from outside, in its stored form. Raises ValueNotStorable."""
        try:
            return self.decode(given, where=where, root=root)
        except ValueUnreadable as error:
            raise self._unfit(where, error.path, error.problem) from None

    def _encode(self, item: Item[Any], where: str, root: str) -> JSON:
        if isinstance(item, Found):
            return {"kind": AnswerKind.FOUND.value, "value": self.item.encode(item.outcome, where=where, root=root)}
        if isinstance(item, Refused):
            if self.rejects.get(item.error.name) is not type(item.error):
                raise self._unfit(where, root, f"{type(item.error).__name__} is not declared in rejects=")
            return {"kind": AnswerKind.REFUSED.value, "error": item.error.name, "value": encode_rejection(item.error)}
        for kind, word in _OPEN.items():
            if isinstance(item, word):
                return {"kind": kind}
        raise self._unfit(where, root, f"{type(item).__name__} is no answer of an item")

    def _decode(self, item: JSON, where: str, root: str) -> Item[Any]:
        kind = item.get("kind") if isinstance(item, dict) else None
        if kind == AnswerKind.FOUND.value:
            return Found(self.item.decode(item.get("value"), where=where, root=root))
        if kind == AnswerKind.REFUSED.value and item.get("error") in self.rejects:
            return Refused(decode_rejection(self.rejects[item["error"]], item.get("value")))
        if kind in _OPEN:
            return _OPEN[kind]()
        raise ValueUnreadable(where=where, path=root, type=self.title, problem="it is no item, or its rejection is not declared")

    def _unfit(self, where: str, root: str, problem: str) -> ValueNotStorable:
        advice = "Give Batched(items), each item Found, Refused, InFlight or Unreachable."
        return ValueNotStorable(where=where, path=root, problem=problem, advice=advice)
