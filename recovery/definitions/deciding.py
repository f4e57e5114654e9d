"""A decision to be made: the user's function with its arguments, and how its value is stored.

Owns how a deciding function's type and arguments are read. Knows no engine. Invariant: the value that the workflow gets went through the
codec, on the first run and on replay.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, get_type_hints

from pydantic_core import to_jsonable_python

from recovery import codec
from recovery.codec import Codec, any_codec
from recovery.core.entries import JSON
from recovery.core.ids import MODELS
from recovery.definitions.retry import Retried, Retry
from recovery.identical import unfit
from recovery.upcasting import versions_in


@dataclass(frozen=True, slots=True)
class Deciding:
    """`function(*args, **kwargs)`, made once and journaled. `fingerprint`: of its arguments, and behind it the versions of the versioned models
    among them."""

    name: str
    function: Callable[..., Any]
    args: tuple[Any, ...] = field(repr=False)  # the workflow's own values: whether one is secret is not known here
    kwargs: dict[str, Any] = field(repr=False)
    retry: Retry | None = field(init=False, default=None)
    fingerprint: str = field(init=False)

    def __post_init__(self) -> None:
        if isinstance(self.function, Retried):
            object.__setattr__(self, "retry", self.function.retry)
            object.__setattr__(self, "function", self.function.fn)
        object.__setattr__(self, "fingerprint", _fingerprint(self.args, self.kwargs))

    def make(self) -> Any:
        """Call the function. A coroutine if it is async."""
        return self.function(*self.args, **self.kwargs)

    @property
    def is_async(self) -> bool:
        return inspect.iscoroutinefunction(self.function)

    def encode(self, value: Any) -> JSON:
        """Raises ValueNotStorable naming the decision."""
        return _codec_of(self.function).encode(value, where=f"decision {self.name!r}")

    def decode(self, value: JSON) -> Any:
        return _codec_of(self.function).decode(value, where=f"decision {self.name!r}")


@lru_cache(maxsize=1024)
def _codec_of(function: Callable[..., Any]) -> Codec[Any]:
    """For the annotated return type, else for plain JSON. Kept, since building one costs more than the decision's commit."""
    try:
        hints = get_type_hints(function, include_extras=True)  # what is declared secret is an extra
    except (NameError, TypeError):
        hints = {}
    returns = hints.get("return", Any)
    return any_codec() if returns is Any else Codec(returns)


def _fingerprint(args: tuple[Any, ...], kwargs: dict[str, Any]) -> str:
    """Of every argument that has a JSON form, and of the types of those that have none (clients, open files, and sets, whose order is
    another one in each process): a prompt beside a client is still compared."""
    forms = {"args": [_form(value) for value in args], "kwargs": {name: _form(value) for name, value in kwargs.items()}}
    models = versions_in([*args, *kwargs.values()])
    told = ",".join(f"{name}={models[name]}" for name in sorted(models))
    return codec.fingerprint(forms) + (f"{MODELS}{told}" if told else "")


def _form(value: Any) -> JSON:
    with suppress(Exception):  # serializers and properties are the user's code and may raise anything
        if unfit(value, "") is None:
            form = to_jsonable_python(value)
            codec.canonical(form)  # an integer beyond 2^53 has no canonical form
            return form
    return {"$type": type(value).__qualname__}
