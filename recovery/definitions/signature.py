"""Signatures: the parameters of an effect or workflow as codecs by name.

Owns how a function's parameters and annotations become stored JSON and come back. Must not know what the function is for.
Invariant: arguments are stored by name with defaults written out, so that a later default never changes a stored call.
"""

from __future__ import annotations

import inspect
import typing
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import FrameType
from typing import Any, Final

from pydantic import TypeAdapter

from recovery.codec import Codec, is_itself
from recovery.core.entries import JSON
from recovery.core.errors import DefinitionError, ValueNotStorable, ValueUnreadable
from recovery.core.ids import STEP_NAME_PATTERN

_VARIADIC: Final = {inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD}


@dataclass(frozen=True, slots=True)
class Signature:
    """`fn` without its first parameter (the call or the run), every other parameter with its codec."""

    where: str  # "effect reserve", for messages
    first: Any  # the annotation of the first parameter
    parameters: Mapping[str, Codec[Any]]
    defaults: Mapping[str, JSON]
    returns: Any
    is_async: bool
    form: inspect.Signature
    names: tuple[str, ...]
    plain: tuple[type, ...] | None  # the types of its parameters, where each is a text, an integer, a boolean or None

    def takes(self, given: Mapping[str, Any]) -> bool:
        """Whether these are all its arguments in their order, and their stored form is what they are: then `encode` has nothing to do."""
        if self.plain is None or tuple(given) != self.names:
            return False
        for value, kind in zip(given.values(), self.plain, strict=True):
            if type(value) is not kind or not is_itself(value):
                return False
        return True

    def encode(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> dict[str, JSON]:
        """The arguments by name, in the order of the parameters. Raises TypeError and ValueNotStorable."""
        given: Mapping[str, Any] = kwargs  # each by its name, as is usual
        if args or kwargs.keys() != self.parameters.keys():
            try:
                given = self.form.bind(*args, **kwargs).arguments
            except TypeError as error:
                raise TypeError(f"{self.where}: {error}") from None
        stored: dict[str, JSON] = {}
        for name, codec in self.parameters.items():
            stored[name] = codec.encode(given[name], where=self.where, root=name) if name in given else self.defaults[name]
        return stored

    def decode(self, stored: Mapping[str, JSON]) -> dict[str, Any]:
        """Fresh values for one call. Raises ValueUnreadable if the function no longer fits what is stored."""
        if tuple(map(type, stored.values())) == self.plain and tuple(stored) == self.names:
            return dict(stored)
        if (problem := self._misfit(stored)) is not None:
            raise ValueUnreadable(where=self.where, path=problem[0], type="its parameters", problem=problem[1])
        return {
            name: codec.decode(stored.get(name, self.defaults.get(name)), where=self.where, root=name)
            for name, codec in self.parameters.items()
        }

    def parse(self, given: Mapping[str, Any]) -> dict[str, JSON]:
        """Plain JSON from outside, validated and stored. Raises ValueNotStorable."""
        if (problem := self._misfit(given)) is not None:
            raise ValueNotStorable(where=self.where, path=problem[0], problem=problem[1], advice="Give the parameters that it has.")
        parsed = {name: self.parameters[name].parse(value, where=self.where, root=name) for name, value in given.items()}
        return self.encode((), parsed)

    def json_schema(self) -> dict[str, JSON]:
        """JSON Schema of an object with the parameters."""
        adapters: list[tuple[str, typing.Literal["validation"], TypeAdapter[Any]]]
        adapters = [(name, "validation", codec.adapter) for name, codec in self.parameters.items()]
        schemas, shared = TypeAdapter.json_schemas(adapters)
        properties: dict[str, JSON] = {}
        for name in self.parameters:
            # a codec's adapter is a one-tuple of the type
            properties[name] = dict(schemas[name, "validation"]["prefixItems"][0])
            if name in self.defaults:
                properties[name]["default"] = self.defaults[name]
        required = [name for name in self.parameters if name not in self.defaults]
        return {"type": "object", "properties": properties, "required": required, "additionalProperties": False, **shared}

    def _misfit(self, given: Mapping[str, Any]) -> tuple[str, str] | None:
        if given.keys() == self.parameters.keys():
            return None
        if unknown := sorted(set(given) - set(self.parameters)):
            return unknown[0], "there is no such parameter"
        missing = [name for name in self.parameters if name not in given and name not in self.defaults]
        return (missing[0], "it is missing") if missing else None


def read_signature(
    fn: Callable[..., Any], *, what: str, name: str, first: str, frame: FrameType | None, outcome: Codec[Any] | None = None
) -> Signature:
    """The signature of `fn`. `first` names the kind of the first parameter; `frame` is where the definition stands, so that
    types local to a function resolve too. outcome: of another effect, whose codec any parameter of that type takes over. Raises
    DefinitionError with what to change."""
    check_name(what, name)
    check_function(fn, what, name, first)
    hints = resolved_hints(fn, what, name, frame)
    lead, *rest = inspect.signature(fn).parameters.values()
    for parameter in rest:
        _check_parameter(parameter, hints, what, name)
    if "return" not in hints:
        raise DefinitionError(
            what=what,
            name=name,
            problem="its result has no type",
            advice="Annotate what it returns, with `-> None` if that is nothing.",
        )
    codecs = {item.name: _codec(hints[item.name], outcome, what, name) for item in rest}
    return Signature(
        where=f"{what} {name}",
        first=hints.get(lead.name, inspect.Parameter.empty),
        parameters=codecs,
        defaults=_defaults(rest, codecs, what, name),
        returns=hints["return"],
        is_async=inspect.iscoroutinefunction(fn),
        form=inspect.Signature(rest),
        names=tuple(codecs),
        plain=_plain(codecs),
    )


def _plain(codecs: Mapping[str, Codec[Any]]) -> tuple[type, ...] | None:
    """The types of parameters whose arguments may need no look at what they are. Names beyond ASCII are sorted otherwise in a canonical form."""
    kinds = [codec.plain for name, codec in codecs.items() if name.isascii()]
    if len(kinds) < len(codecs) or None in kinds or float in kinds:
        return None
    return tuple(kind for kind in kinds if kind is not None)


def _codec(type_: Any, outcome: Codec[Any] | None, what: str, name: str) -> Codec[Any]:
    """An outcome is stored as an argument as it is stored as an outcome: a batch is more than its type says, namely what may be rejected."""
    return outcome if outcome is not None and outcome.type == type_ else Codec[Any](type_, what=what, name=name)


def resolved_hints(fn: Any, what: str, name: str, frame: FrameType | None) -> dict[str, Any]:
    """The annotations of a function or class, strings evaluated. Raises DefinitionError if one cannot be."""
    # another module's names must not shadow those of the function's own
    local = dict(frame.f_locals) if frame is not None and frame.f_globals is getattr(fn, "__globals__", frame.f_globals) else None
    try:
        return typing.get_type_hints(fn, localns=local, include_extras=True)
    except (NameError, AttributeError, TypeError, SyntaxError) as error:
        raise DefinitionError(
            what=what,
            name=name,
            problem=f"an annotation cannot be resolved ({error})",
            advice="Import its type where the definition stands, and not only under TYPE_CHECKING.",
        ) from error


def check_name(what: str, name: str) -> None:
    if not STEP_NAME_PATTERN.fullmatch(name):
        raise DefinitionError(
            what=what,
            name=name,
            problem="its name cannot name a step",
            advice="Pass name= with 1 to 64 characters out of A-Z a-z 0-9 . _ : -",
        )


def check_function(fn: Any, what: str, name: str, first: str) -> None:
    """Only a plain or async function with a first parameter will do."""
    if not inspect.isfunction(fn) and not inspect.ismethod(fn):
        problem = f"{type(fn).__name__} is not a function"
    elif inspect.isgeneratorfunction(fn) or inspect.isasyncgenfunction(fn):
        problem = "it is a generator, which cannot be one call with one outcome"
    elif not (parameters := list(inspect.signature(fn).parameters.values())) or parameters[0].kind in {
        *_VARIADIC,
        inspect.Parameter.KEYWORD_ONLY,
    }:
        problem = f"it has no positional first parameter for the {first}"
    else:
        return
    raise DefinitionError(
        what=what, name=name, problem=problem, advice=f"Write a `def` or `async def` whose first parameter is a {first}."
    )


def _check_parameter(parameter: inspect.Parameter, hints: Mapping[str, Any], what: str, name: str) -> None:
    if parameter.kind in _VARIADIC:
        stars = "*" if parameter.kind is inspect.Parameter.VAR_POSITIONAL else "**"
        problem = f"it takes {stars}{parameter.name}, and arguments are stored by name"
        advice = "Name every parameter; use one list or dict parameter for what varies."
    elif parameter.kind is inspect.Parameter.POSITIONAL_ONLY:
        problem = f"its parameter {parameter.name!r} is positional-only, and arguments are passed by name"
        advice = "Move the `/` behind the first parameter."
    elif parameter.name not in hints:
        problem = f"its parameter {parameter.name!r} has no type"
        advice = "Annotate it, so that its values can be stored and read back."
    else:
        return
    raise DefinitionError(what=what, name=name, problem=problem, advice=advice)


def _defaults(rest: list[inspect.Parameter], codecs: Mapping[str, Codec[Any]], what: str, name: str) -> dict[str, JSON]:
    stored: dict[str, JSON] = {}
    for parameter in rest:
        if parameter.default is inspect.Parameter.empty:
            continue
        try:
            stored[parameter.name] = codecs[parameter.name].encode(parameter.default, root=parameter.name)
        except ValueNotStorable as error:
            problem = f"the default of {parameter.name!r} cannot be stored ({error.problem})"
            raise DefinitionError(what=what, name=name, problem=problem, advice=error.advice) from None
    return stored
