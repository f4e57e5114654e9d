"""A decision to be made: the user's function with its arguments, and how its value is stored.

Owns how a deciding function's type and arguments are read. Knows no engine. Invariant: the value that the workflow gets went through the
codec, on the first run and on replay.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, get_type_hints

from pydantic_core import to_jsonable_python

from recovery import codec
from recovery.codec import Codec
from recovery.core.entries import JSON
from recovery.identical import unfit


@dataclass(frozen=True, slots=True)
class Deciding:
    """`function(*args, **kwargs)`, made once and journaled. `fingerprint`: of its arguments, "" where they have no JSON form."""

    name: str
    function: Callable[..., Any]
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    fingerprint: str = field(init=False)

    def __post_init__(self) -> None:
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
        return _codec_of(self.function).decode(value)


@lru_cache(maxsize=1024)
def _codec_of(function: Callable[..., Any]) -> Codec[Any]:
    """For the annotated return type, else for plain JSON. Kept, since building one costs more than the decision's commit."""
    try:
        hints = get_type_hints(function)
    except (NameError, TypeError):
        hints = {}
    return Codec(hints.get("return", Any))


def _fingerprint(args: tuple[Any, ...], kwargs: dict[str, Any]) -> str:
    """Arguments such as clients and open files have no JSON form, and sets have another one in each process; the decision is then
    checked by its place and name alone."""
    if unfit((args, kwargs), "") is not None:
        return ""
    try:
        return codec.fingerprint(to_jsonable_python({"args": list(args), "kwargs": kwargs}))
    except (ValueError, TypeError, RecursionError):
        return ""
