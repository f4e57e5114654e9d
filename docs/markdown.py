"""Markdown from code: tables, signatures and docstrings, as the generated pages of the reference show them.

Knows no page. Invariant: a page that is made twice from the same code is the same.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterable
from dataclasses import MISSING, fields
from datetime import timedelta
from enum import StrEnum
from typing import Any

from recovery.core import contracts


def comments(cls: type) -> dict[str, str]:
    """The comment behind each member or field of a class, from its source."""
    found = {}
    for line in inspect.getsource(cls).splitlines():
        if match := re.match(r"    (\w+)(?::| =).*?\s#\s(.+)$", line):
            found[match[1]] = match[2]
    return found


def members(enum: type[StrEnum]) -> list[tuple[str, str]]:
    said = comments(enum)
    return [(f"`{member.value}`", said.get(member.name, "")) for member in enum]


def field_rows(cls: type) -> list[tuple[str, str, str]]:
    said = comments(cls)
    return [(f"`{item.name}`", default_of(item.default), said.get(item.name, "")) for item in fields(cls)]


def default_of(value: Any) -> str:
    if value is MISSING:
        return "required"
    return f"`{value.value if isinstance(value, StrEnum) else value!r}`"


def table(head: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> list[str]:
    lines = [head, tuple("---" for _ in head), *rows]
    return ["| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines]


def signature(shown: str, value: Any, *, bound: bool = False) -> list[str]:
    """A signature as one block of text, a parameter per line where it is long."""
    read = inspect.signature(value)
    parameters = list(read.parameters.values())[1 if bound else 0 :]
    parts: list[str] = []
    for index, parameter in enumerate(parameters):
        kinds = [other.kind for other in parameters[:index]]
        if parameter.kind is parameter.KEYWORD_ONLY and not {parameter.KEYWORD_ONLY, parameter.VAR_POSITIONAL} & set(kinds):
            parts.append("*")
        stars = {parameter.VAR_POSITIONAL: "*", parameter.VAR_KEYWORD: "**"}.get(parameter.kind, "")
        default = "" if parameter.default is parameter.empty else f" = {_value(parameter.default)}"
        parts.append(f"{stars}{parameter.name}{_annotation(parameter.annotation)}{default}")
        behind = parameters[index + 1].kind if index + 1 < len(parameters) else None
        if parameter.kind is parameter.POSITIONAL_ONLY and behind is not parameter.POSITIONAL_ONLY:
            parts.append("/")
    returns = "" if isinstance(value, type) else _annotation(read.return_annotation).replace(": ", " -> ", 1)
    prefix = "async " if inspect.iscoroutinefunction(value) else ""
    line = f"{prefix}{shown}({', '.join(parts)}){returns}"
    if len(line) > 110:
        line = f"{prefix}{shown}(\n" + "".join(f"    {part},\n" for part in parts) + f"){returns}"
    return ["```text", *line.splitlines(), "```", ""]


def _annotation(given: Any) -> str:
    if given is inspect.Parameter.empty:
        return ""
    return f": {given if isinstance(given, str) else getattr(given, '__name__', given)}"


def _value(default: Any) -> str:
    if isinstance(default, StrEnum):
        return f"{type(default).__name__}.{default.name}"
    if default == contracts.FOR_EVER:
        return "FOR_EVER"
    if isinstance(default, timedelta):
        return f"timedelta(seconds={default / timedelta(seconds=1):g})" if default else "timedelta(0)"
    return "..." if repr(default).startswith("<") else repr(default)


def prose(value: Any) -> str:
    """A docstring, its lines `name: what it is` as a list."""
    return re.sub(r"(?m)^([a-z_]+(?:, [a-z_]+)*): ", r"- `\1`: ", inspect.cleandoc(value.__doc__ or ""))


def summary(value: Any) -> str:
    return inspect.cleandoc(value.__doc__ or "").partition("\n\n")[0]
