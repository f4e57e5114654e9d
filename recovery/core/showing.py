"""Showing: what of a stored value a person or a program may see. The one place that redacts.

Owns the stored form of a secret, its looks, and the stand-in for a value that is not at hand. Pure. Invariant: what is shown is plain JSON, with
nothing in it that was declared secret, and nothing that a stand-in stands for. Whatever leaves for a terminal, a file or a log goes through here, or
is a `repr`, which withholds the same.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from recovery.core.entries import JSON

MARKED: Final = "$secret"
"""{"$secret": <value>}: a value that was declared secret. The codec escapes a user's object that looks like one."""

ESCAPED: Final = "$dict"
"""{"$dict": {...}}: a user's object that has one key, and that key looks like a mark."""

VERSIONED: Final = "$model"
"""{"$model": {"name": ..., "version": ..., "value": {...}}}: a value whose model says which version of it this is."""

MARGIN: Final = 4
"""Characters: a shorter secret is not looked for in texts, where it would cut words apart."""


_SCALARS: Final = frozenset({str, int, float, bool, type(None)})


class Veiled(dict[str, Any]):
    """The stored form of a secret in memory: plain JSON, whose `repr` withholds it, in a traceback, a log or a failed assertion too."""

    def __repr__(self) -> str:
        return "<secret>"

    __str__ = __repr__


class Withheld:
    """Stands where a value belongs that was not read. No codec reads it: who needs the value itself loads the run with its values.

    Two stand-ins are equal if they say the same, which is how values that were not read can be compared at all."""

    __slots__ = ("fields", "why")

    def __init__(self, why: str, **fields: JSON) -> None:
        self.why = why
        self.fields = fields

    def shown(self) -> dict[str, JSON]:
        return {"$withheld": self.why, **self.fields}

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Withheld) and self.shown() == other.shown()

    def __repr__(self) -> str:
        return f"<{self.why}>"


def shown(value: JSON) -> JSON:
    """The value as plain JSON for people and for `--json`: what a model says of its version is nobody's business but the codec's."""
    if isinstance(value, Withheld):
        return value.shown()
    if is_secret(value):
        return {"$withheld": "secret"}
    return _with_parts(bare(value), shown)


def revealed(value: JSON) -> JSON:
    """The value without the marks of secrets and without versions: what is compared, and what a fingerprint is made of. Never for anybody's eyes."""
    return revealed(value[MARKED]) if is_secret(value) else _with_parts(bare(value), revealed)


def bare(value: JSON) -> JSON:
    """The value without the version that it says of itself."""
    inner = value.get(VERSIONED) if isinstance(value, dict) and len(value) == 1 else None
    return inner["value"] if isinstance(inner, dict) and "value" in inner else value


def with_parts_of(value: JSON, parts: JSON) -> JSON:
    """Other parts, with the version that a value says of itself."""
    return {VERSIONED: {**value[VERSIONED], "value": parts}} if bare(value) is not value else parts


def _with_parts(value: JSON, change: Callable[[JSON], JSON]) -> JSON:
    """The value, with each of its parts changed. What is escaped is no mark, and its parts may be."""
    if isinstance(value, dict):
        if len(value) == 1 and isinstance(inner := value.get(ESCAPED), dict):
            return {ESCAPED: {name: change(item) for name, item in inner.items()}}
        return {name: change(item) for name, item in value.items()}
    return [change(item) for item in value] if isinstance(value, list | tuple) else value


def is_secret(value: JSON) -> bool:
    return isinstance(value, dict) and len(value) == 1 and MARKED in value


def is_plain(value: Any) -> bool:
    """Whether it can be seen at a glance that nothing in a value is secret: a text, a number, or an object or a list of such."""
    kind = type(value)
    if kind in _SCALARS:
        return True
    if kind is dict and MARKED not in value:
        return _SCALARS.issuperset(map(type, value.values()))
    return kind is list and _SCALARS.issuperset(map(type, value))


def secrets_in(value: Any) -> set[str]:
    """The texts in what was declared secret, of MARGIN characters and more: what must not stand in a message either."""
    if is_secret(value):
        return _texts(value[MARKED])
    found = set[str]()

    def look(part: JSON) -> JSON:
        found.update(secrets_in(part))
        return part

    _with_parts(value, look)
    return found


def without(text: str, hidden: set[str]) -> str:
    """A text for people with these cut out of it, the longest first."""
    for secret in sorted(hidden, key=len, reverse=True):
        text = text.replace(secret, "<secret>")
    return text


def _texts(value: JSON) -> set[str]:
    if isinstance(value, dict | list):
        parts = value.values() if isinstance(value, dict) else value
        return set[str]().union(*map(_texts, parts))
    text = value if isinstance(value, str) else "" if value is None else str(value)
    return {text} if len(text) >= MARGIN else set()
