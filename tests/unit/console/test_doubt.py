"""Doubt: for every reason to park there is a sentence that says what would settle it."""

from __future__ import annotations

from recovery.console.doubt import SETTLED_BY
from recovery.core.reasons import HoldReason
from recovery.core.rows import Action
from recovery.core.verdicts import ROWS


def test_every_row_that_parks_says_what_would_settle_it_and_so_does_every_hold() -> None:
    assert {row.reason for row in ROWS if row.action is Action.PARK} | set(HoldReason) == set(SETTLED_BY)


def test_the_sentences_are_sentences() -> None:
    assert [text for text in SETTLED_BY.values() if not text.endswith((".", "?"))] == []
