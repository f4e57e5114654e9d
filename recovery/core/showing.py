"""Showing: what of a stored value a person or a program may see.

Owns the stand-in for a value that is not at hand. Pure. Invariant: what is shown is plain JSON, and never what a stand-in stands for.
"""

from __future__ import annotations

from recovery.core.entries import JSON


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
    """The value as plain JSON for people and for `--json`."""
    if isinstance(value, Withheld):
        return value.shown()
    if isinstance(value, dict):
        return {name: shown(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [shown(item) for item in value]
    return value
