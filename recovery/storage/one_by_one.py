"""One by one: many runs at once on a journal to which one after the other is as good.

Owns what `ports` say of many runs in terms of a journal's single methods. Knows no store. Invariant: it does nothing that those do not do.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from recovery.core.errors import JournalCorrupt, StoreDamaged
from recovery.ports import Stored

if TYPE_CHECKING:
    from recovery.ports import Journal, Owner, RunRow


class OneByOne:
    """The base of such a journal."""

    def claim_many(self: Journal, seen: Sequence[RunRow], owner: Owner, *, lease_term_us: int, at_us: int) -> list[RunRow]:
        claimed = (self.claim(row, owner, lease_term_us=lease_term_us, at_us=at_us) for row in seen)
        return [row for row in claimed if row is not None]

    def load_many(self: Journal, run_ids: Sequence[str]) -> dict[str, Stored]:
        found = ((run_id, _stored(self, run_id)) for run_id in run_ids)
        return {run_id: stored for run_id, stored in found if stored is not None}


def _stored(journal: Journal, run_id: str) -> Stored | None:
    try:
        loaded = journal.load(run_id)
        if loaded is None or not loaded[1]:
            return None
        return Stored(*loaded, journal.evidence(run_id), bool(journal.inbox(run_id)))
    except (JournalCorrupt, StoreDamaged):
        return None
