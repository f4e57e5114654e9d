"""Verdicts: what a play has shown, from what really happened and from what was claimed.

Owns the names of the cells and whether each keeps the promise: True, False, or None where the play shows neither. Pure.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from typing import Any, Final, NamedTuple

from tests.judge.programs import Claim


class Cell(StrEnum):
    ONCE = "once"  # one effect, and its outcome is what is claimed
    REFUSED = "refused"  # one effect; a later, other request under its name was refused
    IN_DOUBT = "in doubt"  # at most one effect, and the program says that it does not know
    TWICE = "twice"  # more than one effect
    WRONG = "wrong"  # an outcome is claimed that is not what happened, or not what was asked for
    ENDLESS = "never ends"
    ERROR = "error"  # at most one effect, and the program says neither an outcome nor that it does not know
    NOT_OFFERED = "not offered"  # the case is about something that this service does not have
    SKIPPED = "skipped"  # what the case needs is not here


KEPT: Final[dict[Cell, bool | None]] = {
    Cell.ONCE: True,
    Cell.REFUSED: True,
    Cell.IN_DOUBT: True,
    Cell.TWICE: False,
    Cell.WRONG: False,
    Cell.ENDLESS: False,
    Cell.ERROR: None,
    Cell.NOT_OFFERED: None,
    Cell.SKIPPED: None,
}


class Shown(NamedTuple):
    """effects: how many there were. why: what the program said last, or what was missing."""

    cell: Cell
    effects: int = 0
    why: str = ""

    @property
    def kept(self) -> bool | None:
        return KEPT[self.cell]


def conclude(effects: Sequence[dict[str, Any]], claims: Sequence[Claim]) -> Shown:
    """claims: everything that was said in the play, in order. The last one counts for what is known; a wrong outcome counts wherever it was said."""
    last = claims[-1]
    if len(effects) > 1:
        return Shown(Cell.TWICE, len(effects), _said(last))
    if false := next((claim for claim in claims if claim.kind == "outcome" and not _true(claim, effects)), None):
        return Shown(Cell.WRONG, len(effects), _said(false))
    return Shown(_of(last, effects, claims), len(effects), _said(last))


def _of(last: Claim, effects: Sequence[dict[str, Any]], claims: Sequence[Claim]) -> Cell:
    match last.kind:
        case "outcome":
            return Cell.ONCE
        case "refused" if effects and any(claim.kind == "outcome" for claim in claims):
            return Cell.REFUSED
        case "in doubt" | "later":  # later: it names neither an outcome nor a failure, and nothing was repeated
            return Cell.IN_DOUBT
        case "never ends":
            return Cell.ENDLESS
        case _:
            return Cell.ERROR


def _true(claim: Claim, effects: Sequence[dict[str, Any]]) -> bool:
    return claim.units == claim.units_asked and any((made["id"], made["units"]) == (claim.id, claim.units) for made in effects)


def _said(claim: Claim) -> str:
    return f"{claim.kind} {claim.id}".strip() + (f": {claim.why}" if claim.why else "")
