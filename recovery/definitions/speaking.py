"""Speaking: what a workflow says while it runs, to nobody in particular.

Owns the logger of a run and the stored form of publications. Knows no engine. Invariant: nothing here is read back by the workflow, so that what is said
never decides what is done.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

from pydantic_core import PydanticSerializationError, to_jsonable_python

from recovery.codec import check_stored
from recovery.core.entries import JSON
from recovery.core.errors import ValueNotStorable
from recovery.core.wording import of_type


class RunLog:
    """As `recovery.logs.Log`, of one run: `event` is a fixed phrase, what varies goes into fields."""

    __slots__ = ("_say",)

    def __init__(self, say: Callable[[int, str, dict[str, Any]], None]) -> None:
        self._say = say

    def debug(self, event: str, /, **fields: Any) -> None:
        self._say(logging.DEBUG, event, fields)

    def info(self, event: str, /, **fields: Any) -> None:
        self._say(logging.INFO, event, fields)

    def warning(self, event: str, /, **fields: Any) -> None:
        self._say(logging.WARNING, event, fields)

    def error(self, event: str, /, **fields: Any) -> None:
        self._say(logging.ERROR, event, fields)


def spoken(what: str, value: Any) -> JSON:
    """A value that is read as plain JSON, in stored form. `what`: for the error. Raises ValueNotStorable."""
    try:
        stored = to_jsonable_python(value)
    except (PydanticSerializationError, ValueError, TypeError) as error:
        problem = f"{of_type(value)} has no JSON form"
        raise ValueNotStorable(
            where=what, path="value", problem=problem, advice="Use JSON types, dataclasses or pydantic models."
        ) from error
    check_stored(stored, where=what, root="value")
    return stored
