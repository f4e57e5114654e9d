"""Rejection: a declared "no" of the environment, with typed fields and a stable name.

Owns how a rejection is defined, stored and read back. Invariant: a rejection equals its decoded copy, so that a workflow
sees the same error on the first run and on every replay.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from types import MappingProxyType
from typing import Any, ClassVar, dataclass_transform

from recovery.codec import Codec, check_size, dumps
from recovery.core.entries import JSON
from recovery.core.errors import DefinitionError, ValueUnreadable
from recovery.definitions.signature import check_name, resolved_hints


@dataclass_transform(kw_only_default=True, eq_default=False, field_specifiers=(field,))
class Rejection(Exception):
    """Base of declared errors. Subclasses declare fields; the constructor takes them by keyword.

        class OutOfStock(Rejection):
            sku: str
            available: int

    `name` is what the journal keeps; it defaults to the class's name. Set it (`name = "out-of-stock"`) before renaming a class.
    """

    name: ClassVar[str] = "Rejection"
    codecs: ClassVar[Mapping[str, Codec[Any]]] = MappingProxyType({})

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        if "name" not in cls.__dict__:
            cls.name = cls.__name__
        what = "rejection"
        if not isinstance(cls.name, str):
            raise DefinitionError(
                what=what, name=cls.__name__, problem="its `name` is not a string", advice="`name` is what is stored."
            )
        check_name(what, cls.name)
        for own in ("__init__", "__new__", "__reduce__"):
            if own in cls.__dict__:
                problem = f"it defines {own}, and could not be read back from its fields"
                raise DefinitionError(
                    what=what, name=cls.__name__, problem=problem, advice="Declare fields; override __str__ for its text."
                )
        for taken in sorted(set(inspect.get_annotations(cls)) & set(dir(Rejection))):
            problem = f"its field {taken!r} has a name that rejections use themselves"
            raise DefinitionError(what=what, name=cls.__name__, problem=problem, advice="Give the field another name.")
        frame = inspect.currentframe()
        hints = resolved_hints(cls, what, cls.__name__, frame.f_back if frame else None)
        dataclass(kw_only=True, eq=False, repr=False)(cls)
        cls.codecs = {item.name: Codec(hints[item.name], what=what, name=cls.__name__) for item in fields(cls)}  # type: ignore[arg-type]

    def __reduce__(self) -> tuple[Any, ...]:
        return _rebuild, (type(self), {name: getattr(self, name) for name in self.codecs})

    def __eq__(self, other: object) -> bool:
        if type(self) is not type(other):
            return NotImplemented
        return all(getattr(self, name) == getattr(other, name) for name in self.codecs)

    def __hash__(self) -> int:
        return hash((type(self), self.name))  # fields may be unhashable; equal rejections still hash alike

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._shown()})"

    def __str__(self) -> str:
        shown = self._shown()
        return f"{self.name}: {shown}" if shown else self.name

    def _shown(self) -> str:
        """A field that may hold something secret is withheld as a whole: this text goes into messages, which are stored and printed."""
        told = {name: "<secret>" if codec.veils.any else repr(getattr(self, name)) for name, codec in self.codecs.items()}
        return ", ".join(f"{name}={value}" for name, value in told.items())


class NameTaken(Rejection):
    """Every effect may be rejected with this one, undeclared: somebody else's object has the name, and ours can no longer follow."""


def encode_rejection(error: Rejection) -> dict[str, JSON]:
    """The fields of a rejection. Raises ValueNotStorable."""
    where = f"rejection {type(error).__name__}"
    stored = {name: codec.encode(getattr(error, name), where=where, root=name) for name, codec in error.codecs.items()}
    check_size(dumps(stored), where=where, root="fields")
    return stored


def decode_rejection(cls: type[Rejection], stored: JSON) -> Rejection:
    """The rejection that `encode_rejection` stored. Raises ValueUnreadable if the class no longer fits."""
    where = f"rejection {cls.__name__}"
    if not isinstance(stored, dict) or set(stored) - set(cls.codecs):
        raise ValueUnreadable(where=where, path="fields", type=cls.__name__, problem="it has other fields")
    values = {name: cls.codecs[name].decode(value, where=where, root=name) for name, value in stored.items()}
    try:
        return cls(**values)
    except TypeError as error:
        raise ValueUnreadable(where=where, path="fields", type=cls.__name__, problem=str(error)) from None


def _rebuild(cls: type[Rejection], values: dict[str, Any]) -> Rejection:
    return cls(**values)
