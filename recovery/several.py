"""Several: what a store does about many runs in one go, as it does about each of them.

Owns the promises of those methods, for whoever brings on many runs. Knows no store. Invariant: they are the single methods of `ports.Journal` many times over,
with fewer transactions: what is written, and what refuses it, is the same.
"""

# pyright: reportReturnType=false
# As in `ports`: the body of a protocol's method is its docstring.

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple, Protocol

if TYPE_CHECKING:
    from recovery.core.chain import Row
    from recovery.ports import Evidence, NewRun, Owner, RunRow


class Stored(NamedTuple):
    """One run as it is stored, of which nothing has been verified. spoken_to: whether anything is in its inbox."""

    run: RunRow
    rows: list[Row]
    contracts: dict[str, str]
    late: list[Evidence]
    spoken_to: bool


class Several(Protocol):
    """Many runs at once."""

    def open_runs(self, batch: Sequence[NewRun]) -> list[RunRow | None]:
        """`open_run` of each, independent of the others; those that are stored are durable on return."""

    def find_all(self, run_ids: Sequence[str]) -> dict[str, RunRow]:
        """`find` of each, by run id; one that is not there is left out."""

    def claim_many(self, seen: Sequence[RunRow], owner: Owner, *, lease_term_us: int, at_us: int) -> list[RunRow]:
        """`claim` of each, for one owner token and in one transaction. Durable on return. Left out is whose row has moved since it was seen, or cannot be
        read, and a run that another claimant has its hands on just now. A call whose answer was lost returns what it has claimed when it repeats itself."""

    def load_many(self, run_ids: Sequence[str]) -> dict[str, Stored]:
        """`load`, `evidence` and whether there is an `inbox`, of each of these runs, as one consistent snapshot of all of them. Left out is a run that is not
        there, that was forgotten, or of which a row cannot be read: whoever loads it by itself is told. All of it is in memory at once."""
