"""Verdicts: one table of rows, in order, and the first that matches.

Owns the order of the rows. Knows nothing of evidence, contracts or times (`weigh` does). Invariant: `judge` is pure and total;
equal facts give the same row for ever.
"""

from __future__ import annotations

from typing import Final

from recovery.core.errors import InvariantViolated
from recovery.core.facts import Absence, Ask, Close, Facts, Finding, Gate, Resend, all_facts
from recovery.core.rows import Action, ParkingReason, Reason, Row
from recovery.core.rows_open import UNSETTLED
from recovery.core.rows_proven import PROVEN

__all__ = [
    "ROWS", "ROW_BY_NAME", "Absence", "Action", "Ask", "Close", "Facts", "Finding", "Gate", "ParkingReason", "Reason", "Resend", "Row",
    "all_facts", "first_match", "judge",
]  # fmt: skip

ROWS: Final[tuple[Row, ...]] = (*PROVEN, *UNSETTLED)
ROW_BY_NAME: Final = {row.name: row for row in ROWS}


def judge(facts: Facts) -> Row:
    """The verdict on these facts. Raises InvariantViolated if no row matches, which would be our bug."""
    return first_match(facts, ROWS)


def first_match(facts: Facts, rows: tuple[Row, ...]) -> Row:
    """The first of `rows` that matches. Each guard thereby includes the negation of all earlier ones."""
    for row in rows:
        if row.matches(facts):
            return row
    raise InvariantViolated(f"no verdict for {facts}")
