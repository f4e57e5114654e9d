"""A line of a timeline. Owns its parts; knows nothing of entries."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Line:
    """One line: what happened, when, to which step, with details below it. `seq` is None outside the chain."""

    what: str
    at_us: int
    step: str
    text: str
    details: tuple[str, ...] = ()
    seq: int | None = None
    epoch: str = ""
