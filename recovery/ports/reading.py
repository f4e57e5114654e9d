"""What anybody reads of runs, without owning them and without changing anything.

Owns what a run looks like as it is stored, and the promises of reading it. Knows no write. Invariant: no method here creates a
database, or changes a row.
"""

# pyright: reportReturnType=false
# The body of a protocol's method is its docstring; mypy checks those who implement it.
from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol

from recovery.core.chain import Row
from recovery.core.entries import Status
from recovery.ports.runs import RunRow
from recovery.ports.telling import Evidence


class Stored(NamedTuple):
    """One run as it is stored, of which nothing has been verified. spoken_to: whether anything is in its inbox."""

    run: RunRow
    rows: list[Row]
    contracts: dict[str, str]
    late: list[Evidence]
    spoken_to: bool


class Reading(Protocol):
    """Runs, their rows, and what those refer to."""

    def find(self, run_id: str) -> RunRow | None:
        """The run row, read committed. None if there is none; never creates a database."""

    def find_all(self, run_ids: Sequence[str]) -> dict[str, RunRow]:
        """`find` of each, by run id; one that is not there is left out."""

    def runs(
        self, *, statuses: Sequence[Status] | None = None, reason: str | None = None, limit: int = 1000, after: str = ""
    ) -> list[RunRow]:
        """Run rows by run id, those behind `after`. Costs what it returns, but for a `reason`, which is looked for in all."""

    def load(self, run_id: str) -> tuple[RunRow, list[Row], dict[str, str]] | None:
        """The run row, all its journal rows in order, and its contracts by digest (JSON text), as one consistent snapshot."""

    def load_many(self, run_ids: Sequence[str]) -> dict[str, Stored]:
        """`load`, `evidence` and whether there is an `inbox`, of each of these runs, as one consistent snapshot of all of them.
        Left out is a run that is not there, that was forgotten, or of which a row cannot be read: whoever loads it by itself is
        told. All of it is in memory at once."""

    def first_rows(self, run_ids: Sequence[str]) -> dict[str, Row]:
        """The first row of each of these runs, read committed; not verified. Left out is a run that is not there, or forgotten."""

    def payloads(self, digests: Sequence[str]) -> dict[str, bytes]:
        """What is stored under these digests, read committed; not verified. One that is not there is left out. Bytes are stored
        once, however many runs refer to them, and go with the last of those that is forgotten."""

    def key_owner(self, environment: str, scope: str, key: str) -> tuple[str, str, str] | None:
        """(run id, step, fingerprint) that owns the key, or None."""
