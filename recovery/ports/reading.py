"""What anybody reads of runs, without owning them and without changing anything.

Owns what a run looks like as it is stored, and the promises of reading it. Knows no write. Invariant: no method here creates a
database, or changes a row.
"""

# pyright: reportReturnType=false
# The body of a protocol's method is its docstring; mypy checks those who implement it.
from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple, Protocol, TypeVar

from recovery.core.chain import Raw, Row
from recovery.core.entries import Status
from recovery.ports.runs import RunRow
from recovery.ports.telling import Evidence

T = TypeVar("T")


class Stored(NamedTuple):
    """One run as it is stored, in one consistent snapshot, of which nothing has been verified. Its rows come once, in portions, while the snapshot is open: who
    wants to have them keeps them.

    payloads: what is stored under digests, in the same snapshot; what is not there is left out. spoken_to: whether anything is in its inbox, where that was
    asked."""

    namespace: str
    incarnation: int
    run: RunRow
    contracts: dict[str, str]
    late: list[Evidence]
    portions: Iterable[Sequence[Raw]]
    payloads: Callable[[Sequence[str]], dict[str, bytes]]
    spoken_to: bool = True


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

    def stream(self, run_id: str, take: Callable[[Stored], T]) -> T | None:
        """What `take` makes of the run as it is stored, in a snapshot that is open while it does; None: there is no such run.
        `take` is called anew, from the first row on, where the store has to be asked again: what an earlier call made is
        nobody's. It asks the journal for nothing but what it is given."""

    def stream_many(self, run_ids: Sequence[str], take: Callable[[Stored], T]) -> dict[str, T]:
        """`stream` of each of these runs, with whether there is an `inbox`, in one consistent snapshot of all of them. Left out
        is a run that is not there, that was forgotten, or of which something cannot be read or `take` refuses: whoever reads it
        by itself is told."""

    def first_rows(self, run_ids: Sequence[str]) -> dict[str, Row]:
        """The first row of each of these runs, read committed; not verified. Left out is a run that is not there, or forgotten."""

    def payloads(self, digests: Sequence[str]) -> dict[str, bytes]:
        """What is stored under these digests, read committed; not verified. One that is not there is left out. Bytes are stored
        once, however many runs refer to them, and go with the last of those that is forgotten."""

    def key_owner(self, environment: str, scope: str, key: str) -> tuple[str, str, str] | None:
        """(run id, step, fingerprint) that owns the key, or None."""
