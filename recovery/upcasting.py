"""Upcasting: models that say which version of them a stored value has, and functions that bring an older one up to date.

Owns the declaration, the chain of functions, and where in a value such models are. Must not know what a journal is. Invariants: a stored value is
never changed, only what is read from it; a value that says its version is read by that version and by no guess; where the chain has a gap, or
the value is newer than the code, reading fails and says so.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, fields, is_dataclass
from typing import Any, Final, TypeAlias, TypeVar

from pydantic import BaseModel, TypeAdapter

from recovery.core.errors import DefinitionError
from recovery.core.showing import VERSIONED
from recovery.core.wording import of_type
from recovery.redaction import MARK
from recovery.undated import Current, Dating

C = TypeVar("C", bound=type)

Upcaster: TypeAlias = Callable[[dict[str, Any]], Any]
"""Given the plain JSON object of one version, gives that of the next one."""

UNDATED: Final = 0
"""The version of what was stored before its model said one."""

_DECLARED: Final = "__recovery_versioned__"


@dataclass(slots=True)
class Declared:
    """What a class says of itself. upcasters: by the version that they begin from."""

    cls: type
    name: str
    version: int
    upcasters: dict[int, Upcaster] = field(default_factory=dict)


class Outdated(Exception):
    """A stored value cannot be brought up to date. One clause, which does not quote the value."""


@dataclass(frozen=True, slots=True)
class Tagged:
    """On its way through the codec: the JSON of a value whose model says its version."""

    name: str
    version: int
    value: dict[str, Any]


def versioned(version: int, *, name: str | None = None) -> Callable[[C], C]:
    """Declare the version of a pydantic model or dataclass: each value of it is stored with that number.

    version: 1 or more; raise it whenever a stored value of the version before cannot be read as it stands, or would mean something else.
    name: what is stored; the class's name by default. Set it before renaming the class.

    Raises DefinitionError."""

    def declare(cls: C) -> C:
        given: Any = cls
        known: str = name or str(getattr(given, "__name__", given))
        if not isinstance(given, type) or not (issubclass(given, BaseModel) or is_dataclass(given)):
            raise _refused(known, "it is neither a pydantic model nor a dataclass", "Put the decorator above `@dataclass`.")
        if type(version) is not int or version < 1:
            raise _refused(known, f"{version!r} is no version", "Count from 1.")
        setattr(cls, _DECLARED, Declared(cls, known, version))
        return cls

    return declare


def upcaster(cls: type, *, from_version: int) -> Callable[[Upcaster], Upcaster]:
    """Define how a stored value of one version becomes one of the next. It gets the plain JSON object and returns one; models inside are up to date.

    from_version: 0 is for values that were stored before their model said a version. They are tried as they stand first, and brought up to date
    where they do not fit.

    Raises DefinitionError."""

    def define(fn: Upcaster) -> Upcaster:
        declared = declared_of(cls)
        title = getattr(cls, "__name__", repr(cls))
        if declared is None:
            raise _refused(title, "it says no version", "Declare one with `@versioned(2)`.")
        if type(from_version) is not int or not UNDATED <= from_version < declared.version:
            raise _refused(
                title, f"{from_version!r} is no earlier version than {declared.version}", "Name the version it begins from."
            )
        if from_version in declared.upcasters:
            raise _refused(title, f"it has an upcaster from version {from_version} already", "Define one for each.")
        declared.upcasters[from_version] = fn
        return fn

    return define


def declared_of(cls: Any) -> Declared | None:
    """What the class itself says; a subclass is another model, which says its own."""
    return vars(cls).get(_DECLARED) if isinstance(cls, type) else None


class Models:
    """The versioned models that a type can hold, by name. Found when they are first asked for, since upcasters follow their classes."""

    __slots__ = ("_by_name", "_schema", "any")

    def __init__(self, adapter: TypeAdapter[Any]) -> None:
        self._schema: Any = adapter.core_schema
        found = {id(declared): declared for declared in map(declared_of, _classes(self._schema)) if declared is not None}
        self._by_name = {declared.name: declared for declared in found.values()}
        self.any = bool(found)
        if len(self._by_name) < len(found):
            names = sorted(declared.name for declared in found.values())
            raise ValueError(f"two models in it are stored under one name ({', '.join(names)})")

    def current(self, tag: Any) -> Any:
        """The JSON of a value that says its version, as of today. Raises Outdated."""
        try:
            name, version, value = tag["name"], int(tag["version"]), tag["value"]
        except (TypeError, KeyError, ValueError) as error:
            raise Outdated("what says its version there is no versioned value") from error
        declared = self._by_name.get(name)
        if declared is None:
            known = ", ".join(sorted(self._by_name)) or "none"
            raise Outdated(
                f"it was stored as version {version} of model {name!r}, which is not in the type (versioned models there: {known})"
            )
        return Current(_brought(declared, version, value))

    @property
    def undated(self) -> bool:
        """Whether some of them know what to do with values that say no version."""
        return any(UNDATED in declared.upcasters for declared in self._by_name.values())

    def dated(self, tree: Any) -> Any:
        """The JSON of a value, with each model that says no version and stands in a place of its own brought up to date. Raises Outdated."""
        return Dating(_undated).walked(self._schema, [tree])[0]  # a codec's adapter is of a one-tuple


def _undated(cls: type, value: dict[str, Any]) -> Any:
    declared = declared_of(cls)
    return value if declared is None or UNDATED not in declared.upcasters else _brought(declared, UNDATED, value)


def _brought(declared: Declared, version: int, value: Any) -> Any:
    if version > declared.version:
        raise Outdated(f"it is version {version} of model {declared.name!r}, and this code has version {declared.version}")
    for step in range(version, declared.version):
        fn = declared.upcasters.get(step)
        if fn is None:
            if step == UNDATED:
                continue  # what said no version stands as the first one
            raise Outdated(
                f"it is version {version} of model {declared.name!r}, and nothing brings version {step} up to {step + 1}"
            )
        try:
            value = fn(copy.deepcopy(value))
        except Exception as error:  # the user's code, whose words may quote the value
            raise Outdated(f"the upcaster of model {declared.name!r} from version {step} raises {type(error).__name__}") from error
        if not isinstance(value, dict):
            raise Outdated(f"the upcaster of model {declared.name!r} from version {step} gives {of_type(value)}, not an object")
    return value


def tagged(value: Any, tree: Any) -> Any:
    """The JSON of a value, with the version of each model in it that says one. Where a serializer of its own gave it another shape, nothing
    below is found; the codec notices if that cannot be read back."""
    if isinstance(tree, dict) and len(tree) == 1 and MARK in tree:
        return {MARK: tagged(value, tree[MARK])}
    parts = _parts(value)
    if isinstance(parts, Mapping) and type(tree) is dict:
        if not isinstance(value, BaseModel) and not is_dataclass(value) and len(parts) == len(tree):
            tree = {key: tagged(inner, item) for (key, item), inner in zip(tree.items(), parts.values(), strict=True)}
        else:
            tree = {key: tagged(parts[key], item) if key in parts else item for key, item in tree.items()}
    elif isinstance(parts, list) and type(tree) is list and len(parts) == len(tree):
        return [tagged(inner, item) for inner, item in zip(parts, tree, strict=True)]
    declared = declared_of(type(value))
    return Tagged(declared.name, declared.version, tree) if declared is not None and type(tree) is dict else tree


def versions_in(values: Any) -> dict[str, int]:
    """The versioned models among these values, at any depth."""
    found: dict[str, int] = {}
    for each in _inside(values, 0):
        if (declared := declared_of(type(each))) is not None:
            found[declared.name] = declared.version
    return found


def _inside(value: Any, depth: int) -> Iterator[Any]:
    yield value
    parts = _parts(value) if depth < _DEPTH_MAX else None
    for part in parts.values() if isinstance(parts, Mapping) else parts or ():
        yield from _inside(part, depth + 1)


_DEPTH_MAX: Final = 100


def _parts(value: Any) -> Mapping[str, Any] | list[Any] | None:
    """What a value consists of: by the names that its JSON has, or in order."""
    if isinstance(value, BaseModel):
        described = type(value).model_fields
        return {(described[name].serialization_alias or name) if name in described else name: part for name, part in value}
    if is_dataclass(value) and not isinstance(value, type):
        return {item.name: getattr(value, item.name, None) for item in fields(value)}
    if isinstance(value, Mapping):
        return {str(key): part for key, part in value.items()}
    return list(value) if isinstance(value, list | tuple | set | frozenset) else None


def _classes(schema: Any) -> Iterator[type]:
    """The classes of models and dataclasses in a core schema, wherever they are."""
    waiting, seen = [schema], set[int]()
    while waiting:
        part = waiting.pop()
        if id(part) in seen:
            continue
        seen.add(id(part))
        if isinstance(part, dict):
            if part.get("type") in {"model", "dataclass"} and isinstance(part.get("cls"), type):
                yield part["cls"]
            waiting += [inner for name, inner in part.items() if name != "metadata" and isinstance(inner, dict | list | tuple)]
        elif isinstance(part, list | tuple):
            waiting += [inner for inner in part if isinstance(inner, dict | list | tuple)]


def _refused(name: str, problem: str, advice: str) -> DefinitionError:
    return DefinitionError(what="model", name=name, problem=problem, advice=advice)


def stored_tag(of: Tagged, value: Any) -> dict[str, Any]:
    """The stored form of a versioned value, whose parts have theirs."""
    return {VERSIONED: {"name": of.name, "version": of.version, "value": value}}
