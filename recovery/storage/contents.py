"""Contents: where in the JSON of an entry a user's values stand.

Owns that map, and walking by it. Must not know what is done with them. Invariant: what is not named here is the engine's own (names, times, numbers,
reasons), which everybody may read who may read the journal; a form of decision that is not known counts as a value.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, TypeAlias

from recovery.core import entries
from recovery.core.entries import JSON

Path: TypeAlias = tuple[str, ...]

_VALUES: Final[dict[str, tuple[Path, ...]]] = {
    "opened": (("input",),),
    "intent": (("arguments",),),
    "observation": (("answer", "value"),),
    "settled": (("value",), ("observation", "answer", "value")),
    "override": (("terms",),),
}
_TAKEN_OVER: Final = (("value", "settled", "value"), ("value", "settled", "observation", "answer", "value"))
_OF_FORM: Final[dict[str, tuple[Path, ...]]] = {
    "": (("value",),),
    entries.WAIT: (("value", "about", "arguments"),),
    entries.ANSWER: (("value", "value"),),
    entries.UNFIT: (("value", "problem"),),
    entries.PUBLISHED: (("value", "value"),),
    entries.ADOPTED: (("value", "settled", "value"),),
    **dict.fromkeys((entries.INHERITED, entries.ANEW, entries.FORBIDDEN), _TAKEN_OVER),
    **dict.fromkeys(
        (
            entries.BRANCHES, entries.NOW, entries.RANDOM, entries.UUID, entries.TIMER, entries.FIRED, entries.PATCHED, entries.UNDOING,
            entries.DEADLINE, entries.CHILD, entries.AWAITED, entries.OVERDUE, entries.LAPSED,
        ),
        (),
    ),
}  # fmt: skip
"""Of decisions: the other forms are what the engine notes for itself."""

TEXTS: Final[dict[str, tuple[Path, ...]]] = {
    "opened": (("input_digest",),),
    "decision": (
        ("fingerprint",), ("value", "fingerprint"),
        ("value", "settled", "observation", "answer", "fingerprint"), ("value", "settled", "observation", "answer", "detail"),
    ),
    "intent": (("fingerprint",),),
    "observation": (("answer", "fingerprint"), ("answer", "detail")),
    "settled": (("observation", "answer", "fingerprint"), ("observation", "answer", "detail")),
    "override": (("grounds",), ("grounds_digest",)),
}  # fmt: skip
"""Texts that tell of values: digests that a short value could be guessed from, and what somebody said about an answer."""

BY_NAME: Final = frozenset({("input",), ("arguments",)})
"""Values that hold others by name."""


EMPTY: Final = frozenset({"detail", "grounds"})
"""Texts that stand for nothing where they are left out."""

UNTOLD: Final = "terms"
"""A list of what is to become of earlier effects: left out whole, where it is not at hand."""


def values_in(kind: str, body: Mapping[str, JSON]) -> tuple[Path, ...]:
    """The paths at which an entry of this kind may have a user's value."""
    if kind == "decision":
        return _OF_FORM.get(body.get("form", ""), (("value",),))
    return _VALUES.get(kind, ())


def at(body: Mapping[str, JSON], path: Path) -> JSON:
    """What stands there; None where nothing does."""
    found: Any = body
    for name in path:
        found = found.get(name) if isinstance(found, dict) else None
    return found


def put(body: dict[str, JSON], path: Path, value: JSON) -> None:
    """Put something there, copying what holds it: an entry's own values are not ours to change. Raises ValueError where nothing holds it."""
    holder = body
    for name in path[:-1]:
        if not isinstance(holder.get(name), dict):
            raise ValueError(f"there is no {'.'.join(path)!r} in it")  # noqa: TRY004  # what is stored is wrong, not what was given
        holder[name] = dict(holder[name])
        holder = holder[name]
    holder[path[-1]] = value
