"""Redaction: values that are declared secret, and how the codec finds them in what it stores.

Owns the declaration, and the mark that a secret's stored form has. Must not know what a journal is. Invariant: a stored value says by itself which of its
parts are secret, so that who shows it needs neither the app nor its types; the value itself is stored whole, since a replay needs it.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable
from typing import Annotated, Any, Final, TypeAlias, TypeVar, cast

import pydantic
from pydantic import GetCoreSchemaHandler, SecretBytes, SecretStr, TypeAdapter
from pydantic_core import CoreSchema, core_schema, to_jsonable_python

T = TypeVar("T")

MARK: Final = f"$secret:{secrets.token_hex(16)}"
"""The only name in an object that stands for a secret on its way through the codec. Another one in each process: nobody can imitate it."""

KEPT: Final = object()
"""The context of a dump that is stored. In any other dump of a user's model, a secret is what its type makes of it."""

_WRAPPERS: Final = (SecretStr, SecretBytes, pydantic.Secret)


class Redacted:
    """Declares a value secret: `Annotated[str, Redacted]`. It is stored exactly, and shown nowhere."""

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        schema: Any = handler(source)
        schema["serialization"] = core_schema.wrap_serializer_function_ser_schema(_mark_if_kept, info_arg=True)
        return cast("CoreSchema", schema)


Secret: TypeAlias = Annotated[T, Redacted]
"""`Secret[str]` is a `str` for the function that takes it, and `{"$withheld": "secret"}` for everybody who looks at the run."""


def _mark_if_kept(value: Any, dump: Callable[[Any], Any], info: core_schema.SerializationInfo) -> Any:
    kept = dump(value)
    return {MARK: kept} if info.context is KEPT else kept


class Unplaced(Exception):
    """A secret's place in the JSON of its value cannot be found."""


class Veils:
    """How values of one type hide what is secret in them. `any`: whether there may be something secret at all."""

    __slots__ = ("any", "wrapped")

    def __init__(self, adapter: TypeAdapter[Any]) -> None:
        told = repr(adapter.core_schema)
        self.wrapped = "_serialize_secret" in told  # pydantic's own types, which write asterisks into JSON
        self.any = self.wrapped or _mark_if_kept.__name__ in told


def uncovered(tree: Any, shape: Any) -> Any:
    """The JSON of a value, with what pydantic's secret types hold in the place of their asterisks. `shape`: the same value, dumped for Python.

    Raises Unplaced where the two are not of one form."""
    if isinstance(shape, _WRAPPERS):
        return {MARK: to_jsonable_python(shape.get_secret_value(), bytes_mode="base64")}
    if isinstance(shape, dict):
        _check_alike(tree, dict, shape)
        return {key: uncovered(item, inner) for (key, item), inner in zip(tree.items(), shape.values(), strict=True)}
    if isinstance(tree, list) and not isinstance(shape, str | bytes):
        parts = list(shape)
        _check_alike(tree, list, parts)
        return [uncovered(item, inner) for item, inner in zip(tree, parts, strict=True)]
    return tree


def _check_alike(tree: Any, kind: type[Any], shape: Any) -> None:
    if type(tree) is not kind or len(tree) != len(shape):
        raise Unplaced
