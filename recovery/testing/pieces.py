"""Pieces: a run as a store has it, all at once and not verified, for who compares what is stored."""

from __future__ import annotations

from recovery.core.chain import Row, row_of
from recovery.ports import Reading, RunRow, Stored


def in_one_piece(journal: Reading, run_id: str) -> tuple[RunRow, list[Row], dict[str, str]] | None:
    """The run row, all its journal rows in order, and its contracts by digest (JSON text), in one snapshot. None: there is no such run."""
    return journal.stream(run_id, joined)


def joined(stored: Stored) -> tuple[RunRow, list[Row], dict[str, str]]:
    """The same of what a store gives."""
    return stored.run, [row_of(each) for portion in stored.portions for each in portion], stored.contracts
