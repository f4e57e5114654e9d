"""Editing: a shipped function, compiled again from its own text with a few lines changed.

Owns the change of text. Knows no bugs. Invariant: what is to be replaced stands in the function exactly as often as it says, so that an edit
whose text has moved on fails instead of changing nothing.
"""

from __future__ import annotations

import inspect
import textwrap
from collections.abc import Callable
from types import FunctionType
from typing import Any


def edited(function: Callable[..., Any], *changes: tuple[str, str]) -> Callable[..., Any]:
    """`function` with each (before, after) made in its text. Indentation counts from the `def`. Raises ValueError."""
    assert isinstance(function, FunctionType)
    text = textwrap.dedent(inspect.getsource(function))
    for before, after in changes:
        if text.count(before) != 1:
            raise ValueError(f"{function.__qualname__} contains {text.count(before)} times: {before}")
        text = text.replace(before, after)
    names: dict[str, Any] = {}
    flags = function.__code__.co_flags & _FUTURES
    exec(compile(text, f"<{function.__qualname__}, edited>", "exec", flags, dont_inherit=True), function.__globals__, names)
    made: Callable[..., Any] = names[function.__name__]
    return made


_FUTURES = 0x1000000  # of a function's code: its annotations are text (PEP 563)
